"""In which order what loops stand around runs: phases of an executable, launches of a unit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any


def in_order(
    spans: Sequence[tuple[int, int]],
    range_of: Callable[[int], tuple[int, int]],
    turn: Any,
    first: int,
    last: int,
    loop: int = 0,
) -> Iterator[int]:
    """Yield positions [first, last) in the order in which they run, as the launcher has it.

    Parameters
    ----------
    spans
        First and last position of each loop; they nest, an outer one stands first.
    range_of
        Gives the range of a loop's variable.
    turn
        Where the value of each loop's variable is put while its positions are yielded.
    loop
        The first one that may lie in there.
    """
    p = first
    while p < last:
        while loop < len(spans) and (spans[loop][0] < p or spans[loop][0] == spans[loop][1]):
            loop += 1
        if loop == len(spans) or spans[loop][0] > p or spans[loop][1] > last:
            yield p
            p += 1
            continue
        for value in range(*range_of(loop)):
            turn[loop] = value
            yield from in_order(spans, range_of, turn, *spans[loop], loop + 1)
        p = spans[loop][1]
