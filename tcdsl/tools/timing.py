"""Side-by-side times of Python calls, for the bench, the demo and the benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tcdsl.codegen.toolchain.peak import Probe, busy_notes

_QUANTILE = 0.2  # low enough to pass over what other processes did, high enough to be a habit
_TRIES = 3  # of a measurement that contradicts itself
_PROBE = "peak "  # beside the labels of the calls
_BATCH_NS = 200_000  # one sample lasts at least this long, so that the clock costs nothing


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one call, in nanoseconds: the 20 % quantile, the median, how many samples."""

    time_ns: float
    median_ns: float
    samples: int


def interleaved(
    calls: Mapping[str, Callable[[], object]],
    seconds: float = 1.0,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
) -> dict[str, Timing]:
    """Time several calls in turns, in their order, so that a busy moment hits all alike.

    Parameters
    ----------
    calls : mapping of str to callable
        By label; each is called a few times first, to warm up.
    seconds : float, default 1.0
        For all of them together; at least three samples of each are taken.
    clock_ns : callable
        Returns nanoseconds; a test brings its own.

    Returns
    -------
    dict of str to Timing
    """
    batches = {label: _batch(call, clock_ns) for label, call in calls.items()}
    samples: dict[str, list[float]] = {label: [] for label in calls}
    end = clock_ns() + seconds * 1e9
    while clock_ns() < end or min(map(len, samples.values())) < 3:
        for label, call in calls.items():
            samples[label].append(_sample(call, batches[label], clock_ns))
    return {label: _summary(sorted(times)) for label, times in samples.items()}


@dataclass(frozen=True, slots=True)
class Roof:
    """The rate that the machine reaches, in 1e9 a second, and what a reader has to know of it."""

    rate: float
    notes: tuple[str, ...]


def beside_peak(
    calls: Mapping[str, Callable[[], object]],
    amount: float,
    probes: Sequence[Probe],
    seconds: float = 1.0,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
) -> tuple[dict[str, Timing], Roof]:
    """Time several calls in turns, the loops that tell the peak among them.

    Where a call is faster than they are, all is measured again; the larger is the peak then, and a
    note says so: no share of the roof is above 1.

    Parameters
    ----------
    calls : mapping of str to callable
        As of `interleaved`; each does the same work.
    amount : float
        Operations or bytes of one call.
    probes : sequence of Probe
        Their fastest is the peak.
    seconds, clock_ns
        As of `interleaved`.
    """
    turns: dict[str, Callable[[], object]] = {
        **calls,
        **{f"{_PROBE}{i}": probe for i, probe in enumerate(probes)},
    }
    for _ in range(_TRIES):
        times = interleaved(turns, seconds, clock_ns)
        times = {label: times[label] for label in calls}
        fastest = min(times, key=lambda label: times[label].time_ns)
        reached, peak = amount / times[fastest].time_ns, max(p.rate for p in probes)
        if reached <= peak:
            return times, Roof(peak, busy_notes(probes))
    note = (
        f"'{fastest}' is faster than the loop that measures the peak ({peak:.1f}): "
        "its rate counts as the peak"
    )
    return times, Roof(reached, (note, *busy_notes(probes)))


def _batch(call: Callable[[], object], clock_ns: Callable[[], int]) -> int:
    """Warm up, and return how many calls make one sample."""
    for _ in range(3):
        call()
    return max(1, int(_BATCH_NS / max(_sample(call, 1, clock_ns), 1)))


def _sample(call: Callable[[], object], count: int, clock_ns: Callable[[], int]) -> float:
    start = clock_ns()
    for _ in range(count):
        call()
    return (clock_ns() - start) / count


def _summary(times: list[float]) -> Timing:
    at = int(_QUANTILE * (len(times) - 1))
    return Timing(times[at], times[len(times) // 2], len(times))
