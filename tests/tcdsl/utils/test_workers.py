"""Workers of a loader end when they shall, and what their sets raise ends nobody else."""

from __future__ import annotations

import multiprocessing.process
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tcdsl.utils import data

pytestmark = [
    pytest.mark.cc,
    pytest.mark.wide,
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


class OddError(Exception):
    """Does not come out of its pickle."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


class Raising(data.Dataset[Any]):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("error", "name"),
    [(SystemExit(0), "SystemExit"), (KeyboardInterrupt(), "KeyboardInterrupt"),
     (StopIteration(), "StopIteration"), (OddError("a", "b"), "OddError")],
)  # fmt: skip
def test_what_a_set_raises_is_an_error_of_the_caller(error: BaseException, name: str) -> None:
    loader = data.DataLoader(Raising(error), num_workers=1)
    with pytest.raises(RuntimeError, match=rf"Caught {name} in DataLoader worker process 0"):
        next(iter(loader))


PROGRAM = """
import os, signal, sys, time
from tcdsl.utils.data import DataLoader

class Samples:
    def __len__(self):
        return 100
    def __getitem__(self, i):
        with open(sys.argv[1] + f"/{os.getpid()}", "w"):
            pass
        if i == 3:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(1000)
        return i

batches = iter(DataLoader(Samples(), num_workers=2))
next(batches)
BODY
"""


def _program(body: str, folder: Path) -> subprocess.Popen[str]:
    text = PROGRAM.replace("BODY", body)
    command = [sys.executable, "-c", text, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _are_gone(folder: Path) -> bool:
    """Whether the workers end within a minute."""
    workers = [int(p.name) for p in folder.iterdir()]
    assert workers
    until = time.monotonic() + 60
    while any(_is_there(w) for w in workers):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _is_there(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_program_ends_though_a_worker_of_a_kept_iterator_hangs(tmp_path: Path) -> None:
    program = _program("", tmp_path)
    try:
        assert program.wait(60) == 0
    finally:
        program.kill()
        program.communicate()
    assert _are_gone(tmp_path)


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    program = _program("print('there', flush=True); time.sleep(1000)", tmp_path)
    assert program.stdout is not None
    assert program.stdout.readline() == "there\n"
    os.kill(program.pid, signal.SIGKILL)
    program.wait(60)
    assert _are_gone(tmp_path)
    program.stdout.close()


class Numbers(data.Dataset[Any]):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> int:
        return index


def test_a_forked_child_that_ends_leaves_the_workers_of_its_parent() -> None:
    batches = iter(data.DataLoader(Numbers(), num_workers=1))
    got = [next(batches).item()]
    child = os.fork()
    if not child:
        del batches
        os._exit(0)
    os.waitpid(child, 0)
    assert got + [b.item() for b in batches] == list(range(20))


def test_a_worker_that_cannot_be_started_is_told_with_the_cure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", refuse)
    with pytest.raises(
        RuntimeError, match=r"worker 0 cannot be started: .*num_workers=0 needs none"
    ):
        [*data.DataLoader(Numbers(), num_workers=2)]
