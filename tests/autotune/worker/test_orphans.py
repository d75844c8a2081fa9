"""What a killed tuner leaves behind ends: its workers, what candidates started, its folders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tcdsl.autotune.measure import Measurement
from tcdsl.autotune.report import Silent
from tcdsl.autotune.search.budget import Budget
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.worker.case_folder import new_case_folder
from tests.autotune.test_interrupts import log_of, start, wait_until, workers_of
from tests.autotune.toy import Toy, config

ROOT = Path(__file__).parents[3]


def group(leader: int) -> list[int]:
    """Return the processes of a group that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            state, _, number, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if int(number) == leader and state != "Z":
            found.append(int(entry.name))
    return found


@pytest.mark.cc
def test_what_a_candidate_has_started_ends_with_its_worker(tmp_path: Path) -> None:
    toy = Toy(("right", "children, crash"), (0, 3000))
    with (
        TuningStore(tmp_path / "t.db") as store,
        Measurement(toy, store, Budget(), Silent()) as measure,
    ):
        process = measure.runner._worker()._process
        assert process is not None
        assert len(group(process.pid)) == 2  # the worker, and who ends the group
        (trial,) = measure([config("children, crash", 0)], "start")
        assert trial.reason == "crash"
        wait_until(lambda: not group(process.pid))


@pytest.mark.cc
@pytest.mark.wide
@pytest.mark.skipif(sys.platform != "linux", reason="asks for Linux's signal at a parent's death")
def test_what_a_candidate_has_started_ends_with_a_killed_tuner(tmp_path: Path) -> None:
    run = start(tmp_path, 0, 60, "right", "children, hang")
    wait_until(lambda: any(line.endswith("hang") for line in log_of(tmp_path)))
    groups = workers_of(run.pid)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    wait_until(lambda: not any(map(group, groups)))


def test_the_folder_of_a_killed_tuner_goes_and_that_of_a_live_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path))
    code = (
        "from tcdsl.autotune.worker.case_folder import new_case_folder\n"
        "with new_case_folder() as room: print(room, flush=True); input()"
    )
    tuner = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=ROOT,
    )  # fmt: skip
    assert tuner.stdout is not None
    theirs = Path(tuner.stdout.readline().strip())
    (theirs / "data").touch()
    with new_case_folder() as mine:
        assert (theirs / "data").exists()
        tuner.kill()
        tuner.communicate()
        with new_case_folder():
            assert not theirs.exists()
            assert mine.exists()
    assert [*(tmp_path / "building").iterdir()] == []


def test_a_child_does_not_keep_the_folder_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path))
    with new_case_folder():
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
    try:
        with new_case_folder() as mine:
            assert [*(tmp_path / "building").iterdir()] == [mine]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
