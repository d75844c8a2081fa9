"""Compiling in a process that nobody waits for."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

from tcdsl.codegen.toolchain.aside import compile_aside
from tcdsl.codegen.toolchain.cc import find_compiler
from tcdsl.codegen.toolchain.objects import key_of, lookup
from tcdsl.codegen.toolchain.source import Source

pytestmark = pytest.mark.cc


def test_an_object_that_another_process_made_is_found(tmp_path: Path) -> None:
    (tmp_path / "seven.h").write_text("#define SEVEN 7\n")
    text = (
        '#include "seven.h"\n__attribute__((visibility("default"))) int f(void) { return SEVEN; }'
    )
    source = Source("aside", text, "-O1", ("-DX=1",), tmp_path)
    assert compile_aside(source) == ""
    path = lookup(key_of(source, find_compiler()))
    assert path is not None
    assert ctypes.CDLL(str(path)).f() == 7


def test_what_the_compiler_refuses_is_told() -> None:
    assert "the C compiler refused 'broken'" in compile_aside(Source("broken", "int f(void) {"))


def test_where_python_is_a_part_of_a_program_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert "'/nowhere/python' cannot be started" in compile_aside(Source("x", "int x;"))
    monkeypatch.setattr(sys, "executable", None)
    assert "does not know what started it" in compile_aside(Source("x", "int x;"))


def test_the_key_of_an_object_knows_language_and_libraries() -> None:
    compiler = find_compiler()
    made = {
        key_of(Source("x", "int x;", "-O1", compiler.flags, None, language, libraries), compiler)
        for language in ("c", "c++")
        for libraries in ((), ("-lm",))
    }
    assert len(made) == 4


def test_what_is_wrong_arrives_whatever_encoding_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    assert '"größe"' in compile_aside(Source("broken", 'int f(void) { return "größe" }'))


def test_a_signal_says_nothing_about_the_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    killed = tmp_path / "killed"
    killed.write_text("#!/bin/sh\nkill -9 $$\n")
    killed.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(killed))
    with pytest.raises(InterruptedError, match="signal ended its compilation: 9"):
        compile_aside(Source("fine", "int f(void) { return 1; }"))
