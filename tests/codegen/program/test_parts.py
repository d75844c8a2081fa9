"""Statements that write one part of a tensor each: nothing else is written before them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl
from tests.codegen.harness import problem
from tests.tiers import sampled

CAT = """def f(float(A) X, float(B) Y, float(C) Z) -> (float(A + B + C) O) {
  O(A + b) = Y(b)
  O(A + B + c) = Z(c)
  O(a) = X(a)
}"""
SWAP = """def f<H>(float(N) X) -> (float(N) O) {
  O(i) = X(i + N - H) where i in 0:H
  O(i) = X(i - H) where i in H:N
}"""


def floats(*shape: int) -> Any:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


def is_blank(text: str, *given: Any) -> bool:
    """Whether what the first statement leaves is never looked at, nor filled."""
    return problem(text, *given).program.statements[0].base is not None


@pytest.mark.parametrize(
    ("body", "blank"),
    [
        ("O(n, a) = X(n, a)\n O(n, A + b) = Y(n, b)", True),
        ("O(n, A + b) = Y(n, b)\n O(n, a) = X(n, a)", True),
        ("O(n, a) = X(n, a)\n O(n, a + 1) = Y(n, a) where a in A-1:A+B-1", True),  # far enough
        ("O(n, a) = X(n, a)\n O(n, A + b) = Y(n, b) where b in 1:B", False),  # without A
        ("O(n, a) = X(n, a)\n O(n, A + b) = Y(n, b) where b in 0:B-1", False),  # without the last
        ("O(n, a) = X(n, a) where n in 1:N\n O(n, A + b) = Y(n, b)", False),  # of other rows
        ("O(n, a) = X(n, a)\n O(n, A + b) = O(n, A + b) + Y(n, b)", False),  # reads what it was
        ("O(n, 2 * a) = X(n, a)\n O(n, A + b) = Y(n, b)", False),  # with gaps
    ],
)
def test_parts_that_join_are_not_filled_before(body: str, blank: bool) -> None:
    text = f"def f(float(N,A) X, float(N,B) Y) -> (float(N,A + B) O) {{ {body} }}"
    given = (floats(3, 5), floats(3, 7)) if "a + 1" not in body else (floats(3, 5), floats(3, 11))
    assert is_blank(text, *given) == blank


@pytest.mark.cc
@sampled("sizes", [(17,), (0, 1, 1003)], keep=1)
def test_parts_have_their_values_at_all_sizes(sizes: tuple[int, ...]) -> None:
    cat, swap = tcdsl.define(CAT), tcdsl.define(SWAP)
    for n in sizes:
        x, y, z = floats(n), floats(n // 2), floats(3)
        junk = np.full(2 * n + 3, 9e9, np.float32)
        np.testing.assert_array_equal(cat(x, y, z), np.concatenate([x, y, z]))
        np.testing.assert_array_equal(
            cat(x, y, z, out=junk[: x.size + y.size + 3]), np.concatenate([x, y, z])
        )
        for by in {0, n // 3, n}:
            np.testing.assert_array_equal(swap(x, H=by), np.roll(x, by))
            same = x.copy()
            np.testing.assert_array_equal(swap(same, out=same, H=by), np.roll(x, by))
