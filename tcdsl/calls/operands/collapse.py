"""Operands of a pointwise call with as few dimensions as their strides allow."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tcdsl.grammar.text.dataclass import dataclass

_LEAST_RANK = 4  # of what is not flat: fewer dimensions than that come with ones before them
_FEW = 1 << 17  # points that are turned, with all that they lie between, within the second level
_SHORT = 64  # points of a row, up to which it takes longer to come to it than to walk it
_LEAST_TURNED = 4  # neighbours that come before the last dimension to be turned around

Strides = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class View:
    """The extents that all operands have, and the strides of each, in elements.

    is_flat: one dimension, along which all operands have unit steps; else the rank is 4, 8, ...
    """

    extents: tuple[int, ...]
    strides: tuple[Strides, ...]
    is_flat: bool

    @property
    def is_slow(self) -> bool:
        """Whether an executable that knows sizes and strides takes far less time than a shared one.

        Rows are short, or points next to each other in one operand are apart in another, and all
        are few: of many the shared one walks several lines of the source at once.
        """
        if self.is_flat:
            return False
        apart = any(strides[-1] not in (0, 1) for strides in self.strides)
        return self.extents[-1] < _SHORT or (apart and prod(self.extents) <= _FEW)


def in_c_order(shape: Sequence[int]) -> Strides:
    """Return the strides of a dense array."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def walked(places: Sequence[int | None], strides: Strides, rank: int) -> Strides:
    """Return the strides of an operand along the dimensions of the results.

    places: where each of its dimensions lies among those; see `Pointwise`.
    """
    along = [0] * rank
    for place, stride in zip(places, strides, strict=True):
        if place is not None:
            along[place] = stride
    return tuple(along)


def collapsed(box: Sequence[int], operands: Sequence[Strides], results: int) -> View:
    """Return operands that are walked together with their dimensions dropped, sorted and joined.

    Dimensions of extent 1 go. The others are sorted by the steps of the results, the smallest last,
    and neighbours become one where that is a step of the outer in all operands. Where points of a
    row are apart in an operand, that dimension comes before it along which they are neighbours:
    rows one after the other are turned around in squares then.

    Parameters
    ----------
    box : sequence of int
        The extents of the results.
    operands : sequence of tuple of int
        Strides in elements along these dimensions, 0 where an operand is repeated.
    results : int
        How many of them, the last ones, are written.

    Examples
    --------
    >>> collapsed((2, 3, 4), [(12, 4, 1), (12, 4, 1)], 1)
    View(extents=(24,), strides=((1,), (1,)), is_flat=True)
    >>> collapsed((5, 6), [(1, 0), (6, 1)], 1).strides  # padded to four dimensions
    ((0, 0, 1, 0), (0, 0, 6, 1))
    >>> collapsed((7, 5, 6), [(1, 49, 7), (30, 6, 1)], 1).extents  # squares of 7 x 6 points
    (1, 5, 7, 6)
    """
    if prod(box) <= 1:  # none, or one
        return View((prod(box),), ((1,),) * len(operands), True)

    def steps(d: int) -> tuple[int, int]:
        written = sum(abs(s[d]) for s in operands[len(operands) - results :])
        return written, sum(abs(s[d]) for s in operands)

    order = sorted((d for d, n in enumerate(box) if n > 1), key=steps, reverse=True)
    extents: list[int] = []
    walked: list[list[int]] = []  # per dimension that is left, the steps of all operands
    for d in order:
        at = [s[d] for s in operands]
        if walked and all(o == i * box[d] for o, i in zip(walked[-1], at, strict=True)):
            extents[-1] *= box[d]
            walked[-1] = at
        else:
            extents.append(box[d])
            walked.append(at)
    if len(walked) == 1 and all(step == 1 for step in walked[0]):
        return View((extents[0],), ((1,),) * len(operands), True)
    across = _across(extents, walked, len(operands) - results)
    if across is not None:
        extents.insert(-1, extents.pop(across))
        walked.insert(-1, walked.pop(across))
    rank = _LEAST_RANK
    while rank < len(extents):
        rank *= 2
    missing = rank - len(extents)
    strides = ((0,) * missing + tuple(row) for row in zip(*walked, strict=True))
    return View((1,) * missing + tuple(extents), tuple(strides), False)


def _across(extents: Sequence[int], walked: Sequence[Sequence[int]], read: int) -> int | None:
    """Return the dimension that is to come before the last one, None where it is there.

    read: how many operands are, the first ones.
    """
    *outer, inner = walked
    found = [
        d
        for k in range(read)
        if inner[k] not in (0, 1)
        for d, steps in enumerate(outer)
        if steps[k] == 1 and extents[d] >= _LEAST_TURNED
    ]
    return None if not found or len(outer) - 1 in found else found[0]
