"""The simulator runs units as they are emitted, in any order of threads and blocks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.harness import problem
from tests.cusim.harness import differential

pytestmark = pytest.mark.cusim

FCRELU = """def fcrelu(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
    O(b_, n) +=! I(b_, m) * W(n, m)
    O(b_, n)  = fmax(O(b_, n) + b(n), 0)
}"""


def test_a_unit_gives_what_the_reference_gives(rng: np.random.Generator) -> None:
    shapes = ((33, 20), (10, 20), (10,))
    p = problem(FCRELU, *(rng.standard_normal(s, np.float32) for s in shapes))
    differential(p, terms=20, orders=("forward", "reverse", "random"))


def test_views_are_reached_by_their_strides_alone(rng: np.random.Generator) -> None:
    a = rng.standard_normal((33, 20), np.float32)[::-1, ::2]
    out = np.zeros((20, 33), np.float32)[::2]
    differential(problem("def t(float(M,N) A) -> (O) { O(j,i) = A(i,j) * 2 }", a, outs=[out]))
