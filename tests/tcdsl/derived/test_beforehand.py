"""The way back is built aside while its forward pass is compiled."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls.bindings import aside, meanwhile
from tcdsl.calls.bindings.aside import Aside
from tcdsl.codegen.choose import forms
from tcdsl.codegen.runtime import Entry
from tcdsl.derived import beforehand, building
from tests.codegen.compiled import noted, recorded

pytestmark = pytest.mark.cc

SUMS = "def sums(float(M,N) A) -> (B) { B(i) +=! A(i, j) * A(i, j) }"
BY_ROWS = "def f(float(M,M) A) -> (B) { s(i) +=! A(i, j) * A(j, i)  B(i, j) = s(i) * A(j, i) }"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the programs that this process compiles from here on, in a cache of its own."""
    assert isinstance(Entry, type), "the launcher is compiled before"
    monkeypatch.setattr(beforehand, "IS_USUAL", True)
    monkeypatch.setattr(beforehand, "usable_cores", lambda: 2)
    monkeypatch.setattr(beforehand, "expect", lambda: None)
    recorded(monkeypatch, tmp_path / "cache")
    building._session.cache_clear()  # what it has lies in another cache
    return noted(monkeypatch, library=False)


@pytest.fixture
def begun(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return what is to be built aside, which is not begun."""
    tasks: list[bytes] = []

    class Busy(aside.Queue):
        def put(self, one: Aside) -> None:
            if one.module == aside.WAY_BACK:
                tasks.append(one.task)

    monkeypatch.setattr(aside, "_queue", Busy())
    return tasks


def there_and_back(kernel: Any, m: int) -> None:
    a = np.full((m, m + 2), m, np.float32)
    y, pull = kernel.with_grad()(a)
    np.testing.assert_array_equal(y, np.full(m, (m + 2) * m * m))
    np.testing.assert_array_equal(pull(np.ones_like(y)), 2 * a)


def test_it_is_begun_once_for_each_forward_pass_that_is_compiled(
    begun: list[bytes], compiled: list[str]
) -> None:
    sums = tc.define(SUMS)
    for m in (3, 3, 4, 7, 4):
        there_and_back(sums, m)
    assert [dict(pickle.loads(task)[3]) for task in begun] == [{"M": 3, "N": 5}, {"M": 4, "N": 6}]
    assert compiled.count("sums") == 2, "the size 7 found what serves all"
    del begun[:], compiled[:]
    there_and_back(tc.define(SUMS), 3)
    assert not begun, "what is in the cache"
    assert not compiled


def test_what_was_built_is_what_calls_look_up(begun: list[bytes], compiled: list[str]) -> None:
    sums = tc.define(SUMS)
    pulls = []
    for m in (3, 4):
        y, pull = sums.with_grad()(np.full((m, m + 2), m, np.float32))
        pulls.append((pull, np.ones_like(y)))
    for task in begun:
        building.build(task)
    count = len(compiled)
    for m, (pull, ones) in zip((3, 4), pulls, strict=True):
        np.testing.assert_array_equal(pull(ones), np.full((m, m + 2), 2 * m))
    assert len(compiled) == count


def test_who_builds_the_second_sizes_knows_which_were_first(
    begun: list[bytes], compiled: list[str]
) -> None:
    """As calls have it: an executable of all sizes, whoever has built that of the first."""
    sums = tc.define(SUMS).with_grad()
    for m in (3, 4):
        sums(np.full((m, m + 2), m, np.float32))
    building.build(begun[1])
    gradient, settings, *_ = pickle.loads(begun[1])
    session = building._session(gradient, settings)
    (found,) = session.variant(session.program.defs[-1], {}).executables
    assert found.spec.sizes is None


def test_calls_that_go_back_in_reverse_look_up_the_same(
    begun: list[bytes], compiled: list[str]
) -> None:
    """Two layers of one kernel, whose sizes differ: the last one's way back is called first."""
    text = "def turned(float(M,N) A) -> (B) { B(j, i) +=! A(k, i) * A(k, j) }"
    for _ in range(2):  # as a later process
        made = tc.define(text).with_grad()
        pulls = []
        for m in (3, 4):
            y, pull = made(np.full((m, 5), m, np.float32))
            pulls.append((pull, np.ones_like(y)))
        for task in begun:
            building.build(task)
        del begun[:]
        before = len(compiled)
        for m, (pull, ones) in reversed([*zip((3, 4), pulls, strict=True)]):
            np.testing.assert_array_equal(pull(ones), np.full((m, 5), 2 * 5 * m))
        assert len(compiled) == before


@pytest.mark.wide
def test_calls_in_reverse_have_their_own_where_one_for_all_takes_long(
    begun: list[bytes], compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first sizes have theirs: what is expected of them decides, not who comes first."""
    monkeypatch.setattr(meanwhile, "LONG_FORMS", {form.name for form in forms.CPU})
    monkeypatch.setattr(meanwhile, "MEANWHILE", 2)
    made, pulls = tc.define(BY_ROWS).with_grad(), []
    for m in (3, 4, 6):
        y, pull = made(np.ones((m, m), np.float32))
        pulls.append((m, pull, np.ones_like(y)))
    assert len(begun) == len(pulls)
    for task in begun:
        building.build(task)
    before = len(compiled)
    for m, pull, ones in reversed(pulls):
        np.testing.assert_array_equal(pull(ones), np.full((m, m), 3 * m))
    assert len(compiled) == before, "each found what was built for it"


@pytest.mark.deep
def test_sizes_that_calls_would_have_built_aside_are_left_to_them(
    begun: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meanwhile, "LONG_FORMS", {form.name for form in forms.CPU})
    monkeypatch.setattr(meanwhile, "MEANWHILE", 2)
    kernel = tc.define(BY_ROWS)
    made = kernel.with_grad()
    for m in (3, 4, 6, 7):
        made(np.ones((m, m), np.float32))
    assert len(begun) == 4
    for task in begun:
        building.build(task)
    gradient, settings, *_ = pickle.loads(begun[0])
    session = building._session(gradient, settings)
    found = session.variant(session.program.defs[-1], {}).executables
    assert [dict(c.spec.sizes or ()).get("M") for c in found] == [3, 4, 6]


@pytest.mark.wide
@pytest.mark.parametrize(
    "other", [{"tune": "first-call"}, {"tune": "off", "threads": 1}, {"tune": "cached"}]
)
def test_what_tunes_at_calls_begins_nothing(begun: list[bytes], other: dict[str, Any]) -> None:
    tc.define(SUMS, **other).with_grad()(np.ones((3, 5), np.float32))
    assert len(begun) == (other["tune"] != "first-call")


@pytest.mark.deep
def test_on_one_core_nothing_is_begun(begun: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beforehand, "usable_cores", lambda: 1)
    there_and_back(tc.define(SUMS), 3)
    assert not begun


def test_the_first_one_is_built_by_a_thread_of_this_process(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = aside.Queue()
    monkeypatch.setattr(aside, "_queue", queue)
    monkeypatch.setattr(queue, "_start", lambda: pytest.fail("nobody needs a builder"))
    y, pull = tc.define(SUMS).with_grad()(np.ones((3, 5), np.float32))
    queue.settle()
    assert aside.last_failure() == ""
    assert sorted(compiled) == ["d_sums", "sums"]
    assert pull(np.ones_like(y)).tolist() == [[2] * 5] * 3
    assert sorted(compiled) == ["d_sums", "sums"], "what it has left was found"
    assert aside.last_failure() == ""


@pytest.mark.deep
def test_the_builder_leaves_it(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "_HERE", ())
    sums = tc.define(SUMS)
    y, pull = sums.with_grad()(np.ones((3, 5), np.float32))
    (one,) = pull._made.begun.values()
    one._done.wait()
    assert pull(np.ones_like(y)).tolist() == [[2] * 5] * 3
    assert compiled == ["sums"]
    assert not pull._made.begun
    assert aside.last_failure() == ""


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("here", [(), (aside.WAY_BACK,)])
def test_a_forked_child_waits_for_nothing(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch, here: tuple[str, ...]
) -> None:
    monkeypatch.setattr(aside, "_HERE", here)
    sums = tc.define(SUMS)
    y, pull = sums.with_grad()(np.ones((3, 5), np.float32))
    (one,) = pull._made.begun.values()
    while not one._has_begun:
        one._done.wait(0.01)
    child = os.fork()
    if child == 0:
        failed = 1
        try:
            failed = pull(np.ones_like(y)).tolist() != [[2] * 5] * 3
        finally:
            os._exit(int(failed))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pull(np.ones_like(y)).tolist() == [[2] * 5] * 3
