"""Tables of bounded size that keep most of what comes again."""

from __future__ import annotations

from itertools import islice
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def thinned(table: dict[K, V], most: int) -> dict[K, V]:
    """Return a table with room for one more: itself, or every second row of a full one.

    Rows that come in turn, more of them than the table has, then still find half of theirs; to
    clear it, or to give up the oldest, would find none. Another thread may add to it meanwhile.

    Examples
    --------
    >>> thinned({1: "a", 2: "b", 3: "c"}, 3)
    {1: 'a', 3: 'c'}
    """
    if len(table) < most:
        return table
    # Of a copy, which is made at once: hashes of keys let other threads run.
    return dict(islice(table.copy().items(), 0, None, 2))
