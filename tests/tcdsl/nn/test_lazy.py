"""Layers whose input sizes the first input tells."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from tcdsl import library, nn

pytestmark = [pytest.mark.cc, pytest.mark.filterwarnings("ignore:Lazy modules")]


def _linear(nn: Any) -> Any:
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(2), nn.LazyLinear(3, bias=False))


def _convolutions(nn: Any) -> Any:
    return nn.Sequential(
        nn.LazyConv2d(4, 3, padding=1), nn.LazyBatchNorm2d(), nn.LazyInstanceNorm2d(affine=False),
        nn.LazyConvTranspose2d(2, 2, stride=2),
    )  # fmt: skip


def _told(package: Any, nn: Any, made: Any) -> list[Any]:
    package.manual_seed(0)
    model = made(nn)
    before = repr(model)
    x = package.arange(96.0).reshape(2, 3, 4, 4) / 96
    y = model(x)
    y.sum().backward()
    shapes = {name: tuple(v.shape) for name, v in model.state_dict().items()}
    values = [np.asarray(t.detach()) for t in (y, *(p.grad for p in model.parameters()))]
    return [before, repr(model), shapes, values]


@pytest.mark.parametrize("made", [_linear, pytest.param(_convolutions, marks=pytest.mark.wide)])
def test_after_the_first_input_they_are_pytorchs_layers(made: Any) -> None:
    torch = pytest.importorskip("torch")
    *ours, found = _told(library, nn, made)
    *theirs, wanted = _told(torch, torch.nn, made)
    assert ours == theirs
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-4)


def test_shapes_are_refused_before_and_come_from_what_is_loaded() -> None:
    layer = nn.LazyLinear(2)
    assert isinstance(layer.weight, nn.UninitializedParameter)
    assert repr(layer.weight) == "<UninitializedParameter>"
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
        _ = layer.weight.shape
    layer.load_state_dict({"weight": library.ones(2, 3), "bias": library.zeros(2)})
    assert layer(library.ones(1, 3)).tolist() == [[3, 3]]
    kind: Any = type(layer)
    assert kind is nn.Linear
    assert (layer.in_features, type(layer.weight)) == (3, nn.Parameter)


def test_before_their_first_input_they_are_pickled() -> None:
    model = nn.Sequential(nn.LazyLinear(2), nn.LazyBatchNorm1d(dtype=library.float64))
    again = pickle.loads(pickle.dumps(model))
    assert repr(again) == repr(model)
    assert [type(p) for p in again.parameters()] == [nn.UninitializedParameter] * 4
    assert [p.dtype for p in again.parameters()] == [p.dtype for p in model.parameters()]
    assert again[0](library.ones(3, 4)).shape == (3, 2)
    buffer = nn.UninitializedBuffer(persistent=False)
    assert not pickle.loads(pickle.dumps(buffer)).persistent
