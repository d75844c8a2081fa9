"""Arguments as arrays, and their layout classes."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.calls.operands.arguments import as_array, is_addressable, layout_of
from tcdsl.calls.operands.foreign import like
from tcdsl.codegen.machine.spec import Layout
from tcdsl.grammar.text.errors import TCTypeError


def test_an_array_is_taken_as_it_is() -> None:
    a = np.zeros((2, 3))
    assert as_array(a, "A") is a


def test_a_number_is_a_rank_0_array() -> None:
    assert as_array(2.5, "a").shape == ()


@pytest.mark.torch
def test_a_torch_tensor_shares_its_memory_both_ways() -> None:
    import torch

    tensor = torch.arange(6.0).reshape(2, 3).T
    array = as_array(tensor, "A")
    array[0, 0] = 7
    assert tensor[0, 0] == 7
    back = like(tensor)(array)
    assert isinstance(back, torch.Tensor)
    assert back.data_ptr() == tensor.data_ptr()


@pytest.mark.torch
def test_a_tensor_that_records_gradients_is_refused_with_the_cure() -> None:
    import torch

    with pytest.raises(TCTypeError, match=r"'A' requires grad.*\n.*no_grad\(\)"):
        as_array(torch.zeros(2, requires_grad=True), "A")


def test_a_list_is_refused_with_the_cure() -> None:
    with pytest.raises(TCTypeError, match=r"for 'A', got list\n  pass numpy.asarray"):
        as_array([1, 2], "A")


def test_foreign_byte_order_is_refused_with_the_cure() -> None:
    with pytest.raises(TCTypeError, match="newbyteorder"):
        as_array(np.zeros(2, ">f4"), "A")


@pytest.mark.parametrize(
    ("array", "layout"),
    [
        (np.zeros((3, 4)), Layout(2, True, 1)),
        (np.zeros((3, 4)).T, Layout(2, False, 0, (), (False,))),
        (np.zeros((3, 4, 5))[::2], Layout(3, False, 2, (), (False, True))),
        (np.zeros((3, 4))[:, ::-1], Layout(2, False, None, (), (False,))),
        (np.broadcast_to(np.zeros(4), (3, 4)), Layout(2, False, 1, (0,), (False,))),
        (np.zeros((1, 4))[:, :3], Layout(2, True, 1)),
        (np.zeros((6, 5))[:, 1:-2:2][:, :1], Layout(2, False, None, (), (False,))),
        (np.zeros((6, 2, 4))[:, :1, :4], Layout(3, False, 2, (), (False, True))),
        (np.zeros((6, 3, 4))[:, :1, :3], Layout(3, False, 2, (), (False, True))),
        (np.zeros((3, 0)), Layout(2, True, 1)),
        (np.zeros(()), Layout(0, True, None)),
    ],
)
def test_layout_class(array: np.ndarray, layout: Layout) -> None:
    assert layout_of(array) == layout


def test_only_strides_that_are_no_multiple_of_the_item_need_a_copy() -> None:
    packed = np.zeros(4, dtype=[("a", "i1"), ("b", "f4")])
    assert not is_addressable(packed["b"])
    assert is_addressable(np.zeros((4, 4))[::2, ::-1].T)
