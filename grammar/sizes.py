"""Symbolic integers: extents and bounds as expressions of sizes.

A `Size` is kept in one canonical form, a sum of integer multiples of products of atoms, so that
equal expressions are equal objects to `==` and `hash`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size or an integral scalar by name."""

    name: str


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """floor(numerator / denominator); 0 where the denominator is 0."""

    numerator: Size
    denominator: Size


@dataclass(frozen=True, slots=True)
class Modulo:
    """numerator - denominator * floor(numerator / denominator); 0 where the denominator is 0."""

    numerator: Size
    denominator: Size


@dataclass(frozen=True, slots=True)
class Min:
    """The least of several."""

    args: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Max:
    """The greatest of several."""

    args: tuple[Size, ...]


Atom = Symbol | FloorDiv | Modulo | Min | Max


@dataclass(frozen=True, slots=True)
class Size:
    """sum of coefficient * product(atoms), sorted; the empty product is the constant term."""

    terms: tuple[tuple[tuple[Atom, ...], int], ...] = ()

    @staticmethod
    def const(value: int) -> Size:
        """Return the constant."""
        return Size((((), value),)) if value else Size()

    @staticmethod
    def symbol(name: str) -> Size:
        """Return the symbol."""
        return Size((((Symbol(name),), 1),))

    def __add__(self, other: Size | int) -> Size:
        raise NotImplementedError

    def __sub__(self, other: Size | int) -> Size:
        raise NotImplementedError

    def __mul__(self, other: Size | int) -> Size:
        raise NotImplementedError

    def __neg__(self) -> Size:
        return self * -1

    def __floordiv__(self, other: Size | int) -> Size:
        raise NotImplementedError

    def __mod__(self, other: Size | int) -> Size:
        raise NotImplementedError

    @property
    def constant(self) -> int | None:
        """The value if this is a constant, else None."""
        raise NotImplementedError

    def symbols(self) -> tuple[str, ...]:
        """Return the names it depends on, sorted."""
        raise NotImplementedError

    def substitute(self, by: Mapping[str, Size]) -> Size:
        """Replace symbols."""
        raise NotImplementedError

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Return the value for given sizes."""
        raise NotImplementedError


def minimum(*sizes: Size) -> Size:
    """Return the least of several, simplified where it is provable."""
    raise NotImplementedError


def maximum(*sizes: Size) -> Size:
    """Return the greatest of several, simplified where it is provable."""
    raise NotImplementedError


def is_nonnegative(size: Size) -> bool:
    """Whether size >= 0 for all sizes >= 0 is proved (false means: not proved)."""
    raise NotImplementedError
