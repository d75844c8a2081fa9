"""Layers over time as PyTorch's: one sequence without a batch, projections, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl import library as tc
from tcdsl import nn

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

RNG = np.random.default_rng(3)


def _both(name: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Return our layer and PyTorch's, of the same parameters."""
    ours, theirs = getattr(nn, name)(*args, **kwargs), getattr(torch.nn, name)(*args, **kwargs)
    ours.load_state_dict({k: tc.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    return ours, theirs


def _flat(result: Any) -> list[Any]:
    return [t for r in result for t in _flat(r)] if isinstance(result, tuple) else [result]


def _agree(ours: Any, theirs: Any, *inputs: Any, learns: bool = True) -> None:
    """Compare results and gradients of parameters."""
    with tc.set_grad_enabled(learns):
        made = _flat(ours(*_of(inputs, tc.from_numpy)))
    expected = _flat(theirs(*_of(inputs, torch.from_numpy)))
    for a, b in zip(made, expected, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=2e-6)
    if not learns:
        return
    sum((t * t).sum() for t in made).backward()
    sum((t * t).sum() for t in expected).backward()
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(
            p.grad.numpy(), q.grad.numpy(), rtol=1e-4, atol=1e-5, err_msg=name
        )


def _of(values: Any, made: Any) -> Any:
    return tuple(_of(v, made) if isinstance(v, tuple) else made(v) for v in values)


def _normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("layers", "both_ways"),
    [pytest.param(1, False, marks=pytest.mark.wide), pytest.param(2, True, marks=pytest.mark.deep)],
)
def test_projected_states(layers: int, both_ways: bool) -> None:
    ours, theirs = _both("LSTM", 3, 5, num_layers=layers, proj_size=2, bidirectional=both_ways)
    assert repr(ours) == repr(theirs)
    passes = layers * (2 if both_ways else 1)
    _agree(ours, theirs, _normal(4, 3, 3), (_normal(passes, 3, 2), _normal(passes, 3, 5)))


@pytest.mark.parametrize("name", ["RNN", pytest.param("GRU", marks=pytest.mark.wide)])
def test_one_sequence(name: str) -> None:
    ours, theirs = _both(name, 3, 4, batch_first=True)
    _agree(ours, theirs, _normal(5, 3), _normal(1, 4))


@pytest.mark.parametrize("learns", [False, pytest.param(True, marks=pytest.mark.wide)])
def test_one_sequence_of_an_lstm(learns: bool) -> None:
    layers = _both("LSTM", 3, 4)
    _agree(*layers, _normal(5, 3), (_normal(1, 4), _normal(1, 4)), learns=learns)


@pytest.mark.parametrize(
    ("name", "pair"),
    [("RNNCell", False), pytest.param("LSTMCell", True, marks=pytest.mark.wide)],
)
def test_one_input_of_a_cell(name: str, pair: bool) -> None:
    state = (_normal(4), _normal(4)) if pair else _normal(4)
    _agree(*_both(name, 3, 4), _normal(3), state)


@pytest.mark.parametrize(
    ("name", "kwargs", "shapes"),
    [
        ("GRU", {}, [(2, 3, 5)]),
        ("GRU", {}, [(2, 2, 3, 3)]),
        ("RNN", {}, [(3,)]),
        ("GRU", {}, [(2, 3), (1, 1, 4)]),
        ("LSTM", {}, [(2, 3, 3), [(1, 4), (1, 4)]]),
        ("LSTM", {}, [(2, 3, 3), [(1, 2, 4), (1, 3, 4)]]),
        ("GRU", {}, [(2, 3, 3), (1, 3, 5)]),
        ("GRUCell", {}, [(2, 5)]),
        ("GRUCell", {}, [(2, 3), (2, 5)]),
        ("RNNCell", {}, [(2, 3), (3, 4)]),
        ("LSTMCell", {}, [(1, 2, 3)]),
        ("GRU", {"proj_size": 2}, None),
        ("LSTM", {"proj_size": 4}, None),
        ("LSTM", {"num_layers": 0}, None),
    ],
)
def test_refusals(name: str, kwargs: dict[str, Any], shapes: Any) -> None:
    def call(lib: Any, layers: Any) -> None:
        layer = getattr(layers, name)(3, 4, **kwargs)
        layer(*(
            tuple(lib.ones(s) for s in shape) if isinstance(shape, list) else lib.ones(shape)
            for shape in shapes
        ))  # fmt: skip

    said = []
    for lib, layers in ((tc, nn), (torch, torch.nn)):
        with pytest.raises((RuntimeError, ValueError)) as refused:
            call(lib, layers)
        said.append((isinstance(refused.value, ValueError), str(refused.value)))
    assert said[0] == said[1]


def test_dropout_of_one_layer_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="dropout=0.5 and num_layers=1") as seen:
        nn.LSTM(2, 3, dropout=0.5)
    assert seen[0].filename == __file__
