"""Tensors of modules that are computed from others, held against PyTorch's."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from tcdsl import library as tc
from tcdsl import nn
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]


def _symmetric(n: Any, inverse: bool = True) -> Any:
    class Symmetric(n.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).transpose(-1, -2)

    if inverse:
        Symmetric.right_inverse = lambda self, a: a.triu()
    return Symmetric()


def _linear(u: Any, n: Any) -> Any:
    layer = n.Linear(3, 3)
    with u.no_grad():
        layer.weight.copy_(u.arange(9.0).reshape(3, 3) / 5 - 0.7)
        layer.bias.fill_(0.1)
    return layer


@pytest.mark.wide
def test_orthogonal_columns_are_pytorchs() -> None:
    found = []
    for u, n in ((tc, nn), (torch, torch.nn)):
        u.manual_seed(3)
        layer = n.utils.parametrizations.orthogonal(n.Linear(4, 3), orthogonal_map="householder")
        found.append(np.array(layer.weight.tolist()))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[0] @ found[0].T, np.eye(3), atol=1e-5)


@sampled("how", ["householder", "cayley", "matrix_exp", "plain"], keep=0, wide=2)
def test_an_orthogonal_weight_trains(how: str) -> None:
    found = []
    for u, n in ((tc, nn), (torch, torch.nn)):
        u.manual_seed(3)
        layer = n.Linear(4, 3)
        named = {"use_trivialization": False} if how == "plain" else {}
        map_ = "householder" if how == "plain" else how
        n.utils.parametrizations.orthogonal(layer, orthogonal_map=map_, **named)
        w = layer.weight
        assert u.allclose(w @ w.mT, u.eye(3), atol=1e-5)
        (w * u.arange(12.0).view(3, 4)).sum().backward()
        start = layer.parametrizations.weight.original
        found.append([w.tolist(), start.grad.tolist(), list(layer.state_dict())])
    assert found[0][2] == found[1][2]
    for ours, theirs in zip(found[0][:2], found[1][:2], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=2e-5)


def test_layers_are_fused_with_their_norms() -> None:
    found = []
    for u, n in ((tc, nn), (torch, torch.nn)):
        u.manual_seed(0)
        conv, norm = n.Conv2d(2, 3, 1, bias=False), n.BatchNorm2d(3)
        norm.running_mean.copy_(u.tensor([0.5, -1.0, 2.0]))
        norm.running_var.copy_(u.tensor([0.5, 1.0, 2.0]))
        made = n.utils.fuse_conv_bn_eval(conv.eval(), norm.eval())
        found.append([made.weight.tolist(), made.bias.tolist()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_a_parametrized_weight_trains_and_comes_back() -> None:
    found = []
    for u, n in ((tc, nn), (torch, torch.nn)):
        p = n.utils.parametrize
        layer = _linear(u, n)
        first = layer.weight
        p.register_parametrization(layer, "weight", _symmetric(n))
        told = [p.is_parametrized(layer), p.is_parametrized(layer, "bias"), type(layer).__name__]
        told += [isinstance(layer, n.Linear), p.type_before_parametrizations(layer) is n.Linear]
        assert layer.parametrizations.weight.original is first
        layer(u.ones(2, 3)).pow(2).sum().backward()
        told += [layer.weight.tolist(), first.grad.tolist(), sorted(layer.state_dict())]
        layer.weight = u.eye(3)
        told.append(layer.weight.tolist())
        with p.cached():
            assert layer.weight is layer.weight
        assert layer.weight is not layer.weight
        p.remove_parametrizations(layer, "weight")
        told += [layer.weight.tolist(), type(layer) is n.Linear, layer.weight is first]
        assert "parametrizations" not in dict(layer.named_children())
        found.append(told)
    for ours, real in zip(*found, strict=True):
        if isinstance(ours, list) and ours and isinstance(ours[0], list):
            np.testing.assert_allclose(ours, real, rtol=1e-5)
        else:
            assert ours == real


def test_what_is_refused() -> None:
    for u, n in ((tc, nn), (torch, torch.nn)):
        p = n.utils.parametrize
        layer = _linear(u, n)
        with pytest.raises(ValueError, match="does not have a param"):
            p.register_parametrization(layer, "nothing", n.Identity())
        with pytest.raises(ValueError, match="may not change the shape"):
            p.register_parametrization(layer, "weight", n.Flatten(0))
        with pytest.raises(ValueError, match="does not have a parametrization"):
            p.remove_parametrizations(layer, "weight")
        p.register_parametrization(layer, "weight", _symmetric(n, inverse=False))
        with pytest.raises(RuntimeError, match="does not implement right_inverse"):
            layer.weight = u.eye(3)


@sampled("dim", [1, 0, -1], keep=1)
def test_weight_norm(dim: int) -> None:
    found = []
    for u, n in ((tc, nn), (torch, torch.nn)):
        layer = n.utils.parametrizations.weight_norm(_linear(u, n), dim=dim)
        parts = layer.parametrizations.weight
        layer(u.ones(2, 3)).pow(2).sum().backward()
        found.append([layer.weight, parts.original0, parts.original1, parts.original0.grad,
                      parts.original1.grad])  # fmt: skip
    for ours, real in zip(*found, strict=True):
        np.testing.assert_allclose(ours.tolist(), real.tolist(), rtol=1e-4, atol=1e-5)


CONVOLUTIONS = (("Conv2d", (2, 3, 2)), ("ConvTranspose2d", (2, 3, 2)))


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize(
    "kinds", [(("Linear", (3, 3)),), pytest.param(CONVOLUTIONS, marks=pytest.mark.wide)],
    ids=["linear", "convolutions"],
)  # fmt: skip
def test_spectral_norm(is_old: bool, kinds: Any) -> None:
    for kind, size in kinds:
        found = []
        state: dict[str, Any] = {}
        for u, n in ((torch, torch.nn), (tc, nn)):
            layer = getattr(n, kind)(*size)
            where = n.utils if is_old else n.utils.parametrizations
            where.spectral_norm(layer)
            if u is torch:
                state = {k: v.tolist() for k, v in layer.state_dict().items()}
            else:
                assert sorted(layer.state_dict()) == sorted(state)
                layer.load_state_dict({k: tc.tensor(v) for k, v in state.items()})
            x = u.ones(2, 3) if kind == "Linear" else u.ones(1, 2, 3, 3)
            layer(x)
            y = layer(x)
            y.pow(2).sum().backward()
            source = layer.weight_orig if is_old else layer.parametrizations.weight.original
            weight = layer.eval().weight
            found.append([y, source.grad, weight])
        for real, ours in zip(*found, strict=True):
            np.testing.assert_allclose(ours.tolist(), real.tolist(), rtol=1e-3, atol=1e-4)


def test_spectral_norm_is_removed_and_refused_twice() -> None:
    layer = nn.utils.spectral_norm(nn.Linear(3, 3))
    with pytest.raises(RuntimeError, match="two spectral_norm"):
        nn.utils.spectral_norm(layer)
    layer(tc.ones(1, 3))
    nn.utils.remove_spectral_norm(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match="not found"):
        nn.utils.remove_spectral_norm(layer)


def test_copies_are_parametrized_too() -> None:
    layer = nn.utils.parametrizations.weight_norm(_linear(tc, nn))
    twin = copy.deepcopy(layer)
    with tc.no_grad():
        twin.parametrizations.weight.original0.mul_(2)
    np.testing.assert_allclose((layer.weight * 2).tolist(), twin.weight.tolist(), rtol=1e-5)
