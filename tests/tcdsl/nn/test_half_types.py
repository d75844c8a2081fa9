"""A training step in float16 and bfloat16: types stay, values are those of float32 rounded."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tcdsl import library as tc
from tcdsl import nn, optim
from tests.tiers import sampled

pytestmark = [pytest.mark.cc, pytest.mark.wide]

MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (
        lambda: nn.Sequential(
            nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.0), nn.Linear(8, 3)
        ),
        (5, 6),
    ),
    "convnet": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), Flat(), nn.Linear(36, 3)
        ),
        (5, 2, 6, 6),
    ),
}

TYPES = (tc.float16, tc.bfloat16)


class Flat(nn.Module):
    """All but the first dimension as one."""

    def forward(self, x: Any) -> Any:
        """Return a view."""
        return x.reshape(x.size(0), -1)


def step(model: Any, optimizer: Any, x: Any, labels: Any) -> Any:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), labels)
    loss.backward()
    optimizer.step()
    return loss.detach()


@sampled(
    "name, dtype",
    [*zip(MODELS, TYPES, strict=True), *zip(MODELS, reversed(TYPES), strict=True)],
    ids=str,
    keep=0,
    wide=2,
)
def test_a_step_in_a_half_type_is_that_of_float32_rounded(name: str, dtype: Any) -> None:
    tc.manual_seed(0)
    make, shape = MODELS[name]
    model = make()
    half: Any = copy.deepcopy(model).to(dtype)
    model.load_state_dict(half.state_dict())  # the same numbers, so that rounding is all there is
    x, labels = tc.randn(shape).to(dtype), tc.tensor([0, 2, 1, 1, 0])
    wanted = step(model, optim.SGD(model.parameters(), lr=0.05, momentum=0.9), x.float(), labels)
    found = step(half, optim.SGD(half.parameters(), lr=0.05, momentum=0.9), x, labels)
    eps = 2.0**-10 if dtype is tc.float16 else 2.0**-7
    terms = 16  # roundings between an element of a gradient and the loss
    assert found.dtype is dtype
    assert abs(float(found) - float(wanted)) <= terms * eps * max(1.0, float(wanted))
    for p, q in zip(half.parameters(), model.parameters(), strict=True):
        assert p.dtype is dtype
        assert p.grad.dtype is dtype
        scale = max(1.0, float(q.grad.abs().max()))
        assert float((p.grad.float() - q.grad).abs().max()) <= terms * eps * scale
        assert float((p.detach().float() - q.detach()).abs().max()) <= terms * eps


@pytest.mark.parametrize("dtype", [tc.float16, tc.bfloat16], ids=str)
@pytest.mark.parametrize("make", [optim.SGD, optim.AdamW, optim.RMSprop])
def test_it_learns_in_a_half_type(make: Any, dtype: Any) -> None:
    tc.manual_seed(0)
    model: Any = MODELS["mlp"][0]().to(dtype)
    x, labels = tc.randn(5, 6).to(dtype), tc.tensor([0, 2, 1, 1, 0])
    more = {} if make is optim.SGD else {"eps": 1e-4}  # 1e-8 is 0 in float16
    rate = 0.2 if make is optim.SGD else 0.02
    optimizer = make(model.parameters(), lr=rate, **more)
    losses = [float(step(model, optimizer, x, labels)) for _ in range(25)]
    assert losses[-1] < 0.3 * losses[0]
    assert all(p.dtype is dtype and bool(tc.isfinite(p).all()) for p in model.parameters())
