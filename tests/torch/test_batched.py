"""`kernel.batched(...)` beside `torch.func.vmap` of the same in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.cc, pytest.mark.torch]

Case = tuple[str, Callable[..., Any], tuple[tuple[int, ...], ...]]

LINEAR: Case = (
    "def f(double(N) x, double(M,N) W, double(M) b) -> (y) { y(m) +=! x(n) * W(m, n) "
    "y(m) = y(m) + b(m) }",
    lambda x, w, b: torch.nn.functional.linear(x, w, b),
    ((5,), (3, 5), (3,)),
)
CONV: Case = (
    "def conv(double(C,H,W) x, double(F,C,KH,KW) k) -> (y) "
    "{ y(f, h, w) +=! x(c, h + kh, w + kw) * k(f, c, kh, kw) }",
    lambda x, k: torch.nn.functional.conv2d(x[None], k)[0],
    ((2, 7, 6), (3, 2, 3, 2)),
)
SOFTMAX: Case = (
    "def f(double(N,M) x) -> (y) { m(i) max=! x(i, j)  s(i) +=! exp(x(i, j) - m(i)) "
    "y(i, j) = exp(x(i, j) - m(i)) / s(i) }",
    lambda x: torch.softmax(x, -1),
    ((4, 6),),
)
ATTENTION: Case = (
    "def f(double(T,D) q, double(S,D) k, double(S,E) v) -> (o) { a(t, s) +=! q(t, d) * k(s, d) "
    "m(t) max=! a(t, s)  z(t) +=! exp(a(t, s) - m(t)) "
    "o(t, e) +=! exp(a(t, s) - m(t)) / z(t) * v(s, e) }",
    lambda q, k, v: torch.softmax(q @ k.T, -1) @ v,
    ((4, 3), (5, 3), (5, 2)),
)
CASES = {"linear": LINEAR, "conv": CONV, "softmax": SOFTMAX, "attention": ATTENTION}
PLACES: list[tuple[str, tuple[int | None, ...]]] = [
    ("linear", (0, None, None)),
    ("linear", (1, 0, None)),
    ("linear", (None, 2, -1)),
    ("conv", (0, None)),
    ("conv", (-1, 1)),
    ("softmax", (1,)),
    ("attention", (0, 0, 0)),
    ("attention", (None, 2, 0)),
]


@sampled("name,in_dims", PLACES, keep=1)
@sampled("out_dim", [0, -1], keep=1)
def test_a_batch_is_what_vmap_makes(
    name: str, in_dims: tuple[int | None, ...], out_dim: int
) -> None:
    text, peer, shapes = CASES[name]
    rng = np.random.default_rng(len(text))
    args = [
        rng.normal(size=s if d is None else np.insert(s, d if d >= 0 else len(s) + 1 + d, 3))
        for s, d in zip(shapes, in_dims, strict=True)
    ]
    kernel = tc.define(text, tune="off")
    want = torch.func.vmap(peer, in_dims, out_dim)(*map(torch.from_numpy, args))
    got = kernel.batched(in_dims, out_dims=out_dim)(*args)
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-12, atol=1e-13)


def test_a_batch_of_a_batch_is_vmap_of_vmap() -> None:
    text, peer, _ = LINEAR
    kernel = tc.define(text, tune="off")
    rng = np.random.default_rng(0)
    x, w, b = rng.normal(size=(5, 4)), rng.normal(size=(2, 3, 5)), rng.normal(size=(3, 2))
    inner, outer = (1, None, None), (None, 0, 1)
    want = torch.func.vmap(torch.func.vmap(peer, inner), outer)(*map(torch.from_numpy, (x, w, b)))
    got = kernel.batched(inner).batched(outer)(x, w, b)
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-12)


@pytest.mark.wide
def test_gradients_of_each_element_are_those_of_vmap_of_grad() -> None:
    text, peer, shapes = LINEAR
    gradient = tc.grad(tc.define(text, tune="off")).whole
    rng = np.random.default_rng(1)
    x, w, b = (rng.normal(size=s) for s in ((4, 5), *shapes[1:]))

    def loss(*args: Any) -> Any:
        return peer(*args).sum()

    each = torch.func.vmap(torch.func.grad(loss, (0, 1, 2)), (0, None, None))
    want = each(*map(torch.from_numpy, (x, w, b)))
    got = gradient.batched("x")(x, w, b, np.ones(3))
    assert gradient.batched("x").out_dims == (None, 0, None)  # d_x and d_b are the same for all
    np.testing.assert_allclose(got.d_W, want[1].numpy(), rtol=1e-12)
    np.testing.assert_allclose(np.broadcast_to(got.d_x, (4, 5)), want[0].numpy(), rtol=1e-12)
    np.testing.assert_allclose(np.broadcast_to(got.d_b, (4, 3)), want[2].numpy(), rtol=1e-12)
