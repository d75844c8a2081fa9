"""Time candidates side by side: interleaved rounds, low quantiles, slow ones dropped early."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

# Low: what disturbs a run only ever makes it longer. So low: where others use the machine, a kernel
# of two threads has both cores in a fifth of its calls or less, and takes twice as long in others.
QUANTILE = 0.05
DROP = (3.0, 2.0, 1.3)  # times the best: who is slower after one round, two, three, gets no more
_SAMPLE_NS = 20_000  # a sample repeats a short call, so that the clock's grain does not show
SLICE_NS = 2_000_000  # of one candidate in one round
_LONG_NS = 50_000_000  # a call so long needs no warm-up
_ENOUGH_NS = 1_000_000_000  # of one candidate in all rounds


Run = Callable[[int], None]  # calls a candidate so many times


def quantile_ns(samples_ns: Sequence[float]) -> float:
    """Return the low quantile that stands for a candidate."""
    return float(np.quantile(samples_ns, QUANTILE))


def interleaved(
    runs: Mapping[int, Run],
    rounds: int,
    notice: Callable[[int], None],
    clock_ns: Callable[[], int] = time.perf_counter_ns,
    drop: Sequence[float] = DROP,
) -> dict[int, list[float]]:
    """Time candidates in turn and return the samples of each, in ns per call.

    Parameters
    ----------
    runs : mapping of row -> Run
    rounds : int
    notice : callable
        Told the row before each turn of it.
    clock_ns : callable
        Returns nanoseconds; a test brings its own.
    drop : sequence of float
        After each round, how many times slower than the best one may be to get another turn; the
        last one holds for all later rounds. Empty: everyone gets all turns.
    """
    samples: dict[int, list[float]] = {row: [] for row in runs}
    going = list(runs)
    repeats: dict[int, int] = {}
    # In another order each round: beside a program that takes turns of its own with us, those who
    # come at a fixed place would always, or never, have a core less.
    rng = random.Random(0)
    for turn in range(rounds):
        for row in rng.sample(going, len(going)):
            notice(row)
            if row not in repeats:
                once_ns = _call_ns(runs[row], clock_ns)
                if once_ns < _LONG_NS:  # that one warmed up; the next tells how many make a sample
                    once_ns = _call_ns(runs[row], clock_ns)
                else:
                    samples[row].append(once_ns)
                repeats[row] = max(1, min(_SAMPLE_NS // once_ns, 1000))
                if samples[row]:
                    continue
            end = clock_ns() + SLICE_NS
            now = clock_ns()
            while True:
                begun = now
                runs[row](repeats[row])
                now = clock_ns()
                samples[row].append((now - begun) / repeats[row])
                if now >= end:
                    break
        factor = drop[min(turn, len(drop) - 1)] if drop else math.inf
        limit = factor * min(min(s) for s in samples.values() if s)
        going = [
            row
            for row in going
            if min(samples[row]) <= limit and sum(samples[row]) * repeats[row] < _ENOUGH_NS
        ]
    return samples


def _call_ns(run: Run, clock_ns: Callable[[], int]) -> int:
    begun = clock_ns()
    run(1)
    return max(clock_ns() - begun, 1)
