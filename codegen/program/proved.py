"""Checks of subscripts that known sizes answer: left out where all points are inside.

    Z(i) +=! X(i, j) where j in 0:i + 1     N rows of L columns: checked at every point,
                                            but where N and L are known, and N <= L

The rows of causal attention over keys of a size of their own, say: without checks they are what
other rows are, and products are products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.decided import Sizes
from tcdsl.codegen.program.expressions import map_operands
from tcdsl.codegen.program.program import Program, Statement
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Expr, Range


@lru_cache(maxsize=64)
def proved(program: Program, sizes: Sizes) -> Program:
    """Return a program without checks of reads that hold at these sizes."""
    known = {n: v for n, v in sizes if n not in program.scalars}  # which change from call to call
    made = tuple(_proved(program, s, known) for s in program.statements)
    if all(new is old for new, old in zip(made, program.statements, strict=True)):
        return program
    return replace(program, statements=made)


def _proved(program: Program, s: Statement, sizes: Mapping[str, int]) -> Statement:
    """Return a statement with the checks that are left; the same if these are all."""
    if not any(any(r.checked) for r in s.reads()):
        return s
    ends = {n for r in s.ranges for x in (r.low, r.high) for n in x.symbols()}
    if not ends <= sizes.keys() or any(r.is_guess for r in s.ranges):
        return s
    if any(r.high.evaluate(sizes) <= r.low.evaluate(sizes) for r in s.ranges):
        return s  # without points a bound says nothing of a read
    value = _without(s.value, program, {r.name: r for r in s.ranges}, sizes)
    return s if value == s.value else replace(s, value=value)


def _without(
    e: Expr, program: Program, ranges: Mapping[str, Range], sizes: Mapping[str, int]
) -> Expr:
    """Return an expression with the checks that are left."""
    e = map_operands(e, lambda x: _without(x, program, ranges, sizes))
    if not isinstance(e, typed.Read) or not any(e.checked):
        return e
    shape = program.buffer(e.tensor).shape
    checked = tuple(
        is_asked and not _is_inside(sub, extent.evaluate(sizes), ranges, sizes)
        if {*extent.symbols()} <= sizes.keys()
        else is_asked
        for sub, extent, is_asked in zip(e.subs, shape, e.checked, strict=True)
    )
    return replace(e, checked=checked)


def _is_inside(
    sub: Expr, extent: int, ranges: Mapping[str, Range], sizes: Mapping[str, int]
) -> bool:
    """Whether a subscript stays inside at all points of the box."""
    a = affine_of(sub)
    if a is None or not {n for n, _ in a.terms} <= ranges.keys():
        return False
    if not {*a.const.symbols()} <= sizes.keys():
        return False
    low, high = (x.evaluate(sizes) for x in a.ends(ranges))
    return low >= 0 and high < extent
