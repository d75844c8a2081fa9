"""Side-by-side times of Python calls, for the bench, the demo and the benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_QUANTILE = 0.2  # low enough to pass over what other processes did, high enough to be a habit
_BATCH_NS = 200_000  # one sample lasts at least this long, so that the clock costs nothing


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one call, in nanoseconds: the 20 % quantile, the median, how many samples."""

    time_ns: float
    median_ns: float
    samples: int


def interleaved(
    calls: Mapping[str, Callable[[], object]], seconds: float = 1.0
) -> dict[str, Timing]:
    """Time several calls in turns, so that a busy moment of the machine hits all alike.

    Parameters
    ----------
    calls : mapping of str to callable
        By label; each is called a few times first, to warm up.
    seconds : float, default 1.0
        For all of them together; at least three samples of each are taken.

    Returns
    -------
    dict of str to Timing
    """
    batches = {label: _batch(call) for label, call in calls.items()}
    samples: dict[str, list[float]] = {label: [] for label in calls}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, samples.values())) < 3:
        for label, call in calls.items():
            samples[label].append(_sample(call, batches[label]))
    return {label: _summary(sorted(times)) for label, times in samples.items()}


def _batch(call: Callable[[], object]) -> int:
    """Warm up, and return how many calls make one sample."""
    for _ in range(3):
        call()
    return max(1, int(_BATCH_NS / max(_sample(call, 1), 1)))


def _sample(call: Callable[[], object], count: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - start) / count


def _summary(times: list[float]) -> Timing:
    at = int(_QUANTILE * (len(times) - 1))
    return Timing(times[at], times[len(times) // 2], len(times))
