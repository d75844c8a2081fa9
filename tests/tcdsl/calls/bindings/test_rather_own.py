"""Sizes of windows have executables of their own where that for all sizes would be slow."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls.bindings import aside, meanwhile, ownsizes
from tcdsl.calls.bindings.index import Own
from tcdsl.calls.bindings.variant import spec_for
from tcdsl.calls.host import HostCalls
from tcdsl.codegen.choose import compiler, forms
from tcdsl.codegen.toolchain import cachedir, contentfile, records
from tcdsl.grammar.text.errors import ScheduleError
from tests.codegen.compiled import noted

pytestmark = pytest.mark.cc

CONV = """def conv(float(N,C,H,W) I, float(F,C,3,3) K) -> (O) {
    O(n,f,y,x) +=! I(n,c,y+i,x+j) * K(f,c,i,j)
}"""


class Model:
    """Stands for the model of times: how many times slower the executable for all sizes is."""

    def __init__(self, times: float, own_ns: float = 1e6) -> None:
        self.times, self.own_ns, self.asked = times, own_ns, 0

    def __call__(self, _program: Any, spec: Any, *_: Any) -> float:
        is_for_all = spec.sizes is None
        self.asked += is_for_all
        return self.own_ns * (self.times if is_for_all else 1)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the programs that this process compiles, in a cache of its own with no builder."""
    tc.define("def f(float(N) A) -> (B) { B(i) = A(i) }")(np.ones(1, np.float32))

    class Busy(aside.Queue):
        def put(self, one: aside.Aside) -> None:
            pass

    monkeypatch.setattr(aside, "_queue", Busy())
    monkeypatch.setattr(meanwhile, "MEANWHILE", 1)
    monkeypatch.setattr(meanwhile, "LONG_FORMS", {"convolution"})
    quick = tuple(x for x in forms.CPU if x.name != "contraction")  # which brings its library
    monkeypatch.setattr(forms, "CPU", quick)
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path / "cache"))
    return noted(monkeypatch, library=False)


def ask(monkeypatch: pytest.MonkeyPatch, times: float, own_ns: float = 1e6) -> Model:
    model = Model(times, own_ns)
    monkeypatch.setattr(compiler, "cost_ns", model)
    return model


def run(kernel: Any, *sides: int, n: int = 2) -> list[str]:
    """Call with images of these sides; return which kind of executable served each."""
    served = []
    for side in sides:
        images = np.ones((n, 3, side, side), np.float32)
        weights = np.ones((16, 3, 3, 3), np.float32)
        expected = np.full((n, 16, side - 2, side - 2), 27)
        np.testing.assert_array_equal(kernel(images, weights), expected)
        found = kernel._dispatch.executable_for(kernel.call(images, weights))
        served.append("all" if found.spec.sizes is None else "own")
    return served


def test_later_processes_run_what_the_first_one_ran(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(monkeypatch, times=1)
    assert run(tc.define(CONV), 5, 6, 7) == ["own", "own", "all"]
    assert compiled == ["conv"] * 3
    names = ("cost_ns", "open_choice", "default_config", "generic_choice", "lower_generic", "lower")
    for name in names:
        monkeypatch.setattr(compiler, name, None)
    assert run(tc.define(CONV), 5, 6, 7) == ["own", "own", "all"]
    assert run(tc.define(CONV), 6, 7, 5) == ["own", "all", "own"]
    assert compiled == ["conv"] * 3


def test_a_later_process_finds_sizes_by_one_record(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(monkeypatch, times=1)
    assert run(tc.define(CONV), 5, 6, 7) == ["own", "own", "all"]
    conv = tc.define(CONV)
    assert run(conv, 6, 7) == ["own", "all"]
    read: list[str] = []
    content_of, listdir = cachedir.content_of, os.listdir

    def noted_content(path: str) -> bytes:
        read.append(os.path.splitext(path)[1])
        return content_of(path)

    def noted_folder(folder: str) -> list[str]:
        read.append("folder")
        return listdir(folder)

    monkeypatch.setattr(contentfile, "content_of", noted_content)
    monkeypatch.setattr(os, "listdir", noted_folder)
    for found, files in (("own", [".so"]), ("all", [])):
        assert run(conv, 5 if found == "own" else 7, n=3) == [found]
        assert read == files
        read.clear()


def test_sizes_of_a_process_beside_are_found_in_a_record_that_was_read(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(monkeypatch, times=1)
    conv = tc.define(CONV)
    assert run(conv, 5) == ["own"]
    assert run(tc.define(CONV), 5, 6) == ["own", "own"]
    monkeypatch.setattr(compiler, "lower", None)
    assert run(conv, 6) == ["own"]


def test_objects_that_a_record_still_names_may_be_gone(compiled: list[str], tmp_path: Path) -> None:
    assert run(tc.define(CONV), 5, 6) == ["own", "own"]
    conv = tc.define(CONV)
    assert run(conv, 5) == ["own"]
    for path in tmp_path.glob("cache/objects/*/*.so"):
        path.unlink()
    assert run(conv, 6) == ["own"]
    assert compiled == ["conv"] * 3


def test_a_damaged_record_is_no_executable(compiled: list[str], tmp_path: Path) -> None:
    run(tc.define(CONV), 5)
    bound = tc.define(CONV).variant()
    like = bound._left_open(spec_for(bound, {"N": 2, "C": 3, "H": 5, "W": 5, "F": 16}))
    index = bound._index
    assert index is not None
    ((_, own),) = index.of_sizes(like)
    assert isinstance(own, Own)
    assert index.loaded(own.file) is not None
    other = f"conv-{'0' * 32}-{'0' * 16}.so"
    assert bound._made.named(like, replace(own, file=other)) is None
    record = index._record(like)
    key = [*map(list, like.sizes or ())], [*like.open]
    for what in (["{}"], ["{}", "x"], ["{", own.file], [1, own.file], 7, None):
        records.write("own", record._parts, [[*key, [what]]], "conv")
    no_size, no_sizes, no_name = [[["N"]], [], []], [1, [], []], [[], [1], []]
    values: list[object] = [[], [[]], [[*key]], [no_size], [no_sizes], [no_name], 7, None]
    for value in values:
        records.write("own", record._parts, value, "conv")
    assert [*index.of_sizes(like)] == [(like, own)]
    assert [*index.with_own(like)] == [like.sizes]


@pytest.mark.wide
def test_sizes_that_the_one_for_all_is_slow_for_have_their_own(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ask(monkeypatch, times=2)
    monkeypatch.setattr(meanwhile, "_SLIDING", set())
    monkeypatch.setattr(ownsizes, "ASKED", 2)
    conv = tc.define(CONV)
    assert run(conv, 5, 6, 7, 8) == ["own"] * 4
    assert model.asked == 2
    assert run(conv, 9, 7) == ["all", "own"], "the model is asked so many times only"
    assert run(conv, 9, 7, 8, n=3) == ["all", "own", "own"]
    assert model.asked == 2
    assert compiled == ["conv"] * 5


def test_later_sizes_of_windows_need_no_python(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow: list[str] = []
    call = HostCalls.__call__

    def noted_call(self: HostCalls, given: Any) -> Any:
        slow.append(self._dispatch.name)
        return call(self, given)

    monkeypatch.setattr(HostCalls, "__call__", noted_call)
    ask(monkeypatch, times=9)  # not asked: what serves all slides too
    assert run(tc.define(CONV), 5, 6, 7, 8) == ["own", "own", "all", "all"]
    conv = tc.define(CONV)
    for first in (conv, tc.define(CONV)):
        assert run(first, 5, 7, 8) == ["own", "all", "all"]
        slow.clear()
        assert run(first, 9, 10, 7) == ["all"] * 3
        assert slow == []
        assert run(first, 6, 5, n=3) == ["own"] * 2, "what has its own keeps it"
        assert run(first, 11, n=3) == ["all"]
        assert len(slow) == 2
    assert compiled == ["conv"] * 3


def suits(kernel: Any, **sizes: int) -> bool:
    """Whether these sizes would be served by the executable for all, which is not compiled."""
    one = kernel.variant()
    exact = spec_for(one, sizes)
    spec = one._for_all(exact.layouts, is_small=False)
    config, _ = one._made.generic_choice(spec, sizes)
    return bool(one._suits(spec, config, exact, sizes))


def test_a_compiler_is_run_for_what_is_worth_it(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    conv = tc.define(CONV)
    run(conv, 5)
    for side, times, own_ns, expected in (
        (6, ownsizes.WELL_ABOVE - 0.01, 1e9, True),
        (7, ownsizes.WELL_ABOVE, 1e9, False),
        (8, 9, ownsizes.WORTH_NS / 8 - 1, True),
        (9, 9, ownsizes.WORTH_NS / 8 + 1, False),
    ):
        ask(monkeypatch, times, own_ns)
        assert suits(conv, N=2, C=3, H=side, W=side, F=16) is expected
    assert compiled == ["conv"]


def test_the_model_is_asked_once_of_sizes_of_about_the_same(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ask(monkeypatch, times=1)
    conv = tc.define(CONV)
    run(conv, 5)
    for side, asked in ((17, 1), (18, 1), (31, 1), (32, 2), (6, 3), (7, 4), (8, 5)):
        assert suits(conv, N=2, C=3, H=side, W=side, F=16)
        assert model.asked == asked
    monkeypatch.setattr(compiler, "cost_ns", None)
    later = tc.define(CONV).variant()
    like = later._left_open(spec_for(later, {"N": 2, "C": 3, "H": 31, "W": 31, "F": 16}))
    assert later._index is not None
    assert [*later._index.of_sizes(like)], "a later process does not ask either"
    ask(monkeypatch, times=2)
    for side in (64, 65):
        assert not suits(conv, N=2, C=3, H=side, W=side, F=16), "no size is refused by another's"
    assert compiled == ["conv"]


def test_a_config_without_a_cost_at_these_sizes_suits_them(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def illegal(_program: Any, spec: Any, *_: Any) -> float:
        if spec.sizes is None:
            raise ScheduleError("g0.pixels is 480; legal are 38, 76, 120")
        return 1.0

    conv = tc.define(CONV)
    run(conv, 5)
    monkeypatch.setattr(compiler, "cost_ns", illegal)
    assert suits(conv, N=2, C=3, H=6, W=6, F=16)


@pytest.mark.wide
def test_sizes_keep_what_served_them_first(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(monkeypatch, times=1)
    conv = tc.define(CONV)
    assert run(conv, 5, 6, 7) == ["own", "own", "all"]
    assert run(tc.define(CONV), 7) == ["own"], "they are the first ones there"
    assert run(conv, 7, n=9) == ["all"]
    assert run(tc.define(CONV), 5, 7, n=9) == ["own", "own"]


def test_the_model_knows_that_unfolded_gradients_are_slow() -> None:
    """Rows of nine taps are too long for the forms that slide over images of any size."""
    for n, side, taps, expected in ((4, 127, 9, False), (1, 4, 3, True)):
        back = tc.grad(tc.define(CONV.replace("3,3", f"3,{taps}")))
        d_out = {"d_O_n2": side - 2, "d_O_n3": side - taps + 1}
        assert suits(back, N=n, C=16, H=side, W=side, F=16, **d_out) is expected


BY_TWOS = """def conv(float(N,C,H,W) I, float(F,C,3,3) K) -> (O) {
  O(n, f, y, x) +=! pad(I(n, c, 2 * y + i - 1, 2 * x + j - 1), 0) * K(f, c, i, j)
      where y in 0:(H - 1) / 2 + 1, x in 0:(W - 1) / 2 + 1
}"""


def test_a_gradient_by_twos_has_one_executable_for_images_of_all_sizes() -> None:
    """That slides over each window that own ones list, so that the model is not asked."""
    back = tc.grad(tc.define(BY_TWOS)).variant()
    found = set()
    for side in (17, 31, 64):
        sizes = {"N": 2, "C": 16, "H": side, "W": side, "F": 32}
        sizes |= {"d_O_n2": (side + 1) // 2, "d_O_n3": (side + 1) // 2}
        exact = spec_for(back, sizes)
        found.add(back._made.generic_choice(back._for_all(exact.layouts, is_small=False), sizes))
    ((config, _),) = found
    forms = [value for name, value in config.items if name.endswith(".form")]
    assert (forms.count("sliding"), forms.count("sliding_weights")) == (3, 1)
