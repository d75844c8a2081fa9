"""Extremes of bools, and comparisons, are bools: the reference, C and CUDA against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen.harness import Case, Problem, expected, problem, run_cases
from tests.cusim.harness import differential
from tests.tiers import sampled

TEXTS = {
    "rows": "def f(bool(N, M) A, float(N, M) X) -> (a, b) {"
    " a(i) max=! A(i, j) b(i) min=! X(i, j) > -2.0 || A(i, j) }",
    "columns": "def f(bool(N, M) A, float(N, M) X) -> (a, b) {"
    " a(j) min=! A(i, j) b(j) max=! X(i, j) > 2.0 }",
    "all": "def f(bool(N, M) A, float(N, M) X) -> (a, b) {"
    " a max=! A(i, j) && X(i, j) > 1.5 b min=! isfinite(X(i, j)) }",
    "points": "def f(bool(N, M) A, float(N, M) X) -> (a, b) {"
    " a(i, j) = max(X(i, j) > 0, X(i, 0) < 0.5) b(i, j) = min(A(i, j), X(i, j) != 0) }",
    "chosen": "def f(bool(N, M) A, float(N, M) X) -> (a, b) {"
    " a(i, j) = max(X(i, j) > 0, X(i, j) < -1) ? X(i, j) : 0 b(i) +=! min(A(i, j), A(0, j)) }",
    "update": "def f(bool(N, M) A, float(N, M) X) -> (a, b) {"
    " a(j) = A(0, j) a(j) max= A(i, j) b(i) = A(i, 0) b(i) min= X(i, j) > -1 }",
    "scatter": "def f(bool(N, M) A, float(N, M) X) -> (bool(5) a, bool(7) b) {"
    " a(clamp(int32(X(i, 0)) + 2, 0, 4)) max=! A(i, j)"
    " b(clamp(int32(X(i, j)) + 3, 0, 6)) min=! A(i, j) }",
}


def wanted(name: str, a: Any, x: Any) -> tuple[Any, ...]:
    match name:
        case "rows":
            return a.any(1), ((x > -2) | a).all(1)
        case "columns":
            return a.all(0), (x > 2).any(0)
        case "all":
            return (a & (x > 1.5)).any(), np.isfinite(x).all()
        case "points":
            return (x > 0) | (x[:, :1] < 0.5), a & (x != 0)
        case "chosen":
            return np.where((x > 0) | (x < -1), x, 0), (a & a[:1]).sum(1, dtype=np.int32)
        case "update":
            return a[0] | a.any(0), a[:, 0] & (x > -1).all(1)
    p, q = np.zeros(5, bool), np.ones(7, bool)
    for i, j in np.ndindex(*a.shape):
        p[np.clip(int(x[i, 0]) + 2, 0, 4)] |= a[i, j]
        q[np.clip(int(x[i, j]) + 3, 0, 6)] &= a[i, j]
    return p, q


def made(name: str, n: int, m: int, rng: np.random.Generator) -> tuple[Problem, tuple[Any, ...]]:
    a = rng.random((n, m)) < rng.choice([0.02, 0.5, 0.98])
    x = rng.standard_normal((n, m)).astype(np.float32) * 2
    return problem(TEXTS[name], a, x), wanted(name, a, x)


SIZES = [(5, 3), (1, 1), (67, 130), (3, 1000), (300, 17)]


@pytest.mark.cc
@sampled("name", TEXTS, keep=1)
def test_extremes_of_bools_are_bools(name: str, rng: np.random.Generator) -> None:
    found = [(*made(name, n, m, rng), n, m) for n, m in SIZES]
    ran = iter(run_cases([Case(p, exact) for p, *_ in found for exact in (True, False)]))
    for p, want, n, m in found:
        for got in (expected(p), next(ran), next(ran)):
            for one, w in zip(got, want, strict=True):
                assert one.dtype == w.dtype
                np.testing.assert_array_equal(one, w, err_msg=f"{name} {n} {m}")


@pytest.mark.cusim
@sampled("name", TEXTS, keep=1, wide=3)
def test_cuda_gives_the_same(name: str, rng: np.random.Generator) -> None:
    for n, m in SIZES[:3]:
        differential(made(name, n, m, rng)[0])
