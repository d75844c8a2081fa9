"""A compiler that is started before its text is there compiles that text, or leaves nothing."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.toolchain import early
from tcdsl.codegen.toolchain.cachedir import subfolder
from tcdsl.codegen.toolchain.cc import find_compiler
from tcdsl.codegen.toolchain.objects import compile_many, compile_source
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import CompileError

pytestmark = pytest.mark.cc
RIGHT = '#include "prelude.h"\nTC_EXPORT tc_i32 f(tc_i32 x) { return tc_min_i32(x, 3); }\n'
WITH_LIBM = '#include "prelude.h"\nTC_EXPORT double f(double x) { return __builtin_tgamma(x); }\n'
WRONG = '#include "prelude.h"\n\nTC_EXPORT tc_i32 f(tc_i32 x) { return y; }\n'


@pytest.fixture(autouse=True)
def _own(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Source("f", "").is_bare(find_compiler()):
        pytest.skip("it is of gcc on Linux")
    monkeypatch.setattr(early, "usable_cores", lambda: 2)


def started() -> early.Early:
    """Return the compiler that waits."""
    early.begin()
    found = early._here.waiting
    assert found is not None
    assert not found.started.command.finished()
    return found


def left() -> list[Path]:
    return [*subfolder("building").iterdir()]


@pytest.mark.parametrize("text", [RIGHT, WITH_LIBM])
def test_the_object_is_the_same_to_the_byte(text: str, tmp_path: Path) -> None:
    """Of what needs libm another one is started: a linker is told before."""
    usual = compile_source(Source("f", text)).read_bytes()
    for path in subfolder("objects").rglob("*.so"):
        path.unlink()
    with early.wanted("f"):
        waiting = started()
        found = compile_source(Source("f", text))
        assert early._here.waiting is None
    assert found.read_bytes() == usual
    assert (waiting.started.command.status == 0) == (text == RIGHT)
    assert left() == []


def test_an_error_names_the_lines_of_the_text() -> None:
    (plain,) = compile_many([Source("f", WRONG)])
    with early.wanted("f"):
        started()
        (found,) = compile_many([Source("f", WRONG)])
    assert isinstance(found, CompileError)
    assert isinstance(plain, CompileError)
    assert "f.c:3:" in str(found)
    assert str(found).splitlines()[-3:] == str(plain).splitlines()[-3:]
    assert left() == []


def test_what_reads_a_text_twice_compiles_it_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As programs do that keep objects of a compiler: there is nothing in the pipe any more."""
    found = find_compiler()
    twice = tmp_path / "twice"
    words = " ".join(found.command)
    twice.write_text(f'#!/bin/sh\n{words} -E "$@" > {tmp_path}/read && exec {words} "$@"\n')
    twice.chmod(0o700)
    compiler = replace(found, command=(str(twice),))
    monkeypatch.setattr(early, "find_compiler", lambda: compiler)
    with early.wanted("f"):
        waiting = started()
        path = compile_source(Source("f", RIGHT), compiler)
    assert waiting.started.command.status == 1
    assert ctypes.CDLL(str(path)).f(7) == 3
    assert left() == []


@pytest.mark.parametrize(
    "other", [Source("g", RIGHT), Source("f", RIGHT, "-O1"), Source("f", RIGHT, flags=("-g0",))]
)
def test_what_it_does_not_fit_is_compiled_by_another_one(other: Source) -> None:
    with early.wanted("f"):
        waiting = started()
        assert compile_source(other).exists()
        assert early._here.waiting is waiting
    assert waiting.started.command.status == -signal.SIGKILL
    assert left() == []


def test_none_is_started_unless_one_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    early.begin()
    assert early._here.waiting is None
    monkeypatch.setattr(early, "usable_cores", lambda: 1)
    with early.wanted("f"):
        early.begin()
        assert early._here.waiting is None


def test_a_new_kernel_takes_it_and_a_size_that_is_known_starts_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[early.Early] = []
    give = early.Early.give

    def noted(self: early.Early, text: str) -> None:
        taken.append(self)
        give(self, text)

    monkeypatch.setattr(early.Early, "give", noted)
    k = tc.define("def f(float(N) A) -> (B) { B(i) +=! A(j) * (i + j) where i in 0:N }")
    for size in (3, 4):
        assert k(np.ones(size, np.float32)).shape == (size,)
    assert taken
    monkeypatch.setattr(early.Early, "__init__", lambda *_: pytest.fail("it is there"))
    for size in (3, 5):
        assert k(np.ones(size, np.float32)).shape == (size,)
    assert left() == []


def test_it_ends_with_whoever_has_started_it() -> None:
    """Killed, a process closes no pipe itself."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with early.wanted("f"):
            early.begin()
            waiting = early._here.waiting
            assert waiting is not None
            os.write(writing, b"%d " % waiting.started.command.number)
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    number = int(os.read(reading, 32))
    os.close(reading)
    os.close(writing)
    for _ in range(3000):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":  # nobody has asked how it ended: this process has not started it
            return
        time.sleep(0.02)
    pytest.fail("it still waits")


def test_a_forked_child_holds_no_pipe_open() -> None:
    with early.wanted("f"):
        waiting = started()
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        try:
            assert compile_source(Source("f", RIGHT)).exists()
            assert waiting.started.command.status == 0
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
