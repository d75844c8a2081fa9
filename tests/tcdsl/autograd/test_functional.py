"""Derivatives of functions of tensors are PyTorch's."""

from __future__ import annotations

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


def _calls(u: Any, f: Any) -> Any:
    x = u.tensor([[1.0, -2.0, 0.5], [0.3, 1.5, -1.0]], dtype=u.float64)
    y = u.tensor([0.5, 2.0, -1.0], dtype=u.float64)

    def one(a: Any) -> Any:
        return (a * a).sin()

    def two(a: Any, b: Any) -> Any:
        return (a * b).sum(1), b * b

    def number(a: Any) -> Any:
        return (a * a * a).sum() * a[0]

    def number_of_two(a: Any, b: Any) -> Any:
        return (a * b * b).sum()

    z = y.clone().requires_grad_()
    recorded = f.jacobian(one, z, create_graph=True)
    (again,) = (
        u.autograd.grad(recorded.sum(), z) if u is torch else autograd.grad(recorded.sum(), z)
    )
    return [
        f.jacobian(one, y), f.jacobian(two, (x, y)), f.jacobian(lambda a: a.sum(), x),
        f.jacobian(lambda a, b: a, (y, x)), recorded, again,
        f.hessian(number, y), f.hessian(number_of_two, (x, y)),
        f.vjp(two, (x, y), (y[:2], y)), f.vjp(number, y), f.jvp(two, (x, y), (x, y)),
        f.jvp(one, y, y * 2), f.vhp(number, y, y), f.hvp(number_of_two, (x, y), (x, y)),
        f.vjp(number, y, u.tensor(2.0, dtype=u.float64), create_graph=True)[0],
    ]  # fmt: skip


def test_derivatives_are_those_of_torch() -> None:
    ours = _calls(tc, autograd.functional)
    theirs = _calls(torch, torch.autograd.functional)
    for a, b in zip(ours, theirs, strict=True):
        assert _shown(a) == _shown(b)


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
