"""Assignments through data: the last point wins, in the reference, in C and in CUDA."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.gradient.jvp import tangents
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.program.last import with_last_points
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.dtypes import BY_NAME
from tests.codegen.harness import Case, Problem, expected, problem, run_cases
from tests.cusim.harness import differential
from tests.tiers import sampled

HEAD = "def f<T>(int32(P) I, int32(P, B) J, T(P, B) V, T(N, B) X)"
TEXTS = {
    "return": "-> (T(N, B) Y) { Y(I(p), b) = V(p, b) where exists X(0, 0) }",
    "after": "-> (Y) { Y(i, b) = X(i, b) Y(I(p), b) = V(p, b) * V(p, b) }",
    "all": "-> (T(N) Y) { Y(J(p, b)) = V(p, b) where exists X(0, 0) }",
    "shifted": "-> (Y) { Y(i, b) = X(i - 2, b) Y(I(p) + 2, b) = V(p, b) where b in 0 : min(B, 2) }",
    "middle": "-> (Y) { Y(b, i) = X(i, b) Y(b, J(p, b)) = V(p, b) where p in 1:P }",
    "temporary": "-> (Z) { Y(i, b) = X(i, b) Y(I(p), b) = V(p, b) Z(i) +=! Y(i, b) * Y(i, b) }",
    "loop": "-> (Y) { Y(i, b) = X(i, b) for t in 0:2 {"
    " Y(I(p), b) = V(p, b) * (t + 1)  Y(i, b) = Y(i, b) * X(i, b) } }",
}
SIZES = [(9, 3, 5), (1, 1, 1), (40, 7, 4), (5, 2, 30), (0, 3, 4)]


def wanted(name: str, i: Any, j: Any, v: Any, x: Any) -> Any:
    """Assign point by point."""
    y = np.zeros_like(x) if name == "return" else x.copy()
    match name:
        case "all":
            y = np.zeros(len(x), x.dtype)
            for p, b in np.ndindex(*v.shape):
                y[j[p, b]] = v[p, b]
        case "middle":
            for p in range(1, len(i)):
                for b in range(v.shape[1]):
                    y[j[p, b], b] = v[p, b]
            y = y.T
        case "shifted":
            for p in range(len(i)):
                y[i[p], :2] = v[p, :2]
        case "loop":
            for t in range(2):
                for p in range(len(i)):
                    y[i[p]] = v[p] * (t + 1)
                y = y * x
        case _:
            for p in range(len(i)):
                y[i[p]] = v[p] * v[p] if name == "after" else v[p]
    return (y * y).sum(1) if name == "temporary" else y


def made(name: str, dtype: Any, rng: np.random.Generator) -> list[tuple[Problem, Any]]:
    found = []
    for p, b, n in SIZES:
        i = rng.integers(0, n, p).astype(np.int32)
        j = rng.integers(0, n, (p, b)).astype(np.int32)
        v, x = (rng.integers(-4, 5, s).astype(dtype) for s in ((p, b), (n, b)))
        if name == "middle" and p == 0:
            continue
        types: dict[str, Any] = {"T": BY_NAME[np.dtype(dtype).name]}
        args = (i, j, v, x)
        found.append((problem(f"{HEAD} {TEXTS[name]}", *args, **types), wanted(name, *args)))
    return found


@pytest.mark.cc
@sampled("name", TEXTS, keep=1)
def test_the_last_point_wins(name: str, rng: np.random.Generator) -> None:
    for dtype in (np.float32, np.float64, *(() if name == "loop" else (np.int16,))):
        found = made(name, dtype, rng)
        ran = iter(run_cases([Case(p, exact) for p, _ in found for exact in (True, False)]))
        for p, want in found:
            gathered = expected(replace(p, checked=with_last_points(p.checked)))
            for got in (expected(p), gathered, next(ran), next(ran)):
                np.testing.assert_array_equal(got[0], want, err_msg=f"{name} {dtype}")


@pytest.mark.cusim
@sampled("name", TEXTS, keep=1, wide=3)
def test_cuda_gives_the_same(name: str, rng: np.random.Generator) -> None:
    for p, _ in made(name, np.float32, rng)[:3]:
        differential(p)
        differential(replace(p, checked=with_last_points(p.checked)))


@sampled("name", TEXTS, keep=1)
def test_the_gradient_goes_to_the_point_that_was_last(name: str, rng: np.random.Generator) -> None:
    for p, _ in made(name, np.float64, rng)[:4]:
        back, along = gradient(p.checked), tangents(p.checked)
        given = Problem(p.checked, p.args).args
        stored = expected(problem(back.forward, *given))
        names = [t.name for t in check(parse(back.forward)).returns]
        kept = [dict(zip(names, stored, strict=True))[k] for k in back.kept]
        adjoint = rng.standard_normal(stored[0].shape)
        pulled = expected(problem(back.text, *given, *kept, adjoint))
        moves = [rng.standard_normal(a.shape) for a in given[2:]]
        pushed = expected(problem(along.text, *given, *moves))[1]
        slope = float((pushed * adjoint).sum())
        total = sum(float((d * m).sum()) for d, m in zip(pulled, moves, strict=True))
        np.testing.assert_allclose(total, slope, rtol=1e-10, atol=1e-10)
        step = 1e-6
        ahead, behind = (
            wanted(name, *given[:2], *(a + s * m for a, m in zip(given[2:], moves, strict=True)))
            for s in (step, -step)
        )
        np.testing.assert_allclose(
            slope, ((ahead - behind) / (2 * step) * adjoint).sum(), rtol=1e-5, atol=1e-5
        )


@pytest.mark.cc
def test_a_subscript_outside_of_what_is_there_is_an_index_error() -> None:
    text = "def f(int32(P) I, float(P) V, float(N) X) -> (Y) { Y(i) = X(i) Y(I(p)) = V(p) }"
    f = tc.define(text, tune="off")
    x, v = np.zeros(4, np.float32), np.ones(3, np.float32)
    np.testing.assert_array_equal(f(np.array([3, 0, 3], np.int32), v, x), [1, 0, 0, 1])
    for bad in (4, -1):
        with pytest.raises(IndexError, match=rf"subscript 0 of 'Y' is {bad}, outside \[0, 4\)"):
            f(np.array([0, bad, 1], np.int32), v, x)
