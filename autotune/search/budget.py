"""What a search may spend."""

from __future__ import annotations

import time
from collections.abc import Callable


class Budget:
    """How much a search may spend: seconds, trials, the user's patience.

    Parameters
    ----------
    seconds : float, optional
    trials : int, optional
        New ones; what the store knows costs nothing.
    clock : callable
        Returns seconds; a test brings its own.
    """

    def __init__(
        self,
        seconds: float | None = None,
        trials: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds, self.trials, self.clock = seconds, trials, clock
        self.begun = clock()
        self.used = 0
        self.is_stopped = False

    def stop(self) -> None:
        """Let the search end as soon as it can, with the best so far."""
        self.is_stopped = True

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the budget ends, None without such a limit."""
        if self.seconds is None:
            return None
        return max(0.0, self.seconds - (self.clock() - self.begun))

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
        return self.is_stopped or self.seconds_left == 0

    @property
    def is_spent(self) -> bool:
        """Whether nothing new may begin."""
        return self.is_over or self.trials_left == 0
