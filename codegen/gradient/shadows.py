"""Names of a definition that hide builtins which its derivative calls.

def f(float(N) sin) -> (O) { O(i) = cosh(sin(i)) + ..cos.. }     the derivative calls `sin`

No name is reserved, so a parameter may be called as a function that only the derivative needs, or
that a definition which was called used. Such a name gets another one before the text is made; all
others, that is nearly always all, stay what the user wrote.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from tcdsl.codegen.gradient.lines import Loop, Part, walk
from tcdsl.codegen.program.expressions import map_typed, walk_typed
from tcdsl.grammar.proofs.signs import substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.defaults import FLOAT_NAMES
from tcdsl.grammar.text.errors import InternalError
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.builtins import is_builtin
from tcdsl.grammar.types.typed import CheckedDef, Expr, Stmt, Tensor

_T = TypeVar("_T")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ShadowedError(Exception):
    """A text cannot be made: names in it hide builtins that it calls."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = frozenset(names)


def is_hiding(name: str) -> bool:
    """Whether a name is that of a builtin function, of infinity or of NaN."""
    return is_builtin(name) or name in FLOAT_NAMES


def want_apart(heads: Iterable[str], parts: Sequence[Part]) -> None:
    """Refuse a text in which a name hides a builtin that it calls.

    Parameters
    ----------
    heads : iterable of str
        The declarations of its parameters and returns.
    parts : sequence of Part
        Its lines.

    Raises
    ------
    ShadowedError
        With those names.
    """
    called = {name for part in walk(parts) for name in _called(part.exprs)}
    if not called:
        return
    names = {name for text in heads for name in _NAME.findall(text.partition("=")[0])}
    if clash := called & (names | {*_named(parts)}):
        raise ShadowedError(clash)


def without_shadows(checked: CheckedDef, make: Callable[[CheckedDef, Mapping[str, str]], _T]) -> _T:
    """Return what is made of a definition whose names hide nothing that the result calls.

    make takes the definition, and what its tensors were called by their new names.
    """
    hidden: frozenset[str] = frozenset()
    while True:
        fresh = _fresh(checked, hidden)
        f = _renamed(checked, fresh) if fresh else checked
        try:
            return make(f, {new: old for old, new in fresh.items()})
        except ShadowedError as error:
            if error.names <= hidden:
                raise InternalError(f"names that still hide builtins: {error}") from error
            hidden |= error.names


def _called(roots: Iterable[Expr]) -> Iterable[str]:
    for e in roots:
        for x in walk_typed(e):
            match x:
                case typed.Builtin(name) if is_hiding(name):  # `max` is a keyword
                    yield name
                case typed.Lit(float() as value) if not math.isfinite(value):
                    yield "nan" if math.isnan(value) else "inf"


def _named(parts: Sequence[Part]) -> Iterable[str]:
    for part in parts:
        if isinstance(part, Loop):
            yield part.var
            yield from _named(part.body)
        else:
            yield part.target


def _fresh(checked: CheckedDef, hidden: Collection[str]) -> dict[str, str]:
    """Return new names for some."""
    taken = {checked.name, *checked.sizes}
    taken |= {t.name for t in (*checked.params, *checked.returns, *checked.temps)}
    taken |= {r.name for s in typed.statements(checked.body) for r in s.ranges}
    taken |= {x.var for x in _loops(checked.body)}
    fresh: dict[str, str] = {}
    for name in sorted(hidden):
        new = f"{name}_"
        while new in taken:
            new += "_"
        taken.add(new)
        fresh[name] = new
    return fresh


def _loops(body: Sequence[Stmt]) -> Iterable[typed.Loop]:
    for s in body:
        if isinstance(s, typed.Loop):
            yield s
            yield from _loops(s.body)


def _renamed(checked: CheckedDef, fresh: Mapping[str, str]) -> CheckedDef:
    """Return a definition with other names for tensors, sizes and variables of loops."""
    signed = {x.var for x in _loops(checked.body)}
    for p in checked.params:
        if p.name in checked.scalars and not (p.dtype.kind == "uint" and p.dtype.bits < 64):
            signed.add(p.name)
    by = {old: Size.symbol(new, signed=old in signed) for old, new in fresh.items()}

    def name(old: str) -> str:
        return fresh.get(old, old)

    def size(old: Size) -> Size:
        return substitute_symbols(old, by)

    def one(e: Expr) -> Expr:
        match e:
            case typed.Read(tensor):
                return replace(e, tensor=name(tensor))
            case typed.IndexValue(index):
                return replace(e, name=name(index))
            case typed.SizeValue(value):
                return replace(e, size=size(value))
            case _:
                return e

    def tensor(t: Tensor) -> Tensor:
        shape, low = tuple(map(size, t.shape)), tuple(map(size, t.low))
        return replace(t, name=name(t.name), shape=shape, low=low)

    def stmt(s: Stmt) -> Stmt:
        if isinstance(s, typed.Loop):
            body = tuple(map(stmt, s.body))
            return replace(s, var=name(s.var), low=size(s.low), high=size(s.high), body=body)
        return replace(
            s,
            target=name(s.target),
            subs=tuple(map_typed(e, one) for e in s.subs),
            value=map_typed(s.value, one),
            ranges=tuple(
                replace(r, name=name(r.name), low=size(r.low), high=size(r.high)) for r in s.ranges
            ),
        )

    return replace(
        checked,
        sizes=tuple(map(name, checked.sizes)),
        scalars=tuple(map(name, checked.scalars)),
        params=tuple(map(tensor, checked.params)),
        returns=tuple(map(tensor, checked.returns)),
        temps=tuple(map(tensor, checked.temps)),
        body=tuple(map(stmt, checked.body)),
        constraints=tuple(replace(c, size=size(c.size)) for c in checked.constraints),
    )
