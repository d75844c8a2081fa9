"""Time candidates side by side: interleaved rounds, low quantiles, slow ones dropped early."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from tcdsl.autotune.worker.allowance import Allowance

# Low: what disturbs a run only ever makes it longer. So low for candidates: where others use the
# machine, a kernel of two threads has both cores in a fifth of its calls or less, and takes twice
# as long in others. People are shown what a call takes out of habit.
QUANTILE, HABIT = 0.05, 0.2
DROP = (3.0, 2.0, 1.3)  # times the best: who is slower after one round, two, three, gets no more
_SAMPLE_NS = 20_000  # a sample repeats a short call, so that the clock's grain does not show
_MOST_REPEATS = 1000
ROUNDS = 5  # of a batch of new candidates
WAY_ROUNDS, FEWEST_WAY_ROUNDS = 31, 9  # of two, in each way of calling; where time is short
SLICE_NS = 2_000_000  # of one candidate in one round
_LONG_NS = 50_000_000  # a call so long needs no warm-up
_ENOUGH_NS = 1_000_000_000  # of one candidate in all rounds
_FEWEST = 3  # turns, however long a call is, where who wins is asked


Run = Callable[[int], None]  # calls a candidate so many times


class Sampler(Protocol):
    """A candidate as what is timed: each call is one turn."""

    @property
    def spent_ns(self) -> float:
        """Time of the samples of all turns so far."""

    def __call__(self) -> list[float]:
        """Return new samples, in ns per call."""


def quantile_ns(samples_ns: Sequence[float], quantile: float = QUANTILE) -> float:
    """Return the low quantile that stands for what was timed."""
    return float(np.quantile(samples_ns, quantile))


def interleaved(
    candidates: Mapping[int, Sampler],
    rounds: int,
    notice: Callable[[int], None],
    drop: Sequence[float] = DROP,
    allowance: Allowance | None = None,
    least: int = ROUNDS,
    keep: Callable[[int, Sequence[float]], None] = lambda row, new: None,
    narrow: Callable[[Mapping[int, Sequence[float]], Sequence[int]], Sequence[int]] | None = None,
) -> dict[int, list[float]]:
    """Time candidates in turn and return the samples of each, in ns per call.

    Parameters
    ----------
    candidates : mapping of row -> Sampler
    rounds : int
    notice : callable
        Told the row before each turn of it.
    drop : sequence of float
        After each round, how many times slower than the best one may be to get another turn; the
        last one holds for all later rounds. Empty: everyone gets all turns.
    allowance : Allowance, optional
        The time for it, by default any. When it is over no round begins beyond the least number of
        them. Where everyone gets all turns, the first and the fastest of the others go on alone
        till then, and of the rest there are no samples: they had not as many chances. Who gets no
        turn at all for want of time has none either.
    least : int
    keep : callable
        Told the row and its samples after each turn.
    narrow : callable, optional
        Told the samples and who goes on, after the least number of rounds and each one from then
        on; returns who still goes on: nobody where all that is asked is clear.
    """
    allowance = allowance or Allowance()
    samples: dict[int, list[float]] = {row: [] for row in candidates}
    going = list(candidates)
    fewest = 1 if drop else _FEWEST
    # In another order each round: beside a program that takes turns of its own with us, those who
    # come at a fixed place would always, or never, have a core less. Who comes first gets a turn
    # where there is no time for all.
    rng = random.Random(0)
    for turn in range(rounds):
        if turn >= least:
            going = list(going if narrow is None else narrow(samples, going))
            if allowance.is_over or not going:
                break
        if turn and not drop and len(going) > 2 and allowance.is_over:
            fastest = min(going[1:], key=lambda row: quantile_ns(samples[row]))
            samples |= {row: [] for row in going[1:] if row != fastest}
            going = [going[0], fastest]
        for row in rng.sample(going, len(going)) if turn else going:
            if allowance.fits(row):
                notice(row)
                with allowance.turn(row):
                    new = candidates[row]()
                samples[row] += new
                keep(row, new)
        factor = drop[min(turn, len(drop) - 1)] if drop else math.inf
        limit = factor * min((min(s) for s in samples.values() if s), default=math.inf)
        going = [
            row
            for row in going
            if samples[row]
            and min(samples[row]) <= limit
            and (candidates[row].spent_ns < _ENOUGH_NS or turn + 1 < fewest)
        ]
        if not going:
            break
    return samples


class TurnSampler:
    """`Sampler` with one sample a turn, the shortest of some calls: turns compare in pairs.

    Parameters
    ----------
    run : Run
    before : callable
        Made before each call, and not timed.
    calls : int
        At most: long ones are fewer.
    clock_ns : callable
        Returns nanoseconds; a test brings its own.
    """

    def __init__(
        self,
        run: Run,
        before: Callable[[], object] = lambda: None,
        calls: int = 1,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._run, self._before, self._calls, self._clock_ns = run, before, calls, clock_ns
        self.spent_ns = 0.0

    def __call__(self) -> list[float]:
        """Return a new sample, in ns per call."""
        times_ns = []
        for _ in range(self._calls):
            self._before()
            begun = self._clock_ns()
            self._run(1)
            times_ns.append(max(self._clock_ns() - begun, 1))
            if sum(times_ns) >= _LONG_NS:
                break
        self.spent_ns += sum(times_ns)
        return [float(min(times_ns))]


class HostSampler:
    """`Sampler` by the host's clock: so long of calls a turn, short ones several to a sample.

    Parameters
    ----------
    run : Run
    clock_ns : callable
        Returns nanoseconds; a test brings its own.
    sample_ns, slice_ns : int
        What a sample and a turn take at least; a turn of nothing is one sample.
    """

    def __init__(
        self,
        run: Run,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
        sample_ns: int = _SAMPLE_NS,
        slice_ns: int = SLICE_NS,
    ) -> None:
        self._run, self._clock_ns = run, clock_ns
        self._sample_ns, self._slice_ns = sample_ns, slice_ns
        self._repeats = 0  # calls to a sample; 0 before the first turn
        self.spent_ns = 0.0

    def __call__(self) -> list[float]:
        """Return new samples, in ns per call."""
        if self._repeats == 0:
            once_ns = self._call_ns()
            is_long = once_ns >= _LONG_NS
            if not is_long:  # that one warmed up; the next tells how many make a sample
                once_ns = self._call_ns()
            self._repeats = max(1, min(self._sample_ns // once_ns, _MOST_REPEATS))
            if is_long:
                self.spent_ns = once_ns
                return [once_ns]
        run, clock_ns, repeats = self._run, self._clock_ns, self._repeats
        samples = []
        end = clock_ns() + self._slice_ns
        now = clock_ns()
        while True:
            begun = now
            run(repeats)
            now = clock_ns()
            samples.append((now - begun) / repeats)
            if now >= end:
                break
        self.spent_ns += sum(samples) * repeats
        return samples

    def _call_ns(self) -> int:
        begun = self._clock_ns()
        self._run(1)
        return max(self._clock_ns() - begun, 1)
