"""Pointwise statements of a turn that one pass computes: each point has elements of its own.

    for t in 0:T {                                    for t in 0:T {
      C(t + 1, b, n) = F(b, n) * C(t, b, n)    ->       for b, n: both, one after the other
      H(t + 1, b, n) = tanh(C(t + 1, b, n))           }
    }

Whatever one of them touches of a tensor that one of them writes has the point's indices in the same
dimensions, and a position of its own in the others. So no point touches what another one writes,
and a turn has one phase of threads in place of several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import map_typed
from tcdsl.codegen.program.program import Program, Statement
from tcdsl.codegen.program.sharing import Names, shared_points
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Expr


def in_one_pass(program: Program, statements: Sequence[Statement]) -> tuple[Statement, ...] | None:
    """Return statements as a pass over their points computes them, None if it cannot.

    Reads name the version that wrote what they read: a slice that later versions left alone.
    """
    if not all(map(_is_pointwise, statements)):
        return None
    names = shared_points(statements)
    if names is None or not _are_apart(program, statements, names):
        return None
    makers: dict[str, tuple[Statement, Names]] = {}
    latest: dict[str, str] = {}  # versions by memory
    out: list[Statement] = []
    for s, mine in zip(statements, names, strict=True):
        touched = [(r.tensor, r.subs) for r in s.reads()]
        if s.base is not None and s.resumes:
            touched.append((s.base, s.subs))
        found = {at: _found(*at, mine, makers) for at in touched}
        for tensor, subs in touched:
            here = latest.get(program.buffer(tensor).home, tensor)
            if here != tensor or found[tensor, subs] is None:
                return None
        if s.resumes and s.base in makers and found[s.base, s.subs] in makers.keys() - {s.base}:
            return None  # the element that it goes on from was made under another name
        out.append(replace(s, value=_with_versions(s.value, found)))
        makers[s.target] = s, mine
        latest[program.buffer(s.target).home] = s.target
    return tuple(out)


def _is_pointwise(s: Statement) -> bool:
    return (
        s.is_whole
        and not (s.reductions or s.is_arg or s.is_ragged or s.along or any(s.subs_checked))
        and not any(any(r.checked) for r in s.reads())
    )


def _are_apart(program: Program, statements: Sequence[Statement], names: Sequence[Names]) -> bool:
    """Whether no point of the pass touches what another one writes, and all walk alike."""
    written = {program.buffer(s.target).home for s in statements}
    dims: dict[str, dict[str, int]] = {}  # of each axis, in a memory
    for s, mine in zip(statements, names, strict=True):
        if [mine[axis] for axis in names[0]] != [r.name for r in s.outputs]:
            return False  # turned around: it has a walk of its own
        for tensor, plain in s.plain_accesses():
            home = program.buffer(tensor).home
            if home not in written:
                continue
            if not {*mine.values()} <= {*plain}:
                return False
            here = {axis: plain.index(name) for axis, name in mine.items()}
            if dims.setdefault(home, here) != here:
                return False
    return True


def _found(
    tensor: str, subs: tuple[Expr, ...], mine: Names, makers: Mapping[str, tuple[Statement, Names]]
) -> str | None:
    """Return the version that wrote an element, or was there before; None if that is not known."""
    while tensor in makers:
        maker, its = makers[tensor]
        if _is_same(subs, mine, maker.subs, its):
            return tensor
        if not _misses(subs, maker.subs) or maker.base is None:
            return None
        tensor = maker.base
    return tensor


def _is_same(a: Sequence[Expr], its: Names, b: Sequence[Expr], other: Names) -> bool:
    """Whether subscripts of two statements are one element at each point."""
    axes = {name: axis for axis, name in its.items()}
    others = {name: axis for axis, name in other.items()}
    for x, y in zip(map(affine_of, a), map(affine_of, b), strict=True):
        if x is None or y is None or x.const != y.const:
            return False
        if [(axes.get(n), c) for n, c in x.terms] != [(others.get(n), c) for n, c in y.terms]:
            return False
    return True


def _misses(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """Whether elements lie at other positions of a dimension that no index walks."""
    for x, y in zip(map(affine_of, a), map(affine_of, b), strict=True):
        if x is None or y is None or x.terms or y.terms:
            continue
        if (x.const - y.const).constant not in (None, 0):
            return True
    return False


def _with_versions(e: Expr, found: Mapping[tuple[str, tuple[Expr, ...]], str | None]) -> Expr:
    def one(x: Expr) -> Expr:
        if not isinstance(x, typed.Read):
            return x
        version = found.get((x.tensor, x.subs))
        return x if version is None else replace(x, tensor=version)

    return map_typed(e, one)
