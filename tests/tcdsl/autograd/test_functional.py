"""Derivatives of functions of tensors are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tcdsl import autograd
from tcdsl import library as tc

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]


def _shown(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_shown(v) for v in value]
    if not hasattr(value, "tolist"):
        return value
    return [str(tuple(value.shape)), np.round(value.tolist(), 8).tolist(), value.requires_grad]


def _one(a: Any) -> Any:
    return (a * a).sin()


def _two(a: Any, b: Any) -> Any:
    return (a * b).sum(1), b * b


def _number(a: Any) -> Any:
    return (a * a * a).sum() * a[0]


def _number_of_two(a: Any, b: Any) -> Any:
    return (a * b * b).sum()


def _recorded(u: Any, f: Any, y: Any) -> Any:
    z = y.clone().requires_grad_()
    recorded = f.jacobian(_one, z, create_graph=True)
    return recorded, (torch.autograd if u is torch else autograd).grad(recorded.sum(), z)


# Of the library u, its functions f, tensors (2, 3) and (3).
CALLS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "jacobian": lambda u, f, x, y: f.jacobian(_two, (x, y)),
    "jacobian, one": lambda u, f, x, y: f.jacobian(_one, y),
    "jacobian, a sum": lambda u, f, x, y: f.jacobian(lambda a: a.sum(), x),
    "jacobian, unused": lambda u, f, x, y: f.jacobian(lambda a, b: a, (y, x)),
    "jacobian, recorded": lambda u, f, x, y: _recorded(u, f, y),
    "hessian": lambda u, f, x, y: f.hessian(_number, y),
    "hessian of two": lambda u, f, x, y: f.hessian(_number_of_two, (x, y)),
    "vjp": lambda u, f, x, y: f.vjp(_two, (x, y), (y[:2], y)),
    "vjp of a number": lambda u, f, x, y: f.vjp(_number, y),
    "vjp, recorded": lambda u, f, x, y: f.vjp(
        _number, y, u.tensor(2.0, dtype=u.float64), create_graph=True
    )[0],
    "jvp": lambda u, f, x, y: f.jvp(_two, (x, y), (x, y)),
    "jvp, one": lambda u, f, x, y: f.jvp(_one, y, y * 2),
    "vhp": lambda u, f, x, y: f.vhp(_number, y, y),
    "hvp": lambda u, f, x, y: f.hvp(_number_of_two, (x, y), (x, y)),
}
OFTEN = ("jacobian, one", "vjp of a number", "vhp")


@pytest.mark.parametrize(
    "name", [n if n in OFTEN else pytest.param(n, marks=pytest.mark.wide) for n in CALLS]
)
def test_derivatives_are_those_of_torch(name: str) -> None:
    found = []
    for u, f in ((tc, autograd.functional), (torch, torch.autograd.functional)):
        x = u.tensor([[1.0, -2.0, 0.5], [0.3, 1.5, -1.0]], dtype=u.float64)
        y = u.tensor([0.5, 2.0, -1.0], dtype=u.float64)
        found.append(_shown(CALLS[name](u, f, x, y)))
    assert found[0] == found[1]


def test_what_is_refused() -> None:
    for u, f in ((tc, autograd.functional), (torch, torch.autograd.functional)):
        x = u.ones(2)
        with pytest.raises(RuntimeError, match="v can only be None"):
            f.vjp(lambda a: a * 2, x)
        with pytest.raises(RuntimeError, match="single element"):
            f.hessian(lambda a: a * 2, x)
        with pytest.raises(RuntimeError, match="strict mode"):
            f.vjp(lambda a, b: a.sum(), (x, x), strict=True)
        assert f.vjp(lambda a: a.sum(), x, strict=True)[1].tolist() == [1, 1]
        line = {"strict": True, "create_graph": True}
        for call in (f.jacobian, f.vjp, lambda g, a, f=f, **named: f.jvp(g, a, a, **named)):
            with pytest.raises(RuntimeError, match="strict mode when create_graph=True"):
                call(lambda a: a.sum(), x, **line)
            call(lambda a: (a * a).sum(), x, **line)
        with pytest.raises(TypeError, match="either a Tensor or a tuple of Tensors"):
            f.jacobian(lambda a: 3, x)
    with pytest.raises(NotImplementedError, match="forward-mode"):
        autograd.functional.jacobian(lambda a: a, tc.ones(1), strategy="forward-mode")
