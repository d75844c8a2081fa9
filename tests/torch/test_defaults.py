"""Numbers that calls of kernels on tensors leave out, on every route."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

tct: Any = pytest.importorskip("tcdsl.torch")

pytestmark = pytest.mark.cc

NORM = """
def norm(double(N) x, double eps = 0.5, double(N) w, int32 n = 3) -> (y) {
  m +=! x(i) * x(i) where i in 0:n
  y(i) = x(i) * w(i) * rsqrt(m + eps)
}
"""


def plain(x: Any, w: Any, eps: float = 0.5) -> Any:
    return x * w * (x[:3].square().sum() + eps).rsqrt()


@pytest.mark.wide
def test_every_route_fills_in_defaults() -> None:
    norm = tct.define(NORM, tune="off")
    x, w = (torch.randn(5, dtype=torch.double, requires_grad=True) for _ in range(2))
    for _ in range(2):  # the second call of a form is recorded without Python
        torch.testing.assert_close(norm(x, w=w), plain(x, w))
    torch.testing.assert_close(norm(x.detach(), 2.0, w.detach()), plain(x, w, 2.0).detach())
    assert torch.autograd.gradcheck(lambda a, b: norm(a, w=b), (x, w))
    traced = torch.compile(lambda a, b: norm(a, w=b), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(traced(x, w), plain(x, w))
    many = torch.func.vmap(lambda a: norm(a, w=w.detach()))(torch.stack([x, w]).detach())
    torch.testing.assert_close(many[1], plain(w, w).detach())


def test_a_layer_takes_defaults_as_its_text_has_them() -> None:
    layer = tct.nn.TC(NORM, parameters={"w": (5,)}, init="ones", tune="off").double()
    x = torch.randn(5, dtype=torch.double)
    torch.testing.assert_close(layer(x), plain(x, torch.ones(5)))
    torch.testing.assert_close(layer(x, eps=2.0), plain(x, torch.ones(5), 2.0))


@pytest.mark.wide
def test_derivatives_of_names_that_hide_builtins() -> None:
    text = "def f(double(N) cos, double(N) tan) -> (y) { y(i) = sin(cos(i)) * sin(tan(i)) }"
    f = tct.define(text, tune="off")
    args = [torch.randn(4, dtype=torch.double, requires_grad=True) for _ in range(2)]
    last = {"nondet_tol": 1e-14}  # vectors of sines end where memory is aligned
    assert torch.autograd.gradcheck(f, args, **last, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, args, **last)
