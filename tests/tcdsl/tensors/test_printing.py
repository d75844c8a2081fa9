"""Tensors are printed as PyTorch prints them, to the letter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl import library as tc
from tcdsl.core import Tensor

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

source = np.random.default_rng(0)
ARRAYS = [
    np.array(1.5, np.float32),
    np.array(3),
    np.array(True),
    np.zeros(0, np.float32),
    np.zeros(30, np.float32),
    np.zeros((0, 3), np.float32),
    np.zeros((3, 0, 2), np.int64),
    source.standard_normal((2, 3)).astype(np.float32),
    source.standard_normal((2, 3, 4)),
    np.arange(5.0, dtype=np.float32),
    source.standard_normal(50).astype(np.float32),
    source.standard_normal((40, 50)).astype(np.float32),
    np.arange(2000),
    np.array([1e-5, 1], np.float32),
    np.array([1e9, 1.5], np.float32),
    np.array([1, np.nan, np.inf], np.float32),
    np.array([np.nan], np.float32),
    source.integers(-100, 100, (4, 5)),
    source.integers(0, 2, (3, 3)).astype(bool),
    source.standard_normal((11, 11, 11)).astype(np.float32),
    np.array([1, 1000], np.float32),
    np.array([1, 1001], np.float32),
    np.zeros(2, np.uint8),
    np.zeros((), np.float16),
    source.standard_normal((1, 2000)).astype(np.float32),
    np.arange(30) * 1000000,
    np.zeros((2, 1, 3, 1), np.float32),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{list(a.shape)}")
def test_text_is_pytorchs(array: Any) -> None:
    assert repr(tc.tensor(array)) == repr(torch.tensor(array))


def test_gradients_are_told() -> None:
    x: Tensor = tc.tensor([1.0, 2.0], requires_grad=True)
    assert repr(x) == "tensor([1., 2.], requires_grad=True)"
    assert repr(x * 2).startswith("tensor([2., 4.], grad_fn=<Mul")


def test_lines_break_where_pytorchs_do() -> None:
    for n in (6, 7, 8):
        x, y = (t.arange(float(n), dtype=t.float64).requires_grad_() * 1 for t in (tc, torch))
        assert repr(x) == repr(y)


def test_the_type_is_told_unless_it_is_the_default() -> None:
    texts = []
    for library in (tc, torch):
        try:
            library.set_default_dtype(library.float64)
            made = [library.tensor([1.5]), library.tensor([1.5]).float(), library.zeros(0)]
            texts.append([repr(t) for t in made])
        finally:
            library.set_default_dtype(library.float32)
    assert texts[0] == texts[1]


def test_options_change_what_is_printed() -> None:
    try:
        tc.set_printoptions(precision=2)
        assert repr(tc.tensor([0.12345])) == "tensor([0.12])"
        tc.set_printoptions(sci_mode=True)
        assert repr(tc.tensor([0.5])) == "tensor([5.00e-01])"
        tc.set_printoptions(precision=3)
        assert repr(tc.tensor([0.5])) == "tensor([0.500])"  # by the numbers again
    finally:
        tc.set_printoptions(profile="default")
    assert repr(tc.tensor([0.12345])) == "tensor([0.1235])"
