"""Sizes that no tensor has, and numbers that are no sizes."""

from __future__ import annotations

from typing import Any

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
