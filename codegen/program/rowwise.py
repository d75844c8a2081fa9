"""How calls of a program along rows may collapse their dimensions; `collapse_rows.py` finds it."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Literal

from tcdsl.codegen.program.pointwise import Places, unused
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass

Kind = Literal["whole", "kept", "row"]


@dataclass(frozen=True, slots=True)
class Rowwise:
    """What calls ask of a program whose statements fold the same dimensions, or run along them.

    key: names the program that all ranks share. extents: of its dimensions, those that are kept,
    then those of a row. kept: how many of them are kept. places: per parameter, then per return,
    which of these each of its dimensions is; None for one that is not walked, and for a parameter
    that is not read. is_ordered: a row's dimensions have the order in which its points are
    numbered.
    """

    key: str
    extents: tuple[Size, ...]
    kept: int
    places: tuple[Places | None, ...]
    is_ordered: bool


@lru_cache(maxsize=4096)
def kind_of(places: Places | None, kept: int) -> Kind:
    """Return which dimensions an operand has in the program that all ranks share.

    One that has some of the kept dimensions has all of them there, at stride 0; so has one that is
    repeated everywhere, and one that is not read is as if it lay along the row.
    """
    if places is None:
        return "row"
    walked = [p for p in places if p is not None]
    if any(p >= kept for p in walked):
        return "whole" if any(p < kept for p in walked) else "row"
    return "kept"


def row_sizes(tensors: Collection[str], kept: int, row: int) -> tuple[str, ...]:
    """Return the size symbols of the program at these ranks; tensors: the names of all its own."""
    return (*unused("D", tensors, kept), *unused("K", tensors, row))
