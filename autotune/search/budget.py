"""What a search may spend."""

from __future__ import annotations

import time
from collections.abc import Callable

_FINAL_S, _FINAL_SHARE = 1.0, 0.1  # kept for the last comparison: so long, at most that share
_MOST_SHARE = 0.25  # where turns are seen to take long
_LATE_SHARE = 0.08  # of the seconds: what has not ended so long after them is cut off; to leave
# takes the rest of a tenth
_FIRST_S = 30.0  # that a first result may take, however few the seconds: for busy machines
_CASE_S = 10.0  # of these, that what the answer has to be may take: of large kernels that
# takes longer than the seconds on any machine
_SAFE = 0.8  # of the time that is left: what a batch is to take at most
_LEAVE_S = 1.0  # for the last comparison once the user wants no more


class Budget:
    """How much a search may spend: seconds, trials, the user's patience.

    A search ends early enough for the last comparison, and tries no more at once than it has time
    for, as far as earlier trials tell. What takes longer than foreseen is cut off (`cut_s`).

    Parameters
    ----------
    seconds : float, optional
    trials : int, optional
        New ones; what the store knows costs nothing.
    clock : callable
        Returns seconds; a test brings its own.
    begun : float, optional
        When the seconds began, by the clock; now, by default.
    latest : float, optional
        When, by the clock, a first result is waited for no more, if that is after the seconds: with
        those of the problems that follow.

    Attributes
    ----------
    has_result : bool
        Whether this run has timed anything: before that there is nothing to end with.
    is_final : bool
        Whether the last comparison is under way.
    """

    def __init__(
        self,
        seconds: float | None = None,
        trials: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        begun: float | None = None,
        latest: float | None = None,
    ) -> None:
        self.seconds, self.trials, self.clock = seconds, trials, clock
        self.begun = clock() if begun is None else begun
        self.used = 0
        self.has_result = self.is_final = False
        self._latest = latest
        self._stopped_at: float | None = None
        self._final_s = 0.0 if seconds is None else min(_FINAL_S, _FINAL_SHARE * seconds)
        self._first_s = 0.0  # of one of the first trials
        self._once_s = 0.0  # of what is made once, since the last trials were noted
        self._pace_s = 0.0  # of a later trial; 0 where there was none

    def note(self, trials: int, seconds: float) -> None:
        """Note how long trials that were made together took, with what was made once meanwhile."""
        each_s = max(0.0, seconds - self._once_s) / max(1, trials)
        self._once_s = 0.0
        if not trials:
            return
        if not self._first_s:
            self._first_s = each_s
        else:
            self._pace_s = each_s

    def note_once(self, seconds: float) -> None:
        """Note how long the trials under way have waited for what is made once for all."""
        self._once_s += seconds

    def keep(self, seconds: float) -> None:
        """Keep at least so much for the last comparison, but no more than a quarter of all."""
        if self.seconds is not None:
            self._final_s = max(self._final_s, min(seconds, _MOST_SHARE * self.seconds))

    def fitting(self, most: int) -> int:
        """Return how many trials may be made together, at least one.

        Before a second batch the first tells: too much, as a compiler's start is a single trial's.
        A batch that takes a little longer than the one before still ends in time: nearly all of its
        times come at its end.
        """
        left, each = self.search_seconds_left, self._pace_s or self._first_s
        if left is None or not each:
            return most
        return max(1, min(most, int(_SAFE * left / each)))

    def stop(self) -> None:
        """Let the search end as soon as it can, with the best so far."""
        if self._stopped_at is None:
            self._stopped_at = self.clock()

    @property
    def is_stopped(self) -> bool:
        """Whether the user wants no more."""
        return self._stopped_at is not None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the budget ends, None without such a limit; few where it was stopped."""
        left = self._left_s
        return None if left is None else max(0.0, left)

    @property
    def search_seconds_left(self) -> float | None:
        """Seconds until the search has to end for the last comparison, None without a limit."""
        if self.is_stopped:
            return 0.0
        left = self.seconds_left
        return None if left is None else max(0.0, left - self._final_s)

    @property
    def cut_s(self) -> float | None:
        """Seconds until what is under way is cut off, whatever it is; None without a limit.

        What a search has begun may take half of what is kept for the last comparison, and that one
        nearly a tenth of all seconds more.
        """
        left = self._left_s
        if left is None:
            return None
        if not self.has_result:
            if self.is_stopped:
                return 0.0
            return max(0.0, self._first_end(_FIRST_S, 1 + _LATE_SHARE) - self.clock())
        if self.is_final:
            late = _LEAVE_S if self.seconds is None else _LATE_SHARE * self.seconds
            return max(0.0, left + late)
        return max(0.0, left - (_LEAVE_S if self.is_stopped else self._final_s) / 2)

    @property
    def is_cut(self) -> bool:
        """Whether what is under way is cut off."""
        return self.cut_s == 0

    @property
    def is_case_cut(self) -> bool:
        """Whether what the answer has to be is waited for no more: to leave it takes time too."""
        return self.seconds is not None and self.clock() >= self._first_end(_CASE_S, 1.0)

    @property
    def trials_left(self) -> int | None:
        """Trials until the budget ends, None without such a limit."""
        return None if self.trials is None else max(0, self.trials - self.used)

    @property
    def is_unlimited(self) -> bool:
        """Whether the search itself has to find its end."""
        return self.seconds is None and self.trials is None

    @property
    def is_over(self) -> bool:
        """Whether what is under way has to end."""
        return self.search_seconds_left == 0

    @property
    def is_spent(self) -> bool:
        """Whether nothing new may begin: there is neither patience nor time nor number left."""
        left = self.search_seconds_left
        is_late = left is not None and left < self._pace_s
        return self.is_over or is_late or self.trials_left == 0

    @property
    def _left_s(self) -> float | None:
        """Seconds until the end, which the user may bring nearer; below 0 after it."""
        ends = [] if self.seconds is None else [self.begun + self.seconds]
        if self._stopped_at is not None:
            ends.append(self._stopped_at + _LEAVE_S)
        return min(ends) - self.clock() if ends else None

    def _first_end(self, least_s: float, share: float) -> float:
        """Return when, by the clock, a first result is waited for no more.

        That is after so many seconds, or after so much of those given where it is later.
        """
        assert self.seconds is not None
        own = self.begun + max(least_s, share * self.seconds)
        if self._latest is None:
            return own
        return max(own, self.begun + share * (self._latest - self.begun))
