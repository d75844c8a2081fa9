"""Conditions that the ranges decide at known sizes: the branch that is always taken.

    x in 0:54, j in 0:3:   x + j < W ? I(x + j) : 0   ->   I(x + j)        where W = 56

`pad` around a window that never leaves its image is no border. The check has left out what holds
for all sizes; this is the rest, so that no form has to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from tcdsl.codegen.program.affine import Affine
from tcdsl.codegen.program.bounds import Bound, bounds_of
from tcdsl.codegen.program.expressions import map_typed
from tcdsl.codegen.program.padding import has_padding
from tcdsl.codegen.program.program import Program, Statement
from tcdsl.grammar.proofs.signs import constants, is_nonnegative, substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL

Sizes = tuple[tuple[str, int], ...]
_COMPARED = ("<", "<=", ">", ">=", "==")


@lru_cache(maxsize=64)
def decided(program: Program, sizes: Sizes) -> Program:
    """Return a program without the conditions that hold, or do not, at all points.

    A padding before a contraction stays one, whose form reads the image itself, without a copy; of
    which no element is outside it is a plain read, that all forms have inside the sum (`inline`).
    """
    made = []
    for i, s in enumerate(program.statements):
        new = s if s.is_ragged else _decided(s, sizes)
        is_held = has_padding(program.statements[i : i + 2]) and not isinstance(
            new.value, typed.Read
        )
        made.append(s if is_held else new)
    if all(new is old for new, old in zip(made, program.statements, strict=True)):
        return program
    return replace(program, statements=tuple(made))


def _decided(s: Statement, sizes: Sizes) -> Statement:
    by = constants(sizes)
    if not all(is_nonnegative(substitute_symbols(r.extent - 1, by)) for r in s.ranges):
        return s  # without points anything holds: a read before an empty loop needs its condition
    value = map_typed(s.value, _chooser(s, sizes))
    return s if value == s.value else replace(s, value=value)


def _chooser(s: Statement, sizes: Sizes) -> Callable[[typed.Expr], typed.Expr]:
    """Return what maps an expression, whose parts are decided, to what is left of it."""
    ranges = {r.name: r for r in s.ranges}
    by = constants(sizes)

    def least(x: Bound) -> Size:
        low, _ = Affine(x.terms, x.const).ends(ranges)
        return substitute_symbols(low, by)

    def always(bounds: Sequence[Bound]) -> bool:
        return all(is_nonnegative(least(x)) for x in bounds)

    def one(e: typed.Expr) -> typed.Expr:
        match e:
            case typed.Binary(op, lhs) if op in _COMPARED and lhs.dtype.is_integer:
                bounds = bounds_of(e, ranges, sizes)
                if bounds is None:
                    return e
                if always(bounds):
                    return typed.Lit(True, BOOL)
                if any(always([x.negated()]) for x in bounds):
                    return typed.Lit(False, BOOL)
            case typed.Binary("&&", typed.Lit(True), kept) | typed.Binary(
                "||", typed.Lit(False), kept
            ):
                return kept
            case typed.Binary("&&", kept, typed.Lit(True)) | typed.Binary(
                "||", kept, typed.Lit(False)
            ):
                return kept
            case typed.Binary("&&" | "||", typed.Lit() as known):
                return known
            case typed.Unary("!", typed.Lit(value)):
                return typed.Lit(not value, BOOL)
            case typed.Select(typed.Lit(value), then, other):
                kept = then if value else other
                return kept if kept.dtype == e.dtype else typed.Cast(kept, e.dtype)
        return e

    return one
