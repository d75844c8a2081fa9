"""Peaks by clocks of our own: what is said where measurements contradict each other."""

from __future__ import annotations

import pytest

from tcdsl.codegen.toolchain import peak
from tcdsl.codegen.toolchain.peak import Probe, busy_notes, fma_probe, measure_peaks, triad_probe


class Machine:
    """One clock, moved by the tasks alone; others have the cores for a part of the time."""

    def __init__(self, taken: float = 0.0) -> None:
        self.now_s = self.own_s = 0.0
        self.taken = taken

    def probe(self, threads: int, *times_s: float) -> Probe:
        """Return a probe of 1e9 operations whose turns take these times, then the last one."""
        turns = list(times_s)

        def task(thread: int) -> None:
            if thread == 0:  # the others run beside it
                spent = turns.pop(0) if len(turns) > 1 else turns[0]
                self.now_s += spent
                self.own_s += spent * (1 - self.taken)

        return Probe(task, 1e9, threads, lambda: self.now_s, lambda: self.own_s)


def test_the_fastest_turn_counts() -> None:
    probe = Machine().probe(1, 0.5, 0.25, 1.0)
    assert probe.run(1.5) == 4.0
    assert probe.run(2.0) == 4.0
    assert probe.taken == 0.0


def test_more_threads_that_reach_no_more_are_measured_again() -> None:
    machine = Machine()
    one, two = machine.probe(1, 0.01), machine.probe(2, *[0.02] * 20, 0.005)
    peaks = measure_peaks([one, two], 0.3)
    assert peaks.rates == pytest.approx({1: 100.0, 2: 200.0})
    assert peaks.notes == ()


def test_if_that_remains_it_is_said_and_the_larger_is_the_peak() -> None:
    machine = Machine()
    peaks = measure_peaks([machine.probe(1, 0.01), machine.probe(2, 0.0125)], 0.3)
    assert peaks.rates == pytest.approx({1: 100.0, 2: 100.0})
    (note,) = peaks.notes
    assert note.startswith("2 threads reach no more than 1 (80 and 100): they share a core")


def test_a_busy_machine_is_named() -> None:
    probe = Machine(taken=0.4).probe(1, 0.01)
    peaks = measure_peaks([probe], 0.1)
    assert probe.taken == pytest.approx(0.4)
    assert peaks.notes == busy_notes([probe])
    assert peaks.notes[0].startswith("the machine is busy: other programs had 40% of the cores")
    quiet = Machine(taken=0.05).probe(1, 0.01)
    quiet.run(0.1)
    assert busy_notes([quiet]) == ()


def test_where_memory_is_short_the_bandwidth_is_that_of_smaller_arrays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def probe(threads: int, size_bytes: int) -> Probe:
        asked.append(size_bytes >> 20)
        if size_bytes > 16 << 20:
            raise MemoryError
        return Machine().probe(threads, 0.5)

    monkeypatch.setattr(peak, "triad_probe", probe)
    assert peak.measure_bandwidth(seconds=0.1) == 2.0
    assert asked == [256, 64, 16]


@pytest.mark.cc
def test_the_loops_run_here() -> None:
    assert 0 < fma_probe(1, element_bytes=8).run(0) < 1e6
    assert 0 < triad_probe(2, size_bytes=1 << 20).run(0) < 1e6
