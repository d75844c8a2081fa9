"""A share of an adjoint as a gather: computed for each element that gets it, where possible.

    d_A(h + k) += d_O(h) * W(k)   ->   d_A(x) += d_O(x - k) * W(k), where 0 <= x - k < H

An output index that stands with coefficient 1 or -1 in a subscript is solved for; then no two
points write one element but through reductions. Else the share is a scatter.

Of several indices the one with the larger extent is solved for; where that is not known the one
whose extent shares sizes with the dimension, a pixel rather than a tap (`pivots`). Subscripts of a
scatter are clamped, which gives a temporary its box: the forward pass has checked them. An element
that is one for all points, and that a guard asks for, has an index of its own, with no value where
the tensor has no such element: `d_A(x) += d_O(i) where x in min(3, N):min(4, N)`. Nothing can be
clamped into a tensor without elements: where points do not prove that it has N of these, a range
ends where it begins if N is 0, `i in 0:min(M, M * N)`, or an index has one value or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.ragged import in_order, seen_from
from tcdsl.codegen.gradient.versions import Version, VersionStep
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import (
    indices_of,
    map_operands,
    substitute_indices,
)
from tcdsl.codegen.program.subscripts import Piece, injective_in, pivots, solved
from tcdsl.grammar.proofs.ranges import Interval, over_turns
from tcdsl.grammar.proofs.signs import is_nonnegative, maximum, minimum
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.fresh import fresh
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.builtins import PAD
from tcdsl.grammar.types.dtypes import INT64
from tcdsl.grammar.types.typed import Expr, Range

_ZERO = typed.Lit(0, INT64)


@dataclass(frozen=True, slots=True)
class Gathered:
    """Elements of an adjoint and what is added to them; with other subs it is other elements."""

    subs: tuple[Expr, ...]
    value: Expr
    ranges: tuple[Range, ...]


def gathered(
    s: VersionStep,
    read: typed.Read,
    value: Expr,
    guard: Expr | None,
    shape: tuple[Size, ...],
    taken: frozenset[str],
    turns: Mapping[str, Interval],
    values: Mapping[str, Version],
) -> list[Gathered]:
    """Return what adds value to the adjoint of read.

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
    turns
        The variables of the loops around the step, outer ones first.
    values
        What subscripts may read, by name.
    """
    if Size() in shape:  # there is no element to add to
        return []
    ranges = {r.name: r for r in s.ranges}
    if s.is_ragged:
        seen = seen_from(read.subs, shape, ranges)
        ranges, guard = seen.ranges, g.both(seen.cond, guard)
    chosen = _chosen(read, ranges, guard, shape, turns)
    ragged = {n for r in ranges.values() if r.bounds for n in (r.name, *_needs(r))}
    chosen = {d: n for d, n in chosen.items() if ragged.isdisjoint(indices_of(read.subs[d]))}
    used = {*ranges} - {*chosen.values()}

    def new_index(d: int) -> str:
        new = _new_index(len(shape) - d, taken | used)
        used.add(new)
        return new

    pieces = None
    if chosen:
        pieces = solved(read.subs, shape, ranges, chosen, new_index)
    if pieces is None:  # steps whose residues are too many, or not known
        units = {d: n for d, n in chosen.items() if _coefficient(read.subs[d], n) in (1, -1)}
        pieces = solved(read.subs, shape, ranges, units, new_index)
    assert pieces is not None, "steps of 1 have one residue"
    return [_gathered(p, value, guard, shape, turns, new_index, values) for p in pieces]


def _chosen(
    read: typed.Read,
    ranges: Mapping[str, Range],
    guard: Expr | None,
    shape: tuple[Size, ...],
    turns: Mapping[str, Interval],
) -> dict[int, str]:
    """Return the index to solve each subscript for.

    Nothing is solved where the element tells the indices anyway: `A(4 * h + i)` with i in 0:4, but
    where a guard says which points there are.
    """
    chosen = pivots(read.subs, shape, ranges, [*ranges])
    used = [n for e in read.subs for n in indices_of(e)]
    for d in [*chosen]:
        sub = read.subs[d]
        a = affine_of(sub)
        assert a is not None
        if a.plain is not None:
            leaves = guard is not None and not _is_inside(sub, shape[d], ranges, turns)
        elif guard is None and (len(a.terms) > 1 or abs(a.terms[0][1]) > 1):
            own = [ranges[n] for n in indices_of(sub) if n in ranges and used.count(n) == 1]
            leaves = len(injective_in((sub,), own)) < len(a.terms)
        else:
            leaves = True
        if not leaves:
            del chosen[d]
    return chosen


def _coefficient(sub: Expr, name: str) -> int:
    a = affine_of(sub)
    assert a is not None
    return a.coefficient(name)


def _gathered(
    piece: Piece,
    value: Expr,
    guard: Expr | None,
    shape: tuple[Size, ...],
    turns: Mapping[str, Interval],
    new_index: Callable[[int], str],
    values: Mapping[str, Version],
) -> Gathered:
    subs, ranges = piece.subs, piece.ranges
    cond: Expr | None = None
    for c in piece.conditions:
        cond = g.both(cond, c)
    value = substitute_indices(value, piece.by)
    if guard is not None:
        cond = g.both(cond, substitute_indices(guard, piece.by))
        outside = [(d, x) for d, x in enumerate(subs) if not _is_inside(x, shape[d], ranges, turns)]
        single = {d for d, x in outside if _is_single(x, turns)}
        unsure = [shape[d] for d, _ in outside if d not in single]
        unsure = [n for n in unsure if not _has_elements(n, ranges.values())]
        first: Expr = _ZERO
        some = prod(unsure, start=Size.const(1))
        cut = _cut(subs, ranges)
        if unsure and cut is not None:  # no points where there are no elements
            high = minimum(cut.high, cut.low + cut.extent * some)
            ranges = {**ranges, cut.name: replace(cut, high=high)}
        elif unsure:
            once = Range(new_index(0), Size(), minimum(Size.const(1), some), "output")
            ranges = {**ranges, once.name: once}
            first = typed.IndexValue(once.name, INT64)
        inside = [*subs]
        for d, sub in outside:
            if d not in single:
                inside[d] = clamped(_padded(sub, ranges, turns, values), shape[d], first)
                continue
            a = affine_of(sub)
            assert a is not None
            only = _one(new_index(d), a.const, shape[d])
            ranges = {**ranges, only.name: only}
            inside[d] = typed.IndexValue(only.name, INT64)
        subs = tuple(inside)
    value = g.choose(cond, value, g.number(0, value.dtype))
    return Gathered(subs, value, _ordered(subs, ranges))


def _is_single(e: Expr, turns: Mapping[str, Interval]) -> bool:
    """Whether a subscript is one number for all points and turns."""
    a = affine_of(e)
    return a is not None and not a.terms and turns.keys().isdisjoint(a.const.symbols())


def _has_elements(extent: Size, ranges: Iterable[Range]) -> bool:
    """Whether there is an element wherever there is a point."""
    return is_nonnegative(extent - 1) or any(
        not r.is_guess and is_nonnegative(extent - r.extent) for r in ranges
    )


def _cut(subs: Sequence[Expr], ranges: Mapping[str, Range]) -> Range | None:
    """Return a range that may end before its first value, of none that is a subscript if so."""
    names = {e.name for e in subs if isinstance(e, typed.IndexValue)}
    plain = [r for r in ranges.values() if r.bounds is None and not r.is_guess]
    return next((r for r in plain if r.name not in names), next(iter(plain), None))


def _one(name: str, at: Size, extent: Size) -> Range:
    """Return the range of an index that has one value, or none where that is outside."""
    low, high = (maximum(minimum(x, extent), Size()) for x in (at, at + 1))
    return Range(name, low, high, "output")


def _ordered(subs: tuple[Expr, ...], ranges: Mapping[str, Range]) -> tuple[Range, ...]:
    """Return ranges in the order of the left side, then those that are only on the right."""
    left = {n: None for e in subs for n in sorted(indices_of(e)) if n in ranges}
    ordered = {n: ranges[n] for n in left} | dict(ranges)
    return in_order(ordered)


def _needs(r: Range) -> frozenset[str]:
    return frozenset(n for e in r.bounds or () for n in indices_of(e))


def _new_index(from_last: int, taken: set[str] | frozenset[str]) -> str:
    """Return x for the last dimension, y and z for those before."""
    return fresh("xyzw"[from_last - 1] if from_last <= 4 else "u", taken)


def _is_inside(
    e: Expr, extent: Size, ranges: Mapping[str, Range], turns: Mapping[str, Interval]
) -> bool:
    """Whether a subscript, a number or a multiple of an index and one, stays in its dimension."""
    a = affine_of(e)
    if a is None or len(a.terms) > 1 or any(n not in ranges for n, _ in a.terms):
        return False
    if any(ranges[n].is_guess for n, _ in a.terms):
        return False
    low = high = a.const
    for name, c in a.terms:
        r = ranges[name]
        first, last = r.low * c + a.const, (r.high - 1) * c + a.const
        low, high = (first, last) if c > 0 else (last, first)
    at = over_turns(Interval(low, high), turns)
    return (
        at.low is not None
        and at.high is not None
        and is_nonnegative(at.low)
        and is_nonnegative(extent - 1 - at.high)
    )


def _padded(
    e: Expr,
    ranges: Mapping[str, Range],
    turns: Mapping[str, Interval],
    values: Mapping[str, Version],
) -> Expr:
    """Return a subscript that may be read where its guard does not hold: 0 stands for what is not.

    Of ragged ranges points are those of the forward pass, which has read there.
    """
    e = map_operands(e, lambda x: _padded(x, ranges, turns, values))
    if not isinstance(e, typed.Read) or any(
        n in ranges and ranges[n].is_guess for x in e.subs for n in indices_of(x)
    ):
        return e
    pairs = zip(e.subs, values[e.tensor].shape, strict=True)
    if all(_is_inside(sub, extent, ranges, turns) for sub, extent in pairs):
        return e
    return typed.Builtin(PAD, (e, typed.Lit(0, e.dtype)), e.dtype)


def clamped(e: Expr, extent: Size, first: Expr = _ZERO) -> Expr:
    """Return a subscript that stays inside where its guard does not hold: there 0 is added.

    first: the 0, or an index that has no other value.
    """
    if isinstance(e, typed.Lit):
        return e
    last = g.size(extent - 1)
    match e:
        case typed.Builtin("min", (typed.Builtin("max", (_, a)), b)) if (a, b) == (first, last):
            return e
    return typed.Builtin("min", (typed.Builtin("max", (e, first), INT64), last), INT64)
