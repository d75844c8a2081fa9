"""Seconds are kept where a compiler, a check or a kernel takes longer than foreseen."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tcdsl.autotune.comparison import verdict_on
from tcdsl.autotune.measure import Measurement
from tcdsl.autotune.report import Silent
from tcdsl.autotune.search.budget import Budget
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.store.trial import UntunedError, Verdict
from tcdsl.autotune.tuner import tune
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.making import UnwantedError
from tcdsl.grammar.text.errors import CompileError
from tests.autotune.test_interrupts import log_of
from tests.autotune.toy import Toy, config

pytestmark = pytest.mark.cc

FAST = config("right", 0)


class Notes(Silent):
    def __init__(self) -> None:
        self.told: list[str] = []

    def note(self, text: str) -> None:
        self.told.append(text)


def test_a_check_that_has_not_ended_when_the_time_is_over_is_cut_and_says_nothing(
    tmp_path: Path,
) -> None:
    problem = Toy(kinds=("right", "hang"), log=tmp_path / "log")

    def clock() -> float:  # the time is over as the one that hangs has begun
        return 79.6 if any(line.endswith("hang") for line in log_of(tmp_path)) else 0.0

    budget, hang = Budget(80.0, clock=clock), config("hang", 0)
    with (
        TuningStore(tmp_path / "t.db") as store,
        Measurement(problem, store, budget, Silent()) as measure,
    ):
        measure([problem.default], "start")
        assert measure([hang], "late") == []
        row = store.find(problem.key, hang)
        assert row is not None
        assert (row.status, row.reason) == ("compiled", "")
        found = verdict_on(measure, [])  # in another process: the cut one is gone
        assert found is not None
        assert (found.config, found.default_ns) == (problem.default, 4000)


@pytest.mark.parametrize(("best_ns", "stays"), [(1000.0, True), (9000.0, False)])
def test_without_time_for_a_comparison_what_was_tuned_before_stays_if_it_is_faster(
    tmp_path: Path, best_ns: float, stays: bool
) -> None:
    problem, now = Toy(), [0.0]
    with TuningStore(tmp_path / "t.db") as store:
        store.set_best(problem.key, FAST, best_ns, 5000.0, "tuned")
        budget = Budget(8.0, clock=lambda: now[0])
        with Measurement(problem, store, budget, Silent()) as measure:
            measure([problem.default], "start")
            now[0] = 9.0
            found = verdict_on(measure, [])
            assert found is not None
            assert (found.config, found.default_ns) == (FAST if stays else problem.default, 4000)
        store.set_best(problem.key, FAST, best_ns, 5000.0, "tuned")
        with Measurement(problem, store, budget, Silent()) as late:  # nothing is timed at all
            assert verdict_on(late, []) == Verdict(FAST, best_ns, 5000.0)


def test_a_first_candidate_that_is_compiled_for_ever_ends_the_run_with_what_to_do(
    tmp_path: Path,
) -> None:
    class Endless(Toy):
        def build(
            self, sources: Sequence[Emitted], is_unwanted: Callable[[], bool]
        ) -> Path | CompileError:
            end = time.monotonic() + 600
            while not is_unwanted():
                assert time.monotonic() < end, "nobody ends it"
            raise UnwantedError

    long_ago = time.monotonic() - 1000
    with pytest.raises(UntunedError, match="with more seconds"):
        tune([Endless()], cache=tmp_path / "t.db", seconds=10, begun=long_ago)


def test_of_several_problems_those_for_which_there_is_no_time_are_told(tmp_path: Path) -> None:
    now = time.monotonic()
    problems = [Toy(turns=(0, 3000), size=1000) for _ in range(3)]
    report = Notes()
    found = tune(problems, cache=tmp_path / "t.db", seconds=1000, begun=now - 3001, report=report)
    assert [r.number for r in found] == [0]
    assert report.told == ["no time was left for 2 of 3"]


def test_a_config_that_came_without_trials_is_tried(tmp_path: Path) -> None:
    problem = Toy(turns=tuple(range(0, 30000, 10)))
    with TuningStore(tmp_path / "t.db") as store:
        store.set_best(problem.key, FAST, 1.0, 2.0, "merged")
    (tuned,) = tune([problem], cache=tmp_path / "t.db", trials=2)
    assert tuned.config == FAST


@pytest.mark.wide
def test_what_was_checked_in_a_process_that_is_gone_is_loaded_again_unchecked(
    tmp_path: Path,
) -> None:
    problem = Toy(kinds=("right", "crash"), turns=(0, 3000))
    with (
        TuningStore(tmp_path / "t.db") as store,
        Measurement(problem, store, Budget(), Silent()) as measure,
    ):
        trials = measure([problem.default, FAST, config("crash", 0)], "x")
        assert [t.is_timed for t in trials].count(True) == 2
        checks = measure.runner._checks_s
        assert measure.ready(Config.of(dict(FAST.items))) is not None
        assert measure.runner._checks_s == checks


@pytest.mark.wide
def test_whose_process_is_killed_from_outside_is_not_to_blame_the_first_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Toy(turns=(0, 3000))
    with (
        TuningStore(tmp_path / "t.db") as store,
        Measurement(problem, store, Budget(), Silent()) as measure,
    ):
        measure([problem.default], "start")
        send, doomed = Connection.send_bytes, ["check", "time"]

        def kill(connection: Connection, request: bytes) -> None:
            process = measure.runner._process
            assert process is not None
            assert process._process is not None
            if doomed and json.loads(request).get("do") == doomed[0]:
                doomed.pop(0)
                process._process.kill()
            send(connection, request)

        monkeypatch.setattr(Connection, "send_bytes", kill)
        (trial, *_) = [t for t in measure([FAST], "x") if t.config == FAST]
        assert trial.is_timed
        assert doomed == []
        doomed += ["check", "check"]
        (trial,) = measure([config("right", 10)], "x")
        assert (trial.reason, "killed" in trial.detail) == ("resources", True)
