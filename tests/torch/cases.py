"""Kernels of many kinds beside the same in torch's own operators, for tests of transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")


@dataclass(frozen=True)
class Case:
    """A text, the same function in torch, and the shapes (or values) of its arguments."""

    name: str
    text: str
    reference: Callable[..., Any]
    arguments: Sequence[Any]

    def __str__(self) -> str:
        return self.name

    @cached_property
    def kernel(self) -> Any:
        return tct.define(self.text)

    def values(self, *batch: int, dtype: Any = torch.float64, seed: int = 1) -> list[Any]:
        """Return arguments; with a batch in front of each float tensor."""
        made = torch.Generator().manual_seed(seed)
        return [
            torch.randn((*batch, *a), generator=made, dtype=dtype) if isinstance(a, tuple) else a
            for a in self.arguments
        ]

    @property
    def floats(self) -> tuple[int, ...]:
        """The places of float tensors."""
        return tuple(i for i, a in enumerate(self.arguments) if isinstance(a, tuple))

    def in_dims(self, *places: int) -> tuple[int | None, ...]:
        """Return a batch in front of the arguments at these places."""
        return tuple(0 if i in places else None for i in range(len(self.arguments)))


def _layernorm(x: Any, w: Any, b: Any, eps: Any) -> Any:
    # not torch's own: in 2.13 its second derivative by weight and then input is wrong
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).square().mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + eps) * w + b


def _recurrent(x: Any, u: Any, h: Any) -> Any:
    states = [h]
    for t in range(x.shape[0]):
        states.append(torch.tanh(x[t] + u @ states[-1]))
    return torch.stack(states)


def _scaled(x: Any, s: Any) -> Any:
    return x * x * s, (x * x * x).sum(), (x > 0).sum().to(torch.int32)


CASES = [
    Case(
        "linear_relu",
        """def linear_relu(double(B,M) I, double(N,M) W, double(N) b) -> (O) {
             Z(r, n) +=! I(r, m) * W(n, m)
             O(r, n) = relu(Z(r, n) + b(n)) * Z(r, n)
           }""",
        lambda x, w, b: torch.relu(x @ w.T + b) * (x @ w.T),
        [(5, 7), (3, 7), (3,)],
    ),
    Case(
        "softmax",
        """def softmax(double(N,M) x) -> (y) {
             m(n) max=! x(n, k)
             e(n, k) = exp(x(n, k) - m(n))
             s(n) +=! e(n, k)
             y(n, k) = e(n, k) / s(n)
           }""",
        lambda x: torch.softmax(x, -1),
        [(3, 5)],
    ),
    Case(
        "convolution",
        """def convolution(double(N,C,H,W) I, double(M,C,KH,KW) K) -> (O) {
             O(n, m, h, w) +=! I(n, c, 2 * h + kh, 2 * w + kw) * K(m, c, kh, kw)
           }""",
        lambda x, k: torch.nn.functional.conv2d(x, k, stride=2),
        [(2, 3, 7, 6), (2, 3, 3, 2)],
    ),
    Case(
        "layernorm",
        """def layernorm(double(N,D) x, double(D) w, double(D) b, double eps) -> (y) {
             s(n) +=! x(n, d)
             v(n) +=! (x(n, d) - s(n) / D) * (x(n, d) - s(n) / D)
             y(n, d) = (x(n, d) - s(n) / D) * rsqrt(v(n) / D + eps) * w(d) + b(d)
           }""",
        _layernorm,
        [(4, 6), (6,), (6,), 1e-2],
    ),
    Case(
        "bag",
        """def bag(double(V,D) E, int64(B,L) I) -> (S) { S(b, d) +=! E(I(b, l), d) }""",
        lambda e, i: e[i].sum(1),
        [(5, 3), torch.tensor([[0, 4, 4], [2, 1, 3]])],
    ),
    Case(
        "recurrent",
        """def recurrent(double(T,N) x, double(N,N) u, double(N) h0) -> (H) {
             H(0, n) = h0(n)
             for t in 0:T {
               Z(n) +=! H(t, m) * u(n, m)
               H(t + 1, n) = tanh(x(t, n) + Z(n))
             }
           }""",
        _recurrent,
        [(4, 3), (3, 3), (3,)],
    ),
    Case(
        "scaled",
        """def scaled(double(...) x, double s) -> (y, z, n) {
             y(...) = x(...) * x(...) * s
             z +=! x(...) * x(...) * x(...)
             n +=! int32(x(...) > 0)
           }""",
        _scaled,
        [(2, 5), ()],
    ),
    Case(
        "masked",
        """def masked<T>(T(N) x, bool(N) keep, T fill) -> (y) {
             y(i) = keep(i) ? sin(x(i)) * x(i) : fill
           }""",
        lambda x, keep, fill: torch.where(keep, torch.sin(x) * x, fill),
        [(5,), torch.tensor([True, False, True, True, False]), ()],
    ),
]
SOME = [c for c in CASES if c.name == "scaled"]


def listed(found: Any) -> list[Any]:
    """Return outputs as a list."""
    return [*found] if isinstance(found, tuple | list) else [found]


def total(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a number of all float outputs, of which no derivative vanishes."""

    def number(*values: Any) -> Any:
        floats = [o for o in listed(f(*values)) if o.is_floating_point()]
        return sum(((o + 0.3 * r) * o.sin()).sum() for r, o in enumerate(floats))

    return number
