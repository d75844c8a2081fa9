"""The case is computed beside the first compilers, and holds up nobody who wants to stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from tcdsl.autotune import tuner
from tcdsl.autotune.measure import Measurement
from tcdsl.autotune.report import Silent
from tcdsl.autotune.search.budget import Budget
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.store.trial import UntunedError
from tcdsl.autotune.tuner import tune
from tcdsl.autotune.worker import process
from tcdsl.autotune.worker.aside import aside
from tcdsl.autotune.worker.case import Case
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.autotune.worker.runner import Runner
from tcdsl.codegen.reference.evaluator import AbandonedError, evaluate
from tcdsl.codegen.toolchain import cc
from tcdsl.codegen.toolchain.making import UnwantedError
from tcdsl.codegen.toolchain.objects import compile_many
from tcdsl.codegen.toolchain.ours import start
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import CompileError
from tcdsl.grammar.text.parser import parse
from tests.autotune.toy import Toy, config

pytestmark = pytest.mark.cc


class Waiting(Toy):
    """A toy whose case is there only after its first unit was compiled."""

    def build(
        self, sources: Sequence[Emitted], is_unwanted: Callable[[], bool]
    ) -> Path | CompileError:
        built = super().build(sources, is_unwanted)
        self.is_built.set()
        return built

    def __init__(self, is_built: threading.Event) -> None:
        super().__init__(turns=(0, 300, 3000))
        self.is_built = is_built

    def case(self) -> Case:
        assert self.is_built.wait(600), "nothing is compiled before the case is there"
        return super().case()


class Listener(Silent):
    """Notes what is told; a first word stops the run."""

    def __init__(self, budget: Budget) -> None:
        self.budget, self.told = budget, list[str]()

    def note(self, text: str) -> None:
        self.told.append(text)
        self.budget.stop()


def test_candidates_are_compiled_while_the_case_is_computed(tmp_path: Path) -> None:
    (tuned,) = tune([Waiting(threading.Event())], cache=tmp_path / "t.db", trials=3)
    assert tuned.config == config("right", 0)


def test_a_case_that_takes_longer_than_the_seconds_is_told_once_and_may_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_built = threading.Event()
    problem = Waiting(is_built)
    budget = Budget(8.0, clock=iter([0.0]).__next__)  # as it begins; it is over at once
    budget.clock = lambda: 8.5
    report = Listener(budget)
    monkeypatch.setattr(problem, "build", super(Waiting, problem).build)  # the case never comes
    monkeypatch.setattr(tuner, "Budget", lambda *_, **__: budget)
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Budget, "is_spent", property(lambda b: b.is_stopped))
            assert tune([problem], cache=tmp_path / "t.db", seconds=8, report=report) == []
    finally:
        is_built.set()
    (told,) = report.told
    assert "takes longer to compute than the 8 s given" in told
    with TuningStore(tmp_path / "t.db") as store:  # what was not run has not crashed
        assert {r.status for r in store.trials(problem.key)} <= {"proposed", "compiled"}


def test_a_case_that_takes_far_longer_than_the_seconds_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_built = threading.Event()
    problem = Waiting(is_built)
    monkeypatch.setattr(problem, "build", super(Waiting, problem).build)  # the case never comes
    long_ago = time.monotonic() - 15
    try:
        with pytest.raises(UntunedError, match="takes longer to compute than the 12 s given"):
            tune([problem], cache=tmp_path / "t.db", seconds=12, begun=long_ago)
    finally:
        is_built.set()


def test_what_the_case_cannot_be_is_told_to_who_waits_for_it() -> None:
    class Impossible(Toy):
        def case(self) -> Case:
            raise ValueError("no such thing")

    with Runner(Impossible(), Budget()) as runner:
        runner.prepare()
        with pytest.raises(ValueError, match="no such thing"):
            runner._worker()


def test_a_worker_that_ends_while_it_waits_for_the_case_is_replaced() -> None:
    with Runner(Toy(), Budget()) as runner:
        runner.prepare()
        assert runner._process is not None
        waiting = runner._process._process
        assert waiting is not None
        waiting.kill()
        os.waitid(os.P_PID, waiting.pid, os.WEXITED | os.WNOWAIT)
        assert runner._worker().generation == 2


def test_a_worker_that_is_interrupted_as_it_begins_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Runner(Toy(), Budget()) as runner:
        send, doomed = Connection.send_bytes, ["open"]

        def interrupt(connection: Connection, request: bytes) -> None:
            process = runner._process
            assert process is not None
            assert process._process is not None
            if doomed and json.loads(request)["do"] == doomed[0]:
                doomed.pop()
                process._process.send_signal(signal.SIGINT)
            send(connection, request)

        monkeypatch.setattr(Connection, "send_bytes", interrupt)
        assert runner._worker().generation == 2


def test_a_worker_that_is_interrupted_while_python_begins_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python says so and ends by status 1 then, not by the signal."""
    said = "import sys; print('KeyboardInterrupt', file=sys.stderr); sys.exit(1)"
    doomed = [said]

    def begun(*args: str, **how: Any) -> subprocess.Popen[bytes]:
        if doomed:
            return subprocess.Popen([sys.executable, "-c", doomed.pop()], **how)
        return start(*args, **how)

    monkeypatch.setattr(process, "start", begun)
    with Runner(Toy(), Budget()) as runner:
        assert runner._worker().generation == 2


def test_where_no_worker_can_begin_the_default_serves(tmp_path: Path) -> None:
    class Closed(Toy):
        @property
        def bench(self) -> dict[str, Any]:
            return {"open": "builtins:iter"}  # which wants no case

    with pytest.raises(UntunedError, match="'Case' object is not iterable") as raised:
        tune([Closed()], cache=tmp_path / "t.db", trials=1)
    assert "the process for them ended as it began" in str(raised.value)


def test_the_wait_for_what_is_made_once_is_no_pace_of_trials() -> None:
    budget = Budget(100.0, clock=lambda: 0.0)
    budget.note_once(50.0)
    budget.note(1, 52.0)
    assert budget.fitting(100) == int(0.8 * (100 - 1) / 2)


def test_a_run_waits_for_no_compiler_when_its_time_is_over(tmp_path: Path) -> None:
    now, is_called = [0.0], threading.Event()

    class Endless(Toy):
        def build(
            self, sources: Sequence[Emitted], is_unwanted: Callable[[], bool]
        ) -> Path | CompileError:
            if "+= 3000 +" in sources[0].text:  # the default
                return super().build(sources, is_unwanted)
            now[0] = 7.5
            is_called.set()
            end = time.monotonic() + 600
            while not is_unwanted():
                assert time.monotonic() < end, "nobody ends it"
            raise UnwantedError

    problem = Endless()
    budget = Budget(8.0, clock=lambda: now[0])
    with (
        TuningStore(tmp_path / "t.db") as store,
        Measurement(problem, store, budget, Silent()) as measure,
    ):
        assert [t.is_timed for t in measure(iter([problem.default]), "start")] == [True]
        assert measure(iter([config("right", 0)]), "late") == []
        (left,) = [r for r in store.trials(problem.key) if r.config != problem.default]
        assert left.status == "proposed"
    assert is_called.is_set()


def test_a_compiler_at_work_on_what_is_not_wanted_any_more_is_ended(tmp_path: Path) -> None:
    source = Source("long", f"int long_(void) {{ return 1; }} // {uuid4()}")
    endless = tmp_path / "cc"
    endless.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/begun\nexec sleep 600\n")
    endless.chmod(0o700)
    compiler = replace(cc.find_compiler(), command=(str(endless),))

    def is_unwanted() -> bool:
        return (tmp_path / "begun").exists()

    with pytest.raises(UnwantedError):
        compile_many([source], compiler, is_unwanted=is_unwanted)
    (path,) = compile_many([source])  # no lock is left
    assert isinstance(path, Path)


def test_what_the_answer_has_to_be_is_given_up_once_nobody_asks_for_it() -> None:
    text = "def most(float(N, K) A, float(K, M) B) -> (C) { C(n, m) max=! A(n, k) + B(k, m) }"
    checked = check(parse(text), "most")
    a = np.ones((64, 64), np.float32)
    over, asked = threading.Event(), threading.Event()

    def is_over() -> bool:
        asked.set()
        return over.wait(60)

    case = aside(lambda: evaluate(checked, [a, a], block_bytes=4096), is_over)
    assert asked.wait(60)
    assert not case.done()
    over.set()
    assert isinstance(case.exception(60), AbandonedError)


@pytest.mark.wide
def test_where_no_thread_can_be_started_a_run_does_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    (tuned,) = tune([Toy(turns=(0,))], cache=tmp_path / "t.db", trials=1)
    assert tuned.trials == 1
