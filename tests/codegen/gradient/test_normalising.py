"""Gradients of quotients, whatever they are divided by."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.gradient.differences import assert_gradient, differentiated, drawn

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
    "an input that is written over": """def f(float(N,M) X, float(N) b) -> (O) {
      t(i) = b(i) * b(i) + 1  O(i, j) = X(i, j) / t(i)  O(i, j) = O(i, j) * b(i) }""",
}


@pytest.mark.parametrize(
    "name", [n if n == "an input" else pytest.param(n, marks=pytest.mark.wide) for n in TEXTS]
)
def test_quotients_by(name: str, rng: np.random.Generator) -> None:
    d = differentiated(TEXTS[name])
    args = [np.abs(x) + 0.5 for x in drawn(d.checked, {"N": 3, "M": 4}, rng)]
    assert_gradient(d, args, rng)
