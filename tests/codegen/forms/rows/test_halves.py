"""Who reads an output of halves in the same pass sees what is stored, not what was computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl
from tests.codegen.harness import problem
from tests.cusim.harness import differential as simulated
from tests.tiers import sampled

FOLDS = {  # indices and extents of the output, and what is summed
    "rows": ("b", "B", "X(b, n)"),
    "columns": ("n", "N", "X(b, n)"),
    "points": ("b, n", "B,N", "X(b, n) * X(b, n)"),
    "products": ("b, c", "B,B", "X(b, n) * X(c, n)"),
    "scans": ("b, n", "B,N", "X(b, m) where m in 0:n+1, n in 0:N"),
}
CHAIN = """def f(float16(N) X, float16(N) Y) -> (float16(N) h) {
  h(n) = X(n) * Y(n)
  h(n) += h(n) * Y(n)
  h(n) *= Y(n)
}"""
TURNS = """def f(float16(T,N) X, float16(N) Y) -> (float16(N) h) {
  h(n) = Y(n)
  for t in 0:T { h(n) *= X(t, n)  h(n) += h(n) * X(t, n) }
}"""


def whole(*shape: int) -> Any:
    """Return halves whose sums float32 holds, and float16 does not."""
    return np.random.default_rng(shape).integers(-901, 901, shape).astype(np.float16)


def halves(*shape: int) -> Any:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float16)


def once(x: Any) -> Any:
    """Round to float16."""
    return x.astype(np.float16).astype(np.float32)


@pytest.mark.cc
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.wide) for n in FOLDS])
def test_readers_of_what_is_combined(name: str) -> None:
    at, extents, terms = FOLDS[name]
    text = f"""def f(float16(B,N) X) -> (float16({extents}) h, float({extents}) o) {{
      h({at}) +=! {terms}
      o({at}) = h({at}) * 1.0
    }}"""
    for kind in ("float16", "bfloat16"):
        kernel = tcdsl.define(text.replace("float16", kind))
        for n in (1, 5, 50, 701):
            x = whole(7, n) if name != "points" else whole(7, n) / np.float16(64)
            if kind == "bfloat16":
                ml_dtypes = pytest.importorskip("ml_dtypes")
                x = x.astype(ml_dtypes.bfloat16)
            h, o = kernel(x)
            np.testing.assert_array_equal(o, h.astype(np.float32))


@pytest.mark.cc
def test_strided_halves_that_are_read_thrice() -> None:
    """Of conversions with conditions gcc 12 made vectors that added up other elements."""
    kernel = tcdsl.define(
        """def f(float16(N,M) X) -> (s, hi, lo) {
          s(i) +=! X(i, j)  hi(i) max=! X(i, j)  lo(i) min=! X(i, j)
        }"""
    )
    x = np.random.default_rng(1).integers(-9, 9, (3, 200)).astype(np.float16)[:, ::2]
    s, hi, lo = kernel(x)
    np.testing.assert_array_equal(s, x.astype(np.float32).sum(1))
    np.testing.assert_array_equal(hi, x.max(1))
    np.testing.assert_array_equal(lo, x.min(1))


@pytest.mark.cc
@pytest.mark.parametrize("kind", ["float16", pytest.param("bfloat16", marks=pytest.mark.wide)])
def test_halves_that_are_moved_keep_all_their_bits(kind: str) -> None:
    backwards = tcdsl.define(f"def f({kind}(N) X) -> (O) {{ O(i) = X(N - 1 - i) where i in 0:N }}")
    half = np.dtype(kind if kind == "float16" else pytest.importorskip("ml_dtypes").bfloat16)
    bits = np.arange(1 << 16, dtype=np.uint16)  # NaNs of all kinds among them
    np.testing.assert_array_equal(backwards(bits.view(half)).view(np.uint16), bits[::-1])


@pytest.mark.cc
@sampled("sizes", [(701,), (1, 5, 64)], keep=1)
def test_a_chain_of_updates_rounds_each_time(sizes: tuple[int, ...]) -> None:
    chain = tcdsl.define(CHAIN)
    for n in sizes:
        x, y = halves(n), halves(2 * n)[::2]
        a, c = x.astype(np.float32), y.astype(np.float32)
        h = once(a * c)
        h = once(h + h * c)
        np.testing.assert_array_equal(chain(x, y), once(h * c))


@pytest.mark.wide
@pytest.mark.cc
def test_turns_of_updates_round_each_time() -> None:
    turns = tcdsl.define(TURNS)
    for n in (1, 5, 64, 701):
        y, many = halves(2 * n)[::2], halves(6, n)
        h = y.astype(np.float32)
        for row in many.astype(np.float32):
            h = once(h * row)
            h = once(h + h * row)
        np.testing.assert_array_equal(turns(many, y), h)


@pytest.mark.deep
@pytest.mark.cusim
@pytest.mark.parametrize("text", [CHAIN, TURNS])
def test_a_chain_of_updates_on_a_gpu(text: str) -> None:
    shape = (37,) if text is CHAIN else (3, 37)
    p = problem(text, halves(*shape), halves(37))
    simulated(p)
