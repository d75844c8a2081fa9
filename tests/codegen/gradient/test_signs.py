"""Signs that leave sums, and temporaries that results copy: texts, and what they compute."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.gradient.differences import assert_gradient, differentiated, drawn

TEXTS = {
    "read with the other sign": (
        """def f(float(N,M) X) -> (Y) {
            mx(n) max=! X(n, m)  s(n) +=! exp(X(n, m) - mx(n))
            Y(n, m) = exp(X(n, m) - mx(n)) / s(n)
        }""",
        "- a_s(n)",
    ),
    "a difference turned": (
        "def f(float(N,D) A, float(M,D) B) -> (Y) { Y(n, m) +=! abs(A(n, d) - B(m, d)) }",
        "",
    ),
    "a difference turned in a product": (
        """def f(float(N,D) A, float(M,D) B) -> (Y) {
            Y(n, m) +=! (A(n, d) - B(m, d)) * (A(n, d) - B(m, d))
        }""",
        "(B(m, d) - A(n, d))",
    ),
    "readers of a sum that has lost its sign": (
        """def f(float(N,D) X, float(M,D) C, float(M) W) -> (Y) {
            T(n, m) +=! (X(n, d) - C(m, d)) * (X(n, d) - C(m, d))
            Y(n, m) = exp(-W(m) * W(m) * T(n, m))
        }""",
        "(C(m, d) - X(n, d))",
    ),
    "a result that is its adjoint": (
        """def f(float(N) X, float(N) T) -> (L) {
            D(n) = X(n) - T(n)  L +=! sin(D(n)) * D(n)
        }""",
        "-d_X(n)",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_gradients_are_right(name: str, rng: np.random.Generator) -> None:
    text, part = TEXTS[name]
    assert part in gradient(check(parse(text))).text
    d = differentiated(text)
    assert_gradient(d, drawn(d.checked, {"N": 3, "M": 4, "D": 2}, rng), rng)


def test_a_temporary_that_loops_or_others_write_stays() -> None:
    text = """def f(float(N) X, float(N) W) -> (float(N) Y) {
        Y(n) = W(n) * X(n)  for t in 0:3 { Y(n) = sin(Y(n)) * X(n) }
    }"""
    made = gradient(check(parse(text)))
    assert "for " in made.text
    check(parse(made.text))
