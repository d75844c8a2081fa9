"""Operands whose elements lie gigabytes apart: no form computes an address in 32 bits there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.codegen.harness import problem
from tests.cusim.harness import differential, far_array

pytestmark = pytest.mark.cusim

FAR = 1 << 30  # elements; the third of three lies 2^31 behind the first


def far(*shape: int, dtype: Any = np.float32, along: int = 0) -> Any:
    """Return small integers in C order but for one dimension, whose elements are far apart."""
    kind = np.dtype(dtype)
    strides = [kind.itemsize] * len(shape)
    for d in reversed(range(len(shape) - 1)):
        strides[d] = strides[d + 1] * shape[d + 1]
    strides[along] = FAR * kind.itemsize
    values = far_array(shape, strides, kind)
    values[...] = np.arange(values.size).reshape(shape) % 7 - 3
    return values


def near(*shape: int, dtype: Any = np.float32) -> Any:
    return (np.arange(np.prod(shape)).reshape(shape) % 5 - 2).astype(dtype)


FORMS: dict[str, tuple[str, Callable[[], tuple[Any, ...]]]] = {
    "pointwise": ("def f(float(B,N) X) -> (Y) { Y(b, n) = X(b, n) + 1 }", lambda: (far(3, 70),)),
    "permute": ("def f(float(B,N) X) -> (Y) { Y(n, b) = X(b, n) }", lambda: (far(5, 40),)),
    "reduction": ("def f(float(B,N) X) -> (s) { s(b) +=! X(b, n) }", lambda: (far(3, 200),)),
    "columns": ("def f(float(B,N) X) -> (s) { s(n) +=! X(b, n) }", lambda: (far(5, 70),)),
    "rows": (
        "def f(float(B,N) X) -> (Y) { m(b) max=! X(b, n)  Y(b, n) = X(b, n) - m(b) }",
        lambda: (far(3, 100),),
    ),
    "contraction": (
        "def f(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }",
        lambda: (far(5, 40), near(40, 33)),
    ),
    "contraction of far rows": (
        "def f(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }",
        lambda: (near(33, 5), far(5, 40)),
    ),
    "tensor cores": (
        "def f(float16(M,K) A, float16(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }",
        lambda: (far(5, 48, dtype=np.float16), near(48, 32, dtype=np.float16)),
    ),
    "gather": (
        "def f(float(V,D) E, int32(B) I) -> (O) { O(b, d) = E(I(b), d) }",
        lambda: (far(5, 33), np.array([4, 0, 3, 4], np.int32)),
    ),
    "scatter": (
        "def f(float(B,D) X, int32(B) I, float(V) w) -> (float(V,D) O) { O(I(b), d) +=! X(b, d) }",
        lambda: (far(4, 33), np.array([4, 0, 3, 4], np.int32), near(6)),
    ),
    "argmax": ("def f(float(B,N) X) -> (A) { A(b) argmax=! X(b, n) }", lambda: (far(3, 90),)),
    "loop": (
        "def f(float(T,N) X) -> (H) { H(0, n) = X(0, n) for t in 1:T { H(t, n) = H(t - 1, n) "
        "+ X(t, n) } }",
        lambda: (far(4, 33),),
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        n if n in ("pointwise", "contraction") else pytest.param(n, marks=pytest.mark.wide)
        for n in FORMS
    ],
)
def test_every_form_reads_operands_that_are_far_apart(name: str) -> None:
    text, operands = FORMS[name]
    differential(problem(text, *operands()), terms=200)


@pytest.mark.wide
def test_results_may_lie_far_apart() -> None:
    text = "def f(float(B,N) X) -> (Y) { Y(b, n) = X(b, n) + 1 }"
    differential(problem(text, near(5, 33), outs=(far(5, 33),)))
