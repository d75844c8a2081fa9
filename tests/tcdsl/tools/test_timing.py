"""Calls beside the peak, by a clock that only the calls move."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby, pairwise

import pytest

from tcdsl.autotune.store.best import Best
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.peak import Probe
from tcdsl.tools.demo import _comparison, _finals
from tcdsl.tools.timing import beside_peak, interleaved


class Clock:
    """Nanoseconds that calls spend."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.turns: list[int] = []

    def call(self, *times_ns: int) -> Callable[[], None]:
        """Return a call that takes these times in turn, then the last one for ever."""
        left = list(times_ns)

        def run() -> None:
            spent = left.pop(0) if len(left) > 1 else left[0]
            self.now_ns += spent
            self.turns.append(spent)

        return run

    def probe(self, *times_ns: int) -> Probe:
        """Return a probe of 1e6 operations."""
        run = self.call(*times_ns)

        def seconds() -> float:
            return self.now_ns / 1e9

        return Probe(lambda _: run(), 1e6, 1, seconds, seconds)

    def __call__(self) -> int:
        return self.now_ns


def test_calls_take_turns_and_a_quantile_stands_for_each() -> None:
    clock = Clock()
    calls = {"a": clock.call(*[900_000] * 4, 300_000), "b": clock.call(500_000)}
    times = interleaved(calls, 0.05, clock)
    assert (times["a"].time_ns, times["b"].time_ns) == (300_000, 500_000)
    ordered = [t for t in clock.turns[8:] if t in (300_000, 500_000)]
    changes = sum(a != b for a, b in pairwise(ordered))
    assert changes > len(ordered) // 3  # nobody has a time of its own


def test_a_turn_takes_as_long_as_it_is_told_to() -> None:
    clock = Clock()
    calls = {"a": clock.call(300_000), "b": clock.call(500_000)}
    times = interleaved(calls, 0.05, clock, turn_ns=3_000_000)
    assert (times["a"].time_ns, times["b"].time_ns) == (300_000, 500_000)
    runs = [(time, len([*group])) for time, group in groupby(clock.turns)]
    assert set(runs[4:-1]) == {(300_000, 10), (500_000, 6)}


def test_the_peak_is_measured_again_when_a_call_beats_it() -> None:
    clock = Clock()
    probe = clock.probe(*[1_000_000] * 30, 100_000)  # at first others have the cores
    times, roof = beside_peak({"f": clock.call(200_000)}, 1e6, [probe], 0.02, clock)
    assert times["f"].time_ns == 200_000
    assert roof.rate == pytest.approx(10.0)
    assert roof.notes == ()


def test_a_call_that_stays_faster_is_the_peak_and_that_is_said() -> None:
    clock = Clock()
    calls = {"slow": clock.call(400_000), "fast": clock.call(200_000)}
    times, roof = beside_peak(calls, 1e6, [clock.probe(250_000)], 0.02, clock)
    assert roof.rate == 5.0
    assert roof.notes == (
        "'fast' is faster than the loop that measures the peak (4.0): its rate counts as the peak",
    )
    lines = list(_comparison({"NumPy": times["slow"], "tcdsl": times["fast"]}, 1e6, roof, 2))
    assert lines[0] == "fcrelu B=100 M=128 N=100, 2 cores, peak 5 GFLOP/s"
    assert re.fullmatch(r"  tcdsl +200.0 us +5.0 GFLOP/s +100% of peak +2.00x NumPy", lines[2])
    assert lines[3].startswith("  note: 'fast' is faster")


def best(time_ns: float, default_ns: float | None) -> Best:
    return Best("p", "f", (), Config(), time_ns, default_ns)


def test_the_ratio_of_the_finals_is_that_of_the_times_shown() -> None:
    assert _finals(best(25_000, 30_000)) == "in turns: untuned 30 us, tuned 25 us: 1.20x"
    assert _finals(best(30_000, 30_000)).startswith(
        "in turns with the best: untuned 30 us; nothing"
    )
    assert "stopped" in _finals(best(30_000, None))
    assert "stopped" in _finals(None)
