"""What a way back keeps is its own: nothing that is written later changes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.derived.own import own
from tcdsl.grammar.text.errors import TCTypeError

pytestmark = pytest.mark.cc

TEXT = """
def softmax(double(B,N) X) -> (Y) {
  top(b) max=! X(b, n)
  Z(b) +=! exp(X(b, n) - top(b))
  Y(b, n) = exp(X(b, n) - top(b)) / Z(b)
}
def power(double(N) x, double s, int32(M) I) -> (y, z) {
  y(i) = sqrt(x(I(i)) * s)
  z(i) = y(i) * x(I(i))
}
"""


@pytest.fixture(scope="module")
def k() -> Any:
    return tc.define(TEXT, tune="off")


def test_outputs_and_arguments_may_be_written_to(k: Any, rng: np.random.Generator) -> None:
    x, d = rng.normal(size=(2, 3, 7))
    want = k.softmax.vjp(x.copy())[1](d)
    y, pull = k.softmax.vjp(x)
    view = x.T[2:]
    y *= 10
    view[...] = np.nan
    for _ in range(2):
        np.testing.assert_array_equal(pull(d), want)


def test_so_may_index_arrays_scalars_and_the_same_array_twice(k: Any) -> None:
    x, s, index = np.array([4.0, 9.0]), np.array(4.0), np.array([1, 0, 1], np.int32)
    ones = np.ones(3)
    want = k.power.vjp(x.copy(), 4.0, index.copy())[1](ones, ones)
    (y, z), pull = k.power.vjp(x, s, index)
    y[:], z[:], x[:], s[...], index[:] = 7, 7, 7, 7, 99
    got = pull(ones, ones)
    np.testing.assert_array_equal(got.d_x, want.d_x)
    np.testing.assert_array_equal(got.d_s, want.d_s)


@pytest.mark.wide
def test_so_may_adjoints_before_the_second_order(k: Any, rng: np.random.Generator) -> None:
    x, d, dd = rng.normal(size=(3, 2, 5))
    want = k.softmax.vjp(x.copy())[1].vjp(d.copy())[1](dd)
    y, pull = k.softmax.vjp(x)
    x[...] = y[...] = 3
    slope, again = pull.vjp(d)
    d[...] = slope[...] = 5
    for got, exact in zip(again(dd), want, strict=True):
        np.testing.assert_array_equal(got, exact)


def test_references_are_kept_on_request_only(k: Any) -> None:
    x = np.ones((2, 3))
    _, pull = k.softmax.with_grad(copy=False)(x)
    assert any(v is x for v in pull._values)
    _, pull = k.softmax.with_grad()(x)
    assert not any(np.may_share_memory(v, x) for v in pull._values)


def test_copies_keep_the_layout_and_repeat_nothing() -> None:
    x = np.arange(12.0).reshape(3, 4)
    assert own(x.T, "x").strides == x.T.strides
    far = np.broadcast_to(x[:, None, :1], (3, 1 << 40, 4))
    copy = own(far, "x")
    assert copy.shape == far.shape
    assert copy.strides[1:] == (0, 0)
    assert copy[2, 1 << 39, 3] == 8
    assert not np.may_share_memory(copy[0, 0], x)
    assert own(2.5, "s") == 2.5


def test_a_buffer_for_outputs_is_refused(k: Any) -> None:
    x = np.ones((2, 3))
    with pytest.raises(TCTypeError, match=r"takes no out=.*\n.*out\[...\] = y"):
        k.softmax.vjp(x, out=np.empty((2, 3)))


@pytest.mark.torch
def test_tensors_may_be_written_to(k: Any) -> None:
    torch: Any = pytest.importorskip("torch")
    x, d = torch.randn(2, 3, 4, dtype=torch.float64)
    want = k.softmax.vjp(x.numpy().copy())[1](d.numpy())
    y, pull = k.softmax.vjp(x)
    y *= 10
    x.zero_()
    got = pull(d)
    assert isinstance(got, torch.Tensor)
    np.testing.assert_array_equal(got.numpy(), want)


def test_a_copy_of_rank_0_stays_an_array() -> None:
    copy = own(np.array(2.5), "a")
    assert isinstance(copy, np.ndarray)
    assert copy.shape == ()
