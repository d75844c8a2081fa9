"""First and second derivatives of layers are those of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.gradient.whole import whole
from tcdsl.grammar.check.definition import check
from tcdsl.kernel import Kernel
from tests.codegen.gradient.differences import (
    Array,
    Differentiated,
    differentiated_def,
    drawn,
    floats,
    seeds_of,
)
from tests.codegen.gradient.layers import LAYERS
from tests.codegen.gradient.test_layers import made
from tests.tiers import sampled

pytestmark = pytest.mark.torch


def _lstm(torch: Any, x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> tuple[Any, Any]:
    n = h.shape[1]
    flat = [
        w.reshape(4 * n, -1),
        u.reshape(4 * n, n),
        b.reshape(4 * n),
        torch.zeros_like(b).ravel(),
    ]
    out, _, last = torch.lstm(x, (h[None], c[None]), flat, True, 1, 0.0, True, False, False)
    return torch.cat([h[None], out]), torch.cat([c.new_zeros(x.shape[0], *c.shape), last])


def _conv(stride: Any = 1, padding: Any = 0, dilation: Any = 1) -> Callable[..., Any]:
    return lambda torch, x, k, b: torch.nn.functional.conv2d(x, k, b, stride, padding, dilation)


def _grouped(torch: Any, x: Any, k: Any) -> Any:
    n, g, c, h, w = x.shape
    image, kernel = x.reshape(n, g * c, h, w), k.reshape(-1, *k.shape[2:])
    out = torch.nn.functional.conv2d(image, kernel, groups=g)
    return out.reshape(n, g, -1, *out.shape[2:])


def _layer_norm(torch: Any, x: Any, g: Any, h: Any, eps: Any) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[1:], g, h, 0.35)


def _group_norm(torch: Any, x: Any, s: Any, t: Any) -> Any:
    n, g, c, h, w = x.shape  # its variance is the mean, and is padded by 1e-3
    flat = torch.nn.functional.group_norm(
        x.reshape(n, g * c, h, w), g, s.reshape(-1), t.reshape(-1), 1e-3
    )
    return flat.reshape(x.shape)


def _batch_norm(torch: Any, x: Any, s: Any, t: Any) -> Any:
    return torch.nn.functional.batch_norm(x, None, None, s, t, training=True, eps=1e-2)


def _attention(torch: Any, q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(q @ k.transpose(1, 2), 2) @ v


def _rnn(torch: Any, x: Any, h: Any, u: Any) -> Any:
    n = u.shape[0]
    flat = [torch.eye(n, dtype=x.dtype), u, *(torch.zeros(n, dtype=x.dtype) for _ in range(2))]
    out, _ = torch.rnn_tanh(x, h[None], flat, True, 1, 0.0, True, False, False)
    return torch.cat([h[None], out])


def _gru(torch: Any, x: Any, h: Any, w: Any, u: Any) -> Any:
    n = h.shape[1]
    flat = [w.reshape(3 * n, -1), u.reshape(3 * n, n)]
    out, _ = torch.gru(x, h[None], flat, False, 1, 0.0, True, False, False)
    return torch.cat([h[None], out])


def _bag(torch: Any, i: Any, e: Any, w: Any) -> Any:
    return (torch.nn.functional.embedding(i.long(), e) * w[..., None]).sum(1)


def _kron(torch: Any, x: Any, y: Any, z: Any, v: Any) -> Any:
    both = torch.kron(torch.kron(x, y), z)
    return (v @ both.T).reshape(-1, x.shape[0], y.shape[0], z.shape[0])


def _min_distance(torch: Any, a: Any, b: Any) -> Any:
    return ((a[:, None] - b[None]) ** 2).sum(2).min(1).values


TWINS: dict[str, Callable[..., Any]] = {
    "softmax": lambda torch, x: torch.softmax(x, 1),
    "log_softmax": lambda torch, x: torch.log_softmax(x, 1),
    "layer_norm": _layer_norm,
    "conv": _conv(),
    "conv_padded": _conv(padding=(1, 2)),
    "conv_strided": _conv((2, 3)),
    "conv_dilated": _conv((2, 1), (2, 1), (2, 3)),
    "grouped": _grouped,
    "max_pool": lambda torch, x: torch.nn.functional.max_pool2d(x, (3, 2), 2),
    "avg_pool": lambda torch, x: torch.nn.functional.avg_pool2d(x, 3, 2, 1),
    "transposed": lambda torch, x, w: torch.nn.functional.conv_transpose1d(x[None], w, stride=2)[0],
    "group_norm": _group_norm,
    "batch_norm_of_a_batch": _batch_norm,
    "attention": _attention,
    "rnn": _rnn,
    "gru": _gru,
    "bag": _bag,
    "kron": _kron,
    "min_distance": _min_distance,
    "cum_prod": lambda torch, x: torch.cumprod(x, 0),
    "embed": lambda torch, e, i: torch.nn.functional.embedding(i.long(), e),
    "lstm": _lstm,
}  # fmt: skip


def _arguments(name: str, d: Differentiated, rng: np.random.Generator) -> tuple[Any, Any]:
    args = drawn(d.checked, LAYERS[name].sizes, rng)
    seeds = seeds_of(d.checked, args, rng)
    if name == "layer_norm":
        args[3] = np.asarray(0.25)
    if name == "lstm":  # torch has the last cell only, and the first state is no output of it
        seeds[1][:-1] = 0
    return args, seeds


def _both(
    name: str, d: Differentiated, args: Sequence[Any], seeds: Sequence[Array], towards: Any
) -> tuple[list[Array], list[Array]]:
    """Return torch's gradients, and those of their product with towards."""
    torch = pytest.importorskip("torch")
    tensors = [torch.tensor(a) for a in args]
    inputs = [tensors[i].requires_grad_() for i in floats(d.checked)]
    out = TWINS[name](torch, *tensors)
    outs = out if isinstance(out, tuple) else (out,)
    loss = sum((o * torch.tensor(s)).sum() for o, s in zip(outs, seeds, strict=True))
    first = torch.autograd.grad(loss, inputs, create_graph=True, materialize_grads=True)
    product = sum((g * torch.tensor(u)).sum() for g, u in zip(first, towards, strict=True))
    if not product.requires_grad:
        return [g.detach().numpy() for g in first], [np.zeros(i.shape) for i in inputs]
    second = torch.autograd.grad(product, inputs, materialize_grads=True)
    return [g.detach().numpy() for g in first], [g.numpy() for g in second]


OFTEN = {"softmax", "layer_norm", "embed"}


@sampled(
    "name", [pytest.param(n, marks=() if n in OFTEN else pytest.mark.deep) for n in TWINS], keep=2
)
def test_first_and_second_derivatives_are_torchs(name: str, rng: np.random.Generator) -> None:
    d = made(LAYERS[name])
    args, seeds = _arguments(name, d, rng)
    found = d.pull(args, seeds)
    towards = [np.asarray(rng.normal(size=g.shape)) for g in found]
    first, second = _both(name, d, args, seeds, towards)
    of = [d.checked.params[i].name for i in floats(d.checked)]
    for g, want, param in zip(found, first, of, strict=True):
        if param != "eps":
            np.testing.assert_allclose(g, want, rtol=1e-9, atol=1e-9)
    if name == "layer_norm":  # whose eps is no tensor of torch's
        towards[3] = np.zeros(())
        _, second = _both(name, d, args, seeds, towards)
    got = _second(d, args, seeds, towards)[: len(of)]
    for g, want, param in zip(got, second, of, strict=True):
        if param != "eps":
            np.testing.assert_allclose(g, want, rtol=1e-8, atol=1e-8)


def _second(
    d: Differentiated, args: Sequence[Any], seeds: Sequence[Array], towards: Sequence[Array]
) -> list[Array]:
    """Return the gradient of the gradient's product with towards, by parameters, then by seeds."""
    both = check(whole(d.gradient), d.gradient.name)
    return [*differentiated_def(both).pull([*args, *seeds], towards)]


@pytest.mark.cc
@pytest.mark.deep
@pytest.mark.parametrize("name", TWINS)
def test_kernels_give_torchs_gradients_in_float32(name: str, rng: np.random.Generator) -> None:
    layer = LAYERS[name]
    d = made(layer)
    args, seeds = _arguments(name, d, rng)
    kernel = tc.define(layer.text, tune="off")
    assert isinstance(kernel, Kernel)
    single = [np.asarray(a, np.float32) if a.dtype.kind == "f" else a for a in args]
    _, pull = kernel.vjp(*single, **layer.generics)
    got = pull(*(np.asarray(s, np.float32) for s in seeds))
    towards = [np.zeros(np.shape(args[i])) for i in floats(d.checked)]
    first, _ = _both(name, d, args, seeds, towards)
    listed = list(got) if isinstance(got, tuple) else [got]
    for i, g, want in zip(floats(d.checked), listed, first, strict=True):
        if d.checked.params[i].name != "eps":
            np.testing.assert_allclose(g, want, rtol=1e-4, atol=1e-4)
