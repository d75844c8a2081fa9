"""The second sizes of a contraction wait for no executable that takes all sizes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls.bindings import aside, meanwhile, variant
from tcdsl.calls.bindings.aside import Aside
from tcdsl.codegen.choose import compiler, forms
from tcdsl.codegen.library import functions
from tcdsl.codegen.runtime import Entry
from tcdsl.codegen.toolchain import making
from tcdsl.codegen.toolchain.cachedir import cache_dir
from tcdsl.tools.doctor import _caches

pytestmark = pytest.mark.cc

PLAIN = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
# its sums are short and have an epilogue: the executable for all sizes has all tiles itself
MM = PLAIN.replace(" }", "  C(m, n) = fmax(C(m, n), 0) }")
PRIME = variant.Variant._prime


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the programs that this process compiles from here on, in a cache of its own."""
    assert isinstance(Entry, type), "the launcher is compiled before"
    monkeypatch.setattr(meanwhile, "MEANWHILE", 1)
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(functions, "_loaded", {})
    monkeypatch.setattr(variant.Variant, "_prime", lambda *_: None)
    monkeypatch.setattr(meanwhile, "LONG_FORMS", {"contraction"})
    names: list[str] = []
    begin = making._begin

    def noted(compiler: Any, source: Any, key: str) -> Any:
        if not source.name.startswith("tc_"):  # of the library
            names.append(source.name)
        return begin(compiler, source, key)

    monkeypatch.setattr(making, "_begin", noted)
    return names


@pytest.fixture
def primed(begun: list[str], monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, str]]:
    """Return what processes for the library would be given, which are not started."""
    started: list[tuple[Any, str]] = []
    monkeypatch.setattr(variant.Variant, "_prime", PRIME)
    monkeypatch.setattr(meanwhile, "_primed", set())
    monkeypatch.setattr(
        meanwhile, "Aside", lambda task, name, module: started.append((json.loads(task), module))
    )
    return started


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a builder that is busy: what is to be built aside waits."""

    class Busy(aside.Queue):
        def put(self, one: Aside) -> None:
            pass

    monkeypatch.setattr(aside, "_queue", Busy())


def call(mm: Any, m: int) -> None:
    a, b = np.full((m, 6), m, np.float32), np.ones((6, 9), np.float32)
    np.testing.assert_array_equal(mm(a, b), np.full((m, 9), 6 * m))


def kinds(kernel: Any) -> list[str]:
    """Return for which sizes the executables so far are."""
    return ["all" if c.spec.sizes is None else "own" for c in kernel.variant().executables]


def test_sizes_that_an_earlier_process_has_met_compile_nothing(begun: list[str]) -> None:
    call(tc.define(PLAIN), 4)
    mm = tc.define(PLAIN)
    call(mm, 5)
    before = len(begun)
    call(mm, 4)
    assert len(begun) == before


def test_the_second_sizes_have_an_executable_of_their_own(begun: list[str], busy: None) -> None:
    mm = tc.define(MM)
    call(mm, 5)
    call(mm, 7)
    assert kinds(mm) == ["own", "own"]
    assert begun == ["mm", "mm"]
    call(mm, 5)
    call(mm, 7)
    assert begun == ["mm", "mm"]


def test_a_window_of_one_has_its_own_while_that_which_slides_is_built(
    begun: list[str], busy: None
) -> None:
    conv = tc.define(
        "def conv(float(C,H,W) I, float(F,C,KH,KW) K) -> (O) {"  # no images to leave open
        " O(f, y, x) +=! I(c, 2 * y + i, 2 * x + j) * K(f, c, i, j)"
        " where y in 0:(H - KH) / 2 + 1, x in 0:(W - KW) / 2 + 1 }"
    )
    for channels in (16, 32):
        image = np.ones((channels, 5, 5), np.float32)
        weights = np.ones((16, channels, 1, 1), np.float32)
        np.testing.assert_array_equal(conv(image, weights), np.full((16, 3, 3), channels))
    assert kinds(conv) == ["own", "own"]
    assert begun == ["conv", "conv"]


@pytest.mark.deep
def test_so_many_sizes_have_their_own_whether_or_not_that_for_all_is_there(
    begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meanwhile, "MEANWHILE", 3)
    mm = tc.define(MM)
    for m in (5, 7):
        call(mm, m)
    (one,) = mm.variant()._asides.values()
    aside.settle()
    assert one.aside._done.is_set()
    for m in (6, 7, 8):
        call(mm, m)
    assert kinds(mm) == ["own"] * 4
    mm.variant().forget_choices()
    for m in (5, 7, 6, 8, 4):
        call(mm, m)
    assert kinds(mm) == [*["own"] * 4, "all"]
    assert begun == ["mm"] * 4


@pytest.mark.wide
def test_later_sizes_and_processes_have_what_was_built_meanwhile(begun: list[str]) -> None:
    mm = tc.define(MM)
    for m in (5, 7):
        call(mm, m)
    (one,) = mm.variant()._asides.values()
    one.aside._done.wait()
    for m in (6, 7, 5, 6):
        call(mm, m)
    assert kinds(mm) == ["own", "own", "all"]
    assert begun == ["mm", "mm"], "another process compiled the third"
    again = tc.define(MM)
    call(again, 5)
    call(again, 6)
    assert kinds(again) == ["own", "all"]
    assert begun == ["mm", "mm"]


def library_of(kernel: Any) -> tuple[str, ...]:
    variant = kernel.variant()
    return compiler.library_of(variant.program, variant.machine)


@pytest.mark.wide
def test_second_sizes_that_call_the_library_bring_the_one_for_all(
    begun: list[str], busy: None
) -> None:
    mm = tc.define(PLAIN)
    for m in (5, 7, 9, 5):
        call(mm, m)
    assert kinds(mm) == ["own", "all"]
    assert begun == ["mm", "mm"]


def test_what_second_sizes_will_import_is_compiled_aside_once(
    primed: list[tuple[Any, str]],
) -> None:
    first, second = (tc.define(PLAIN.replace("mm", name)) for name in ("mm", "nn"))
    call(first, 5)
    call(second, 5)
    assert primed == [([*library_of(first)], aside.LIBRARY)]


@pytest.mark.deep
def test_a_library_that_is_there_is_not_compiled(primed: list[tuple[Any, str]]) -> None:
    mm = tc.define(PLAIN)
    functions.addresses(library_of(mm))
    call(mm, 5)
    assert primed == []


@pytest.mark.deep
def test_the_process_aside_leaves_the_library(begun: list[str]) -> None:
    names = library_of(tc.define(PLAIN))
    one = Aside(json.dumps(names).encode(), "mm", aside.LIBRARY)
    one._done.wait()
    assert functions.missing(names) == []
    assert aside.last_failure() == ""


@pytest.mark.wide
def test_what_has_not_begun_is_waited_for_by_nobody(begun: list[str], busy: None) -> None:
    mm = tc.define(MM)
    for m in (5, 7, 6, 4):
        call(mm, m)
    assert kinds(mm) == ["own", "own", "all"]
    assert begun == ["mm"] * 3


@pytest.mark.deep
def test_where_no_process_can_be_started_the_third_sizes_compile(
    begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for executable in (None, "/nowhere/python"):
        monkeypatch.setattr(sys, "executable", executable)
        mm = tc.define(MM.replace("mm", f"mm{len(begun)}"))
        for m in (5, 7, 6):
            call(mm, m)
        assert kinds(mm) == ["own", "own", "all"]
    assert len(begun) == 6


@pytest.mark.wide
def test_what_compiles_soon_is_not_built_aside(begun: list[str], busy: None) -> None:
    sums: Any = tc.define("def sums(float(M,N) A) -> (B) { B(i) +=! A(i, j) }")
    for n in (5, 7, 6):
        assert sums(np.ones((2, n), np.float32)).tolist() == [n, n]
    assert kinds(sums) == ["own", "all"]


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_builds_its_own(begun: list[str], busy: None) -> None:
    mm = tc.define(MM)
    call(mm, 5)
    call(mm, 7)
    child = os.fork()
    if child == 0:
        failed = 1
        try:
            call(mm, 6)
            call(mm, 7)
            failed = kinds(mm) != ["own", "own", "all"]
        finally:
            os._exit(int(failed))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.wide
def test_forms_with_many_tiles_take_long() -> None:
    """Tests see none of them (conftest.py), users all."""
    code = "from tcdsl.calls.bindings import meanwhile; print(*sorted(meanwhile.LONG_FORMS))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    tiled = {form.name for form in forms.CPU if form.has_tiles}
    # Of a chain that for all sizes has the tiles of products, or those of a chain: few either way.
    # What slides is of unknown sizes alone: it says nothing of executables of sizes' own.
    assert {*done.stdout.split()} == tiled - {"chain", "sliding", "sliding_weights"}


@pytest.mark.deep
def test_why_the_last_one_was_not_built_is_kept_until_one_is(begun: list[str]) -> None:
    assert aside.last_failure() == ""
    one = Aside(b"no task at all", "mm")
    one._done.wait()
    one.wait()
    said = aside.last_failure()
    assert said.startswith("mm: ")
    assert "UnpicklingError" in said
    (told,) = (f for f in _caches() if f.name == "built aside")
    assert told.state == "note"
    assert said in told.value
    mm = tc.define(MM)
    for m in (5, 7):
        call(mm, m)
    (another,) = mm.variant()._asides.values()
    another.aside._done.wait()
    assert aside.last_failure() == ""
    assert all(f.name != "built aside" for f in _caches())


def test_what_is_kept_of_a_failure_is_no_more_than_text(tmp_path: Path, begun: list[str]) -> None:
    for content in ("[]", '{"failed": 7}', '{"failed": ["x"]}', "{", "\0"):
        (cache_dir() / "aside.json").write_text(content)
        assert aside.last_failure() == ""
