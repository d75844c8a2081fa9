"""Side-by-side times of Python calls, for the bench, the demo and the benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from tcdsl.autotune.worker.timing import HABIT, HostSampler, quantile_ns
from tcdsl.codegen.toolchain.peak import Probe, busy_notes
from tcdsl.grammar.text.dataclass import dataclass

_TRIES = 3  # of a measurement that contradicts itself
_PROBE = "peak "  # beside the labels of the calls
_SAMPLE_NS = 200_000  # at least, so that the clock costs nothing


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one call, in nanoseconds: the 20 % quantile, and how many samples."""

    time_ns: float
    samples: int


def interleaved(
    calls: Mapping[str, Callable[[], object]],
    seconds: float = 1.0,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
    turn_ns: int = 0,
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
    turn_ns : int, default 0
        What the turn of one call takes at least; by default it is one sample. In a long turn what
        the others have displaced from the caches comes back.

    Returns
    -------
    dict of str to Timing
    """
    samplers = {label: _warm(call, clock_ns, turn_ns) for label, call in calls.items()}
    samples: dict[str, list[float]] = {label: [] for label in calls}
    end = clock_ns() + seconds * 1e9
    while clock_ns() < end or min(map(len, samples.values())) < 3:
        for label, sampler in samplers.items():
            samples[label] += sampler()
    return {
        label: Timing(quantile_ns(times, HABIT), len(times)) for label, times in samples.items()
    }


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


def _warm(call: Callable[[], object], clock_ns: Callable[[], int], turn_ns: int) -> HostSampler:
    """Call a few times, the first one may compile; return what takes a sample a turn."""
    for _ in range(3):
        call()

    def run(times: int) -> None:
        for _ in range(times):
            call()

    return HostSampler(run, clock_ns, _SAMPLE_NS, slice_ns=turn_ns)
