"""What people see: lines, a live picture, nothing; and the plot."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest

from tcdsl.autotune.report import (
    Lines,
    Live,
    Progress,
    Silent,
    duration,
    plot_history,
    rate_text,
    reporter,
)
from tcdsl.autotune.search.budget import Budget
from tcdsl.autotune.store.trial import Trial, Verdict
from tcdsl.autotune.worker.problem import Roofline
from tests.autotune.toy import Toy, config
from tests.tiers import sampled


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def tell(report: Lines | Live | Silent) -> None:
    report.begin(Toy(), Budget(seconds=60, trials=100))
    report.stage("compile", 16)
    report.ended(Trial(config("right", 3000), 2000.0))
    report.ended(Trial(config("crash", 0), math.inf, "crash", "SIGSEGV\nmore"))
    report.ended(Trial(config("right", 0), 1000.0))
    report.stage("final", 3)
    report.finish(Verdict(config("right", 0), 1000.0, 2000.0))


def test_lines_show_each_best_each_crash_and_the_verdict() -> None:
    stream = io.StringIO()
    tell(Lines(stream))
    assert stream.getvalue().splitlines() == [
        "toy: 12 configs",
        "  best so far 4.0 GB/s (20% of memory peak), 2 us: kind=right turns=3000",
        "  crash: SIGSEGV (kind=crash turns=0)",
        "  best so far 8.0 GB/s (40% of memory peak), 1 us: kind=right turns=0",
        "  8.0 GB/s (40% of memory peak), 1 us, 2.00x the default: kind=right turns=0",
    ]


def test_a_terminal_gets_a_picture_that_ends_as_two_lines() -> None:
    stream = Terminal()
    report = reporter(stream=stream)
    assert isinstance(report, Live)
    tell(report)
    text = stream.getvalue()
    for part in ("best", "median", "failed: 1 crash", "left", "2.00x the default"):
        assert part in text


def test_a_run_without_a_verdict_leaves_the_terminal_in_order() -> None:
    stream = Terminal()
    report = Live(stream)
    report.begin(Toy(), Budget())
    report.finish(None)
    assert stream.getvalue().endswith("\n")


def test_quiet_says_nothing_and_a_file_gets_lines() -> None:
    assert isinstance(reporter(quiet=True), Silent)
    assert isinstance(reporter(stream=io.StringIO()), Lines)
    tell(Silent())


def test_progress_counts_trials_failures_and_what_is_left() -> None:
    now = [0.0]
    budget = Budget(seconds=90, trials=10, clock=lambda: now[0])
    progress = Progress("toy", Toy.roofline, budget)
    assert progress.best() == "no result yet"
    progress.add(Trial(Toy().default, 5.0, is_twin=True))  # its end is the first one's
    assert progress.times_ns == []
    for trial in (Trial(config("right", 1), 1000.0), Trial(config("x", 1), math.inf, "wrong")):
        progress.add(trial)
    budget.used = 2
    now[0] = 4.0
    assert progress.counts() == "2 trials, 0.5/s, failed: 1 wrong"
    assert progress.left() == "1:26 left, 8 trials left"


@pytest.mark.parametrize(
    ("roofline", "text"),
    [
        (Roofline(2e6, 1e3, 500, 50), "200.0 GFLOP/s (40% of peak)"),
        (Roofline(1e3, 3e5, 500, 50), "30.0 GB/s (60% of memory peak)"),
        (Roofline(5e6, 1e3, 500, 50), "500.0 GFLOP/s (100% of peak)"),
        (Roofline(6e6, 1e3, 500, 50), "600.0 GFLOP/s (above the peak measured, 500.0)"),
        (Roofline(1e3, 6e5, 500, 50), "60.0 GB/s (above the memory peak measured, 50.0)"),
    ],
)
def test_the_rate_is_that_of_what_bounds_the_problem(roofline: Roofline, text: str) -> None:
    assert rate_text(roofline, 10_000.0) == text


@pytest.mark.parametrize(
    ("time_ns", "text"), [(5, "5 ns"), (1500, "1.5 us"), (2.5e6, "2.5 ms"), (3e9, "3 s")]
)
def test_a_time_has_a_unit_that_suits_it(time_ns: float, text: str) -> None:
    assert duration(time_ns) == text


@sampled("times", [[5e3, 2e3, math.inf, 1e3], [], [math.inf]], keep=1)
def test_the_history_is_a_png(tmp_path: Path, times: list[float]) -> None:
    path = tmp_path / "history.png"
    plot_history("toy", times, 4e3 if times else None, path)
    assert path.read_bytes().startswith(b"\x89PNG")
