"""Slopes at kinks, at ends and of no number, and the slopes of these, are PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tcdsl import library, nn, special
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

POINTS = [-math.inf, -2.0, -0.3, -0.0, 0.0, 0.3, 2.0, math.inf, math.nan]
OURS: tuple[Any, Any, Any] = (library, nn.functional, special)
THEIRS: tuple[Any, Any, Any] = (torch, torch.nn.functional, torch.special)
CALLS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "l1_loss": lambda t, f, s, x: f.l1_loss(x, 0 * x.detach() + 0.3, reduction="none"),
    "smooth_l1_loss": lambda t, f, s, x: f.smooth_l1_loss(x, t.full_like(x, 0.3)),
    "huber_loss": lambda t, f, s, x: f.huber_loss(x, t.full_like(x, 0.3), "sum", 0.6),
    "elu": lambda t, f, s, x: f.elu(x, 0.7),
    "celu": lambda t, f, s, x: f.celu(x, 0.5),
    "selu": lambda t, f, s, x: f.selu(x),
    "entr": lambda t, f, s, x: s.entr(x),
    "entr of whole numbers": lambda t, f, s, x: s.entr(t.tensor([-1, 0, 1, 3])),
}


@sampled("name", CALLS, keep=3)
def test_slopes_are_pytorchs(name: str) -> None:
    found = []
    for t, functional, special_ in (OURS, THEIRS):
        x = t.tensor(POINTS, dtype=t.float64, requires_grad=True)
        y = CALLS[name](t, functional, special_, x)
        orders = [y.detach().numpy()]
        for _ in range(2 if y.requires_grad else 0):
            (y,) = t.autograd.grad(y.sum(), x, create_graph=True)
            orders.append((y.detach() + 0).numpy())
        found.append(orders)
    mine, theirs = found
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_targets_that_are_no_numbers_may_be_left_out_of_absolute_differences() -> None:
    x = library.tensor([1.0, 2.0, 4.0], requires_grad=True)
    loss = nn.functional.l1_loss(x, library.tensor([2.0, math.nan, 3.0]), reduction="none")
    loss[[0, 2]].sum().backward()
    assert x.grad.tolist() == [-1, 0, 1]


WEIGHTS: tuple[Any, ...] = (None, 2.0, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])


@sampled(
    "reduction, weight",
    [(r, w) for r in ("mean", "none", "sum") for w in WEIGHTS],
    keep=1,
    ids=str,
)
def test_slopes_of_cross_entropies_are_finite_at_0_and_1(reduction: str, weight: Any) -> None:
    found = []
    for t, functional, _ in (OURS, THEIRS):
        given = [[0.0, 1.0, 1.0, 1e-20, 1e-13, 0.3], [1.0, 0.0, 1.0, 1.0, 0.2, 0.6]]
        x, y = (t.tensor(g, dtype=t.float64, requires_grad=True) for g in given)
        by = None if weight is None else t.tensor(weight, dtype=t.float64)
        loss = functional.binary_cross_entropy(x, y, by, reduction=reduction)
        slopes = t.autograd.grad(loss.sum(), [x, y], create_graph=True)
        (second,) = t.autograd.grad(slopes[0][5:].sum(), x)
        found.append([a.detach().numpy() for a in (loss, *slopes, second[5:])])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


def test_a_margin_that_is_just_reached_has_no_slope() -> None:
    x = library.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    nn.functional.multi_margin_loss(x, library.tensor([2])).backward()
    assert x.grad.tolist() == [[0, 0, 0]]


def test_cosines_of_losses_are_pytorchs_near_0_and_where_the_target_is_neither() -> None:
    found = []
    for t, functional, _ in (OURS, THEIRS):
        x = t.tensor([[0.0, 0.0], [0.0, 0.0], [1e-7, 2e-7], [1.0, 2.0], [3.0, -1.0]])
        y = t.tensor([[1.0, 2.0], [0.5, -3.0], [1.0, 0.3], [1.0, 1.0], [2.0, 2.0]])
        x.requires_grad_()
        loss = functional.cosine_embedding_loss(
            x, y, t.tensor([1, -1, 1, 2, -1]), margin=-0.5, reduction="none"
        )
        loss.sum().backward()
        found.append((loss.detach().numpy(), x.grad.numpy()))
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-7)
