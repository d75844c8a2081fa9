"""What dropout leaves out on a CPU is what PyTorch leaves out under the same seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tcdsl.nn as nn
from tcdsl import library
from tcdsl.autograd import grad
from tcdsl.core import Tensor

pytestmark = pytest.mark.cc

KINDS = ("dropout", "alpha_dropout", "feature_alpha_dropout", "dropout1d", "dropout2d", "dropout3d")


def test_what_is_left_out_under_a_seed_is_known() -> None:
    # Of PyTorch 2.13, seed 5.
    library.manual_seed(5)
    left_out = nn.functional.dropout(library.ones(8), 0.5)
    assert left_out.tolist() == [0, 2, 2, 2, 2, 0, 0, 0]


def test_gradients_are_of_what_stays() -> None:
    x = library.linspace(1, 2, 60).reshape(3, 4, 5).requires_grad_()
    for inplace in (False, True):
        y: Any = nn.functional.dropout(x * 1, 0.5, True, inplace)
        gradient: Any = grad((y * y).sum(), x, create_graph=True)[0]
        kept = y.detach().numpy() != 0
        assert 10 < kept.sum() < 50
        assert (gradient.detach().numpy() == 4 * y.detach().numpy()).all()
        second: Any = grad(gradient.sum(), x)[0]
        assert (second.numpy() == 8 * kept).all()


def test_what_is_left_out_is_times_zero() -> None:
    x = library.tensor([math.nan, math.inf, -1.0] * 40)
    y = nn.functional.dropout(x, 0.5).numpy().reshape(40, 3)
    assert np.isnan(y[:, 0]).all()
    assert (np.isnan(y[:, 1]) | (y[:, 1] == math.inf)).all()
    assert np.isnan(y[:, 1]).any()
    assert set(y[:, 2].tolist()) == {0.0, -2.0}
    assert np.isnan(nn.functional.dropout(x, 1.0).numpy()[1])


def _both(make: Any, tolerance: float = 0.0) -> None:
    """Compare what both libraries leave out, gradients, and what is drawn next."""
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(3).standard_normal((4, 6, 5, 3)).astype(np.float32)
    found = []
    for m in (library, torch):
        m.manual_seed(5)
        leaf = m.from_numpy(x.copy()).requires_grad_()
        y = make(m, m.nn.functional if m is torch else nn.functional, leaf)
        (y.to(m.float64) * 3).sum().backward()
        found.append((y.detach().to(m.float32), leaf.grad, m.rand(3)))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=tolerance, atol=tolerance)


LAYOUTS = {
    "as it is": lambda x: x,
    "transposed": lambda x: x.transpose(1, 3),
    "cut": lambda x: x[:, 1:4],
    "every second, transposed": lambda x: x[::2].transpose(0, 2),
    "flat": lambda x: x.reshape(-1)[:17],
    "of one": lambda x: x[0, 0, 0, 0],
}


@pytest.mark.torch
@pytest.mark.parametrize("kind", KINDS[:3])
def test_what_is_left_out_is_what_pytorch_leaves_out(kind: str) -> None:
    near = 0 if kind == "dropout" else 1e-6
    _both(lambda m, f, x: getattr(f, kind)(x, 0.3, True), near)


@pytest.mark.torch
@pytest.mark.wide
@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_any_input_is_pytorchs(kind: str) -> None:
    near = 0 if kind.startswith("dropout") else 1e-6  # a sum of two terms, rounded once or twice
    shape = (4, 6, 15) if kind == "dropout1d" else (4, 6, 5, 3)
    for p, inplace in ((0.1, True), (0.93, False), (1.0, True), (1.0, False), (0.0, False)):
        _both(
            lambda m, f, x, p=p, i=inplace: getattr(f, kind)(x.reshape(shape) * 1, p, True, i), near
        )
    if kind == "dropout1d":
        _both(lambda m, f, x: f.dropout1d(x.reshape(36, 10), 0.3))
    elif kind == "dropout3d":
        _both(lambda m, f, x: f.dropout3d(x.reshape(4, 6, 5, 3, 1), 0.3))
    for name, layout in LAYOUTS.items():
        if kind in KINDS[:2] or (kind in KINDS[2::2] and name in ("transposed", "cut")):
            _both(lambda m, f, x, at=layout: getattr(f, kind)(at(x * 1), 0.3, True, True), near)
    for dtype, room in (("float64", 1e-14), ("float16", 4e-3), ("bfloat16", 3e-2)):
        _both(
            lambda m, f, x, t=dtype: getattr(f, kind)(
                x.reshape(shape).to(getattr(m, t)) * 1, 0.3, True
            ),
            room if near else 0,
        )


def _layers(make: Any, run: Any, tolerance: float) -> None:
    torch = pytest.importorskip("torch")
    theirs, ours = make(torch.nn), make(nn)
    values = {name: v.detach().numpy() for name, v in theirs.state_dict().items()}
    ours.load_state_dict({name: library.from_numpy(v.copy()) for name, v in values.items()})
    found: list[list[Tensor]] = []
    for m, layer in ((torch, theirs), (library, ours)):
        m.manual_seed(7)
        found.append([run(m, layer).detach(), m.rand(3)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.torch
@pytest.mark.deep
def test_layers_leave_out_what_pytorchs_do() -> None:
    for settings in ({}, {"batch_first": True}, {"bidirectional": True}):
        _layers(
            lambda n, s=settings: n.GRU(5, 6, 3, dropout=0.4, **s),
            lambda m, layer: layer(m.randn(4, 7, 5))[0],
            1e-5,
        )

    def packed(m: Any, layer: Any) -> Any:
        utils = m.nn.utils.rnn if m is not library else nn.utils.rnn
        x = utils.pack_padded_sequence(m.randn(7, 3, 5), m.tensor([7, 4, 2]))
        return layer(x)[0].data

    _layers(lambda n: n.LSTM(5, 6, 3, dropout=0.4, bidirectional=True), packed, 1e-5)


@pytest.mark.torch
@pytest.mark.wide
def test_attention_leaves_out_what_pytorchs_does() -> None:
    for weights in (False, True):
        _layers(
            lambda n: n.MultiheadAttention(8, 2, dropout=0.3),
            lambda m, layer, w=weights: layer(*[m.randn(5, 3, 8)] * 3, need_weights=w)[0],
            1e-5,
        )
    _layers(
        lambda n: n.TransformerEncoderLayer(8, 2, 12, 0.3),
        lambda m, layer: layer(m.randn(5, 3, 8)),
        1e-4,
    )
    _layers(
        lambda n: n.TransformerDecoderLayer(8, 2, 12, 0.3, batch_first=True),
        lambda m, layer: layer(m.randn(5, 3, 8), m.randn(5, 4, 8)),
        1e-4,
    )


@pytest.mark.torch
def test_channels_need_two_dimensions_only_where_chance_decides() -> None:
    torch = pytest.importorskip("torch")
    for functional, t in ((nn.functional, library), (torch.nn.functional, torch)):
        x = t.ones(3)
        for p, training in ((0.0, True), (0.5, False), (1.0, True)):
            made = functional.feature_alpha_dropout(x, p, training)
            assert made.tolist() == [0.0 if p == 1 else 1.0] * 3
        with pytest.raises(RuntimeError, match="at least 2 dimensions"):
            functional.feature_alpha_dropout(x, 0.5, True)
