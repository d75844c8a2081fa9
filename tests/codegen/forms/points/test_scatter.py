"""Expressions on the left: shifted and strided writes, reshapes, scatters in which points meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.text.errors import BoundsError, RangeError, TCTypeError
from tests.codegen.harness import (
    Case,
    Problem,
    differential,
    expected,
    problem,
    run_cases,
    spec_of,
)
from tests.tiers import sampled

pytestmark = pytest.mark.cc

RNG = np.random.default_rng(21)
EMBED = """def f(int32(B) I, float(B,D) g, float(N,D) W) -> (float(N,D) dW) {
    dW(I(b), d) +=! g(b, d)
}"""


def numbers(*shape: int) -> Any:
    return RNG.integers(-4, 5, shape).astype(np.float32)


def held(p: Problem) -> None:
    differential([Case(p, exact=e, threads=t) for e in (True, False) for t in (1, 3)], 64)


def form(p: Problem) -> str:
    (shown,) = compiler.describe(p.program, spec_of(p, exact=True), Config(), detect(), p.sizes)
    return shown[1]


@sampled("sizes", [(11, 5, 6), (1, 1, 1), (0, 3, 4), (5, 0, 4), (200, 33, 3)], keep=2)
def test_embedding_gradient(sizes: tuple[int, int, int]) -> None:
    b, d, n = sizes
    indices = RNG.integers(0, n, b).astype(np.int32)
    p = problem(EMBED, indices, numbers(b, d), np.zeros((n, d), np.float32))
    assert form(p).startswith("g0: scatter")
    held(p)
    want = np.zeros((n, d), np.float32)
    np.add.at(want, indices, p.args[1])
    assert np.array_equal(expected(p)[0], want)


@sampled("op", ["+=!", "*=!", "min=!", "max=!"], keep=2)
def test_a_histogram_of_any_kind(op: str) -> None:
    text = f"def f(int64(M) I, float(M) A, float(N) L) -> (float(N) H) {{ H(I(i)) {op} A(i) }}"
    held(problem(text, RNG.integers(0, 4, 13), numbers(13), np.zeros(5, np.float32)))


def test_counting_in_integers_wraps() -> None:
    text = "def f(int32(M) I, float(N) L) -> (int32(N) H) { H(I(i)) +=! 2147483647 }"
    held(problem(text, np.array([0, 1, 1, 1, 0], np.int32), np.zeros(3, np.float32)))


def test_onto_what_the_caller_gives() -> None:
    text = "def f(int32(M) I, float(K,M) A, float(N) L) -> (float(K,N) H) { H(k, I(i)) += A(k, i) }"
    p = problem(
        text, RNG.integers(0, 6, 9).astype(np.int32), numbers(4, 9), np.zeros(6, np.float32)
    )
    held(p)


@pytest.mark.parametrize("value", [-1, 6, 2**31 - 1])
def test_a_write_outside_is_a_fault(value: int) -> None:
    indices = np.array([0, 5, value, 2], np.int32)
    p = problem(EMBED, indices, numbers(4, 3), np.zeros((6, 3), np.float32))
    with pytest.raises(BoundsError, match=f"subscript 0 of 'dW' is {value}"):
        expected(p)
    with pytest.raises(BoundsError):
        run_cases([Case(p, exact=False)])


def test_a_product_of_polynomials() -> None:
    p = problem(
        "def f(float(N) A, float(M) B) -> (O) { O(i + j) +=! A(i) * B(j) }", numbers(7), numbers(4)
    )
    held(p)
    assert np.array_equal(expected(p)[0], np.convolve(*p.args).astype(np.float32))


def test_a_product_of_matrices_whose_rows_meet_is_no_contraction() -> None:
    text = "def f(float(N,K) A, float(M,K) B) -> (O) { O(i + j) +=! A(i, k) * B(j, k) }"
    held(problem(text, numbers(17, 9), numbers(20, 9)))


@pytest.mark.wide
def test_transposed_convolution() -> None:
    text = """def deconv(float(C,H,W) I, float(C,F,KH,KW) K) -> (O) {
        O(f, 2 * h + kh, 2 * w + kw) +=! I(c, h, w) * K(c, f, kh, kw)
    }"""
    held(problem(text, numbers(3, 5, 6), numbers(3, 2, 3, 3)))


def test_concatenation_and_interleaving() -> None:
    held(
        problem(
            "def f(float(M) A, float(N) B) -> (O) { O(i) = A(i)  O(i + M) = B(i) }",
            numbers(3),
            numbers(4),
        )
    )
    held(
        problem(
            "def f(float(N) A, float(N) B) -> (O) { O(2 * i) = A(i)  O(2 * j + 1) = B(j) }",
            numbers(5),
            numbers(5),
        )
    )


@pytest.mark.deep
def test_reshape_on_the_left() -> None:
    p = problem("def f<W=3>(float(N) A) -> (O) { O(n / W, n % W) = A(n) }", numbers(12))
    held(p)
    assert np.array_equal(expected(p)[0], p.args[0].reshape(4, 3))
    three = "def f<H=3, W=2>(float(N) A) -> (O) { O(n / (H * W), n / W % H, n % W) = A(n) }"
    p = problem(three, numbers(18))
    held(p)
    assert np.array_equal(expected(p)[0], p.args[0].reshape(3, 3, 2))


def test_a_bounded_subscript_from_data_needs_no_declared_extent() -> None:
    text = """def f(int32(M) I, float(M) A, float(N) L) -> (H) {
        H(min(max(I(i), 0), N - 1)) +=! A(i)
    }"""
    indices = np.array([-7, 3, 99, 0, 3], np.int32)
    held(problem(text, indices, numbers(5), np.zeros(4, np.float32)))


PIXEL_SHUFFLE = """def f<R=2>(float(N,C,H,W) I) -> (O) {
    O(n, c, R * h + r, R * w + s) = I(n, c * R * R + r * R + s, h, w)
        where c in 0:C / (R * R), r in 0:R, s in 0:R
}"""


def test_pixel_shuffle() -> None:
    p = problem(PIXEL_SHUFFLE, numbers(2, 8, 3, 4))
    assert "points that meet" not in form(p)
    held(p)
    x = p.args[0].reshape(2, 2, 2, 2, 3, 4).transpose(0, 1, 4, 2, 5, 3)
    assert np.array_equal(expected(p)[0], x.reshape(2, 2, 6, 8))


def test_a_flattening_is_one_to_one() -> None:
    p = problem("def f(float(H,W) A) -> (O) { O(h * W + w) = A(h, w) }", numbers(5, 7))
    held(p)
    assert np.array_equal(expected(p)[0], p.args[0].ravel())
    with pytest.raises(TCTypeError, match="TC192"):
        problem("def f(float(H,W) A) -> (O) { O(h * W + w) = A(h, w) where w in 0:W + 1 }")


@pytest.mark.parametrize(
    ("index", "message"),
    [([0, 3, 1], "operand 1 dim 0: 3 of 3"), ([0, 2, 1], "operand 3 dim 0: 4 of 4")],
)
def test_reads_within_a_subscript_of_the_left_are_checked(index: list[int], message: str) -> None:
    text = """def f(int32(B) I, int32(K) J, float(N) L) -> (float(N) H) { H(J(I(b))) +=! 1.0 }"""
    two = np.array([0, 1, 4], np.int32)
    p = problem(text, np.array(index, np.int32), two, np.zeros(4, np.float32))
    for exact in (True, False):
        with pytest.raises(BoundsError, match=message):
            run_cases([Case(p, exact=exact)])
    text = """def f(int32(B) I, float(B) A, float(N) L) -> (float(N) H) {
        H(I(b + 1)) +=! A(b) where b in 0:B
    }"""
    with pytest.raises(RangeError, match="TC2"):
        problem(text, two, numbers(3), np.zeros(4, np.float32))


SHUFFLES = {
    "shuffle": """(float(N,2,3,H,W) X) -> (float(N,2*H,3*W) O) {
        O(n, 2*h + r, 3*w + s) = X(n,r,s,h,w) }""",
    "lines": "(float(N,H,2) X, float(N) c) -> (float(N,2*H) O) { O(n, 2*h + r) = X(n,h,r) * c(n) }",
    "read": """(float(N,2,H) X) -> (float(N,2*H) O, S) {
        O(n, 2*h + r) = X(n,r,h)  S(n) +=! O(n,i) * i }""",
    "sums": "(float(N,2,H) X) -> (float(2*H) O) { O(2*h + r) +=! X(n,r,h) }",
    "temporary": "(float(N,2,H) X) -> (Z) { Y(2*h + r, n) = X(n,r,h)  Z(i, n) = Y(i, n) + 1 }",
}  # fmt: skip


@sampled("name", SHUFFLES, keep=2)
def test_digits_that_reach_every_element_leave_nothing_to_fill(
    name: str, rng: np.random.Generator
) -> None:
    text = f"def f{SHUFFLES[name]}"
    cases: list[Case] = []
    for n, h, w in ((2, 5, 9), (3, 40, 1), (1, 0, 4), (0, 3, 2)):
        x = rng.normal(size={"shuffle": (n, 2, 3, h, w), "lines": (n, h, 2)}.get(name, (n, 2, h)))
        more = (rng.normal(size=n).astype(np.float32),) if name == "lines" else ()
        p = problem(text, x.astype(np.float32), *more)
        assert not any(s.op == "=" and not s.reads() for s in p.program.statements)
        cases += [Case(p, exact) for exact in (True, False)]
    differential(cases, terms=10)


def test_digits_that_leave_elements_out_are_filled_before(rng: np.random.Generator) -> None:
    x = rng.normal(size=(4, 2)).astype(np.float32)
    for text, want in (
        ("(float(8) O) { O(2*h + r) = X(h,r) where h in 0:3 }", [*x[:3].ravel(), 0, 0]),
        ("(float(12) O) { O(3*h + r) = X(h,r) }", np.pad(x, ((0, 0), (0, 1))).ravel()),
        ("(float(9) O) { O(2*h + r + 1) = X(h,r) }", [0, *x.ravel()]),
    ):
        p = problem(f"def f(float(H,2) X) -> {text}", x)
        for (got,) in run_cases([Case(p, exact) for exact in (True, False)]):
            np.testing.assert_array_equal(got, np.asarray(want, np.float32))
