"""An executable of a convolution's first sizes serves any number of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.autotune.store.store import TuningStore
from tcdsl.calls.bindings import aside, meanwhile
from tcdsl.calls.bindings.tuned import open_config
from tcdsl.calls.bindings.variant import spec_for
from tcdsl.calls.problems import problem_of_call
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.base.regime import Regime
from tcdsl.codegen.machine.config import Config
from tcdsl.tools.describe import describe
from tests.codegen.compiled import noted

pytestmark = pytest.mark.cc

CONV = """def conv(float(N,C,H,W) I, float(F,C,3,3) K) -> (O) {
    O(n,f,y,x) +=! pad(I(n,c,y+i-1,x+j-1), 0) * K(f,c,i,j) where y in 0:H, x in 0:W
}"""


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the programs that this process compiles from here on, in a cache of its own."""
    tc.define("def f(float(N) A) -> (B) { B(i) = A(i) }")(np.ones(1, np.float32))

    class Busy(aside.Queue):
        def put(self, one: aside.Aside) -> None:
            pass

    monkeypatch.setattr(aside, "_queue", Busy())
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path / "cache"))
    return noted(monkeypatch, library=False)


def ones(kernel: Any, n: int, side: int = 5) -> None:
    """Count the pixels that each window has."""
    image, weights = np.ones((n, 3, side, side), np.float32), np.ones((16, 3, 3, 3), np.float32)
    along = np.full(side, 3)
    along[[0, -1]] = 2
    expected = np.broadcast_to(3 * np.outer(along, along), (n, 16, side, side))
    np.testing.assert_array_equal(kernel(image, weights), expected)


def test_other_batches_compile_nothing(compiled: list[str]) -> None:
    conv = tc.define(CONV)
    for n in (4, 3, 1, 70):
        ones(conv, n)
    assert compiled == ["conv"]
    (one,) = conv.variant().executables
    assert one.spec.open == ("N",)
    assert not one.spec.is_exact


def test_a_later_process_finds_it_by_its_record(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ones(tc.define(CONV), 4)
    for name in ("open_choice", "default_config", "lower_generic", "lower"):
        monkeypatch.setattr(compiler, name, None)
    ones(tc.define(CONV), 9)
    assert compiled == ["conv"]


@pytest.mark.wide
def test_other_pixels_have_their_own_for_any_number_of_images(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meanwhile, "LONG_FORMS", {"convolution"})
    conv = tc.define(CONV)
    for side in (5, 6, 7, 8):
        for n in (2, 3, 1):
            ones(conv, n, side)
    assert compiled == ["conv"] * 4
    assert [c.spec.open for c in conv.variant().executables] == [("N",)] * 4


@pytest.mark.deep
def test_no_image_is_no_beginning(compiled: list[str]) -> None:
    conv = tc.define(CONV)
    for n in (0, 4, 0, 3):
        ones(conv, n)
    first, second = conv.variant().executables
    assert dict(first.spec.sizes or ())["N"] == 0
    assert second.spec.open == ("N",) or second.spec.sizes is None


@pytest.mark.wide
@pytest.mark.parametrize("side", [9, 2])  # fewer pixels than taps are summed by the same form
def test_the_way_back_serves_any_number_of_images(compiled: list[str], side: int) -> None:
    conv = tc.define(CONV).with_grad(copy=False)
    draw = np.random.default_rng(0)
    weights = draw.standard_normal((16, 16, 3, 3), np.float32)
    for n in (4, 3, 1, 20):
        image = draw.standard_normal((n, 16, side, side), np.float32)
        y, pull = conv(image, weights)
        d_image, d_weights = pull(y)
        along = float((y.astype(np.float64) ** 2).sum())  # both are linear: of degree one
        np.testing.assert_allclose(float((d_weights * weights).sum()), along, rtol=1e-3)
        np.testing.assert_allclose(float((d_image * image).sum()), along, rtol=1e-3)
    assert len(compiled) == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (CONV, ("N",)),
        ("def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }", ("M",)),
        ("def f(float(N,M) A, float(M,N) B) -> (C) { C(n) +=! A(n,m) * B(m,n) }", ()),
        ("def f(float(N,M) A) -> (float(2*N,M) C) { C(2*n,m) = A(n,m) }", ()),
        ("def f(float(M) A, int32 N) -> (C) { C(n) = A(n) where n in 0:N }", ("M",)),
    ],
)
def test_sizes_that_strides_do_not_hang_on(text: str, found: tuple[str, ...]) -> None:
    assert tc.define(text).variant().signature.outermost == found


def test_what_is_shown_of_sizes_is_what_their_call_runs(compiled: list[str]) -> None:
    conv = tc.define(CONV, tune="off")
    sizes = {"N": 4, "C": 3, "H": 5, "W": 5, "F": 16}
    ones(conv, 4)
    bound = conv.variant()
    (run,) = bound.executables
    assert bound.choice_of_first(spec_for(bound, sizes), sizes) == (run.spec, run.config)
    assert conv.text(sizes) == bound.text(run.spec, run.config, sizes)
    assert "N=any" in conv.text(sizes)
    shown = describe(bound, sizes)
    assert (shown["open"], shown["is_rank_free"]) == (["N"], False)
    assert shown["config"] == dict(run.config.items)


def tuned(path: Path, n: int, tile: str | None, gain: float, text: str = CONV) -> None:
    """Have a tile be what tuning found for so many images, by so much faster than the default."""
    image, weights = np.ones((n, 3, 5, 5), np.float32), np.ones((16, 3, 3, 3), np.float32)
    problem = problem_of_call(tc.define(text).call(image, weights))
    values = dict(problem.space.default.items)
    if tile is not None:
        values |= {"g0.tile": tile, "g0.chunks": 1}
    config = Config.of(values)
    assert problem.space.holds(config)
    with TuningStore(path) as store:
        store.add_problem(problem.key, problem.name, problem.text)
        store.set_best(problem.key, config, 100 / gain, 100.0, "tuned")


@pytest.mark.wide
def test_a_config_tuned_for_some_images_serves_other_batches(
    compiled: list[str], tmp_path: Path
) -> None:
    tuned(tmp_path / "t.db", 16, "2x1", gain=2.0)
    conv = tc.define(CONV, cache=tmp_path / "t.db")
    for n in (8, 1, 16, 70, 8):
        ones(conv, n)
    assert compiled == ["conv"] * 2
    left_open, exact = conv.variant().executables
    assert (left_open.spec.open, exact.spec.open) == (("N",), ())
    assert left_open.config.get("g0.tile") == exact.config.get("g0.tile") == "2x1"
    assert left_open.config.get("g0.chunks") == 0  # calls plan how many
    ones(conv, 4, side=6)  # other pixels have nothing of it
    assert conv.variant().executables[-1].config.get("g0.tile") != "2x1"


def test_a_config_that_gains_nothing_where_it_was_tuned_serves_no_other_batch(
    compiled: list[str], tmp_path: Path
) -> None:
    tuned(tmp_path / "t.db", 16, "2x1", gain=1.005)
    conv = tc.define(CONV, cache=tmp_path / "t.db")
    ones(conv, 8)
    (one,) = conv.variant().executables
    assert one.spec.open == ("N",)
    assert one.config.get("g0.tile") != "2x1"


@pytest.mark.parametrize(("gain", "most"), [(1.0, 0), (2.0, 1)])
def test_sums_that_are_never_open_are_not_asked_for_each_batch(
    gain: float, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """def mean(float(N,C,H,W) I, float(F,C,3,3) K) -> (O) {
        O(n,c,y,x) +=! pad(I(n,c,y+i-1,x+j-1), 0) * K(0,c,i,j) where y in 0:H, x in 0:W }"""
    for n in (16, 32, 64):
        tuned(tmp_path / "t.db", n, None, gain, text)
    asked = []
    choose = compiler.open_choice

    def ask(*given: Any) -> tuple[Config, Regime] | None:
        asked.append(given)
        return choose(*given)

    bound = tc.define(text, cache=tmp_path / "t.db").variant()
    monkeypatch.setattr(compiler, "open_choice", ask)
    for n in (3, 5, 7):
        exact = spec_for(bound, {"N": n, "C": 3, "H": 5, "W": 5, "F": 16})
        left_open = bound._left_open(exact)
        assert left_open.open
        assert open_config(bound, exact, left_open, tmp_path / "t.db") is None
    assert len(asked) <= most
