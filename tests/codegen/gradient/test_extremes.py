"""Extremes that are added to later: the share goes by what the extreme was, not by the sum."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.gradient.differences import assert_gradient, differentiated, drawn

TEXTS = {
    "over an index": "def f(float(N,L) I, float(N) b) -> (O) { O(n) max=! I(n, l) O(n) += b(n) }",
    "least": "def f(float(N,L) I, float(N) b) -> (O) { O(n) min=! I(n, l) O(n) += b(n) }",
    "through data": """def f(float(L) X, int32(L) I, float(N) b) -> (float(N) O) {
      O(I(l)) max=! X(l)  O(n) += b(n) }""",
}


@pytest.mark.parametrize("name", TEXTS)
def test_an_extreme_that_is_added_to(name: str, rng: np.random.Generator) -> None:
    d = differentiated(TEXTS[name])
    assert_gradient(d, drawn(d.checked, {"N": 3, "L": 5}, rng), rng)
