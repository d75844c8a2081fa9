"""Integers in the lanes that a window has: what is made of the place of a maximum.

    O(h, w) = (2*h + P(h, w) / 3 - 1) * W + 2*w + P(h, w) % 3 - 1

Places have 64 bits. But each is one of a few taps, so that with sizes known, or below a number in
all of a regime, all parts of such a value have bounds: lanes of 32 bits hold them, and quotients
are those of C where nothing is negative.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.program.expressions import map_operands
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT32, INT64, DType
from tcdsl.grammar.types.typed import Range

Values = tuple[int, int]  # the least and the largest
_USUAL = 1 << 14  # points along an image that sizes of a regime stay below: products fit 32 bits
_HELD = {32: (-(1 << 31), (1 << 31) - 1), 64: (-(1 << 63), (1 << 63) - 1)}


def place_values(ctx: Context, s: Statement) -> Values | None:
    """Return the least and the largest place that an arg reduction finds, where that is known."""
    extents = [ctx.bind(r.extent).constant for r in s.reductions]
    count = 1
    for n in extents:
        if n is None or n < 1:
            return None
        count *= n
    low = 0
    if len(s.reductions) == 1:  # then it is the index itself
        first = ctx.bind(s.reductions[0].low).constant
        if first is None:
            return None
        low = first
    return low, low + count - 1


def places_of(ctx: Context) -> dict[str, Values]:
    """Return what the temporaries and returns hold that are places of extremes and nothing else."""
    program = ctx.program
    homes = Counter(program.buffer(s.target).home for s in program.statements)
    found = {
        s.target: place_values(ctx, s)
        for s in program.statements
        if s.is_arg and s.covers and homes[program.buffer(s.target).home] == 1
    }
    return {name: values for name, values in found.items() if values is not None}


class Intervals:
    """The least and the largest values of integers in a statement, all parts of which 64 bits hold.

    Parameters
    ----------
    ctx
        The group: its sizes.
    ranges
        Of the indices.
    places
        What reads of these tensors give.
    """

    def __init__(
        self, ctx: Context, ranges: tuple[Range, ...], places: Mapping[str, Values]
    ) -> None:
        self._ctx = ctx
        self._ranges = {r.name: r for r in ranges}
        self._places = places

    def of(self, e: typed.Expr) -> Values | None:
        """Return the bounds of a value; None where they are unknown, or arithmetic may wrap."""
        found = self._of(e)
        low, high = _HELD.get(e.dtype.bits, (0, -1))
        held = found is not None and low <= found[0] and found[1] <= high
        return found if held and e.dtype in (INT32, INT64) else None

    def is_quotient_of_c(self, e: typed.Expr) -> bool:
        """Whether a quotient or a remainder is what C gives: of nothing negative, by a number."""
        if not isinstance(e, typed.Binary) or not isinstance(e.rhs, typed.Lit):
            return False
        found = self.of(e.lhs)
        return found is not None and found[0] >= 0 and e.rhs.value > 0

    def _of(self, e: typed.Expr) -> Values | None:
        match e:
            case typed.Lit(value):
                return int(value), int(value)
            case typed.SizeValue(size):
                n = self._ctx.bind(size).constant
                if n is None:
                    is_usual = is_nonnegative(self._ctx.bind(size)) and self._is_usual(size)
                    return (0, _USUAL - 1) if is_usual else None
                return n, n
            case typed.IndexValue(name):
                return self._index(name)
            case typed.Read(tensor):
                return self._places.get(tensor)
            case typed.Cast(operand) if operand.dtype in (INT32, INT64):
                return self.of(operand)
            case typed.Unary("-", operand):
                found = self.of(operand)
                return None if found is None else (-found[1], -found[0])
            case typed.Binary(op, lhs, rhs):
                return self._combined(op, self.of(lhs), self.of(rhs))
            case typed.Select(_, then, other):
                a, b = self.of(then), self.of(other)
                return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))
            case _:
                return None

    def _index(self, name: str) -> Values | None:
        if name not in self._ranges:
            return None
        low, high = (
            self._ctx.bind(x).constant for x in (self._ranges[name].low, self._ranges[name].high)
        )
        if high is None and self._is_usual(self._ranges[name].high):
            high = _USUAL
        return None if low is None or high is None else (low, max(low, high - 1))

    def _is_usual(self, size: Size) -> bool:
        """Whether a size is unknown, but that of a usual image in all of the regime.

        Where it is not, what is made of places is no part of the group: so configs differ.
        """
        ctx = self._ctx
        if ctx.asked is None or not ctx.asked.knows(size):
            return False
        return not ctx.asked.at_least(size, _USUAL)

    def _combined(self, op: str, a: Values | None, b: Values | None) -> Values | None:
        if a is None or b is None:
            return None
        match op:
            case "+":
                return a[0] + b[0], a[1] + b[1]
            case "-":
                return a[0] - b[1], a[1] - b[0]
            case "*":
                ends = [x * y for x in a for y in b]
                return min(ends), max(ends)
            case "/" if a[0] >= 0 and b[0] > 0:
                return a[0] // b[1], a[1] // b[0]
            case "%" if a[0] >= 0 and b[0] > 0:
                return 0, min(a[1], b[1] - 1)
            case _:
                return None


def fitted(s: Statement, known: Intervals, dtype: DType) -> Statement | None:
    """Return a statement whose integers all have a type that holds them; None where it may not."""
    low, high = _HELD[dtype.bits]
    for x in vexpr.walk(s.value):
        if x.dtype in (INT32, INT64):
            found = known.of(x)
            if found is None or not (low <= found[0] and found[1] <= high):
                return None

    def retyped(e: typed.Expr) -> typed.Expr:
        if not isinstance(e, typed.Read):  # whose subscripts are addresses
            e = map_operands(e, retyped)
        return replace(e, dtype=dtype) if e.dtype in (INT32, INT64) else e

    return replace(s, value=retyped(s.value))
