"""Gradients of quotients, whatever they are divided by."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.gradient.whole import whole
from tcdsl.grammar.check.definition import check
from tests.codegen.gradient.differences import (
    assert_gradient,
    differentiated,
    differentiated_def,
    drawn,
    seeds_of,
)

TEXTS = {
    "an input": "def f(float(N) a, float(N) b) -> (O) { O(i) = a(i) / b(i) }",
    "an input of the row": "def f(float(N,M) a, float(N) b) -> (O) { O(i, j) = a(i, j) / b(i) }",
    "a sum": """def f(float(N,M) X) -> (O) {
      s(i) +=! X(i, j) * X(i, j)  O(i, j) = X(i, j) / s(i) }""",
    "a sum that is returned": """def f(float(N,M) X) -> (O, s) {
      s(i) +=! X(i, j) * X(i, j)  O(i, j) = X(i, j) / s(i) }""",
    "a sum that others read": """def f(float(N,M) X) -> (O, P) {
      s(i) +=! X(i, j) * X(i, j)  O(i, j) = X(i, j) / s(i)  P(i) = s(i) * s(i) }""",
    "a sum of an input alone": """def f(float(N,M) X, float(N,M) Y) -> (O) {
      s(i) +=! exp(Y(i, j))  O(i, j) = X(i, j) / s(i) }""",
    "a copy of a sum": """def f(float(N,M) X) -> (O) {
      q(i) +=! exp(X(i, j))  s(i) = q(i)  O(i, j) = exp(X(i, j)) / s(i) }""",
    "a logarithm": """def f(float(N,M) X) -> (O) {
      m(i) max=! X(i, j)  s(i) +=! exp(X(i, j) - m(i))  O(i, j) = X(i, j) - m(i) - log(s(i)) }""",
    "a logarithm that is read again": """def f(float(N,M) X) -> (O, P) {
      s(i) +=! exp(X(i, j))  O(i, j) = X(i, j) - log(s(i))  P(i, j) = sin(O(i, j)) * s(i) }""",
    "a logarithm that is no result": """def f(float(N,M) X) -> (P) {
      s(i) +=! exp(X(i, j))  O(i, j) = X(i, j) - log(s(i))  P(i) +=! sin(O(i, j)) }""",
    "a logarithm of what may be negative": """def f(float(N,M) X) -> (O) {
      s(i) +=! X(i, j)  O(i, j) = X(i, j) - log(s(i)) }""",
    "a logarithm of another sum": """def f(float(N,M) X, float(N,M) Y) -> (O) {
      s(i) +=! exp(Y(i, j))  O(i, j) = X(i, j) - log(s(i)) }""",
    "a logarithm of a sum of columns": """def f(float(N,M) X) -> (O) {
      s(j) +=! exp(X(i, j))  O(i, j) = X(i, j) - log(s(j)) }""",
    "a part of the rows": """def f(float(N,M) X) -> (O) {
      s(i) +=! exp(X(i, j))  O(i, j) = exp(X(i, j)) / s(i) where i in 0:N, j in 0:M-1 }""",
    "a logarithm of a part": """def f(float(N,M) X) -> (float(N,M) O) {
      s(i) +=! exp(X(i, j))  O(i, j) = X(i, j) - log(s(i)) where i in 0:N, j in 1:M }""",
    "a sum that is the result": """def f(float(N,M) X, float(N) a, float(N) b, float(M) c) -> (O) {
      s(i) +=! exp(b(i) + c(j))  t(i) = b(i) - log(s(i))
      O(i, j) = X(i, j) * t(i) - (exp(b(i)) + a(i)) / s(i) }""",
    "under a condition": """def f(float(N,M) X) -> (O) {
      E(i, j) = j <= i ? exp(0.5 * X(i, j)) : 0.0  s(i) +=! E(i, j)  O(i, j) = E(i, j) / s(i) }""",
    "under a condition and not": """def f(float(N,M) X) -> (O) {
      E(i, j) = j <= i ? exp(0.5 * X(i, j)) : X(i, j)  s(i) +=! E(i, j)
      O(i, j) = E(i, j) / s(i) }""",
    "under another condition": """def f(float(N,M) X) -> (O) {
      E(i, j) = j <= i ? exp(X(i, j)) : 0.5  s(i) +=! E(i, j)
      O(i, j) = E(i, j) / s(i) * (j < i ? X(i, j) : exp(X(i, j))) }""",
    "an input that is written over": """def f(float(N,M) X, float(N) b) -> (O) {
      t(i) = b(i) * b(i) + 1  O(i, j) = X(i, j) / t(i)  O(i, j) = O(i, j) * b(i) }""",
}


@pytest.mark.parametrize(
    "name",
    [
        n
        if n in ("an input", "a logarithm", "a sum that is the result", "under a condition and not")
        or "part" in n
        else pytest.param(n, marks=pytest.mark.wide)
        for n in TEXTS
    ],
)
def test_quotients_by(name: str, rng: np.random.Generator) -> None:
    d = differentiated(TEXTS[name])
    args = [np.abs(x) + 0.5 for x in drawn(d.checked, {"N": 3, "M": 4}, rng)]
    assert_gradient(d, args, rng)
    args += seeds_of(d.checked, args, rng)
    both = differentiated_def(check(whole(d.gradient), d.gradient.name))
    assert_gradient(both, args, rng, step=1e-7, tolerance=1e-4)


@pytest.mark.parametrize("name", ["a logarithm", "under a condition"])
def test_goes_back_by_the_result(name: str) -> None:
    made = differentiated(TEXTS[name]).gradient
    assert not made.extra  # so neither sums nor extremes are kept
    assert " X(" not in made.text.partition("{")[2]


def test_logarithms_of_large_and_of_no_numbers(rng: np.random.Generator) -> None:
    d = differentiated(TEXTS["a logarithm"])
    x = rng.normal(size=(5, 4)) * 100
    x[1] += 1e6
    x[2, 1], x[3, 2], x[4, 0] = -np.inf, np.nan, np.inf
    seed = rng.normal(size=x.shape)
    with np.errstate(invalid="ignore"):
        (slope,) = d.pull([x], [seed])
        part = np.exp(x - x.max(1, keepdims=True))
        part /= part.sum(1, keepdims=True)
        np.testing.assert_allclose(slope, seed - seed.sum(1, keepdims=True) * part, rtol=1e-9)
