"""Once a program changes its sizes, executables for all sizes are built before calls want them."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls.bindings import aside, building, changing, meanwhile
from tcdsl.calls.bindings.aside import Aside
from tcdsl.calls.bindings.executables import Executables
from tcdsl.codegen.forms.base.regime import Regime
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.runtime import Entry
from tcdsl.grammar.proofs.sizes import Size
from tests.codegen.compiled import noted

pytestmark = pytest.mark.cc

# no sum along rows, which executables of all ranks serve
SUMS = "def sums(float(M,M) A) -> (B) { B(i) +=! A(i, j) * A(j, i) }"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return what this process compiles from here on, in a cache of its own."""
    assert isinstance(Entry, type), "the launcher is compiled before"
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(meanwhile, "FOLLOWS", True)
    monkeypatch.setattr(meanwhile, "usable_cores", lambda: 2)
    monkeypatch.setattr(changing, "sizes", changing.Changing())
    return noted(monkeypatch, library=False)


@pytest.fixture
def built(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is built aside, which is done at once."""
    names: list[str] = []

    class AtOnce(aside.Queue):
        def put(self, one: Aside) -> None:
            assert one.module == aside.EXECUTABLE
            names.append(one.name)
            building.build(one.task)

    monkeypatch.setattr(aside, "_queue", AtOnce())
    monkeypatch.setattr(changing, "_start", at_once)
    return names


def at_once(build: Callable[[Any], None], follow: Any) -> None:
    build(follow)


def call(kernel: Any, m: int) -> None:
    assert kernel(np.ones((m, m), np.float32)).tolist() == [m] * m


def named(name: str) -> Any:
    return tc.define(SUMS.replace("sums", name))


def test_the_first_change_has_what_follows_built(compiled: list[str], built: list[str]) -> None:
    first, second, third = map(named, ("first", "second", "third"))
    for kernel in (first, second):
        call(kernel, 3)
    assert not built, "most programs have one size"
    call(first, 4)
    assert built == ["second"]
    call(third, 3)
    assert built == ["second", "third"]
    del compiled[:]
    for kernel in (second, third):
        call(kernel, 4)
    assert not compiled
    assert [c.spec.sizes is None for c in second.variant().executables] == [False, True]


class Follower:
    """Stands for a definition, of which something is to be built or not."""

    def __init__(self, name: str, is_built: bool) -> None:
        self.name, self.is_built = name, is_built

    def follow(self, *, is_later: bool) -> bool:
        if self.is_built:
            Aside(b"", self.name, is_later=is_later)
        return self.is_built


def test_every_other_one_is_built_first(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = aside.Queue()
    monkeypatch.setattr(queue, "_start", lambda: None)
    monkeypatch.setattr(aside, "_queue", queue)
    monkeypatch.setattr(changing, "_start", at_once)
    sizes = changing.Changing()
    followers = [Follower(name, name not in "ac") for name in "abcdefg"]
    for one in followers[:5]:
        sizes.met(one.follow)
    sizes.changed()
    for one in followers[5:]:
        sizes.met(one.follow)
    turns = [queue._next() for _ in range(5)]
    assert [one.name for one in turns if one is not None] == ["b", "e", "g", "d", "f"]


@pytest.mark.parametrize(
    ("others", "waits"), [((2,), ["second"]), ((4,), []), ((4, 2), ["second"])]
)
def test_sizes_of_the_regime_of_the_first_ones_alone_wait_for_what_those_have_built(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch, others: tuple[int, ...], waits: list[str]
) -> None:
    waited: list[str] = []
    choice = Executables.generic_choice

    class Busy(aside.Queue):
        def put(self, one: Aside) -> None:
            pass

    def parted(made: Executables, spec: Spec, sizes: dict[str, int]) -> tuple[Config, Regime]:
        config, _ = choice(made, spec, sizes)
        return config, Regime(((Size.symbol("M"), 4, sizes["M"] >= 4),))

    monkeypatch.setattr(aside, "_queue", Busy())
    monkeypatch.setattr(changing, "_start", at_once)
    monkeypatch.setattr(Aside, "wait", lambda one: waited.append(one.name))
    monkeypatch.setattr(Executables, "generic_choice", parted)
    first, second = map(named, ("first", "second"))
    for m in (3, *others):
        for kernel in (first, second):
            call(kernel, m)
    assert waited == waits
    assert compiled == ["first", "second"] * 2


@pytest.mark.wide
def test_what_calls_would_have_meanwhile_is_left_to_them(
    compiled: list[str], built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = map(named, ("first", "second"))
    call(first, 3)
    call(second, 3)
    forms = {v for c in second.variant().executables for _, v in c.config.items}
    monkeypatch.setattr(meanwhile, "LONG_FORMS", forms)
    assert not second.variant()._follow(is_later=False)
    assert not built


@pytest.mark.wide
def test_what_is_in_the_cache_changes_nothing(
    compiled: list[str], built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, again, other = map(named, ("first", "first", "other"))
    for m in (3, 4):
        call(first, m)
    monkeypatch.setattr(changing, "sizes", changing.Changing())
    for m in (3, 4):
        call(again, m)
    call(other, 3)
    assert "other" not in built


@pytest.mark.deep
def test_kernels_that_are_gone_are_not_built(compiled: list[str], built: list[str]) -> None:
    first, gone = map(named, ("first", "gone"))
    call(gone, 3)
    call(first, 3)
    del gone
    gc.collect()
    call(first, 4)
    assert not built
