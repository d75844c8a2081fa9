"""Factors that are no plain access become temporaries, so that the sum is a contraction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen.harness import Case, Problem, differential, problem
from tests.codegen.pages import between_pages
from tests.tiers import sampled

RNG = np.random.default_rng(31)


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def texts(p: Problem) -> list[str]:
    return [s.text for s in p.program.statements]


def held(p: Problem) -> None:
    differential([Case(p, exact=e) for e in (True, False)], 128)


MM = "def f(float(M,K) A, float(K,N) B, float(K) d) -> (C) { C(i, j) +=! VALUE }"


@pytest.mark.cc
@sampled(
    "value, temporary",
    [
        ("exp(A(i, k)) * B(k, j) + 0 * d(k)", None),  # no product
        ("exp(A(i, k)) * B(k, j)", "C.factor(i, k) = exp(A(i, k)) where i in 0:M, k in 0:K"),
        ("A(i, k) * B(k, j) * d(k)", "C.factor(k, j) = B(k, j) * d(k) where k in 0:K, j in 0:N"),
        ("A(i, k) * B(k, j)", None),
    ],
    keep=2,
)
def test_products(value: str, temporary: str | None) -> None:
    p = problem(MM.replace("VALUE", value), floats(9, 17), floats(17, 20), floats(17))
    found = texts(p)[0]
    assert found == temporary if temporary else "factor" not in found
    held(p)


@pytest.mark.wide
@pytest.mark.cc
@sampled("shape", [(2, 3, 7, 9), (1, 1, 1, 1), (1, 2, 0, 5), (0, 2, 4, 4)], keep=1)
def test_a_border_is_a_padded_copy(shape: tuple[int, ...]) -> None:
    text = """def f(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
        O(n, f_, h, w) +=! pad(I(n, c, h + kh - 1, w + kw - 1), 0) * K(f_, c, kh, kw)
            where h in 0:H, w in 0:W
    }"""
    p = problem(text, floats(*shape), floats(4, shape[1], 3, 3))
    assert len(texts(p)) == 2
    held(p)
    held(problem(text, floats(*shape), floats(4, shape[1], 0, 3)))


@pytest.mark.deep
@pytest.mark.cc
def test_strided_padded_convolution_and_one_onto_another() -> None:
    text = """def f(float(C,H,W) I, float(F,C,KH,KW) K, float(F) b) -> (O) {
        O(f_, h, w) = b(f_) where h in 0:H / 2, w in 0:W / 2
        O(f_, h, w) += pad(I(c, 2 * h + kh - 1, 2 * w + kw - 1), 0) * K(f_, c, kh, kw)
            where h in 0:H / 2, w in 0:W / 2
    }"""
    p = problem(text, floats(3, 9, 12), floats(4, 3, 3, 3), floats(4))
    assert len(texts(p)) == 3
    held(p)


def test_an_index_outside_of_its_sum_keeps_the_factor_whole() -> None:
    text = """def f(float(H) I, float(F,K) K_) -> (O) {
        O(f_, h) +=! (h < 3 ? I(h + k) : 0.0) * K_(f_, k) where h in 0:H - 2, k in 0:2
    }"""
    p = problem(text, floats(9), floats(4, 2))
    assert len(texts(p)) == 1


@pytest.mark.cc
@pytest.mark.parametrize("is_exact", [True, False])
def test_no_factor_is_computed_of_what_only_the_points_of_the_sum_have(is_exact: bool) -> None:
    """Reads are inside since another range has points; where it has none they are not done."""
    numbers = RNG.integers(-3, 4, (8, 8)).astype(np.int32)
    behind_a_page = """def f(int32(M,K) A, int32(K,N) B, int32(K) s) -> (int32(M,N) C) {
        C(i, j) +=! s(K - 1) * A(i, k) * B(k, j)
    }"""
    before_a_page = """def f(float(M,K) A, float(K,N) B) -> (C) {
        C(i, j) +=! exp(A(i, k + 1 - N)) * B(k, j) where k in N - 1 : K
    }"""
    in_pairs = """def f(float(M,K) A, float(K,L) B, float(L,N) D) -> (C) {
        C(i, j) +=! A(i, k + 1 - N) * B(k, l) * D(l, j) where k in N - 1 : K
    }"""
    empty = problem(behind_a_page, numbers[:, :0], numbers[:0], numbers[0, :0])
    square = problem(before_a_page, floats(4, 1024), floats(1024, 0))
    chain = problem(in_pairs, floats(4, 1024), floats(1024, 9), floats(9, 0))
    with (
        between_pages(empty, "before") as first,
        between_pages(square, "after") as second,
        between_pages(chain, "after") as third,
    ):
        differential([Case(p, is_exact) for p in (first, second, third)])


@pytest.mark.cc
def test_sums_without_terms_are_zero_whatever_scales_them() -> None:
    text = """def f(float(M,K) A, float(K,N) B, float(M) s) -> (float(M,N) C) {
        C(i, j) +=! s(i) * A(i, k) * B(k, j) where k in 0:i
    }"""
    s = np.array([np.inf, *floats(8)], np.float32)
    held(problem(text, floats(9, 9), floats(9, 20), s))
