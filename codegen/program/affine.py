"""Subscripts as affine maps of index variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT32, INT64
from tcdsl.grammar.types.typed import Expr


class IndexRange(Protocol):
    """The values of an index: so many, from low on."""

    @property
    def low(self) -> Size:
        """The least."""

    @property
    def extent(self) -> Size:
        """How many there are."""


@dataclass(frozen=True, slots=True)
class Affine:
    """sum of coefficient * index variable + constant: what most subscripts are."""

    terms: tuple[tuple[str, int], ...]
    const: Size

    def coefficient(self, var: str) -> int:
        """Return the coefficient of an index variable."""
        return dict(self.terms).get(var, 0)

    def at(self, point: Mapping[str, Size]) -> Size:
        """Return its value where the index variables have these values."""
        total = self.const
        for name, coefficient in self.terms:
            total = total + point[name] * coefficient
        return total

    def ends(self, ranges: Mapping[str, IndexRange]) -> tuple[Size, Size]:
        """Return its least and its greatest value over ranges none of which is empty."""
        low = high = self.const
        for name, k in self.terms:
            first, last = ranges[name].low, ranges[name].low + ranges[name].extent - 1
            low, high = low + (first if k > 0 else last) * k, high + (last if k > 0 else first) * k
        return low, high

    @property
    def plain(self) -> str | None:
        """The variable if this is that variable alone, else None."""
        match self.terms:
            case ((name, 1),) if self.const == Size.const(0):
                return name
        return None


def affine_of(expr: Expr) -> Affine | None:
    """Return a subscript as an affine map of index variables, or None if it is not one."""
    match expr:
        case typed.IndexValue(name):
            return Affine(((name, 1),), Size.const(0))
        case typed.SizeValue(size):
            return Affine((), size)
        case typed.Lit(value) if isinstance(value, int):
            return Affine((), Size.const(int(value)))
        case typed.Cast(typed.IndexValue() | typed.SizeValue() as operand, dtype):
            return affine_of(operand) if dtype in (INT32, INT64) else None
        case typed.Unary("-", operand):
            return _combine(Affine((), Size.const(0)), affine_of(operand), -1)
        case typed.Binary("+", lhs, rhs):
            return _combine(affine_of(lhs), affine_of(rhs), 1)
        case typed.Binary("-", lhs, rhs):
            return _combine(affine_of(lhs), affine_of(rhs), -1)
        case typed.Binary("*", lhs, rhs):
            return _product(affine_of(lhs), affine_of(rhs))
        case typed.Binary("/", lhs, rhs):  # of sizes; not of indices
            return _quotient(affine_of(lhs), affine_of(rhs))
        case _:
            return None


def _combine(a: Affine | None, b: Affine | None, sign: int) -> Affine | None:
    """Return a + sign * b."""
    if a is None or b is None:
        return None
    total = dict(a.terms)
    for name, c in b.terms:
        total[name] = total.get(name, 0) + sign * c
    return Affine(tuple((n, c) for n, c in total.items() if c), a.const + b.const * sign)


def _quotient(a: Affine | None, b: Affine | None) -> Affine | None:
    if a is None or b is None or a.terms or b.terms:
        return None
    return Affine((), a.const // b.const)


def _product(a: Affine | None, b: Affine | None) -> Affine | None:
    """Return a * b where one is a constant and the product has integer coefficients."""
    if a is None or b is None:
        return None
    if a.terms:
        a, b = b, a
    if a.terms:
        return None
    if not b.terms:
        return Affine((), a.const * b.const)
    c = a.const.constant
    if c is None:
        return None
    return Affine(tuple((n, k * c) for n, k in b.terms if k * c), b.const * c)
