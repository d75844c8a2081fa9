"""When a run ends, and when what it has under way is cut off."""

from __future__ import annotations

import pytest

from tcdsl.autotune.search.budget import Budget


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def budget(seconds: float | None, latest: float | None = None) -> tuple[Budget, Clock]:
    clock = Clock()
    return Budget(seconds, clock=clock, latest=latest), clock


def test_a_late_search_gets_half_of_what_is_kept_and_a_late_comparison_a_little_more() -> None:
    of, clock = budget(20.0)
    of.has_result = True
    assert of.cut_s == 19.5
    clock.now = 19.0
    assert (of.is_over, of.is_cut) == (True, False)
    clock.now = 19.5
    assert of.is_cut
    of.is_final = True
    assert of.seconds_left == 0.5
    assert of.cut_s == pytest.approx(2.1)
    clock.now = 22.0
    assert of.is_cut


def test_a_first_result_gets_a_tenth_more_or_thirty_seconds_or_what_all_problems_have() -> None:
    assert budget(40.0)[0].cut_s == pytest.approx(43.2)
    assert budget(0.0)[0].cut_s == 30.0
    assert budget(1.0, latest=60.0)[0].cut_s == pytest.approx(64.8)


def test_what_the_answer_has_to_be_gets_the_seconds_or_ten() -> None:
    for seconds, latest, end in ((2.0, None, 10.0), (20.0, None, 20.0), (1.0, 60.0, 60.0)):
        of, clock = budget(seconds, latest)
        clock.now = end - 0.01
        assert not of.is_case_cut
        clock.now = end + 0.01
        assert of.is_case_cut
    assert not budget(None)[0].is_case_cut


def test_without_seconds_nothing_is_cut_until_the_user_stops_it() -> None:
    of, clock = budget(None)
    assert of.cut_s is None
    assert not of.is_cut
    of.stop()
    assert of.is_cut  # nothing was timed: there is nothing to compare
    of.has_result = True
    assert (of.search_seconds_left, of.seconds_left, of.cut_s) == (0.0, 1.0, 0.5)
    of.is_final = True
    assert of.cut_s == 2.0
    clock.now = 2.0
    of.stop()  # again: it has been
    assert of.is_cut


def test_who_stops_brings_the_end_nearer_and_never_puts_it_off() -> None:
    of, clock = budget(8.0)
    of.has_result = of.is_final = True
    clock.now = 7.8
    of.stop()
    assert of.seconds_left == pytest.approx(0.2)
