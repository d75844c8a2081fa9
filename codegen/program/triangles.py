"""Triangular folds along rows as folds of whole rows under a condition, at known sizes.

    M(i) max=! S(i, j) where j in 0:i + 1   ->   M(i) max=! j < i + 1 ? S(i, j) : -inf

So they share a pass over the rows with what stands around them, and run in vectors. Half of what is
looked at does not count, which is little beside a pass of its own, point by point: the softmax of
causal attention. A product of two has tiles that skip what is empty, and stays ragged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.decided import Sizes
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.inline import is_contraction
from tcdsl.codegen.program.program import Program, Statement
from tcdsl.codegen.program.ssa import identity_of
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, FLOAT32, FLOAT64, INT32
from tcdsl.grammar.types.typed import Expr, Range

_LARGEST = 2**31 - 1  # conditions are asked in int32
_SHORTEST = 16  # terms of the longest row, from which on vectors pay


@lru_cache(maxsize=64)
def masked(program: Program, sizes: Sizes) -> Program:
    """Return a program whose triangular folds go along whole rows."""
    known = {n: v for n, v in sizes if n not in program.scalars}  # which change from call to call
    made = tuple(_masked(program, s, known) for s in program.statements)
    if all(new is old for new, old in zip(made, program.statements, strict=True)):
        return program
    return replace(program, statements=made)


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
    if not all({*x.symbols()} <= sizes.keys() for x in _extents(program, s)):
        return s
    (r,) = ragged
    spans = {x.name: (x.low.evaluate(sizes), x.high.evaluate(sizes) - 1) for x in s.ranges}
    if any(high < low for low, high in spans.values()) or not _are_rows(s, r):
        return s  # without points a bound says nothing of a read
    if spans[r.name][1] - spans[r.name][0] + 1 < _SHORTEST:
        return s
    cond = _condition(s, r, spans, sizes)
    if cond is None or not _is_inside(program, s, sizes):
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
        here, there = typed.IndexValue(r.name, INT32), typed.IndexValue(name, INT32)
        number = typed.Lit(const, INT32)
        bound = (
            typed.Binary("+", there, number, INT32)
            if step == 1
            else typed.Binary("-", number, there, INT32)
        )
        return typed.Binary("<" if at else ">=", here, bound, BOOL)
    return None


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
