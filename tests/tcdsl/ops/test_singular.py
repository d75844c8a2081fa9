"""Values and slopes at zeros, ends, infinities and NaN are PyTorch's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tcdsl import library, nn

tc: Any = library
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.cc
_F: dict[Any, Any] = {tc: nn.functional, torch: torch.nn.functional}

Call = Callable[..., Any]
INF, NAN = float("inf"), float("nan")
POINTS = [0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, NAN, 20.0, -20.0]
FEW: dict[str, Call] = {
    "abs": lambda t, x: t.abs(x),
    "power_of_negative": lambda t, x: (-2.0) ** x,
}
MORE: dict[str, Call] = {
    "logit": lambda t, x: t.logit(x),
    "power_of_zero": lambda t, x: 0.0**x,
    "pow": lambda t, x: t.pow(*_pairs(t, x)),
    "xlogy": lambda t, x: t.xlogy(*_pairs(t, x)),
    "bce_with_logits": lambda t, x: _F[t].binary_cross_entropy_with_logits(
        t.cat([x, x * INF]), t.cat([x, x]), reduction="none"
    ),
}


def _pairs(t: Any, x: Any) -> tuple[Any, Any]:
    """Return all pairs of points; none of two zeros, whose slope is no number there."""
    n = len(POINTS)
    pairs = [(i, j) for i, j in itertools.product(range(n), range(n)) if POINTS[i] or POINTS[j]]
    first, second = (t.tensor(list(listed)) for listed in zip(*pairs, strict=True))
    return x[first], x[second]


def _check(call: Call) -> None:
    found = []
    for t in (tc, torch):
        x = t.tensor(POINTS, dtype=t.float64, requires_grad=True)
        made = call(t, x)
        (slope,) = t.autograd.grad(made, x, t.ones_like(made))
        found.append((torch.tensor(made.tolist()), torch.tensor(slope.tolist())))
    for mine, wanted in zip(*found, strict=True):
        assert torch.allclose(mine, wanted, rtol=1e-6, equal_nan=True), (mine, wanted)


@pytest.mark.parametrize("name", FEW)
def test_singular_points_are_as_pytorchs(name: str) -> None:
    _check(FEW[name])


@pytest.mark.wide
@pytest.mark.parametrize("name", MORE)
def test_singular_points_are_as_pytorchs_wide(name: str) -> None:
    _check(MORE[name])


def test_padding_by_a_zero_below_is_so() -> None:
    assert (1 / nn.functional.pad(tc.tensor([1.0]), (1, 0), value=-0.0)).tolist() == [-INF, 1]
