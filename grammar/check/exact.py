"""Integer arithmetic that conditions and subscripts stand on: proved not to wrap, or marked.

    i * 3000000 < N   ->   int32(i * 3000000) < N       where i * 3000000 may leave int32

The cast to the type that it has anyway changes no value. It is opaque: `SymbolicValues`, and all
that reads conditions later, take what stands in it for an unknown number, so nothing is proved by
it.
Sums and products are right in the end if their last value is, since integers wrap: only what is
compared, divided, chosen from or converted has to be in range.

Data is never asked of a call. A flag beside the condition would be lost by a rewrite; a cast is
not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tcdsl.grammar.check.symbolic import SymbolicValues, is_unknown, is_within
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import LARGEST_EXTENT, FloorDiv, Max, Min, Modulo, Size, Symbol
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed as t

Fits = Callable[[Size, t.Expr], bool]  # whether a value is in the range of an expression's type

RING = ("+", "-", "*")
CHOOSING = ("min", "max", "clamp")


@dataclass(frozen=True, slots=True)
class Exact:
    """Marks arithmetic of one statement that may wrap."""

    symbolic: SymbolicValues
    fits: Fits

    def number(self, e: t.Expr) -> t.Expr:
        """Return an integer whose own value counts: as it is, or marked where it may wrap."""
        e = self.operands(e)
        match e:
            case t.Binary(op) if op in RING:
                return self._in_range(e, e)
            case t.Unary("-"):
                return self._in_range(e, e)
            case t.Binary("/", lhs, rhs) if not _is_divisor(rhs):  # the least number / -1 wraps
                back = t.Unary("-", lhs, lhs.dtype)
                return self._in_range(e, t.Builtin("max", (back, t.Lit(0, e.dtype)), e.dtype))
            case t.Cast(operand, dtype) if not is_within(operand.dtype, dtype):
                return self._in_range(e, operand)
            case _:
                return e

    def operands(self, e: t.Expr) -> t.Expr:
        """Return an integer up to wrapping, with all that it is divided and chosen from exact."""
        match e:
            case t.Binary(op) if op in RING:
                first, chain = t.spine(e)
                start = next((i for i, b in enumerate(reversed(chain)) if b.op not in RING), None)
                if start is not None:  # the sum begins behind the last quotient
                    cut = len(chain) - start
                    first, chain = chain[cut - 1], chain[cut:]
                out = self._part(first)
                for binary in chain:
                    out = replace(binary, lhs=out, rhs=self._part(binary.rhs))
                return out
            case t.Binary("/" | "%", lhs, rhs):
                return replace(e, lhs=self.number(lhs), rhs=self.number(rhs))
            case t.Unary("-", operand):
                return replace(e, operand=self._part(operand))
            case t.Builtin(name, args) if name in CHOOSING and e.dtype.is_integer:
                return replace(e, args=tuple(map(self.number, args)))
            case t.Select(_, then, other) if e.dtype.is_integer:
                return replace(e, then=self.number(then), other=self.number(other))
            case t.Cast(operand, dtype) if operand.dtype.is_integer and dtype.is_integer:
                return replace(e, operand=self.number(operand))
            case _:
                return e

    def _part(self, e: t.Expr) -> t.Expr:
        """Return a term or factor: sums and products go on, anything else has a value that counts.

        A sum inside a product may wrap as the product may.
        """
        match e:
            case t.Binary(op) if op in RING:
                return self.operands(e)
            case t.Unary("-"):
                return self.operands(e)
            case _:
                return self.number(e)

    def _in_range(self, e: t.Expr, value: t.Expr) -> t.Expr:
        """Return e, marked unless value is in the range of its type.

        What `SymbolicValues` does not understand it takes for unknown anyway; but numbers without
        data are understood elsewhere too.
        """
        found = self.symbolic.of(value)
        if is_unknown(found):
            return e if any(t.tensors_read(value)) else t.Cast(e, e.dtype, span=e.span)
        return e if self.fits(found, e) else t.Cast(e, e.dtype, span=e.span)


def magnitude(size: Size) -> int:
    """Return a number that a size never exceeds, nor its negative: extents are LARGEST_EXTENT."""
    total = 0
    for monomial, coefficient in size.terms:
        product = abs(coefficient)
        for atom in monomial:
            product *= _of_atom(atom)
        total += product
    return total


def _of_atom(atom: object) -> int:
    match atom:
        case Symbol(_, signed):
            return 2**64 if signed else LARGEST_EXTENT
        case FloorDiv(n):
            return magnitude(n) + 1
        case Modulo(_, d):
            return magnitude(d)
        case Min(args) | Max(args):
            return max(map(magnitude, args))
        case _:
            raise AssertionError(atom)


def _is_divisor(e: t.Expr) -> bool:
    """Whether a quotient by e is no larger than what is divided."""
    match e:
        case t.Lit(value):
            return value != -1
        case t.SizeValue(size):
            return is_nonnegative(size)
        case _:
            return False
