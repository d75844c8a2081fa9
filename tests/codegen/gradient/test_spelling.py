"""Temporaries of a derivative's text have the types of the definition's tensors."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.reference.evaluator import evaluate
from tests.codegen.gradient.differences import differentiated
from tests.codegen.gradient.forwards import forwards
from tests.tiers import sampled

PARTS = """def f(float(N) A, int32(N) I) -> (O, P) {{
  O(i) {op} {dtype}(I(i)) where i in 2:N
  O(i) {more}
  P(i) = A(i) * A(i) * O(i)
}}"""
OPS = ("=", "+=!", "*=!", "min=!", "max=!")
TYPES = ("int64", "uint8", "uint64", "int32", "double", "bfloat16")


@sampled("dtype", TYPES, keep=3)
@pytest.mark.parametrize("op", OPS)
def test_what_is_written_in_part_begins_with_its_type(dtype: str, op: str) -> None:
    assert_same(PARTS.format(op=op, dtype=dtype, more=f"= {dtype}(O(i) + 1)"))


@pytest.mark.parametrize("op", ["=", "min=!", "max=!"])
def test_conditions_that_are_written_in_part_begin_as_conditions(op: str) -> None:
    text = PARTS.format(op=op, dtype="", more="= O(i) && I(i) < 3")
    assert_same(text.replace("(I(i)) where", "(I(i) > 1) where"))


def assert_same(text: str) -> None:
    """Hold the forward passes of both derivatives against the definition."""
    d = differentiated(text)
    args = [np.array([0.5, -1, 2, 3]), np.array([0, 4, 2, 1], np.int32)]
    wanted = evaluate(d.checked, args, float64=True)
    along = [np.ones(4)]
    for found in (
        evaluate(d.forward, args, float64=True),
        evaluate(forwards(d.checked).both, [*args, *along], float64=True),
    ):
        for got, want in zip(found, wanted, strict=False):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
