"""Finding a C compiler, and one run of it."""

from __future__ import annotations

import ctypes
import dataclasses
import math
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tcdsl.codegen.toolchain import cachedir, cc, command, running, starting
from tcdsl.codegen.toolchain.cc import find_compiler, probe
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import CompileError, TCError
from tests.codegen.compiled import compiled
from tests.tiers import sampled

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
@sampled("makes", [False, True], keep=1)
def test_the_ziglang_wheel_serves_where_the_path_has_none(
    makes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("TCDSL_CC", raising=False)
    compiler = find_compiler()
    assert compiler.kind == "zig"
    if makes:  # the first object takes seconds: zig compiles a library of its own for it
        assert ctypes.CDLL(str(compiled(compiler, SEVEN, tmp_path))).seven() == 7


@pytest.mark.cc
def test_tcdsl_cc_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = find_compiler().command[0]
    mine = fake_compiler(tmp_path, "mine", f'exec {real} "$@"')
    monkeypatch.setenv("TCDSL_CC", f"{mine} -DEXTRA")
    assert find_compiler().command == (str(mine), "-DEXTRA")


def test_no_compiler_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path / "cache"))  # nor was there one before
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


def test_an_answer_that_is_no_text_is_refused_as_one(tmp_path: Path) -> None:
    noisy = fake_compiler(tmp_path, "gcc", r"printf '\377\376\033[2J\n' | tee /dev/stderr; exit 1")
    with pytest.raises(CompileError, match="is no C compiler that works") as caught:
        probe((str(noisy),))
    assert "\033" not in str(caught.value)  # nor does it do anything to a terminal
    noisy = fake_compiler(tmp_path, "cc", r"printf '\377\376\000\n'")
    with pytest.raises(CompileError, match="is gcc 0"):
        probe((str(noisy),))


@pytest.mark.parametrize("command", ["'", "/no/such/cc", '"a b" -x'])
def test_a_command_that_is_none_is_refused_with_the_name_of_its_setting(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCDSL_CC", command)
    with pytest.raises(CompileError, match="note: TCDSL_CC is ") as caught:
        find_compiler()
    assert command in str(caught.value)


@pytest.mark.cc
def test_an_empty_setting_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TCDSL_CC", raising=False)
    found = find_compiler()
    monkeypatch.setenv("TCDSL_CC", "  ")
    assert find_compiler() == found


@pytest.mark.cc
@pytest.mark.parametrize("body", ["", "mkdir", ": >"])
def test_a_compiler_that_writes_no_object_is_told_from_one_that_does(
    body: str, tmp_path: Path
) -> None:
    silent = fake_compiler(tmp_path, "silent", f"{body} {tmp_path}/object.so" if body else "")
    with pytest.raises(CompileError, match="it wrote no object"):
        compiled(dataclasses.replace(find_compiler(), command=(str(silent),)), SEVEN, tmp_path)


@pytest.mark.cc
def test_a_compiler_is_asked_once_for_all_processes(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    real = find_compiler().command[0]
    counted = fake_compiler(tmp_path, "counted", f'echo x >> {asked}; exec {real} "$@"')
    first = probe((str(counted),))
    before = asked.read_text()
    assert probe((str(counted),)) == first
    assert asked.read_text() == before


@pytest.mark.cc
def test_flags_of_others_in_what_is_known_of_compilers_are_not_used(tmp_path: Path) -> None:
    real = find_compiler().command[0]
    mine = fake_compiler(tmp_path, "mine", f'exec {real} "$@"')
    usual = probe((str(mine),)).flags
    known = cachedir.read_json("compilers.json")
    (identity,) = (key for key, entry in known.items() if entry["command"] == [str(mine)])
    more = [*usual, "-fplugin=/tmp/other.so"]
    cachedir.update_json("compilers.json", {identity: known[identity] | {"flags": more}})
    assert probe((str(mine),)).flags == usual


@pytest.mark.parametrize(
    ("arch", "tune", "named", "flag"),
    [
        ("cooperlake", "generic", "", ["-mtune=cooperlake"]),
        ("cooperlake", "cooperlake", "__tune_cooperlake__", []),
        ("x86-64-v4", "generic", "", []),
    ],
)
def test_a_processor_newer_than_gcc_is_tuned_for_as_the_one_it_resembles(
    arch: str, tune: str, named: str, flag: list[str], tmp_path: Path
) -> None:
    macros = ["__GNUC__ 12", "__x86_64__ 1", *([f"{named} 1"] if named else [])]
    lines = {"--help=target": [f"  -march= {arch}", f"  -mtune= {tune}"]}
    lines["-dM"] = [f"#define {macro}" for macro in macros]
    cases = [f"*{w}*) " + "; ".join(f"echo '{x}'" for x in said) for w, said in lines.items()]
    body = f'case "$*" in {";; ".join(cases)};; esac'
    found = probe((str(fake_compiler(tmp_path, "newer", body)),))
    assert [f for f in found.flags if f.startswith("-mtune")] == flag


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


@pytest.mark.parametrize("opt", ["-O1", "-Og", "-O3"])
def test_upper_halves_of_registers_are_not_left_in_use(opt: str, tmp_path: Path) -> None:
    """The core copies structures by them; functions of libm then are 30 times slower on Intel's."""
    compiler = find_compiler()
    source, made = tmp_path / "copy.c", tmp_path / "copy.s"
    source.write_text(
        "typedef struct { double part[16]; } all;\nvoid copy(all *x, const all *y) { *x = *y; }\n"
    )
    flags = [opt, *compiler.flags, "-S", "-o", str(made)]
    subprocess.run([*compiler.command, *flags, str(source)], check=True)
    text = made.read_text()
    assert ("ymm" in text or "zmm" in text) == ("vzeroupper" in text)


def test_the_environment_is_passed_on(tmp_path: Path) -> None:
    assert cc.environment(tmp_path)["PATH"] == os.environ["PATH"]


@pytest.mark.cc
def test_a_text_without_headers_is_linked_with_nothing_that_a_program_needs_to_start(
    tmp_path: Path,
) -> None:
    """But finds libm, and what gcc calls for itself."""
    text = """double of(double x, float *a, int n) {
      for (int i = 0; i < n; i++) a[i] = 0;
      return __builtin_fmod(x, 3) + __builtin_lgamma(x);
    }"""
    found = find_compiler()
    source = Source("bare", text, flags=("-fvisibility=default",))
    has_flags = any(word.startswith("-") for word in found.command)
    is_bare = found.kind == "gcc" and sys.platform == "linux" and not has_flags
    assert ("-nostdlib" in source.all_flags(found)) is is_bare
    zeros = (ctypes.c_float * 1000)(*[1] * 1000)
    function = ctypes.CDLL(str(compiled(found, source, tmp_path))).of
    function.restype, function.argtypes = (
        ctypes.c_double,
        [ctypes.c_double, ctypes.c_void_p, ctypes.c_int],
    )
    assert function(7.0, ctypes.addressof(zeros), 1000) == pytest.approx(1 + math.lgamma(7))
    assert not any(zeros)
    own = dataclasses.replace(found, command=(*found.command, "-fsanitize=address"))
    assert "-nostdlib" not in source.all_flags(own)
    assert "-nostdlib" not in Source("c++", text, language="c++").all_flags(found)


@pytest.mark.cc
@pytest.mark.parametrize("has_handles", [True, False])
def test_who_waits_for_compilers_hears_of_the_first_that_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_handles: bool
) -> None:
    if not has_handles:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    slow = fake_compiler(tmp_path, "slow", f"read x < {gate}")
    quick = fake_compiler(tmp_path, "quick", "exit 0")
    found = find_compiler()
    runs = []
    for path in (slow, quick):
        folder = tmp_path / f"of {path.name}"
        folder.mkdir()
        runs.append(running.Run(dataclasses.replace(found, command=(str(path),)), SEVEN, folder))
    while not any(run.finished() for run in runs):
        running.wait_for_any(runs, 60)
    assert [run.finished() for run in runs] == [False, True]
    runs[0].kill()


def test_a_command_is_ended_with_what_it_started_when_it_takes_or_prints_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "MOST_PRINTED", 1 << 20)
    monkeypatch.setattr(cc, "_ASKED_S", 0.2)
    monkeypatch.setattr(starting, "LONGEST_S", 0.2)
    child = f"sleep 600 & echo $! > {tmp_path}/child"
    found = dataclasses.replace(cc.probe(("cc",)))
    for body, why in (
        (f"{child}; wait", "it had not ended after 0.2 s"),
        (f"{child}; yes", "it printed more than 1 MB"),
        (f"{child}; exit 1", "no C compiler that works: status 1"),
    ):
        bad = fake_compiler(tmp_path, "bad", body)
        with pytest.raises(CompileError, match=why):
            probe((str(bad),))
        assert has_ended(int((tmp_path / "child").read_text()))
        if why.startswith("it"):
            with pytest.raises(CompileError, match=why):
                compiled(dataclasses.replace(found, command=(str(bad),)), SEVEN, tmp_path)
            assert has_ended(int((tmp_path / "child").read_text()))


def test_where_a_limit_of_the_process_ends_a_compiler_that_is_told(tmp_path: Path) -> None:
    short = fake_compiler(
        tmp_path, "cc", "echo 'cc: vfork: Resource temporarily unavailable' >&2; exit 1"
    )
    with pytest.raises(CompileError, match="ulimit -u"):
        probe((str(short),))


def has_ended(pid: int) -> bool:
    """Whether a process that was killed goes: it may be left to be waited for."""
    for _ in range(1000):
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False
