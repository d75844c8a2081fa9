"""Storages show the memory that tensors share."""

from __future__ import annotations

import pytest

from tcdsl import library, nn
from tcdsl.library import tensor

pytestmark = pytest.mark.cc


def test_a_storage_is_the_memory_of_its_tensor() -> None:
    x = tensor([[1.0, 2], [3, 4]])
    s = x[1].storage()
    assert library.is_storage(s)
    assert not library.is_storage(x)
    assert s.tolist() == [1, 2, 3, 4] == list(s)
    assert (len(s), s.size(), s.nbytes(), s[2]) == (4, 4, 16, 3.0)
    s[3] = 9.0
    assert x[1, 1].item() == 9
    assert s.data_ptr() == x.data_ptr()
    assert s.type() == "torch.FloatStorage"
    assert type(s) is x.storage_type()
    assert s.clone().fill_(0).tolist() == [0] * 4
    assert s[1:3].tolist() == [2, 3]


def test_a_tensor_is_set_to_a_storage() -> None:
    x = tensor([1.0, 2, 3, 4, 5, 6])
    y = library.empty(0).set_(x.storage(), 1, (2, 2), (3, 1))
    assert y.tolist() == [[2, 3], [5, 6]]
    y.fill_(0)
    assert x.tolist() == [1, 0, 0, 4, 0, 0]
    assert library.empty(0).set_(x.storage(), 3).tolist() == [4, 0, 0]
    assert y.set_().tolist() == []
    with pytest.raises(RuntimeError, match="Could not set tensor of type"):
        y.set_(tensor([1]))


def test_subscripts_are_methods_too() -> None:
    x = tensor([[1.0, 2], [3, 4]])
    rows, columns = tensor([0, 1, 0]), tensor([1, 0, 1])
    assert x.index((rows, columns)).tolist() == [2, 3, 2]
    assert x.clone().index_put_((rows, columns), tensor([7.0, 8, 7])).tolist() == [[1, 7], [8, 4]]
    added = x.clone().index_put_((rows, columns), tensor([7.0, 8, 7]), accumulate=True)
    assert added.tolist() == [[1, 16], [11, 4]]
    whole = x.clone().index_put_((tensor([1, 1]),), tensor(1.0), accumulate=True)
    assert whole.tolist() == [[1, 2], [5, 6]]


def test_one_device_is_shared_by_nobody() -> None:
    layer = nn.Linear(2, 1)
    x = library.ones(3, 2)
    assert nn.DataParallel(layer)(x).tolist() == layer(x).tolist()
    assert nn.parallel.data_parallel(layer, x).tolist() == layer(x).tolist()
    assert list(nn.DataParallel(layer).state_dict()) == ["module.weight", "module.bias"]
    with pytest.raises(RuntimeError, match="expected one device"):
        nn.DataParallel(layer, [0, 1])
    assert library.set_flush_denormal(True) is False


def test_a_storage_without_a_type_is_bytes() -> None:
    x = library.arange(6.0)
    s = x[2:].untyped_storage()
    assert library.is_storage(s)
    assert (len(s), s.nbytes(), s.element_size(), s.data_ptr()) == (24, 24, 1, x.data_ptr())
    assert x.storage().untyped().tolist() == s.tolist()
    assert library.empty(0).set_(s, 1, (2,), (2,)).tolist() == [1, 3]
    s.fill_(0)
    assert x.tolist() == [0] * 6
