"""Tensors from nothing, and as others see them."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest

from tcdsl import cuda
from tcdsl import library as tc

pytestmark = pytest.mark.cc


def test_types_that_nobody_says() -> None:
    assert tc.tensor([1, 2]).dtype is tc.int64
    assert tc.tensor([1.0]).dtype is tc.float32
    assert tc.tensor([True]).dtype is tc.bool
    assert tc.tensor(np.zeros(2)).dtype is tc.float64
    assert tc.tensor([]).dtype is tc.float32
    assert tc.arange(3).dtype is tc.int64
    assert tc.arange(3.0).dtype is tc.float32
    assert tc.full((2,), 1).dtype is tc.int64
    assert tc.zeros(2, dtype=tc.float64).dtype is tc.float64


def test_ranges() -> None:
    assert tc.arange(2, 11, 3).tolist() == [2, 5, 8]
    assert tc.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert tc.arange(0, 1, 0.25).tolist() == [0, 0.25, 0.5, 0.75]
    assert tc.arange(0).tolist() == []
    assert tc.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert tc.linspace(3, 9, 1).tolist() == [3]
    assert tc.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]]
    with pytest.raises(RuntimeError, match="step must be nonzero"):
        tc.arange(0, 1, 0)


def test_memory_of_numpy_is_shared() -> None:
    array = np.arange(6.0).reshape(2, 3)
    x = tc.from_numpy(array)
    array[0, 0] = 9
    assert x[0, 0].item() == 9
    x.numpy()[1, 2] = 7
    assert array[1, 2] == 7
    assert np.asarray(x) is not None
    assert np.shares_memory(np.from_dlpack(x), array)


def test_chance_follows_the_seed() -> None:
    tc.manual_seed(1)
    first = [tc.rand(3).tolist(), tc.randn(2, 2).tolist(), tc.randperm(5).tolist()]
    state = tc.get_rng_state()
    more = tc.rand(4).tolist()
    tc.manual_seed(1)
    assert [tc.rand(3).tolist(), tc.randn(2, 2).tolist(), tc.randperm(5).tolist()] == first
    tc.set_rng_state(state)
    assert tc.rand(4).tolist() == more


def test_moments_of_chance() -> None:
    tc.manual_seed(0)
    u = tc.rand(40000).numpy()
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(u.mean() - 0.5) < 0.01
    n = tc.randn(40000).numpy()
    assert abs(n.mean()) < 0.02
    assert abs(n.std() - 1) < 0.02
    k = tc.randint(-2, 3, (40000,)).numpy()
    assert {*k.tolist()} == {-2, -1, 0, 1, 2}
    assert sorted(tc.randperm(100).tolist()) == [*range(100)]


@pytest.mark.parametrize("x", [[[1.0, 2.0], [3.0, 4.0]], 5, [], [True, False]])
def test_copies(x: Any) -> None:
    made = tc.tensor(x)
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made)), made.clone()):
        assert other.tolist() == made.tolist()
        assert other.dtype is made.dtype
        assert not made.numel() or other.data_ptr() != made.data_ptr()


def test_numbers_of_python() -> None:
    x = tc.tensor(2.5)
    assert (float(x), int(x), bool(x), f"{x:.1f}") == (2.5, 2, True, "2.5")
    assert [*map(float, tc.tensor([1.0, 2.0]))] == [1, 2]
    assert len(tc.zeros(3, 2)) == 3
    assert math.isinf(tc.tensor(float("inf")).item())
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value"):
        bool(tc.zeros(2))
    with pytest.raises(TypeError, match="len\\(\\) of a 0-d tensor"):
        len(x)


def test_a_tensor_that_requires_grad_is_not_numpys() -> None:
    x = tc.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\).numpy\(\) instead"):
        x.numpy()
    with tc.no_grad():  # nothing that happens to the array would have been recorded
        x.numpy()[1] = 7
    assert x.tolist() == [0, 7]


def test_devices() -> None:
    assert str(tc.device("cuda", 1)) == "cuda:1"
    assert tc.device("cpu") == tc.zeros(1).device
    if not cuda.is_available():
        with pytest.raises(RuntimeError, match="kernels on a GPU need "):
            tc.zeros(1, device="cuda")
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        tc.device("tpu")


def test_names_are_those_of_the_library() -> None:
    from tcdsl import library, names

    assert sorted(names.LIBRARY) == library.names()


def test_numbers_at_equal_distances_are_pytorchs_bit_for_bit() -> None:
    torch = pytest.importorskip("torch")
    for start, end, steps in ((0, 1, 16), (-1, 1, 100), (0.1, 2.7, 33), (5, -2, 7), (3, 4, 1)):
        found = tc.linspace(start, end, steps).tolist()
        assert found == torch.linspace(start, end, steps).tolist()


def test_what_is_new_has_not_been_written() -> None:
    made = (
        tc.zeros(2), tc.ones(2), tc.full((2,), 3.0), tc.eye(2), tc.arange(2), tc.linspace(0, 1, 3),
        tc.randperm(3), tc.zeros(2).new_ones(2), tc.normal(0.0, 1.0, (2,)),
    )  # fmt: skip
    assert [t._version for t in made] == [0] * len(made)
    there = tc.empty(2)
    tc.zeros(2, out=there)
    assert there._version == 1


def test_a_type_of_elements_is_kept_in_a_configuration() -> None:
    @dataclasses.dataclass
    class Config:
        dtype: Any

    assert dataclasses.asdict(Config(tc.float32)) == {"dtype": tc.float32}


def test_what_is_drawn_is_nobodys_view() -> None:
    for make in (tc.randn, tc.rand):
        drawn = make(3, 4, requires_grad=True)
        assert drawn._base is None
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            drawn[1:].add_(1)
