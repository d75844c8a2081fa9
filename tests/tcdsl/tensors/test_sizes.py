"""Sizes that no tensor has, and numbers that are no sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl
from tests.tiers import sampled

tc: Any = tcdsl  # names that are found when they are asked for
pytestmark = pytest.mark.cc

TOO_MUCH: dict[str, Any] = {
    "zeros": lambda n: tc.zeros(n),
    "arange": lambda n: tc.arange(n),
    "eye": lambda n: tc.eye(2, n),
    "view": lambda n: tc.ones(4).view(n),
    "repeat": lambda n: tc.ones(4).repeat(n),
    "pad": lambda n: tc.nn.functional.pad(tc.ones(1, 4), (0, n)),
    "circular": lambda n: tc.nn.CircularPad2d(n)(tc.ones(1, 1, 4, 4)),
    "adaptive": lambda n: tc.nn.functional.adaptive_avg_pool1d(tc.ones(1, 1, 5), n),
}


@pytest.mark.parametrize("size", [2**62, 2**63, 2**70])
@pytest.mark.parametrize("name", TOO_MUCH)
def test_sizes_that_no_memory_holds_are_a_runtime_error(name: str, size: int) -> None:
    with pytest.raises(RuntimeError) as refused:
        TOO_MUCH[name](size)
    assert str(refused.value)


def test_memory_that_is_not_there_is_said_in_bytes() -> None:
    with pytest.raises(MemoryError, match=r"sizes=\[4611686018427387904\]$"):
        tc.zeros(2**62)
    with pytest.raises(TypeError, match="expected sizes from 0"):
        tc.zeros(2**63)


def test_results_that_no_memory_holds_are_named() -> None:
    x = tc.ones(1).expand(2**44, 2)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"{2**47} bytes") as refused:
            x + 1
        assert isinstance(refused.value, MemoryError)


def test_no_quantiles_are_an_empty_tensor() -> None:
    x = tc.arange(6.0).reshape(2, 3)
    assert x.quantile(tc.zeros(0)).shape == (0,)
    assert x.quantile(tc.zeros(0), 1).shape == (0, 2)
    assert x.nanquantile(tc.zeros(0), 1, keepdim=True).shape == (0, 2, 1)


def test_fractions_are_no_sizes() -> None:
    x = tc.ones(2, 3)
    calls: tuple[Any, ...] = (
        lambda: x.view(-1, 1.5),
        lambda: x.expand(1.5, 2, 3),
        lambda: x.repeat_interleave(1.5),
        lambda: x.roll(1.5, 0),
        lambda: x.split([1.5, 0.5]),
        lambda: tc.nn.functional.pad(x, (1.5, 0)),
        lambda: tc.nn.functional.adaptive_avg_pool1d(x[None], 1.5),
    )
    for call in calls:
        with pytest.raises(TypeError):
            call()


@pytest.mark.wide
@pytest.mark.torch
@sampled("mode", ["reflect", "replicate", "circular"], keep=1)
def test_what_pads_cut_off_is_as_in_pytorch(mode: str) -> None:
    import torch

    for widths in ((-1, 0), (-1, 1), (-2, 1), (2, -1), (1, -2), (-1, -1)):
        results = [
            lib.nn.functional.pad(lib.arange(12.0).reshape(1, 3, 4), widths, mode).tolist()
            for lib in (tc, torch)
        ]
        assert results[0] == results[1], widths


BY_NUMPYS: dict[str, Any] = {  # what takes a number, or one for each dimension
    "roll": lambda i: tc.arange(4).roll(i(1), i(0)),
    "chunk": lambda i: tc.arange(4).chunk(i(3))[1],
    "split": lambda i: tc.arange(4).split(i(3))[1],
    "tensor_split": lambda i: tc.arange(4).tensor_split(i(3))[0],
    "tile": lambda i: tc.arange(2).tile(i(2)),
    "repeat": lambda i: tc.arange(2).repeat(i(2)),
    "unfold": lambda i: tc.arange(4).unfold(i(0), i(2), i(1)),
    "movedim": lambda i: tc.ones(2, 3).movedim(i(0), i(1)),
    "broadcast_shapes": lambda i: tc.tensor(tc.broadcast_shapes((i(2), 1), i(3))),
    "full": lambda i: tc.full((i(2),), i(3)),
    "max_pool1d": lambda i: tc.nn.functional.max_pool1d(tc.ones(1, 6), i(3), i(2), i(1)),
    "conv1d": lambda i: tc.nn.functional.conv1d(
        tc.ones(1, 1, 6), tc.ones(1, 1, 3), None, i(2), i(1)
    ),
    "Conv1d": lambda i: tc.tensor(tc.nn.Conv1d(i(2), i(1), i(3)).weight.shape),
    "LayerNorm": lambda i: tc.tensor(tc.nn.LayerNorm(i(3)).normalized_shape),
    "interpolate": lambda i: tc.nn.functional.interpolate(tc.ones(1, 1, 2), scale_factor=i(2)),
    "pad": lambda i: tc.nn.ConstantPad1d(i(1), 2.0)(tc.ones(1, 2)),
}


@pytest.mark.parametrize("one", [np.int64, np.uint8, tc.tensor], ids=["int64", "uint8", "0-dim"])
@pytest.mark.parametrize("name", BY_NUMPYS)
def test_numbers_of_numpys_and_tensors_of_rank_0_are_sizes(name: str, one: Any) -> None:
    found, wanted = BY_NUMPYS[name](one), BY_NUMPYS[name](int)
    assert found.dtype == wanted.dtype
    assert found.tolist() == wanted.tolist()


@pytest.mark.torch
def test_lists_of_numpys_numbers_keep_their_type() -> None:
    torch = pytest.importorskip("torch")
    lists: list[Any] = [[np.int32(1), np.int32(2)], [np.uint8(3)], [np.float32(1.5)], [np.bool_(1)]]
    lists += [[np.float16(0.5), 2], [np.float64(0.1), 1.5], [np.int16(1), 2.5], [True, np.int8(1)]]
    lists += [[np.ones(2)], [np.arange(2, dtype=np.int32)], [[1, 2.5], [np.float64(1), 3]], [[]]]
    for given in lists:
        made, real = tc.tensor(given), torch.tensor(given)
        assert (str(made.dtype).split(".")[-1], made.tolist()) == (
            str(real.dtype).split(".")[-1],
            real.tolist(),
        ), given
