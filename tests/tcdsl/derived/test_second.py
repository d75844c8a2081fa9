"""Second derivatives as users ask for them: of kernels that keep something, by every way there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.kernel import Kernel
from tests.texts import examples
from tests.tiers import sampled

pytestmark = pytest.mark.cc

Array = np.ndarray[Any, np.dtype[Any]]

TANH_LAYER = """def layer(double(B,M) X, double(N,M) W, double(N) b) -> (Y) {
  Z(i, n) +=! X(i, m) * W(n, m)
  Y(i, n) = tanh(Z(i, n) + b(n))
}"""
SOFTMAX = """def softmax(double(B,N) X) -> (Y) {
  top(b) max=! X(b, n)
  Z(b) +=! exp(X(b, n) - top(b))
  Y(b, n) = exp(X(b, n) - top(b)) / Z(b)
}"""
LAYER_NORM = """def norm(double(B,N) X, double(N) g, double(N) h) -> (Y) {
  m(b) +=! X(b, n) / N
  v(b) +=! (X(b, n) - m(b)) * (X(b, n) - m(b)) / N
  Y(b, n) = (X(b, n) - m(b)) * rsqrt(v(b) + 0.01) * g(n) + h(n)
}"""
RNN = """def rnn(double(T,B,N) X, double(B,N) H0, double(N,N) U) -> (H) {
  H(0, b, n) = H0(b, n)
  for t in 0:T {
    Z(b, n) +=! H(t, b, m) * U(n, m)
    H(t + 1, b, n) = tanh(X(t, b, n) + Z(b, n))
  }
}"""


def _rnn(torch: Any, x: Any, h: Any, u: Any) -> Any:
    states = [h]
    for t in x:
        states.append(torch.tanh(t + states[-1] @ u.T))
    return torch.stack(states)


PROGRAMS: dict[str, tuple[str, tuple[tuple[int, ...], ...], Callable[..., Any]]] = {
    "tanh layer": (
        TANH_LAYER,
        ((3, 4), (2, 4), (2,)),
        lambda torch, x, w, b: torch.tanh(x @ w.T + b),
    ),
    "softmax": (SOFTMAX, ((3, 5),), lambda torch, x: torch.softmax(x, 1)),
    "layer norm": (
        LAYER_NORM,
        ((3, 5), (5,), (5,)),
        lambda torch, x, g, h: torch.nn.functional.layer_norm(x, x.shape[1:], g, h, 0.01),
    ),
    "rnn": (RNN, ((4, 2, 3), (2, 3), (3, 3)), _rnn),
}


def kernel(text: str) -> Kernel:
    made = tc.define(text, tune="off")
    assert isinstance(made, Kernel)
    return made


def listed(value: Any) -> list[Any]:
    return [*value] if isinstance(value, tuple) else [value]


def drawn(name: str, rng: np.random.Generator) -> tuple[Kernel, list[Array], Array, list[Array]]:
    """Return a kernel that keeps something, arguments, an adjoint, and directions."""
    text, shapes, _ = PROGRAMS[name]
    k = kernel(text)
    args = [np.asarray(rng.normal(size=s)) for s in shapes]
    seed = rng.normal(size=k(*args).shape)
    return k, args, seed, [np.asarray(rng.normal(size=s)) for s in shapes]


def by_differences(k: Kernel, args: list[Array], seed: Array, towards: list[Array]) -> list[Array]:
    """Return the Hessian of sum(k(*args) * seed) times towards, from first derivatives."""
    step = 1e-5

    def slopes(at: float) -> list[Array]:
        moved = [a + at * u for a, u in zip(args, towards, strict=True)]
        return listed(k.vjp(*moved)[1](seed))

    pairs = zip(slopes(step), slopes(-step), strict=True)
    return [(above - below) / (2 * step) for above, below in pairs]


@pytest.mark.wide
@sampled("name", PROGRAMS, keep=1)
def test_hessians_are_those_of_central_differences(name: str, rng: np.random.Generator) -> None:
    k, args, seed, towards = drawn(name, rng)
    want = by_differences(k, args, seed, towards)
    count = len(args)
    slopes, again = k.vjp(*args)[1].vjp(seed)
    for got, first in zip(listed(slopes), listed(k.vjp(*args)[1](seed)), strict=True):
        np.testing.assert_allclose(got, first, rtol=1e-12, atol=1e-12)
    by_pull = listed(again(*towards))
    by_grad = listed(tc.grad(tc.grad(k)).whole(*args, seed, *towards))
    by_with_grad = listed(k.with_grad().with_grad()(*args, seed)[1](*towards))
    for ways in zip(by_pull[:count], by_grad, by_with_grad, want, strict=False):
        for way in ways[:3]:
            np.testing.assert_allclose(way, ways[3], rtol=1e-6, atol=1e-8)
    # The gradient is linear in the adjoint: by it, the derivative is the kernel's along towards.
    step = 1e-5
    moved = [[a + s * step * u for a, u in zip(args, towards, strict=True)] for s in (1, -1)]
    np.testing.assert_allclose(
        by_pull[count], (k(*moved[0]) - k(*moved[1])) / (2 * step), rtol=1e-6, atol=1e-8
    )


@pytest.mark.torch
@sampled("name", PROGRAMS, keep=1)
def test_hessians_are_torchs(name: str, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    k, args, seed, towards = drawn(name, rng)
    twin = PROGRAMS[name][2]

    def loss(*inputs: Any) -> Any:
        return (twin(torch, *inputs) * torch.tensor(seed)).sum()

    _, want = torch.autograd.functional.hvp(
        loss, tuple(map(torch.tensor, args)), tuple(map(torch.tensor, towards))
    )
    got = listed(k.vjp(*args)[1].vjp(seed)[1](*towards))
    for mine, its in zip(got, want, strict=False):
        np.testing.assert_allclose(mine, its.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.deep
def test_a_third_derivative_of_a_kernel_that_keeps_something(rng: np.random.Generator) -> None:
    k = kernel("def f(double(N) x) -> (y) { s +=! x(i) * x(i) y = s * s }")
    x, u, v = (rng.normal(size=4) for _ in range(3))
    _, pull = k.vjp(x)
    _, second = pull.vjp(1.0)
    by_x, third = second.vjp(u)
    np.testing.assert_allclose(by_x.d_x_2, 4 * (x @ x) * u + 8 * (x @ u) * x)
    got = third(v, None)[0]
    np.testing.assert_allclose(got, 8 * ((x @ v) * u + (u @ v) * x + (x @ u) * v))
    deep = tc.grad(tc.grad(tc.grad(k))).whole
    assert deep.params[:4] == ("x", "d_y", "d_d_x", "d_d_x_2")
    np.testing.assert_allclose(deep(x, 1.0, u, v, 0.0)[0], got)


@pytest.mark.wide
def test_whole_takes_nothing_kept_and_its_pull_neither(rng: np.random.Generator) -> None:
    k = kernel(SOFTMAX)
    gradient = tc.grad(k)
    assert gradient.params == ("X", "Y", "d_Y")
    assert gradient.whole.params == ("X", "d_Y")
    assert gradient.whole.whole is gradient.whole
    assert k.whole is k
    x, seed, towards = (rng.normal(size=(3, 5)) for _ in range(3))
    d_x, again = gradient.vjp(x, k(x), seed)  # kept values are no parameters of it
    np.testing.assert_allclose(d_x, gradient.whole(x, seed))
    by_x, by_seed = again(towards)
    want = by_differences(k, [x], seed, [towards])
    np.testing.assert_allclose(by_x, want[0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(by_seed, gradient.whole(x, towards))  # it is symmetric
    assert gradient.with_tune("off").whole.params == ("X", "d_Y")


def test_a_printed_gradient_takes_what_is_kept_as_parameters() -> None:
    from tcdsl.codegen.gradient.vjp import gradient
    from tcdsl.grammar.check.definition import check
    from tcdsl.grammar.text.parser import parse

    printed = kernel(gradient(check(parse(SOFTMAX))).text)
    assert printed.whole is printed
    second = tc.grad(printed)
    assert second.returns == ("d_X_2", "d_Y_2", "d_d_Y")


def test_what_is_missing_has_a_cure() -> None:
    k = kernel(SOFTMAX)
    x = np.ones((2, 3))
    with pytest.raises(TCTypeError) as fault:
        tc.grad(k)(x, x)
    assert str(fault.value) == (
        "d_softmax(X, Y, d_Y) misses 'd_Y': 2 arguments were given\n"
        "  Y: kept of the forward pass. softmax.vjp(...) passes it on, "
        "tc.grad(softmax).whole(X, d_Y) computes it"
    )


@pytest.mark.deep
def test_second_derivatives_of_an_lstm(rng: np.random.Generator) -> None:
    """Some 130 statements in more than 64 phases."""
    (lstm,) = (e.kernel() for e in examples() if e.name == "lstm")
    shapes = ((4, 2, 3), (2, 5), (2, 5), (4, 5, 3), (4, 5, 5), (4, 5))
    args = [(rng.normal(size=s) / 4).astype(np.float32) for s in shapes]
    towards = [rng.normal(size=s).astype(np.float32) for s in shapes]
    seeds = [rng.normal(size=(5, 2, 5)).astype(np.float32) for _ in range(2)]
    got = lstm.vjp(*args)[1].vjp(*seeds)[1](*towards)
    second = tc.grad(tc.grad(lstm)).whole.variant().checked
    want = evaluate(second, [*args, *seeds, *towards], float64=True)
    for mine, exact in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, exact, rtol=2e-3, atol=2e-4)
