"""The tuner on a GPU made of Python: checks, times by its clock, faults that cost themselves."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tcdsl.autotune.measure import Measurement
from tcdsl.autotune.report import Silent
from tcdsl.autotune.search.budget import Budget
from tcdsl.autotune.store import best
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.store.trial import Trial
from tcdsl.autotune.targets.cuda.bench import CudaBench, DeviceSampler
from tcdsl.autotune.targets.cuda.builder import pack, unpack
from tcdsl.autotune.tuner import tune
from tcdsl.autotune.worker import runner
from tcdsl.autotune.worker.bench import WrongAnswerError
from tcdsl.autotune.worker.timing import interleaved
from tcdsl.grammar.text.errors import DeviceError
from tests.autotune.toy_gpu import FAULTS, ToyDevice, config, toy_problem

ROOT = Path(__file__).parents[4]
REASONS = {
    "wrong": ("wrong", "at (777)"),
    "unwritten": ("wrong", "at (999)"),
    "past": ("wrong", "output 'y': bytes next to it were written"),
    "before": ("wrong", "output 'y': bytes next to it were written"),
    "input": ("wrong", "input 'x': it was written"),
    "error": ("wrong", "error 1: operand 0, dimension 0, subscript 5000, extent 1000"),
    "crash": ("crash", "DeviceError: an illegal memory access was encountered"),
    "hang": ("slow", "no answer in"),
    "refused": ("schedule", "it does not fit"),
    "spills": ("resources", "it spills"),
}


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a busy machine take seconds for what takes milliseconds: no good candidate is cut."""
    monkeypatch.setattr(runner, "_LEAST_LIMIT_S", 5.0)


@pytest.mark.wide
def test_each_fault_costs_its_candidate_only_and_is_recorded_with_its_reason(
    tmp_path: Path,
) -> None:
    problem = toy_problem(*FAULTS, "spills")
    configs = [config(kind, 10) for kind in REASONS] + [problem.start, config("right", 10)]
    with (
        TuningStore(tmp_path / "t.db") as store,
        Measurement(problem, store, Budget(), Silent()) as measure,
    ):
        measure([problem.start], "start")
        ended = {t.config: t for t in measure(configs, "all")}
        rows = {str(r.config.get("kind")): r for r in store.trials(problem.key) if r.reason}
    for kind, (reason, detail) in REASONS.items():
        assert (ended[config(kind, 10)].reason, rows[kind].reason) == (reason, reason), kind
        assert detail in rows[kind].detail.splitlines()[0], kind
    assert ended[config("right", 10)].time_ns == 10_000


@pytest.mark.wide
def test_a_search_finds_the_fast_one_among_faults_and_later_calls_find_it(tmp_path: Path) -> None:
    problem = toy_problem("wrong", "crash", "past", times=(10, 50, 200))
    cache = tmp_path / "t.db"
    (tuned,) = tune([problem], cache=cache, trials=40)
    assert tuned.config == config("right", 10)
    assert (tuned.verdict.time_ns, tuned.verdict.default_ns) == (10_000, 200_000)
    found = best.lookup(cache, problem.key)
    assert found is not None
    assert found.config == tuned.config


@pytest.mark.deep
def test_a_later_run_does_not_try_again_what_has_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    problem = toy_problem("crash", log=log, times=(10, 200))
    tune([problem], cache=tmp_path / "t.db", trials=3)
    tune([problem], cache=tmp_path / "t.db", trials=100)
    crashed = [line for line in log.read_text().splitlines() if line.startswith("crash")]
    assert crashed
    assert len(crashed) == len(set(crashed))


@pytest.mark.deep
def test_what_ran_when_the_tuner_was_killed_has_crashed_and_is_not_tried_again(
    tmp_path: Path,
) -> None:
    log, cache = tmp_path / "log", tmp_path / "t.db"
    run = subprocess.Popen(
        [sys.executable, "-m", "tests.autotune.tune_toy_gpu", str(cache), str(log)], cwd=ROOT
    )
    end = time.monotonic() + 600
    while not log.exists() or "hang" not in log.read_text():
        assert time.monotonic() < end
        time.sleep(0.02)
    run.kill()
    run.wait()
    problem = toy_problem("hang", log=log)
    (tuned,) = tune([problem], cache=cache, start=[problem.start], trials=1)
    assert tuned.config == problem.start
    with TuningStore(cache) as store:
        row = store.find(problem.key, config("hang", 10))
    assert row is not None
    assert (row.reason, row.detail) == ("crash", "the tuning process ended while this config ran")
    assert log.read_text().count("hang 10") == 1


@pytest.mark.deep
def test_a_default_to_which_the_compiler_objects_is_timed_all_the_same(tmp_path: Path) -> None:
    problem = toy_problem("spills", start=config("spills", 20))
    (tuned,) = tune([problem], cache=tmp_path / "t.db", trials=1)
    assert tuned.config == problem.start
    assert tuned.verdict.time_ns == 20_000


def test_configs_of_the_same_machine_code_are_one_candidate(tmp_path: Path) -> None:
    # Another text, as it would be by a name in it, and the same code.
    class Twins(type(toy_problem())):  # type: ignore[misc]
        def emit(self, wanted: Any) -> Any:
            source = super().emit(config("right", 10))
            return replace(source, text=f"{source.text}int unused_{wanted.get('us')};")

    log = tmp_path / "log"
    problem = toy_problem(log=log)
    twins = Twins(problem.checked, problem.spec, device=problem.device, log=log)
    with (
        TuningStore(tmp_path / "t.db") as store,
        Measurement(twins, store, Budget(), Silent()) as measure,
    ):
        trials = measure([config("right", us) for us in (10, 20, 50)], "x")
        later = measure([config("right", 100)], "x")
    assert len(log.read_text().splitlines()) == 1
    assert [t.time_ns for t in (*trials, *later) if t.config != config("right", 10)] == [10_000] * 3


# ---- time


def bench(*, is_warm: bool) -> tuple[CudaBench, ToyDevice]:
    problem, device = toy_problem(), ToyDevice(0)
    return CudaBench(problem.case(), device, problem.program, is_warm=is_warm), device


def loaded(made: CudaBench, kind: str, us: int) -> Any:
    source = toy_problem().emit(config(kind, us))
    return made.load({"unit": pack(source.unit)})


def test_level_2_is_overwritten_before_each_cold_call_and_never_where_calls_are_warm() -> None:
    for is_warm in (False, True):
        made, device = bench(is_warm=is_warm)
        turns = made.sampler(loaded(made, "right", 100))
        device.fills.clear()
        samples = turns()
        flushed = [n for n in device.fills if n == 2 * device.gpu.l2_bytes]
        assert set(samples) == {100_000}
        assert len(flushed) == (0 if is_warm else len(samples) + 1)


def test_short_warm_calls_share_a_sample() -> None:
    made, device = bench(is_warm=True)
    turns = made.sampler(loaded(made, "right", 2))
    device.launches = 0
    samples = turns()
    assert set(samples) == {2_000}
    assert device.launches == 1 + 10 * len(samples)


def test_a_turn_of_a_long_call_is_one_call() -> None:
    made, device = bench(is_warm=False)
    turns = made.sampler(loaded(made, "right", 400_000))
    device.launches = 0
    assert turns() == [400e6]
    assert device.launches == 1
    assert turns.spent_ns == 400e6


def test_one_that_is_three_times_slower_gets_one_turn() -> None:
    made, _ = bench(is_warm=False)
    turns = {us: made.sampler(loaded(made, "right", us)) for us in (100, 301)}
    seen: list[int] = []
    interleaved(turns, 3, seen.append)
    assert seen.count(301) == 1
    assert seen.count(100) == 3


def test_the_check_finds_each_fault() -> None:
    made, _ = bench(is_warm=False)
    for kind, (reason, detail) in REASONS.items():
        if reason == "wrong":
            with pytest.raises(WrongAnswerError, match=re.escape(detail)):
                loaded(made, kind, 10)
    with pytest.raises(DeviceError, match="an illegal memory access"):
        loaded(made, "crash", 10)
    loaded(made, "right", 10)


def test_a_wrong_candidate_does_not_spoil_the_inputs_of_the_next() -> None:
    made, _ = bench(is_warm=False)
    with pytest.raises(WrongAnswerError, match="input 'x': it was written"):
        loaded(made, "input", 10)
    loaded(made, "right", 10)


def test_a_unit_survives_its_way_to_the_worker() -> None:
    unit = toy_problem().emit(config("right", 10)).unit
    assert unpack(pack(unit)) == unit


def test_events_out_of_order_are_no_negative_time() -> None:
    class Event:
        def milliseconds_since(self, start: Event) -> float:
            return -0.001

    turns = DeviceSampler(ToyDevice(0), lambda repeats: (Event(), Event()), 0)
    assert min(turns()) == 0
    assert math.isfinite(Trial(config("right", 1), min(turns())).time_ns)
