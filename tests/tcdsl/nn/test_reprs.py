"""Modules as text, which are PyTorch's to the letter, and pools that divide by a number."""

from __future__ import annotations

import pytest

from tcdsl import library as tc
from tcdsl import nn
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

MODULES = (
    "AvgPool1d(2)", "AvgPool1d(3, 2, 1)", "AvgPool2d(3, 2, 1)", "Upsample(scale_factor=2)",
    "Upsample(size=(3, 4), mode='bilinear', align_corners=True)", "MaxUnpool1d(2)",
    "MaxUnpool2d((2, 3), 1)", "MaxUnpool3d(2)", "MultiheadAttention(4, 2)", "CTCLoss()",
    "ParameterList([n.Parameter(u.ones(2))])",
    "ParameterList([n.Parameter(u.ones(2, 3)), n.Parameter(u.ones(1, dtype=u.float64))])",
    "ParameterList([1, 'a', None, [u.ones(1)], u.ones(2), n.ParameterList([u.ones(3)])])",
    "ParameterDict({'a': n.Parameter(u.ones(2)), 'b': n.Parameter(u.ones(3))})",
    "EmbeddingBag(3, 4, mode='sum')", "LPPool1d(2, 3)", "Unflatten(1, (2, 3))", "RMSNorm(3)",
    "LSTM(2, 3, num_layers=2)", "AdaptiveAvgPool2d((1, None))",
    "Conv2d(3, 4, 3, padding=(1,), stride=(2,))", "Conv3d(3, 4, (3,), padding=(0,))",
)  # fmt: skip


@pytest.mark.parametrize("text", MODULES)
def test_text_is_pytorchs(text: str) -> None:
    ours = eval(f"n.{text}", {"n": nn, "u": tc})
    real = eval(f"n.{text}", {"n": torch.nn, "u": torch})
    assert repr(ours) == repr(real)


@sampled("kind, shape", [("AvgPool2d", (1, 2, 5, 4)), ("AvgPool3d", (2, 3, 4, 5))], keep=1)
def test_pools_divide_by_a_number(kind: str, shape: tuple[int, ...]) -> None:
    found = []
    for u, n in ((tc, nn), (torch, torch.nn)):
        x = (u.arange(120.0)[: shape[0] * shape[1] * shape[2] * shape[3]]).reshape(shape)
        x.requires_grad_()
        y = getattr(n, kind)(2, 1, 1, divisor_override=3)(x)
        (y * y).sum().backward()
        found.append((torch.tensor(y.tolist()), torch.tensor(x.grad.tolist())))
    torch.testing.assert_close(*found)
    with pytest.raises(TypeError):
        nn.AvgPool1d(2, divisor_override=3)  # type: ignore[call-arg]


def test_convolutions_refuse_the_number_of_sizes_where_pytorchs_do() -> None:
    for u, n in ((tc, nn), (torch, torch.nn)):
        for named in ({"padding": (1, 1)}, {"padding": (1,), "padding_mode": "circular"}):
            layer = n.Conv3d(1, 1, 2, **named)
            with pytest.raises(RuntimeError):
                layer(u.zeros(1, 1, 3, 3, 3))
