"""The whole tuner on hand-written candidates, right and wrong ones, in real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcdsl.autotune.measure import Measurement
from tcdsl.autotune.report import Silent
from tcdsl.autotune.search import Budget
from tcdsl.autotune.store import Store
from tests.autotune.toy import FAULTS, Toy, config

pytestmark = pytest.mark.cc

REASONS = {
    "wrong": ("wrong", "output 'y': expected"),
    "unwritten": ("wrong", "at (999)"),
    "crash": ("crash", "SIGSEGV"),
    "reads past": ("crash", "SIGSEGV"),
    "writes past": ("crash", "SIGSEGV"),
    "writes before": ("wrong", "bytes next to it were written"),
    "writes its input": ("crash", "SIGSEGV"),
    "workspace": ("crash", "SIGSEGV"),
    "order": ("wrong", "output 'y': expected"),
    "hang": ("hang", "no answer in"),
    "compile": ("compile", "this is no C"),
    "refused": ("schedule", "it does not fit"),
}


def test_each_fault_costs_its_candidate_only_and_is_recorded_with_its_reason(
    tmp_path: Path,
) -> None:
    problem = Toy(kinds=("right", *FAULTS), turns=(0, 3000))
    configs = [config(kind, 0) for kind in REASONS] + [problem.default, config("right", 0)]
    with (
        Store(tmp_path / "t.db") as store,
        Measurement(problem, store, Budget(), Silent()) as measure,
    ):
        measure([problem.default], "start")
        trials = {str(t.config.get("kind")): t for t in measure(configs, "all")}
        rows = {str(r.config.get("kind")): r for r in store.trials(problem.key) if r.reason}
    for kind, (reason, detail) in REASONS.items():
        assert (trials[kind].reason, rows[kind].reason) == (reason, reason), kind
        assert detail in rows[kind].detail, kind
    assert trials["right"].is_timed
