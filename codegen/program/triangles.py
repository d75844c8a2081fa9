"""Triangular folds along rows as folds of whole rows under a condition.

    M(i) max=! S(i, j) where j in 0:i + 1   ->   M(i) max=! j < i + 1 ? S(i, j) : -inf

So they share a pass over the rows with what stands around them, and run in vectors. Half of what is
looked at does not count, which is little beside a pass of its own, point by point: the softmax of
causal attention. A product of two has tiles that skip what is empty, and stays ragged.

Conditions are asked in int32, in lanes as wide as the floats. Known sizes say whether that is
enough; of others a call does (`limits`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.decided import Sizes
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.inline import is_contraction
from tcdsl.codegen.program.program import Program, Statement
from tcdsl.codegen.program.ssa import identity_of
from tcdsl.grammar.proofs.signs import constants, is_nonnegative, substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, FLOAT32, FLOAT64, INT32
from tcdsl.grammar.types.typed import Expr, Range

_LARGEST = 2**31 - 1  # conditions are asked in int32
_SHORTEST = 16  # terms of the longest row, from which on vectors pay
NEAR = 1 << 16  # a triangle of unknown sizes is that near to the diagonal, or to the last column
FAR = 1 << 30  # rows or columns, beside which that is little


@lru_cache(maxsize=64)
def masked(program: Program, sizes: Sizes) -> Program:
    """Return a program whose triangular folds go along whole rows; sizes: those that are known.

    It is right for calls whose `limits` are below `FAR`.
    """
    known = {n: v for n, v in sizes if n not in program.scalars}  # which change from call to call
    made = tuple(_masked(program, s, known) for s in program.statements)
    if all(new is old for new, old in zip(made, program.statements, strict=True)):
        return program
    return replace(program, statements=made)


@lru_cache(maxsize=64)
def limits(program: Program, sizes: Sizes) -> tuple[Size, ...]:
    """Return what has to be below `FAR` in calls of `masked`: rows and columns not yet known."""
    by = constants(sizes)
    found: dict[Size, None] = {}
    for new, old in zip(masked(program, sizes).statements, program.statements, strict=True):
        if new is not old and isinstance(new.value, typed.Select):
            asked = indices_of(new.value.cond)
            highs = (substitute_symbols(r.high, by) for r in new.ranges if r.name in asked)
            found |= dict.fromkeys(x for x in highs if x.constant is None)
    return tuple(found)


def _masked(program: Program, s: Statement, sizes: Mapping[str, int]) -> Statement:
    """Return a statement as a fold of whole rows; the same if it is none, or reads leave theirs."""
    ragged = [r for r in s.ranges if r.bounds is not None]
    dtype = s.value.dtype
    if len(ragged) != 1 or ragged[0].kind != "reduction" or ragged[0].is_guess:
        return s
    if s.is_arg or s.along or not s.covers or dtype not in (FLOAT32, FLOAT64):
        return s
    if is_contraction(s) or any(s.subs_checked) or any(any(r.checked) for r in s.reads()):
        return s
    (r,) = ragged
    if not _are_rows(s, r):
        return s
    if all({*x.symbols()} <= sizes.keys() for x in _extents(program, s)):
        cond = _known_condition(program, s, r, sizes)
    else:
        cond = _open_condition(program, s, r, sizes)
    if cond is None:
        return s
    nothing = typed.Lit(identity_of(s.op, dtype), dtype)
    ranges = tuple(replace(x, bounds=None) if x is r else x for x in s.ranges)
    return replace(s, value=typed.Select(cond, s.value, nothing, dtype), ranges=ranges)


def _extents(program: Program, s: Statement) -> Iterator[Size]:
    """Yield the sizes that say where a statement has points, and its reads elements."""
    for r in s.ranges:
        yield from (r.low, r.high)
    for read in s.reads():
        yield from program.buffer(read.tensor).shape


def _are_rows(s: Statement, r: Range) -> bool:
    """Whether a read has a row of its own for each output point, and no row is read again."""
    names = {x.name for x in s.outputs} | {r.name}
    return len(s.reductions) == 1 and any(
        names <= {n for e in x.subs for n in indices_of(e)} for x in s.reads()
    )


def _known_condition(
    program: Program, s: Statement, r: Range, sizes: Mapping[str, int]
) -> Expr | None:
    """Return `_condition` where all sizes are known and vectors pay."""
    spans = {x.name: (x.low.evaluate(sizes), x.high.evaluate(sizes) - 1) for x in s.ranges}
    if any(high < low for low, high in spans.values()):
        return None  # without points a bound says nothing of a read
    if spans[r.name][1] - spans[r.name][0] + 1 < _SHORTEST:
        return None
    cond = _condition(s, r, spans, sizes)
    return cond if cond is not None and _is_inside(program, s, sizes) else None


def _condition(
    s: Statement,
    r: Range,
    spans: Mapping[str, tuple[int, int]],
    sizes: Mapping[str, int],
) -> Expr | None:
    """Return when a value of an index counts, None where it is no triangle.

    One end is that of all values, the other one follows an output index step by step: so half of
    all values count on average.
    """
    assert r.bounds is not None
    maps = [affine_of(e) for e in r.bounds]
    for at, fixed in ((1, 0), (0, 1)):
        slope, still = maps[at], maps[fixed]
        if slope is None or still is None or still.terms or len(slope.terms) != 1:
            continue
        if not all({*x.const.symbols()} <= sizes.keys() for x in (slope, still)):
            continue
        ((name, step),) = slope.terms
        end = (r.low, r.high)[fixed].evaluate(sizes)
        is_output = any(x.name == name for x in s.outputs)
        if abs(step) != 1 or not is_output or still.const.evaluate(sizes) != end:
            continue
        const = slope.const.evaluate(sizes)
        values = [step * x + const for x in spans[name]]
        if any(abs(x) > _LARGEST for x in (const, *values, *spans[name], *spans[r.name])):
            continue
        return _compared(r.name, "<" if at else ">=", name, step, Size.const(const))
    return None


def _compared(index: str, op: Literal["<", ">="], row: str, step: int, const: Size) -> Expr:
    """Return `index op step * row + const`."""
    here, there = typed.IndexValue(index, INT32), typed.IndexValue(row, INT32)
    value = const.constant
    number = typed.SizeValue(const, INT32) if value is None else typed.Lit(value, INT32)
    bound = (
        typed.Binary("+", there, number, INT32)
        if step == 1
        else typed.Binary("-", number, there, INT32)
    )
    return typed.Binary(op, here, bound, BOOL)


def _open_condition(
    program: Program, s: Statement, r: Range, sizes: Mapping[str, int]
) -> Expr | None:
    """Return when a value of an index counts, whatever the sizes; None if it is no such triangle.

    Its slope goes up with the rows, near the diagonal or to the last row's last column, so that no
    number leaves int32 below `FAR`.
    """
    by = constants(tuple(sizes.items()))

    def at(x: Size) -> Size:
        return substitute_symbols(x, by)

    assert r.bounds is not None
    extents = [*_extents(program, s), *(a.const for a in map(affine_of, r.bounds) if a is not None)]
    if any(program.depends(x) or {*x.symbols()} & {*program.scalars} for x in extents):
        return None
    low, high = map(affine_of, r.bounds)
    if low is None or high is None:
        return None
    upper = not low.terms
    slope, still, end = (high, low, r.low) if upper else (low, high, r.high)
    const = at(slope.const)
    if still.terms or at(still.const) != at(end) or len(slope.terms) != 1:
        return None
    ((name, step),) = slope.terms
    row = next((x for x in s.outputs if x.name == name), None)
    if step != 1 or row is None or not is_nonnegative(at(r.extent)):
        return None
    first, last = r.low - row.low, r.high - row.high
    apart = (row.low, first, last - const) if upper else (row.low, last, first - const)
    if any(x is None or abs(x) > NEAR for x in (at(y).constant for y in apart)):
        return None
    ranges = {x.name: x for x in s.ranges}
    for read in s.reads():
        for e, extent in zip(read.subs, program.buffer(read.tensor).shape, strict=True):
            a = affine_of(e)
            if a is None:
                return None
            least, most = map(at, a.ends(ranges))
            if not (is_nonnegative(least) and is_nonnegative(at(extent) - 1 - most)):
                return None
    return _compared(r.name, "<" if upper else ">=", name, 1, const)


def _is_inside(program: Program, s: Statement, sizes: Mapping[str, int]) -> bool:
    """Whether all reads are inside at all points of the box, those that do not count too."""
    ranges = {r.name: r for r in s.ranges}
    for read in s.reads():
        for e, extent in zip(read.subs, program.buffer(read.tensor).shape, strict=True):
            a = affine_of(e)
            if a is None or not {*a.const.symbols()} <= sizes.keys():
                return False
            low, high = (x.evaluate(sizes) for x in a.ends(ranges))
            if low < 0 or high >= extent.evaluate(sizes):
                return False
    return True
