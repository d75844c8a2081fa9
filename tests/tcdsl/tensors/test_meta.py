"""Tensors of device 'meta' have forms and no elements; calls on them give the forms of results."""

from __future__ import annotations

from typing import Any

import pytest

from tcdsl import library, nn

tc: Any = library
pytestmark = pytest.mark.cc


def test_calls_give_forms() -> None:
    x = tc.empty(2, 3, device="meta")
    y = (x @ tc.ones(3, 4, device="meta")).relu().double().t()[1:].sum(0, keepdim=True)
    assert (tuple(y.shape), y.dtype, y.device) == ((1, 2), tc.float64, tc.device("meta"))
    assert y.is_meta
    assert (y.is_cuda, y.is_cpu) == (False, False)
    assert repr(x) == "tensor(..., device='meta', size=(2, 3))"
    assert x.stride() == (3, 1)
    assert tc.zeros(1 << 20, 1 << 20, device="meta").add_(1).numel() == 1 << 40


def test_what_needs_elements_is_refused() -> None:
    x = tc.ones(2, device="meta")
    for call in (x.cpu, x.tolist, x.sum().item, lambda: bool(x[0] > 0)):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            call()
    with pytest.raises(RuntimeError, match="same device"):
        x + tc.ones(2)


def test_a_layer_without_memory_gets_some() -> None:
    state = tc.get_rng_state()
    with tc.device("meta"):
        net = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Linear(5, 2))
    assert (tc.get_rng_state() == state).all().item()
    made = net(tc.empty(7, 4, device="meta"))
    assert tuple(made.shape) == (7, 2)
    made.sum().backward()
    gradient = net[0].weight.grad
    assert gradient.is_meta
    assert tuple(gradient.shape) == (5, 4)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        net.to("cpu")
    whole = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Linear(5, 2))
    net.load_state_dict(whole.state_dict(), assign=True)
    assert net[0].weight.device.type == "cpu"
    assert tuple(nn.Linear(2, 3, device="meta").to_empty(device="cpu").weight.shape) == (3, 2)
