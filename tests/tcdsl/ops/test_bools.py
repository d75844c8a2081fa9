"""Sums and products of bools, the places of a number, parts of shapes: as in PyTorch."""

from __future__ import annotations

import pytest

from tcdsl import library as tc
from tcdsl import nn
from tcdsl.core import Size

pytestmark = pytest.mark.cc


@pytest.mark.wide
def test_bools_stay_bools() -> None:
    a, b = tc.tensor([True, False, True]), tc.tensor([True, False, False])
    assert (a + b).tolist() == [True, False, True]
    assert (a * b).tolist() == [True, False, False]
    assert (a * True).dtype is tc.bool
    assert tc.sign(a).tolist() == [True, False, True]


@pytest.mark.wide
def test_what_is_no_number_has_no_sign() -> None:
    x = tc.tensor([float("nan"), -0.0, -2.0, float("inf")], requires_grad=True)
    y = tc.sign(x)
    assert [str(v) for v in y.tolist()] == ["0.0", "0.0", "-1.0", "1.0"]
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0, 0]


def test_a_number_has_a_place_without_subscripts() -> None:
    assert tuple(tc.tensor(3.0).nonzero().shape) == (1, 0)
    assert tuple(tc.tensor(0.0).nonzero().shape) == (0, 0)
    assert tc.tensor(3.0).nonzero(as_tuple=True)[0].tolist() == [0]


def test_parts_and_sums_of_shapes_are_shapes() -> None:
    shape = tc.zeros(2, 3).shape
    for made in (shape[1:], shape + shape, shape * 2, 2 * shape):
        assert type(made) is Size
    assert shape[1] == 3


def test_the_layers_after_one_that_is_deleted_have_new_numbers() -> None:
    layers = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Linear(1, 1))
    del layers[0]
    assert list(layers.state_dict()) == ["1.weight", "1.bias"]
