"""Rules by which the launcher binds an executable for many sizes to new ones, without Python.

Forms of one kind have the same types, ranks and extents of 1, in C order. A rule is made where a
second form of a kind is new: what a call works out is worked out once more of extents that keep
what is asked of them (`traced.py`). The launcher asks the same of later forms (`kinds.c` in
codegen/runtime), and what it finds otherwise is Python's as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np

from tcdsl.calls import record
from tcdsl.calls.bindings.executables import Compiled
from tcdsl.calls.bindings.origin import check_given
from tcdsl.calls.bindings.traced import (
    IS_LESS,
    IS_NO_LESS,
    IS_NOT_ZERO,
    Asked,
    Values,
    size_of,
)
from tcdsl.calls.bindings.variant import Alike
from tcdsl.calls.call import KernelCall
from tcdsl.calls.process.bounded import thinned
from tcdsl.grammar.check.bind import bind
from tcdsl.grammar.proofs.sizes import FloorDiv, Max, Min, Modulo, Size, Symbol
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.typed import Tensor

if TYPE_CHECKING:
    from tcdsl.calls.bindings.session import Session

_MOST_KINDS = 1024  # of a definition, that were met
_MOST_CONDITIONS = 200
_MOST = 1 << 62  # of a constant in a rule
_DIV, _MOD, _MIN, _MAX = -1, -2, -3, -4  # kinds.c

Rule = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Array:
    """An array in C order of which only extents and type are known."""

    shape: tuple[Any, ...]
    dtype: np.dtype[Any]

    @property
    def strides(self) -> tuple[Any, ...]:
        """The strides in bytes, which only views ask for."""
        steps: list[Any] = [self.dtype.itemsize]
        for extent in reversed(self.shape[1:]):
            steps.append(steps[-1] * extent)
        return tuple(reversed(steps[: len(self.shape)]))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize


class Kinds:
    """The kinds of forms that calls of a definition had: of which a second one is met."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._met: dict[object, None] = {}

    def rule(self, call: KernelCall, compiled: Compiled) -> Rule | None:
        """Return a rule for forms of the kind of a call, where it is worth one and there is one."""
        if self._session.settings.tune not in ("off", "cached") or record.is_on():
            return None
        kind = _kind(call)
        if kind is None or self._session.has_configs:
            return None
        # of what serves some sizes only, a rule is worth it where it has served two forms
        serving = kind, compiled.spec if compiled.spec.open else None
        is_met = serving in self._met
        self._met = thinned(self._met, _MOST_KINDS - 1)  # two may come
        self._met[kind, None] = self._met[serving] = None
        if not is_met:
            return None
        view = call.view if compiled.is_collapsed else None
        is_alike = call.variant.served_alike(compiled)
        if is_alike is None or not is_alike(call.sizes, view):
            return None  # there is none of any extents, which take longer to ask
        return _rule(call, compiled, self._session, is_alike)


def _kind(call: KernelCall) -> object:
    """Return what forms of one kind share; None where an array is empty or not in C order."""
    kinds: list[object] = []
    for a in (*call.operands, *(call.outs or ())):
        if isinstance(a, np.ndarray):
            step = a.itemsize
            for n, stride in zip(reversed(a.shape), reversed(a.strides), strict=True):
                if stride != step or not n:  # NumPy's flag does not ask it of extents of 1
                    return None
                step *= n
            kinds.append((a.dtype.num, tuple([n == 1 for n in a.shape])))
        else:
            kinds.append(type(a))
    return call.variant, call.outs is None, tuple(kinds)


def _rule(call: KernelCall, compiled: Compiled, session: Session, is_alike: Alike) -> Rule | None:
    signature, asked = call.variant.signature, Asked()
    if signature.scalars or not signature.sizes:
        return None
    places = count()

    # What serves some sizes only asks that the others are these: of them nothing is traced.
    free = [Size.symbol(name) for name in compiled.spec.open]

    def traced(a: Any, tensor: Tensor) -> Any:
        if not isinstance(a, np.ndarray):
            return a
        extents: list[Any] = []
        for n, dim in zip(a.shape, tensor.shape, strict=True):
            place = next(places)
            of_place = asked.extent if not free or dim in free else asked.fixed
            extents.append(1 if n == 1 else of_place(place, n))
        return _Array(tuple(extents), a.dtype)

    operands = tuple(map(traced, call.operands, signature.params))
    outs = None if call.outs is None else tuple(map(traced, call.outs, signature.returns))
    shapes = [getattr(a, "shape", ()) for a in operands]
    sizes = bind(signature, shapes)
    if session.origin is not None:
        if any(not t.shape and t.dtype.is_integer for t in signature.params):
            return None  # the extents of others may hang on its value
        arrays = {t.name: a for t, a in zip(signature.params, operands, strict=True) if t.shape}
        check_given(session.origin, arrays, sizes, signature.name)
    again = KernelCall(call.variant, sizes, operands, outs)
    for extents, item in again.in_memory():
        asked.room(extents, item)
    view = again.view if compiled.is_collapsed else None
    if not is_alike(sizes, view):
        return None
    numbers: list[Any] = [sizes[name] for name in signature.sizes]
    strides: list[Any] = []
    if view is not None:
        numbers, strides = [*view.extents], [*chain(*view.strides)]
    numbers += chain(*(shape for _, shape in again.return_types))
    conditions = [c for c in asked.conditions if not _is_sure(*c)]
    if len(conditions) > _MOST_CONDITIONS:
        return None
    words = [int(view is not None), len(conditions)]
    for of, what in conditions:
        words.append(what)
        if isinstance(of, Size):
            words += _words_of(of)
        else:
            words.append(len(of))
            for size, value in of:
                words += *_words_of(size), value
    for number in (*numbers, *strides):
        words += _words_of(size_of(number))
    return tuple(words) if min(words) > -_MOST and max(words) < _MOST else None


def _is_sure(size: Size | Values, what: int) -> bool:
    """Whether a condition holds for all extents from 2 on, by the signs of its terms."""
    if not isinstance(size, Size):
        return False
    least = 0
    for factors, coefficient in size.terms:
        if any(not isinstance(atom, Symbol) for atom in factors):
            return False
        least += coefficient << len(factors)
    signs = {coefficient > 0 for factors, coefficient in size.terms if factors}
    if signs == {True}:
        return least >= 0 if what == IS_NO_LESS else what == IS_NOT_ZERO and least > 0
    return signs == {False} and least < 0 and what in (IS_LESS, IS_NOT_ZERO)


@lru_cache(maxsize=1024)
def _words_of(size: Size) -> Rule:
    """Return the words of a number: most are in several conditions."""
    words = [len(size.terms)]
    for factors, coefficient in size.terms:
        words += coefficient, len(factors)
        for atom in factors:
            match atom:
                case Symbol(name):
                    words.append(int(name))
                case FloorDiv(n, d):
                    words += _DIV, *_words_of(n), *_words_of(d)
                case Modulo(n, d):
                    words += _MOD, *_words_of(n), *_words_of(d)
                case Min(args):
                    words += _nested(_MIN, args)
                case Max(args):
                    words += _nested(_MAX, args)
    return tuple(words)


def _nested(what: int, args: Sequence[Size]) -> Rule:
    """Return the words of an atom of several numbers: one of two, the second of those left."""
    first, *others = args
    if len(others) == 1:
        return what, *_words_of(first), *_words_of(others[0])
    return what, *_words_of(first), 1, 1, 1, *_nested(what, others)
