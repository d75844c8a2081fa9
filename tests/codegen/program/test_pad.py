"""`pad(A(..), v)`: v where a subscript is outside."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.harness import Case, Problem, differential, expected, problem
from tests.tiers import sampled

RNG = np.random.default_rng(8)
CONV = """def conv(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
    O(n, f, h, w) +=! pad(I(n, c, h + kh - 1, w + kw - 1), 0) * K(f, c, kh, kw)
        where h in 0:H, w in 0:W
}"""
STRIDED = """def conv<S=2, D=2>(float(C,H,W) I, float(F,C,KH,KW) K) -> (O) {
    O(f, h, w) +=! pad(I(c, S * h + D * kh - 2, S * w + D * kw - 2), 0) * K(f, c, kh, kw)
        where h in 0:H / S, w in 0:W / S
}"""


def numbers(*shape: int) -> np.ndarray:
    return RNG.integers(-4, 5, shape).astype(np.float32)


def held(p: Problem, terms: int = 1) -> None:
    differential([Case(p, exact=e) for e in (True, False)], terms)


def ranges(text: str) -> dict[str, tuple[str, str]]:
    (s,) = check(parse(text)).body
    return {r.name: (str(r.low), str(r.high)) for r in s.ranges}  # type: ignore[union-attr]


def test_only_a_bare_index_takes_its_range_from_a_padded_access() -> None:
    found = ranges(CONV)
    assert found["n"] == ("0", "N")
    assert found["c"] == ("0", "C")
    assert found["kh"] == ("0", "KH")
    assert found["h"] == ("0", "H")


def test_a_side_that_is_proved_inside_has_no_condition() -> None:
    (s,) = check(parse("def f(float(N) A) -> (O) { O(i) = pad(A(i), 3) }")).body
    assert "Select" not in repr(s)
    (s,) = check(parse("def f(float(N) A) -> (O) { O(i) = pad(A(i+1), 3) where i in 0:N }")).body
    assert repr(s).count("op='<'") == 1
    assert "op='>='" not in repr(s)


@pytest.mark.cc
@sampled("shape", [(2, 3, 8, 9), (1, 1, 1, 1), (3, 2, 5, 17)], keep=1)
def test_convolution(shape: tuple[int, ...]) -> None:
    held(problem(CONV, numbers(*shape), numbers(4, shape[1], 3, 3)), 27)


@pytest.mark.cc
def test_the_reference_pads_as_numpy_does() -> None:
    x, w = numbers(1, 2, 5, 6), numbers(3, 2, 3, 3)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    want = np.einsum("nchwkl,fckl->nfhw", views, w)
    (got,) = expected(problem(CONV, x, w))
    assert np.array_equal(got, want)


@pytest.mark.wide
@pytest.mark.cc
def test_stride_and_dilation() -> None:
    held(problem(STRIDED, numbers(3, 11, 14), numbers(2, 3, 3, 3)), 27)


@pytest.mark.cc
@sampled("n", [0, 1, 2, 37], keep=2)
def test_shift(n: int) -> None:
    text = "def f(float(N) A) -> (O) { O(i) = pad(A(i - 1), inf) where i in 0:N + 2 }"
    held(problem(text, numbers(n)))


@pytest.mark.cc
def test_the_filler_may_read_and_the_types_meet() -> None:
    text = """def f(int32(N) A, double(M) B) -> (O) {
        O(i) = pad(A(i - 2), B(i)) where i in 0:M
    }"""
    held(problem(text, np.arange(7, dtype=np.int32), RNG.normal(size=12)))


@pytest.mark.cc
def test_a_subscript_from_data_may_lie_anywhere() -> None:
    text = "def f(float(N) A, int32(M) I) -> (O) { O(i) = pad(A(I(i)), -1) }"
    held(problem(text, numbers(5), np.array([-(2**31), -1, 0, 4, 5, 2**31 - 1], np.int32)))


@pytest.mark.cc
def test_pooling_with_a_border() -> None:
    text = """def pool(float(C,H,W) I) -> (O) {
        O(c, h, w) max=! pad(I(c, 2 * h + kh - 1, 2 * w + kw - 1), -inf)
            where h in 0:(H + 1) / 2, w in 0:(W + 1) / 2, kh in 0:3, kw in 0:3
    }"""
    held(problem(text, numbers(3, 9, 12)))


@pytest.mark.cc
def test_a_condition_around_a_read_is_its_padding() -> None:
    head = "def f(float(C,H) I, float(F,C,K) W) -> (float(F,H) O) { O(m, h) +=! "
    inside = "h + k - 1 >= 0 && h + k - 1 < H"
    image, weights = numbers(3, 11), numbers(4, 3, 3)
    around_read = problem(
        f"{head} ({inside} ? I(c, h + k - 1) : 0.0) * W(m, c, k) where h in 0:H }}", image, weights
    )
    assert [s.target for s in around_read.program.statements] == ["O.factor", "O"]
    unknown = weights.copy()  # a condition around the product keeps NaN from the border
    unknown[1, 2, 0] = np.nan  # (around the read, convolutions do too: forms/contraction/window)
    product = problem(
        f"{head} {inside} ? I(c, h + k - 1) * W(m, c, k) : 0.0 where h in 0:H }}", image, unknown
    )
    assert [s.target for s in product.program.statements] == ["O"]
    differential([Case(p, exact) for p in (around_read, product) for exact in (True, False)], 9)
