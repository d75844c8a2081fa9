"""Loops over states of half types: what a turn combines in float32 is rounded once."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.gradient.differences import assert_gradient, differentiated_def, drawn
from tests.tiers import sampled

BODIES = {
    "a factor": "a(n) = w(n) for t in 0:T { a(n) *= sin(X(t, n)) }",
    "a float32 factor": """a(n) = w(n)  h(n) = 0.5 * X(0, n)
      for t in 0:T { a(n) *= tanh(h(n) * X(t, n)) }""",
    "a float32 term": """a(n) = w(n)  h(n) = 0.5 * X(0, n)
      for t in 0:T { a(n) += tanh(h(n) * X(t, n)) }""",
    "an extreme of float32 states": """a(n) = w(n)  h(n) = 0.5 * X(0, n)
      for t in 0:T { h(n) *= tanh(h(n) * X(t, n))  a(n) max= h(n) }""",
}


@sampled("name", ["a float32 factor", *(n for n in BODIES if n != "a float32 factor")], keep=1)
@pytest.mark.parametrize("checkpoint", [None, pytest.param(2, marks=pytest.mark.wide)])
@pytest.mark.parametrize("dtype", ["float16", pytest.param("bfloat16", marks=pytest.mark.wide)])
def test_gradient_of_a_loop_of_halves(
    name: str, dtype: str, checkpoint: int | None, rng: np.random.Generator
) -> None:
    f = check(parse(f"def f({dtype}(T,N) X, {dtype}(N) w) -> (a) {{ {BODIES[name]} }}"))
    d = differentiated_def(f, checkpoint)
    assert_gradient(d, drawn(f, {"T": 5, "N": 3}, rng), rng)
