"""What a tensor is to Python and NumPy: operators, constructors, types said by Python's."""

from __future__ import annotations

import copy
import operator
from typing import Any

import numpy as np
import pytest

from tcdsl import library
from tcdsl.nn import Parameter

tc: Any = library
pytestmark = pytest.mark.cc


def test_operands_that_no_tensor_knows_are_left_to_the_other_side() -> None:
    class Other:
        def __radd__(self, left: Any) -> str:
            return "added"

        def __eq__(self, other: object) -> Any:
            return "equal"

    x: Any = tc.ones(2)
    assert x + Other() == "added"
    assert (x == Other()) == "equal"
    assert (x == None) is False  # noqa: E711 - as scripts say it
    assert (x != None) is True  # noqa: E711
    assert (x == "a") is False
    signs: Any = (operator.add, operator.sub, operator.matmul, operator.mod, operator.lt)
    for sign in signs:
        for other in (None, "a", [1.0]):
            with pytest.raises(TypeError, match=r"not supported between|unsupported operand"):
                sign(x, other)


def test_arrays_beside_tensors_give_tensors() -> None:
    x: Any = tc.ones(2)
    array = np.array([1.0, 2.0])
    for made, values in ((x + array, [2, 3]), (x * array, [1, 2]), (np.sin(x * 0), [0, 0])):
        assert isinstance(made, tc.Tensor)
        assert made.tolist() == values
    assert (x + array).dtype is tc.float64
    assert (x == array).tolist() == [True, False]
    with pytest.raises(TypeError, match="does not support deleting"):
        del x[0]


def test_tensor_is_a_constructor_of_floats() -> None:
    assert tc.Tensor([1, 2]).tolist() == [1.0, 2.0]
    assert tc.Tensor(np.ones(2)).dtype is tc.float32
    assert tuple(tc.Tensor(2, 3).shape) == tuple(tc.Tensor(tc.Size([2, 3])).shape) == (2, 3)
    assert tuple(tc.Tensor().shape) == (0,)
    with pytest.raises(TypeError, match="data must be a sequence"):
        tc.Tensor(2.5)
    with pytest.raises(TypeError, match="unexpected keyword"):
        tc.Tensor([1], dtype=tc.int64)


def test_a_type_may_be_said_by_pythons() -> None:
    x = tc.ones(2)
    made = [x.to(int), x.new_zeros(2, dtype=int), tc.zeros_like(x, dtype=int), tc.as_tensor(x, int)]
    made += [tc.zeros(2, dtype=int), tc.tensor([1.5], dtype=int), tc.arange(2, dtype=int)]
    assert {t.dtype for t in made} == {tc.int64}
    assert x.sum(dtype=float).dtype is tc.float64
    assert tc.full((1,), 1, dtype=bool).tolist() == [True]
    with pytest.raises(TypeError, match=r"must be torch.dtype, not type: say torch.float64"):
        tc.tensor([1.5], dtype=np.float64)


def test_the_default_type_is_that_of_calls_made_before_too() -> None:
    x = tc.tensor([4])
    assert (x / 2).dtype is x.sqrt().dtype is tc.float32
    tc.set_default_dtype(tc.float64)
    try:
        assert (x / 2).dtype is x.sqrt().dtype is tc.Tensor([1]).dtype is tc.float64
    finally:
        tc.set_default_dtype(tc.float32)
    assert (x / 2).dtype is tc.float32


def test_a_shallow_copy_has_the_same_memory() -> None:
    weight = Parameter(library.ones(2))
    copied = copy.copy(weight)
    copied.data[0] = 5
    assert type(copied) is Parameter
    assert copied is not weight
    assert weight.tolist() == [5, 1]
    assert copied.is_leaf
    assert copied.requires_grad


def test_shapes_added_to_tuples_are_shapes() -> None:
    shape = library.ones(2, 3).shape
    assert type((1, *shape)) is tuple
    assert ((4,) + shape).numel() == (shape + (4,)).numel() == 24  # noqa: RUF005


def test_texts_and_lists_beside_numbers_are_no_tensors() -> None:
    with pytest.raises(ValueError, match="too many dimensions 'str'"):
        library.tensor(["a"])
    with pytest.raises(TypeError, match="'list' object cannot be interpreted as an integer"):
        library.tensor([1, [2]])


def test_draws_by_one_probability_and_where_a_source_is() -> None:
    x = library.ones(3, dtype=library.int64)
    assert x.bernoulli(0.0).tolist() == [0, 0, 0]
    assert library.bernoulli(x, p=1).tolist() == [1, 1, 1]
    assert str(library.Generator().device) == "cpu"


def test_integers_have_no_gradient() -> None:
    numbers = library.ones(2, dtype=library.int64)
    for make in (Parameter, lambda x: library.ones_like(x, requires_grad=True)):
        with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex"):
            make(numbers)
