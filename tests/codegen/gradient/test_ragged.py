"""Derivatives of ragged sums: a bound solved for the other index, a condition, a scatter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.text.parser import parse
from tests.codegen.gradient.autograd import pulled
from tests.codegen.gradient.differences import (
    assert_gradient,
    differentiated,
    drawn,
    hessian,
    hessian_by_differences,
    results,
)
from tests.codegen.gradient.forwards import assert_tangents
from tests.codegen.gradient.table import TABLE
from tests.codegen.harness import Case, Problem, differential
from tests.codegen.ragged import CASES
from tests.tiers import sampled

FLOATS = [n for n, c in CASES.items() if c.op != "arg"]


def spread(name: str, rng: np.random.Generator, b: int, n: int) -> list[Any]:
    """Return arguments whose numbers differ, so that no extreme has two places."""
    args = CASES[name].args(rng, b, n)
    return [a + rng.normal(size=a.shape) if a.dtype.kind == "f" else a for a in args]


def line_of(text: str) -> str:
    return " ".join(differentiated(text).gradient.text.split("{", 1)[1].split())


@pytest.mark.parametrize(
    ("clause", "share"),
    [
        ("j in 0:i + 1", "d_X(b, j) +=! d_Y(b, i) where i in j:N }"),
        ("j in i + 1:N", "d_X(b, j) +=! d_Y(b, i) where i in 0:j }"),
        ("j in max(0, i - 2):min(N, i + 3)",
         "d_X(b, j) +=! d_Y(b, i) where i in max(0, j - 2) : min(N, j + 3) }"),
        ("j in i / 2:i / 2 + 3", "where i in max(0, 2 * j - 4) : min(N, 2 * j + 2) }"),
        ("j in N - i:N", "where i in N - j : N }"),
        # what no one index tells is a scatter, as the sum is
        ("j in n(i):n(i) + 2",
         "d_X(b, j) += d_Y(b, i) where i in 0:N, j in n(i) : int64(n(i)) + 2 }"),
        ("j in 0:b + i", "d_X(b, j) +=! d_Y(b, i) where i in max(0, j + 1 - b) : N }"),
    ],
)  # fmt: skip
def test_a_bound_is_solved_for_the_index_that_is_summed_then(clause: str, share: str) -> None:
    text = (
        "def f(float(B,N) X, int32(N) n) -> (float(B,N) Y) "
        f"{{ Y(b, i) +=! X(b, j) where {clause} }}"
    )
    assert share in line_of(text)


def test_where_all_is_known_on_the_left_it_is_a_condition() -> None:
    text = "def f(float(B,N) X, int64(B) n) -> (s) { s(b) +=! X(b, j) where j in 0:n(b) }"
    assert line_of(text) == "d_X(b, j) +=! j < n(b) ? d_s(b) : 0.0 }"


@sampled("name", [n for n in FLOATS if "empty" not in n], keep=3)  # which is infinite
def test_gradients_are_those_of_differences(name: str, rng: np.random.Generator) -> None:
    d = differentiated(CASES[name].text)
    for b, n in ((2, 5), (3, 7), (1, 1)):
        assert_gradient(d, spread(name, rng, b, n), rng)


@sampled("name", FLOATS, keep=1)
def test_tangents_are_those_of_differences(name: str, rng: np.random.Generator) -> None:
    checked = check(parse(CASES[name].text))
    for b, n in ((2, 5), (1, 1)):
        assert_tangents(checked, spread(name, rng, b, n), rng)


@sampled("name", ["cumulative product", "causal product", "one in the other"], keep=1)
def test_second_derivatives(name: str, rng: np.random.Generator) -> None:
    d = differentiated(CASES[name].text)
    args = spread(name, rng, 2, 3)
    np.testing.assert_allclose(hessian(d, args), hessian_by_differences(d, args), atol=1e-5)


@pytest.mark.cc
@sampled("name", FLOATS, keep=0, wide=8)
def test_gradients_in_c(name: str, rng: np.random.Generator) -> None:
    d = differentiated(CASES[name].text)
    cases = []
    for b, n in ((2, 5), (3, 7), (1, 1), (0, 3), (4, 19)):
        args = list(CASES[name].args(rng, b, n))
        shapes = [v.shape for v in results(d.checked, args)]
        seeds = [rng.integers(-3, 4, s).astype(np.float32) for s in shapes]
        given = [*args, *(a.astype(np.float32) for a in d.kept(args)), *seeds]
        cases += [Case(Problem(d.backward, tuple(given)), exact) for exact in (True, False)]
    differential(cases, terms=40)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("def f(float(B,N) X, int32(B) n, float(N) h) -> (float(N) Y) "
         "{ Y(j) max= X(b, j) where b in 0:B, j in 0:n(b) }", "data knows"),
        ("def f(float(B,N,M) X, int32(B) n) -> (Y) "
         "{ Y(b) max=! X(b, j, k) where j in 0:n(b) }", "data knows"),
    ],
)  # fmt: skip
def test_extremes_without_places_are_refused(text: str, what: str) -> None:
    with pytest.raises(TCTypeError, match=what) as caught:
        differentiated(text)
    assert "error[TC143]: the gradient goes through 'max=" in str(caught.value)


def test_a_place_in_a_range_that_data_begins_is_an_int64() -> None:
    d = differentiated(
        "def f(float(B,K) X, int64(B,M) o) -> (float(B, M - 1) Y) "
        "{ Y(b, s) max=! X(b, k) where s in 0:M - 1, k in o(b, s):o(b, s + 1) }"
    )
    assert "int64(k) == Y_place(b, s)" in d.gradient.text


def test_what_nobody_has_read_may_be_infinite() -> None:
    """Of attention up to the diagonal, the exponentials behind it overflow; no gradient sees it."""
    d = differentiated(TABLE["attention up to the diagonal"].text)
    shape = 1, 8, 4
    q, k, v = (np.ones(shape) * np.linspace(0.0, 1.0, 8)[:, None] for _ in range(3))
    q[:, 0], k[:, -1] = 100.0, 1e4
    forward = evaluate(d.forward, [q, k, v], float64=True)
    with np.errstate(over="ignore"):
        assert np.isinf(np.exp(0.125 * q[0, 0] @ k[0, -1]))
    for x in d.pull([q, k, v], [np.ones(shape)]):
        assert np.isfinite(x).all()
    assert np.isfinite(forward[0]).all()


def test_what_the_forward_pass_has_read_stays_infinite() -> None:
    """A factor that is 0 behind the diagonal does not hide what it was multiplied by there."""
    pytest.importorskip("torch")
    import torch

    d = differentiated("""def f(double(N,N) X, double(N,N) E) -> (O, R) {
        A(i,j) = j - i < 1 ? X(i,j) : 0.0
        C(i,j) = A(i,j) * E(i,j)
        O(i,j) = sin(C(i,j))  R(i) +=! C(i,j) * C(i,j) }""")
    rng = np.random.default_rng(0)
    args = drawn(d.checked, {"N": 4}, rng)
    args[1][0, 2] = np.inf
    seeds = [rng.normal(size=shape) for shape in ((4, 4), (4,))]
    with np.errstate(invalid="ignore"):
        found = d.pull(args, seeds)
    _, wanted = pulled(torch, d.checked, args, seeds)
    assert np.isnan(wanted[1][0, 2])
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-12)
