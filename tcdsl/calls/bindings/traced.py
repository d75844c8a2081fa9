"""Extents that keep what is computed of them and what is asked of them.

Code that works out sizes and strides of a call runs on them as on ints. What it computes are
expressions of the extents; each comparison is a condition under which it would do the same for
other extents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Self

from tcdsl.grammar.proofs.sizes import Size

# What a condition says of a number, and of several beside values; kinds.c has the same.
IS_ZERO, IS_NOT_ZERO, IS_NO_LESS, IS_LESS, ARE_APART, HAVE_ROOM = range(6)

Values = tuple[tuple[Size, int], ...]


class Asked:
    """The conditions of a run, in the order in which they were asked."""

    def __init__(self) -> None:
        self.conditions: dict[tuple[Size | Values, int], None] = {}

    def extent(self, place: int, value: int) -> Extent:
        """Return the extent at a place, which has this value in the run; it is none of 1."""
        return Extent(value, _place(place), self, 2)

    def fixed(self, place: int, value: int) -> int:
        """Return the extent at a place, which has this value in all that is asked for."""
        self.conditions[_place(place) - value, IS_ZERO] = None
        return value

    def room(self, extents: Iterable[Extent | int], item: int) -> None:
        """Ask that an array of these extents has room in memory, as it has in the run.

        item: bytes of an element. Extents are multiplied where the condition is asked: of quotients
        and remainders the product as a sum has many terms.
        """
        numbers = item, *extents
        if any(isinstance(n, Extent) for n in numbers):
            self.conditions[tuple([(size_of(n), 1) for n in numbers]), HAVE_ROOM] = None


@lru_cache(maxsize=64)
def _place(place: int) -> Size:
    return Size.symbol(str(place))


@lru_cache(maxsize=256)
def _quotient(n: Size, d: Size) -> Size:
    return n // d  # that of an image's rows by a stride is in a dozen extents


class Extent:
    """An integer with what it is of the extents; a constant is an int.

    least: it is at least that whatever they are; None where nobody knows. What follows from it is
    no condition.
    """

    __slots__ = ("_asked", "least", "size", "value")

    def __init__(self, value: int, size: Size, asked: Asked, least: int | None = None) -> None:
        self.value, self.size, self._asked, self.least = value, size, asked, least

    def __repr__(self) -> str:
        return f"{self.value} ({self.size})"

    def _made(self, value: int, size: Size, least: int | None = None) -> Any:
        return value if size.constant is not None else Extent(value, size, self._asked, least)

    def __add__(self, other: Self | int) -> Any:
        if type(other) is int and not other:
            return self
        one, two = self.least, _least_of(other)
        least = None if one is None or two is None else one + two
        return self._made(self.value + value_of(other), self.size + size_of(other), least)

    __radd__ = __add__

    def __sub__(self, other: Self | int) -> Any:
        return self._made(self.value - value_of(other), self.size - size_of(other))

    def __rsub__(self, other: int) -> Any:
        return -self + other

    def __mul__(self, other: Self | int) -> Any:
        if type(other) is int and other == 1:
            return self
        one, two = self.least, _least_of(other)
        least = None if one is None or two is None or min(one, two) < 0 else one * two
        return self._made(self.value * value_of(other), self.size * size_of(other), least)

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self._made(-self.value, -self.size)

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __floordiv__(self, other: Self | int) -> Any:
        return self._made(self.value // value_of(other), _quotient(self.size, size_of(other)))

    def __rfloordiv__(self, other: int) -> Any:
        return self._made(other // self.value, Size.const(other) // self.size)

    def __mod__(self, other: Self | int) -> Any:
        return self._made(self.value % value_of(other), self.size % size_of(other))

    def __rmod__(self, other: int) -> Any:
        return self._made(other % self.value, Size.const(other) % self.size)

    def _is(self, what: int, no: int) -> bool:
        answer = self.value == 0 if what == IS_ZERO else self.value < 0
        self._asked.conditions[self.size, what if answer else no] = None
        return answer

    def _is_above(self, other: Self | int) -> bool:
        """Whether it is known to be larger than a number."""
        return type(other) is int and self.least is not None and self.least > other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | Extent):
            return NotImplemented
        if self._is_above(other):
            return False
        rest = self - other
        return rest._is(IS_ZERO, IS_NOT_ZERO) if isinstance(rest, Extent) else rest == 0

    __hash__ = None  # type: ignore[assignment]  # equal to an int, at these extents only

    def __lt__(self, other: Self | int) -> bool:
        if self._is_above(other):
            return False
        rest = self - other
        return rest._is(IS_LESS, IS_NO_LESS) if isinstance(rest, Extent) else rest < 0

    def __ge__(self, other: Self | int) -> bool:
        return not self < other

    def __gt__(self, other: Self | int) -> bool:
        if self._is_above(other):
            return True
        rest = -self + other
        return rest._is(IS_LESS, IS_NO_LESS) if isinstance(rest, Extent) else rest < 0

    def __le__(self, other: Self | int) -> bool:
        return not self > other

    def __bool__(self) -> bool:
        return self._is_above(0) or not self._is(IS_ZERO, IS_NOT_ZERO)


def _least_of(number: Extent | int) -> int | None:
    return number.least if isinstance(number, Extent) else number


def are_apart(others: Iterable[tuple[str, int]], numbers: Mapping[str, Extent | int]) -> bool:
    """Whether numbers are not all the same as others by their names, asked as one condition."""
    values: list[tuple[Size, int]] = []
    is_apart, asked = False, None
    for name, n in others:
        number = numbers[name]
        if isinstance(number, Extent):
            asked = number._asked
            values.append((number.size, n))
            is_apart = is_apart or number.value != n
        elif number != n:
            return True  # whatever the extents are
    if asked is not None and is_apart:
        asked.conditions[tuple(values), ARE_APART] = None
    elif asked is not None:
        asked.conditions.update(((size - n, IS_ZERO), None) for size, n in values)
    return is_apart


def value_of(number: Extent | int) -> int:
    """Return the value that a number has in the run."""
    return number.value if isinstance(number, Extent) else number


def size_of(number: Extent | int) -> Size:
    """Return what a number is of the extents."""
    return number.size if isinstance(number, Extent) else Size.const(number)
