"""`warm`: what calls will need is compiled before, by processes, and whatever fails is told."""

from __future__ import annotations

import io
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.ahead import worker
from tcdsl.ahead.progress import progress
from tcdsl.ahead.task import Task, Work
from tcdsl.grammar.text.errors import CompileError, ShapeError, TCTypeError
from tests.codegen.compiled import noted

pytestmark = pytest.mark.cc

TEXT = """
def lin(float(B,M) x, float(N,M) w) -> (y) { y(b, n) +=! x(b, m) * w(n, m) }
def twice<T, S=2>(T(N) a) -> (b) { b(i) = a(i) * S }
def count(int32(M) I) -> (int32(M) O) { O(i) = I(i) + 1 }
"""


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of what is compiled from here on."""
    return noted(monkeypatch)


def floats(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def test_calls_wait_for_no_compiler(own_cache: Path, no_compiler: list[str]) -> None:
    twice = tc.define_all(TEXT).twice
    (row,) = tc.warm(twice, {"N": 7}, quiet=True, jobs=1)
    assert (row.name, row.part, row.sizes, row.error) == ("twice", "kernel", {"N": 7}, "")
    again = tc.define_all(TEXT).twice
    for n in (7, 9):
        assert again(floats(n)).tolist() == [2] * n
    assert not no_compiler
    again(np.ones(7), S=3)  # of other types and generics nothing was said
    assert no_compiler


@pytest.mark.wide
def test_so_do_those_of_gradients(own_cache: Path, no_compiler: list[str]) -> None:
    kernels = tc.define_all(TEXT)
    rows = tc.warm(
        [kernels.lin, kernels.twice], {"B": [2, 3], "M": 4, "N": range(5, 6)}, grad=True, quiet=True
    )
    assert [row.label for row in rows] == [
        f"{name}{part} {sizes}"
        for name, sets in (("lin", ["B=2 M=4 N=5", "B=3 M=4 N=5"]), ("twice", ["N=5"]))
        for part in ("", " forward", " backward")
        for sizes in sets
    ]
    for b in (3, 2):
        lin, twice = (tc.define_all(TEXT)[n].with_grad() for n in ("lin", "twice"))
        y, pull = lin(floats(b, 4), floats(5, 4))
        assert (y == 4).all()
        assert (pull(y).d_w == 4 * b).all()
        assert twice(floats(5))[1](floats(5)).tolist() == [2] * 5
        lin(floats(b + 10, 4), floats(5, 4))[1](floats(b + 10, 5))  # any sizes
    assert not no_compiler


@pytest.mark.deep
def test_without_sizes_it_is_the_executable_for_any(
    own_cache: Path, no_compiler: list[str]
) -> None:
    text = "def add(float(...) A, float(...) B) -> (C) { C(...) = A(...) + B(...) }"
    add = tc.define(text)
    (row,) = tc.warm(add, quiet=True)
    assert (row.label, row.sizes) == ("add any sizes", None)
    add(floats(2, 3), floats(2, 3))
    add(floats(128, 100), floats(128, 100))
    assert not no_compiler
    (row,) = tc.warm(add, {"D0": 5}, quiet=True)
    assert row.label == "add D0=5"
    add(floats(5), floats(5))
    assert not no_compiler


@pytest.mark.wide
def test_what_fails_is_told_when_the_rest_is_compiled(own_cache: Path) -> None:
    kernels = tc.define_all(TEXT)
    with pytest.raises(CompileError) as caught:
        tc.warm(kernels, {"B": 2, "N": 3}, grad=True, quiet=True)
    told = "lin needs the sizes B, M, N; M is missing: B=...,M=...,N=..."
    assert str(caught.value).split("\n") == [
        "3 of 7 parts could not be compiled",  # those of count are no floats: it has no gradient
        *(f"lin{part} B=2 N=3: {told}" for part in ("", " forward", " backward")),
    ]
    assert any((Path(os.environ["TCDSL_CACHE"]) / "objects").rglob("twice*.so"))


@pytest.mark.deep
def test_expressions_may_be_deep_and_definitions_call_each_other(own_cache: Path) -> None:
    terms = " + ".join(["A(i)"] * 3000)
    text = f"""
      def half(float(N) A) -> (B) {{ B(i) = A(i) / 2 }}
      def deep(float(N) A) -> (B) {{
        C = half(A)
        B(i) = C(i) + {"(" * 150}A(i){")" * 150} + {terms}
      }}"""
    rows = tc.warm(tc.define_all(text), quiet=True)
    assert [row.error for row in rows] == ["", ""]


def test_slips_are_told_before_anything_is_compiled() -> None:
    kernels = tc.define_all(TEXT)
    with pytest.raises(ShapeError, match=r"^no kernel has a size 'Q'; it has B, M, N$"):
        tc.warm(kernels, {"Q": 2})
    with pytest.raises(TCTypeError, match=r"^no kernel has a generic 'R'; it has T, S$"):
        tc.warm(kernels, R=2)
    with pytest.raises(TCTypeError, match=r"^warm: expected kernels, got str$"):
        tc.warm([kernels.lin, "lin"])  # type: ignore[list-item]
    with pytest.raises(TCTypeError, match=r"^expected a size or sizes for 'B', got str$"):
        tc.warm(kernels, {"B": "2"})  # type: ignore[dict-item]
    with pytest.raises(ShapeError, match=r"^'B' names no size at all$"):
        tc.warm(kernels, {"B": []})
    assert tc.warm([], quiet=True) == ()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sizes": 5}, r"^expected sizes by name, or a list of such, got 5\n  as in "),
        ({"sizes": [5]}, r"^expected sizes by name, or a list of such, got \[5\]\n"),
        ({"sizes": {"N": [1.5]}}, r"^expected whole numbers for 'N', got 1\.5$"),
        ({"sizes": {"N": ["3"]}}, r"^expected whole numbers for 'N', got '3'$"),
        ({"sizes": {"N": [None]}}, r"^expected whole numbers for 'N', got None$"),
        ({"sizes": {"N": 10**5000}}, r"^'N' is a number of 16610 bits, at most 63 are taken$"),
        ({"sizes": {"N": range(1 << 60)}}, r"^'N' names more than 100,000 sizes"),
        (
            {"sizes": {"N": range(1000), "M": range(1000)}},
            r"^these are 1,000,000 combinations of sizes, at most 100,000 at a time$",
        ),
        ({"jobs": 0}, r"^jobs is 0; expected an int from 1 on, or None"),
        ({"jobs": -3}, r"^jobs is -3; expected"),
        ({"jobs": "2"}, r"^jobs is '2'; expected"),
        ({"wrt": 5}, r"^warm: wrt: expected names of parameters, got 5$"),
        ({"kernels": 5}, r"^warm: expected kernels, got int$"),
    ],
)
def test_what_is_no_size_or_number_is_refused(options: dict[str, Any], told: str) -> None:
    kernel = tc.define("def inc(float(N) A) -> (B) { B(i) = A(N - 1 - i) + 1 }")
    with pytest.raises((ShapeError, TCTypeError), match=told):
        tc.warm(**{"kernels": kernel, "sizes": {"N": 3}, "quiet": True, **options})


class _Bomb:
    """Ends the process that reads it."""

    def __reduce__(self) -> Any:
        return os._exit, (3,)


def _task(sizes: int | None = None) -> Task:
    kernel = tc.define("def inc(float(N) A) -> (B) { B(i) = A(N - 1 - i) + 1 }")
    assert isinstance(kernel, tc.Kernel)
    return Task(Work.of(kernel, {}), "kernel", None if sizes is None else (("N", sizes),))


@pytest.mark.deep
def test_a_process_that_dies_costs_its_task_alone() -> None:
    tasks: list[Any] = [_Bomb(), _task(), _Bomb(), _task(3)]
    errors = {done.index: done.error for done in worker.run_all(tasks, 1)}
    died = "the process that compiled it ended with exit code 3"
    assert errors == {0: died, 1: "", 2: died, 3: ""}


@pytest.mark.deep
@pytest.mark.parametrize("is_full_at_the_end", [False, True])
def test_what_no_later_call_would_find_is_not_called_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_full_at_the_end: bool
) -> None:
    folder = tmp_path / "cache"
    monkeypatch.setenv("TCDSL_CACHE", str(folder))
    if is_full_at_the_end:
        kept = iter([True, False])
        monkeypatch.setattr(worker, "is_lasting", lambda: next(kept))
        monkeypatch.setattr(worker, "run", lambda task: None)
    else:
        folder.touch()
    told = worker._answer(_task(3))
    assert told.startswith(f"the cache folder '{folder}' cannot keep it: ")


def _threads() -> list[str]:
    """Return what threads there are, but for those that passes share."""
    return sorted(t.name for t in threading.enumerate() if t.name != "tcdsl passes")


def test_whoever_stops_listening_ends_the_processes(own_cache: Path) -> None:
    started: list[Any] = []
    popen = subprocess.Popen
    before = _threads()

    class Noted(popen):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            started.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", Noted)
        patch.setattr(
            worker, "_GRACE_S", 120.0
        )  # a busy machine: one that is killed tidies nothing
        running = worker.run_all([_task(n) for n in range(1, 30)], 2)
        assert next(running).error == ""
        with pytest.raises(KeyboardInterrupt):
            running.throw(KeyboardInterrupt)
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)
    assert _threads() == before
    cache = Path(os.environ["TCDSL_CACHE"])
    assert len(list((cache / "objects").rglob("inc*.so"))) >= 2, "what is compiled is kept"
    # The library of products, begun by the first compile on a machine, is ended by nobody.
    assert not list((cache / "building").rglob("*inc*"))


def test_a_worker_that_is_stopped_before_it_is_there_says_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Ctrl-C would be a traceback of whatever it is importing."""
    member = worker._Member(queue.SimpleQueue(), queue.SimpleQueue())
    member._start()
    process = member._process
    assert process is not None
    member.stop()
    member._end()
    assert process.returncode == -signal.SIGTERM
    assert capfd.readouterr().err == ""


def test_an_interpreter_that_cannot_be_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(CompileError, match=r"^'/nowhere/python' cannot be started: No such file"):
        tc.warm(tc.define_all(TEXT).twice, quiet=True)


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = {}
    for stream in (io.StringIO(), Terminal()):
        with progress(2, stream=stream) as told:
            told.show(1, 0, "one N=3")
            told.show(2, 1, "two")
        shown[type(stream)] = stream.getvalue()
    assert shown[io.StringIO] == "2 of 2 compiled, 1 failed\n"
    assert "1 failed, two" in shown[Terminal]
    stream = io.StringIO()
    told = progress(3, stream=stream)
    told.show(1, 0, "one")
    told.__exit__(KeyboardInterrupt)
    assert stream.getvalue() == "1 of 3 compiled, which are kept\n"
    with progress(2, quiet=True, stream=io.StringIO()) as told:
        told.show(1, 0, "one")
