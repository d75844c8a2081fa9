"""Factors that are no plain access become temporaries, so that the sum is a contraction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen.harness import Case, Problem, differential, problem
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
