"""Ctrl-C, kill -9, and two tuners at once: nothing committed is lost, no crash is met twice."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tcdsl.autotune import tuner
from tcdsl.autotune.report import Silent
from tcdsl.autotune.store import best
from tcdsl.autotune.store.store import TuningStore
from tests.autotune.tune_toy import problem

pytestmark = pytest.mark.cc

ROOT = Path(__file__).parents[2]
REFUSED = "failedschedule"  # status and reason of what the toy's form refuses


def start(folder: Path, seed: int, seconds: float, *kinds: str) -> subprocess.Popen[str]:
    arguments = [folder / "t.db", folder / "log", seed, seconds, *kinds]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.autotune.tune_toy", *map(str, arguments)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def wait_until(is_true: Callable[[], bool], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.02)


def run_until(is_true: Callable[[], bool], folder: Path, seed: int, *kinds: str) -> None:
    """Let a run propose something, go on until something is true, then stop it as a user does."""
    before = len(rows(folder))
    run = start(folder, seed, 60, *kinds)
    wait_until(lambda: len(rows(folder)) > before and is_true())
    os.killpg(run.pid, signal.SIGINT)
    _, err = run.communicate(timeout=600)
    assert run.returncode == 0, err


def log_of(folder: Path) -> list[str]:
    path = folder / "log"
    return path.read_text().splitlines() if path.exists() else []


def rows(folder: Path) -> dict[int, tuple[str, str]]:
    """Return status and config of the trials; nothing while there is no table yet."""
    path = folder / "t.db"
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        try:
            found = connection.execute(
                "SELECT id, status || reason, config FROM trials_v1"
            ).fetchall()
        except sqlite3.OperationalError:
            return {}
    return {i: (status, config) for i, status, config in found}


def has_ended(status: str) -> bool:
    return status.startswith(("timed", "failed"))


def timed(folder: Path) -> int:
    return sum(status == "timed" for status, _ in rows(folder).values())


def workers_of(tuner: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"tcdsl.autotune.worker" in words and str(tuner).encode() in words:
            found.append(int(entry.name))
    return found


def test_the_first_ctrl_c_stops_with_the_best_so_far_and_a_later_run_resumes(
    tmp_path: Path,
) -> None:
    run = start(tmp_path, 0, 60, "right")
    wait_until(lambda: timed(tmp_path) > 1)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to the compilers and the worker too
    out, err = run.communicate(timeout=600)
    assert run.returncode == 0, err
    assert "stopping with the best so far" in err
    ((_, is_complete, _),) = json.loads(out)
    assert not is_complete
    assert {status for status, _ in rows(tmp_path).values() if "failed" in status} <= {REFUSED}
    before = rows(tmp_path)
    toy = problem(tmp_path / "log", ("right",))
    found = best.lookup(tmp_path / "t.db", toy.key)
    assert found is not None

    run_until(lambda: len(rows(tmp_path)) > len(before), tmp_path, 0, "right")
    after = rows(tmp_path)
    assert len(after) > len(before)
    assert all(after[i] == row for i, row in before.items() if has_ended(row[0]))


def test_a_handler_that_is_not_pythons_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        patch.setattr(signal, "getsignal", lambda _: None)  # as where Python is embedded
        with tuner._interruptible(Silent()) as stop:
            assert not stop.is_set()
    assert signal.getsignal(signal.SIGINT) is ours


@pytest.mark.wide
def test_the_second_ctrl_c_aborts_and_what_ran_is_not_tried_again(tmp_path: Path) -> None:
    run = start(tmp_path, 0, 60, "right", "hang")
    wait_until(lambda: any(line.endswith("hang") for line in log_of(tmp_path)))
    os.killpg(run.pid, signal.SIGINT)
    assert run.stderr is not None
    told = iter(run.stderr.readline, "")
    assert any("stopping with the best so far" in line for line in told)
    os.killpg(run.pid, signal.SIGINT)
    _, err = run.communicate(timeout=600)
    assert run.returncode in (-signal.SIGINT, 130), err
    wait_until(lambda: not workers_of(run.pid))
    hung = [line for line in log_of(tmp_path) if line.endswith("hang")]
    toy = problem(tmp_path / "log", ("right", "hang"))
    with TuningStore(tmp_path / "t.db") as store:
        assert any(t.reason == "crash" for t in store.ended(toy.key))
    run_until(lambda: True, tmp_path, 1, "right", "hang")
    tried = Counter(line for line in log_of(tmp_path) if line.endswith("hang"))
    assert all(tried[line] == 1 for line in hung)


def kill_often(folder: Path, times: int) -> None:
    rng = random.Random(5)
    ended: dict[int, tuple[str, str]] = {}
    for seed in range(times):
        before = len(rows(folder))
        run = start(folder, seed, 60, "right", "crash")
        wait_until(lambda before=before: len(rows(folder)) > before)  # type: ignore[misc]
        time.sleep(rng.random() * 0.5)
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        run.communicate()
        wait_until(lambda run=run: not workers_of(run.pid))  # type: ignore[misc]
        after = rows(folder)
        for i, row in ended.items():
            assert after[i] == row
        ended = {i: row for i, row in after.items() if has_ended(row[0])}

    def crashes() -> list[str]:
        return [line for line in log_of(folder) if line.endswith("crash")]

    run_until(lambda: timed(folder) > 0 and bool(crashes()), folder, times, "right", "crash")
    assert set(Counter(crashes()).values()) == {1}


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.wide)])
def test_kill_9_loses_no_committed_row_and_no_crash_is_met_twice(
    tmp_path: Path, times: int
) -> None:
    kill_often(tmp_path, times)


@pytest.mark.deep
def test_kill_9_fifty_times(tmp_path: Path) -> None:
    kill_often(tmp_path, 50)


@pytest.mark.wide
def test_two_tuners_of_one_problem_share_the_work(tmp_path: Path) -> None:
    runs = [start(tmp_path, seed, 60, "right", "crash") for seed in (0, 1)]
    wait_until(lambda: timed(tmp_path) > 8)
    for run in runs:
        os.killpg(run.pid, signal.SIGINT)
    for run in runs:
        _, err = run.communicate(timeout=600)
        assert run.returncode == 0, err
    crashed = Counter(line for line in log_of(tmp_path) if line.endswith("crash"))
    assert set(crashed.values()) <= {1}
    configs = [config for _, config in rows(tmp_path).values()]
    assert len(set(configs)) == len(configs)
