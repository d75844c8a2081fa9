"""Sizes as lists, texts and numbers, which files can hold; what is read is checked."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from tcdsl.grammar.proofs.sizes import Atom, FloorDiv, Max, Min, Modulo, Monomial, Size, Symbol

_DEEPEST = 32  # sizes in sizes

Plain: TypeAlias = "list[Plain] | str | int | bool"


def plain(size: Size) -> list[Plain]:
    """Return a size as a list of terms, each a coefficient and its atoms.

    Examples
    --------
    >>> n = Size.symbol("N")
    >>> plain(n * 2 // 3 - 1)
    [[1, ['/', [[2, ['N', False]]], [[3]]]], [-1]]
    """
    return [[c, *map(_plain_atom, atoms)] for atoms, c in size.terms]


def from_plain(value: object, depth: int = 0) -> Size:
    """Return the size that `plain` made a list of.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    if not isinstance(value, list) or depth > _DEEPEST:
        raise ValueError("a size is a list of terms")
    return Size(tuple(_term(term, depth + 1) for term in value))


def _plain_atom(atom: Atom) -> Plain:
    match atom:
        case Symbol(name, signed):
            return [name, signed]
        case FloorDiv(n, d):
            return ["/", plain(n), plain(d)]
        case Modulo(n, d):
            return ["%", plain(n), plain(d)]
        case Min(args):
            return ["min", *map(plain, args)]
        case Max(args):
            return ["max", *map(plain, args)]
        case other:
            assert_never(other)


def _term(value: object, depth: int) -> tuple[Monomial, int]:
    match value:
        case [int() as coefficient, *atoms] if not isinstance(coefficient, bool):
            return tuple(_atom(atom, depth) for atom in atoms), coefficient
    raise ValueError("a term is a coefficient and its atoms")


def _atom(value: object, depth: int) -> Atom:
    match value:
        case [str(name), bool(signed)] if name.isidentifier():
            return Symbol(name, signed)
        case ["/", n, d]:
            return FloorDiv(from_plain(n, depth), from_plain(d, depth))
        case ["%", n, d]:
            return Modulo(from_plain(n, depth), from_plain(d, depth))
        case ["min", *args] if args:
            return Min(tuple(from_plain(a, depth) for a in args))
        case ["max", *args] if args:
            return Max(tuple(from_plain(a, depth) for a in args))
    raise ValueError("it is no atom of a size")
