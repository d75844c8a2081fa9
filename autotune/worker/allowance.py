"""The time that there is for turns of candidates."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Allowance:
    """The time that there is for turns.

    Parameters
    ----------
    seconds : float, optional
        After which no round begins beyond the least number of them; None: any time.
    latest : float, optional
        Seconds in which all has to end: no turn begins that is not likely to. None: any time.
    clock : callable
        Returns seconds; a test brings its own.
    """

    def __init__(
        self,
        seconds: float | None = None,
        latest: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        begun = clock()
        self._clock = clock
        self._end, self._latest = (math.inf if s is None else begun + s for s in (seconds, latest))
        self._took: dict[int, float] = {}  # the last turn of each

    @property
    def is_over(self) -> bool:
        """Whether no round is to begin beyond the least number of them."""
        return self._clock() >= self._end

    def fits(self, row: int) -> bool:
        """Whether a turn is likely to end in time: it takes what the last one of its row took.

        A first one takes what the shortest turn of another one took, in good hope.
        """
        expected_s = self._took.get(row, min(self._took.values(), default=0.0))
        return self._clock() + expected_s < self._latest

    @contextmanager
    def turn(self, row: int) -> Iterator[None]:
        """Note how long a turn takes."""
        begun = self._clock()
        yield
        self._took[row] = self._clock() - begun

    def share(self, count: int) -> Allowance:
        """Return the first of so many equal shares of what is left."""
        now = self._clock()

        def first(end: float) -> float | None:
            return None if math.isinf(end) else max(0.0, end - now) / count

        return Allowance(first(self._end), first(self._latest), self._clock)
