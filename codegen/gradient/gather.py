"""A share of an adjoint as a gather: computed for each element that gets it, where possible.

    d_A(h + k) += d_O(h) * W(k)   ->   d_A(x) += d_O(x - k) * W(k), where 0 <= x - k < H

An output index that stands with coefficient 1 or -1 in a subscript is solved for; then no two
points write one element but through reductions. Else the share is a scatter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.versions import Step
from tcdsl.codegen.program import affine_of, indices_of, substitute_indices, walk_typed
from tcdsl.grammar import typed
from tcdsl.grammar.dtypes import INT64
from tcdsl.grammar.signs import is_nonnegative
from tcdsl.grammar.sizes import Size
from tcdsl.grammar.typed import Expr, Range

Gathered = tuple[tuple[Expr, ...], Expr, tuple[Range, ...]]


def gathered(
    s: Step,
    read: typed.Read,
    value: Expr,
    guard: Expr | None,
    shape: tuple[Size, ...],
    taken: frozenset[str],
) -> Gathered:
    """Return subscripts, value and ranges of the line that adds value to the adjoint of read.

    Parameters
    ----------
    s
        The step that reads.
    guard
        The condition under which it reads.
    shape
        Of the tensor that is read.
    taken
        Names that no index may have.
    """
    ranges = {r.name: r for r in s.ranges}
    subs, by = list(read.subs), dict[str, Expr]()
    used: set[str] = {*ranges}
    conditions: list[Expr] = []
    uses = Counter(n for e in subs for n in indices_of(e))
    for d, e in enumerate(subs):
        a = affine_of(e)
        if a is None or a.plain is not None or not a.terms:
            continue
        pivot = next(
            (
                (name, c)
                for name, c in a.terms
                if abs(c) == 1 and name in ranges and ranges[name].kind == "output"
                and uses[name] == 1
            ),
            None,
        )  # fmt: skip
        if pivot is None:
            continue
        name, c = pivot
        new = _new_index(len(subs) - d, taken | used)
        used.add(new)
        by[name] = _solved(e, name, c, new)
        r = ranges.pop(name)
        ranges[new] = Range(new, Size.const(0), shape[d], "output")
        subs[d] = g.index(new)
        conditions += [
            g.compare(">=", by[name], g.size(r.low)), g.compare("<", by[name], g.size(r.high))
        ]  # fmt: skip
    value = substitute_indices(value, by)
    cond: Expr | None = None
    for c_ in conditions:
        cond = g.both(cond, c_)
    if guard is not None:
        cond = g.both(cond, substitute_indices(guard, by))
        subs = [
            sub if _is_inside(sub, extent, ranges) else clamped(sub, extent)
            for sub, extent in zip(subs, shape, strict=True)
        ]
    first = {n for e in subs for n in indices_of(e)}
    ordered = [r for n, r in ranges.items() if n in first]
    ordered += [r for n, r in ranges.items() if n not in first]
    names = [e.name for e in subs if isinstance(e, typed.IndexValue)]
    if len(names) == len(subs):  # in the order of the left side
        ordered.sort(key=lambda r: names.index(r.name) if r.name in names else len(names))
    return tuple(subs), g.choose(cond, value, g.number(0, value.dtype)), tuple(ordered)


def _new_index(from_last: int, taken: set[str] | frozenset[str]) -> str:
    """Return x for the last dimension, y and z for those before."""
    name = "xyzw"[from_last - 1] if from_last <= 4 else "u"
    while name in taken:
        name += "_"
    return name


def _solved(e: Expr, name: str, c: int, new: str) -> Expr:
    """Return the index that e = c * name + rest is new for: c * (new - rest)."""
    rest = substitute_indices(e, {name: typed.Lit(0, INT64)})
    rest = _folded(rest)
    out: Expr = g.index(new)
    if not (isinstance(rest, typed.Lit) and rest.value == 0):
        out = typed.Binary("-", out, rest, INT64)
    return out if c == 1 else typed.Unary("-", out, INT64)


def _folded(e: Expr) -> Expr:
    """Drop the zeros that stand for a solved index."""
    match e:
        case typed.Binary("+" | "-" as op, lhs, rhs):
            a, b = _folded(lhs), _folded(rhs)
            if _is_zero(b):
                return a
            if _is_zero(a):
                return b if op == "+" else typed.Unary("-", b, INT64)
            return typed.Binary(op, a, b, INT64)
        case typed.Binary("*", lhs, rhs) if _is_zero(_folded(lhs)) or _is_zero(_folded(rhs)):
            return typed.Lit(0, INT64)
        case typed.Unary("-", operand) if _is_zero(_folded(operand)):
            return typed.Lit(0, INT64)
        case _:
            return e


def _is_zero(e: Expr) -> bool:
    return isinstance(e, typed.Lit) and e.value == 0


def _is_inside(e: Expr, extent: Size, ranges: Mapping[str, Range]) -> bool:
    """Whether a subscript is an index that never leaves its dimension."""
    r = ranges.get(e.name) if isinstance(e, typed.IndexValue) else None
    return r is not None and r.low == Size.const(0) and is_nonnegative(extent - r.high)


def clamped(e: Expr, extent: Size) -> Expr:
    """Return a subscript that stays inside where its guard does not hold: there 0 is added."""
    if not any(isinstance(x, typed.IndexValue | typed.Read) for x in walk_typed(e)):
        return e
    last, first = g.size(extent - 1), typed.Lit(0, INT64)
    match e:
        case typed.Builtin("min", (typed.Builtin("max", (_, a)), b)) if (a, b) == (first, last):
            return e
    return typed.Builtin("min", (typed.Builtin("max", (e, first), INT64), last), INT64)
