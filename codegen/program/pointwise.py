"""How calls of a pointwise program may collapse their dimensions; `collapse.py` finds it."""

from __future__ import annotations

from collections.abc import Collection

from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.fresh import fresh

Places = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Pointwise:
    """What calls ask of a program whose dimensions they may collapse.

    key: names the program that all ranks share. places: per parameter, then per return, where each
    of its dimensions lies among those of the results; None for one that is not walked, and for a
    parameter that is not read. costly: the parameters, by number, that functions and quotients are
    made of: where all of a set are repeated along a row, its value is computed once a row by an
    executable that knows that they are.
    """

    key: str
    places: tuple[Places | None, ...]
    costly: tuple[tuple[int, ...], ...]


def size_names(tensors: Collection[str], rank: int) -> tuple[str, ...]:
    """Return the size symbols of the program at a rank; tensors: the names of all of its own."""
    return unused("D", tensors, rank)


def unused(letter: str, taken: Collection[str], count: int) -> tuple[str, ...]:
    """Return so many numbered names that are not taken."""
    return tuple([fresh(f"{letter}{d}", taken) for d in range(count)])
