"""Work that nobody waits for is done once a compiler is at work, or at the end."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls.bindings import meanwhile
from tcdsl.codegen.library import functions
from tcdsl.codegen.toolchain import early, records, running, spare
from tcdsl.codegen.toolchain.objects import compile_source
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.garbage import OBJECTS

TEXT = '#include "prelude.h"\nTC_EXPORT tc_i32 f(tc_i32 x) { return tc_min_i32(x, 3); }\n'


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what says when a compiler gets a text."""
    told: list[str] = []
    begin = running.Run.__init__

    def noted(self: running.Run, *args: object) -> None:
        begin(self, *args)  # type: ignore[arg-type]  # as it was called
        told.append("compiler")

    monkeypatch.setattr(running.Run, "__init__", noted)
    return told


def test_it_is_done_at_once_where_nobody_holds_it(told: list[str]) -> None:
    spare.later(lambda: told.append("work"))
    assert told == ["work"]


def test_it_is_done_in_its_order_at_the_end_unless_an_error_ends_it(told: list[str]) -> None:
    with spare.held():
        with spare.held():
            spare.later(lambda: told.append("first"))
            spare.later(lambda: told.append("second"))
        assert told == []
    assert told == ["first", "second"]
    with contextlib.suppress(ValueError), spare.held():
        spare.later(lambda: told.append("third"))
        raise ValueError
    spare.later(lambda: told.append("fourth"))
    assert told == ["first", "second", "fourth"]


@pytest.mark.cc
def test_it_is_done_while_a_compiler_is_at_work(own_cache: Path, told: list[str]) -> None:
    with spare.held():
        spare.later(lambda: told.append("work"))
        compile_source(Source("f", TEXT))
        assert told == ["compiler", "work"]


@pytest.mark.cc
def test_a_cold_kernel_keeps_its_choice_while_the_compiler_is_at_work(
    own_cache: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = records.write

    def noted(kind: str, *args: object) -> None:
        told.append(kind)
        write(kind, *args)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(records, "write", noted)
    k = tc.define("def f(float(N) A) -> (B) { B(i) +=! A(j) * (i + j) where i in 0:N }")
    for size, kind in ((3, "choice"), (4, "regime")):
        told.clear()
        assert k(np.ones(size, np.float32)).shape == (size,)
        assert kind in told
        assert told.index("compiler") < told.index(kind) < told.index("object")


@pytest.mark.cc
def test_what_the_next_sizes_import_is_looked_for_while_the_compiler_is_at_work(
    own_cache: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = functions.missing

    def noted(names: Sequence[str]) -> list[str]:
        told.extend(["library"] if names else [])
        return missing(names)

    monkeypatch.setattr(functions, "missing", noted)
    monkeypatch.setattr(meanwhile, "LONG_FORMS", {meanwhile.SHARING_FORM})
    monkeypatch.setattr(meanwhile, "_primed", set())
    monkeypatch.setattr(meanwhile, "Aside", lambda *_: None)
    k = tc.define("def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
    assert k(np.ones((8, 12), np.float32), np.ones((12, 16), np.float32)).shape == (8, 16)
    assert told.index("compiler") < told.index("library")


def test_cycles_of_garbage_are_looked_for_seldom_while_something_is_chosen() -> None:
    usual = gc.get_threshold()
    with early.wanted("f"):
        assert gc.get_threshold()[0] == OBJECTS
    assert gc.get_threshold() == usual
