"""Finding a C compiler, and one run of it."""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from pathlib import Path

import pytest

from tcdsl.codegen.toolchain import cc
from tcdsl.codegen.toolchain.cc import Source, find_compiler, probe
from tcdsl.grammar.text.errors import CompileError, TCError
from tests.codegen.compiled import compiled

SEVEN = Source("seven", "int seven(void) { return 7; }\n", flags=("-fvisibility=default",))


def fake_compiler(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.cc
def test_the_compiler_on_the_path_makes_a_shared_object(tmp_path: Path) -> None:
    library = ctypes.CDLL(str(compiled(find_compiler(), SEVEN, tmp_path)))
    assert library.seven() == 7


@pytest.mark.zig
def test_the_ziglang_wheel_serves_where_the_path_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("TCDSL_CC", raising=False)
    compiler = find_compiler()
    assert compiler.kind == "zig"
    assert ctypes.CDLL(str(compiled(compiler, SEVEN, tmp_path))).seven() == 7


@pytest.mark.cc
def test_tcdsl_cc_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = find_compiler().command[0]
    mine = fake_compiler(tmp_path, "mine", f'exec {real} "$@"')
    monkeypatch.setenv("TCDSL_CC", f"{mine} -DEXTRA")
    assert find_compiler().command == (str(mine), "-DEXTRA")


def test_no_compiler_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("TCDSL_CC", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    cc._find.cache_clear()
    try:
        with pytest.raises(CompileError, match=r'pip install "tcdsl\[zig\]"') as caught:
            find_compiler()
    finally:
        cc._find.cache_clear()
    assert isinstance(caught.value, TCError)
    assert isinstance(caught.value, RuntimeError)


def test_an_old_compiler_is_refused_by_version(tmp_path: Path) -> None:
    old = fake_compiler(tmp_path, "gcc", "echo '#define __GNUC__ 9'")
    with pytest.raises(CompileError, match="is gcc 9; version 12 or newer is needed"):
        probe((str(old),))


def test_a_command_that_fails_is_refused_with_its_message(tmp_path: Path) -> None:
    broken = fake_compiler(tmp_path, "gcc", "echo 'no licence' >&2; exit 1")
    with pytest.raises(CompileError, match="no licence"):
        probe((str(broken),))


@pytest.mark.cc
def test_a_compiler_is_asked_once_for_all_processes(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    real = find_compiler().command[0]
    counted = fake_compiler(tmp_path, "counted", f'echo x >> {asked}; exec {real} "$@"')
    first = probe((str(counted),))
    assert probe((str(counted),)) == first
    assert asked.read_text() == "x\n"


@pytest.mark.cc
def test_an_error_shows_the_log_and_the_numbered_lines(tmp_path: Path) -> None:
    text = "int f(void) {\n  int a = 1;\n  return b;\n}\n"
    with pytest.raises(CompileError) as caught:
        compiled(find_compiler(), Source("broken", text), tmp_path)
    message = str(caught.value)
    assert "the C compiler refused 'broken'" in message
    assert ">    3 |   return b;" in message
    assert "     2 |   int a = 1;" in message


@pytest.mark.cc
def test_a_function_that_is_not_declared_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="implicit declaration"):
        compiled(find_compiler(), Source("f", "int f(void) { return g(); }\n"), tmp_path)


@pytest.mark.cc
def test_the_report_names_the_compiler_or_why_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert cc.report()["version"] == find_compiler().version
    monkeypatch.setenv("TCDSL_CC", "/no/such/cc")
    assert "/no/such/cc" in cc.report()["error"]


@pytest.mark.cc
def test_floating_point_state_is_left_alone(tmp_path: Path) -> None:
    """-ffast-math would link code that flushes the denormals of the process."""
    ctypes.CDLL(str(compiled(find_compiler(), SEVEN, tmp_path)))
    assert sys.float_info.min / 2 > 0


def test_the_environment_is_passed_on(tmp_path: Path) -> None:
    assert cc._environment(tmp_path)["PATH"] == os.environ["PATH"]
