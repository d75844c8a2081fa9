"""What serves the calls whose paddings have no border serves no others, whichever came before."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls.bindings import aside, meanwhile
from tcdsl.calls.host import HostCalls
from tcdsl.codegen.choose import compiler, forms
from tests.codegen.compiled import noted, recorded

pytestmark = pytest.mark.cc

SAME = """def same(float(N,C,H,W) I, float(F,C,K,L) V) -> (O) {
  O(n, f, y, x) +=! pad(I(n, c, y + i - (K - 1) / 2, x + j - (L - 1) / 2), 0) * V(f, c, i, j)
    where y in 0:H, x in 0:W
}"""
FIXED = """def fixed(float(N,C,H) I, float(F,C) V) -> (O) {
  O(n, f, y) +=! pad(I(n, c, y), 0) * V(f, c) where y in 0:6
}"""


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the programs that this process compiles, in a cache of its own: each call waits."""
    tc.define("def f(float(N) A) -> (B) { B(i) = A(i) }")(np.ones(1, np.float32))

    class Busy(aside.Queue):
        def put(self, one: aside.Aside) -> None:
            pass

    monkeypatch.setattr(aside, "_queue", Busy())
    monkeypatch.setattr(meanwhile, "LONG_FORMS", set())  # windows have none of their own
    quick = tuple(x for x in forms.CPU if x.name != "contraction")  # which brings its library
    monkeypatch.setattr(forms, "CPU", quick)
    recorded(monkeypatch, tmp_path / "cache")
    return noted(monkeypatch, library=False)


def ints(*shape: int) -> Any:
    return np.random.default_rng(shape).integers(-4, 5, shape).astype(np.float32)


def same(kernel: Any, h: int, w: int, k: int, l: int, n: int = 3) -> object:  # noqa: E741
    """Call with an image and a window; return what is gone of the program that served it."""
    image, window = ints(n, 2, h, w), ints(4, 2, k, l)
    padded = np.zeros((n, 2, h + k, w + l), np.float32)
    top, left = (k - 1) // 2, (l - 1) // 2
    expected = np.zeros((n, 4, h, w), np.float32)
    padded[:, :, max(top, 0) : max(top, 0) + h, max(left, 0) : max(left, 0) + w] = image
    for i in range(k):
        for j in range(l):
            seen = padded[:, :, i : i + h, j : j + w]
            expected += np.einsum("nchw,fc->nfhw", seen, window[:, :, i, j])
    np.testing.assert_array_equal(kernel(image, window), expected)
    return settled(kernel, image, window)


def fixed(kernel: Any, h: int, n: int = 3, c: int = 2) -> object:
    """As `same`, of lines that are cut or lengthened."""
    lines, factors = ints(n, c, h), ints(4, c)
    padded = np.zeros((n, c, 6), np.float32)
    padded[:, :, : min(h, 6)] = lines[:, :, :6]
    expected = np.einsum("nch,fc->nfh", padded, factors)
    np.testing.assert_array_equal(kernel(lines, factors), expected)
    return settled(kernel, lines, factors)


def settled(kernel: Any, *operands: Any) -> object:
    found = kernel._dispatch.executable_for(kernel.call(*operands))
    return "own" if found.spec.sizes is not None else found.config.get("settled")


WINDOWS: tuple[tuple[tuple[int, int, int, int], object], ...] = (
    ((5, 6, 3, 3), "own"),
    ((6, 7, 1, 1), "K=1 L=1 O.factor"),
    ((7, 5, 3, 3), None),
    ((4, 9, 1, 1), "K=1 L=1 O.factor"),
    ((1, 1, 1, 1), "K=1 L=1 O.factor"),
    ((1, 1, 3, 3), None),
    ((8, 6, 1, 3), "K=1"),
    ((0, 6, 1, 1), "K=1 L=1 O.factor"),
    ((0, 6, 3, 3), None),
    ((9, 2, 1, 1), "K=1 L=1 O.factor"),
    ((9, 2, 5, 2), None),
)


def test_windows_with_and_without_borders_take_turns(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel: Any = tc.define(SAME)
    assert [same(kernel, *sizes) for sizes, _ in WINDOWS] == [what for _, what in WINDOWS]
    made = len(compiled)
    assert made == len(kernel.variant()._made.compiled)
    for name in ("generic_choice", "open_choice", "default_config", "lower_generic", "lower"):
        monkeypatch.setattr(compiler, name, None)
    found = [same(kernel, *sizes, n=5) for sizes, _ in (*WINDOWS[1:], *reversed(WINDOWS[1:]))]
    assert found == [what for _, what in (*WINDOWS[1:], *reversed(WINDOWS[1:]))]
    later = pickle.loads(pickle.dumps(kernel)), tc.define(SAME)  # as other processes would
    for one in later:
        again = [same(one, *sizes) for sizes, _ in (WINDOWS[0], *reversed(WINDOWS[1:]))]
        assert again == ["own", *(what for _, what in reversed(WINDOWS[1:]))]
    assert len(compiled) == made


def test_calls_that_need_no_python_ask_what_the_choice_asked(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow: list[str] = []
    call = HostCalls.__call__

    def noted_call(self: HostCalls, given: Any) -> Any:
        slow.append(self._dispatch.name)
        return call(self, given)

    monkeypatch.setattr(HostCalls, "__call__", noted_call)
    kernel: Any = tc.define(FIXED)
    assert [fixed(kernel, h) for h in (5, 8, 9)] == ["own", "O.factor", "O.factor"]
    slow.clear()
    assert fixed(kernel, 11) == "O.factor"
    assert slow == [], "there is a rule"
    for h, what in ((4, None), (6, "O.factor"), (3, None), (2, None), (7, "O.factor"), (0, None)):
        assert fixed(kernel, h) == what
    slow.clear()
    assert [fixed(kernel, h, n=4) for h in (10, 2, 12, 3)] == ["O.factor", None] * 2
    assert slow == [], "there is one for both"
    assert compiled == ["fixed"] * 3
