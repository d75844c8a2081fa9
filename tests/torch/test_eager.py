"""Calls that autograd records: values of derivatives, and what autograd promises of them."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from tests.tiers import sampled

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

from torch.autograd import gradcheck, gradgradcheck  # noqa: E402 - torch may be missing

from tcdsl.grammar.text.errors import TCTypeError  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.cc, pytest.mark.usefixtures("way")]

SOFTMAX = """
def softmax(double(N,M) x) -> (y) {
  m(n) max=! x(n, k)
  e(n, k) = exp(x(n, k) - m(n))
  s(n) +=! e(n, k)
  y(n, k) = e(n, k) / s(n)
}"""
LINEAR = """
def linear<T>(T(B,M) I, T(N,M) W, T(N) b) -> (O) {
  O(b_, n) +=! I(b_, m) * W(n, m)
  O(b_, n)  = O(b_, n) + b(n)
}"""
RECURRENT = """
def recurrent(double(T,N) x, double(N,N) u, double(N) h0) -> (H) {
  H(0, n) = h0(n)
  for t in 0:T {
    Z(n) +=! H(t, m) * u(n, m)
    H(t + 1, n) = tanh(x(t, n) + Z(n))
  }
}"""
SCALED = """
def scaled(double(...) x, double s) -> (y, z, n) {
  y(...) = x(...) * x(...) * s
  z +=! x(...) * x(...) * x(...)
  n +=! int32(x(...) > 0)
}"""
CONVOLUTION = """
def convolution<S=1>(double(N,C,H,W) I, double(M,C,KH,KW) K) -> (O) {
  O(n, m, h, w) +=! I(n, c, S * h + kh, S * w + kw) * K(m, c, kh, kw)
}"""
EMBEDDING = """
def bag(double(V,D) E, int64(B,L) I) -> (S) {
  S(b, d) +=! E(I(b, l), d)
}"""
CUBE = "def cube(double(N) x) -> (y) { y(i) = x(i) * x(i) * x(i) }"


def leaf(*shape: int, dtype: Any = torch.float64, seed: int = 1) -> Any:
    made = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=dtype, generator=made).requires_grad_()


def case(text: str) -> tuple[Any, tuple[Any, ...]]:
    kernel = tct.define(text)
    match kernel.name:
        case "softmax":
            return kernel, (leaf(3, 5),)
        case "linear":
            return kernel, (leaf(4, 3), leaf(5, 3), leaf(5))
        case "recurrent":
            return kernel, (leaf(3, 2), leaf(2, 2), leaf(2))
        case "scaled":
            s = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
            return lambda x, s: kernel(x, s)[:2], (leaf(2, 3), s)
        case "convolution":
            return lambda i, k: kernel(i, k, S=2), (leaf(2, 2, 5, 7), leaf(3, 2, 3, 2))
        case _:
            return lambda e: kernel(e, torch.tensor([[0, 2], [2, 2]])), (leaf(3, 2),)


@sampled("text", [SOFTMAX, LINEAR, SCALED], keep=2)
def test_first_and_second_derivatives_are_right(text: str) -> None:
    f, leaves = case(text)
    assert gradcheck(f, leaves)
    assert gradgradcheck(f, leaves)


@pytest.mark.wide
@pytest.mark.parametrize("text", [RECURRENT, CONVOLUTION, EMBEDDING])
def test_derivatives_of_loops_windows_and_gathers_are_right(text: str) -> None:
    f, leaves = case(text)
    assert gradcheck(f, leaves)
    assert gradgradcheck(f, leaves)


def test_what_is_kept_of_a_loop_goes_by_its_turns() -> None:
    kernel = tct.define(
        "def power(double(N) x, int32 n) -> (double(N) y) {\n"
        "  y(i) = 1.0 * x(i)\n  for t in 1:n { y(i) = y(i) * x(i) }\n}"
    )
    x = leaf(3)
    for n in (2, torch.tensor(5, dtype=torch.int32), 1, 2):
        (found,) = torch.autograd.grad(kernel(x, n).sum(), x)
        torch.testing.assert_close(found, int(n) * x ** (int(n) - 1))
    assert len(kernel.derivatives._known) == 3


@pytest.mark.wide
def test_third_derivatives_are_right() -> None:
    kernel, x = tct.define("def f(double(N) x) -> (y) { y(i) = exp(2 * x(i)) }"), leaf(4)
    found = kernel(x)
    for _ in range(3):
        (found,) = torch.autograd.grad(found.sum(), x, create_graph=True)
    torch.testing.assert_close(found, 8 * torch.exp(2 * x))


def test_integer_outputs_and_kernels_of_integers_have_no_gradient() -> None:
    x = leaf(4)
    y, z, n = tct.define(SCALED)(x, 2.0)
    assert (y.requires_grad, z.requires_grad, n.requires_grad) == (True, True, False)
    first = tct.define("def first(double(N) x) -> (i) { i argmax=! x(n) }")(x)
    assert not first.requires_grad
    assert int(first) == int(x.argmax())


def test_only_the_gradients_that_are_asked_for_are_computed() -> None:
    kernel = tct.define(LINEAR)
    kernel(leaf(4, 3), leaf(5, 3).detach(), leaf(5)).sum().backward()
    derivative = kernel.derivatives.of((leaf(4, 3), leaf(5, 3), leaf(5)), {}, (True, False, True))
    assert derivative.backward.returns == ("d_I", "d_b")
    assert derivative.backward.calls == 1


def test_unused_outputs_and_none_adjoints_are_zeros() -> None:
    x = leaf(4)
    y, z, _ = tct.define(SCALED)(x, 2.0)
    z.backward(retain_graph=True)
    torch.testing.assert_close(x.grad, 3 * x * x)
    x.grad = None
    y.sum().backward()
    torch.testing.assert_close(x.grad, 4 * x)


def test_the_same_tensor_twice_gets_both_gradients() -> None:
    kernel, x = (
        tct.define("def mul(double(N) a, double(N) b) -> (y) { y(i) = a(i) * b(i) }"),
        leaf(5),
    )
    kernel(x, x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x)


@sampled("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], keep=2)
def test_every_float_type_learns(dtype: Any) -> None:
    kernel, leaves = tct.define(LINEAR), (leaf(4, 3), leaf(5, 3), leaf(5))
    ours = [t.detach().to(dtype).requires_grad_() for t in leaves]
    theirs = [t.detach().requires_grad_() for t in ours]
    y = kernel(*ours)
    assert y.dtype == dtype
    y.sum().backward()
    torch.nn.functional.linear(*theirs).sum().backward()
    for a, e in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, e.grad)


STRIDED = {
    "expanded": lambda: torch.ones(()).double().expand(4, 5),
    "transposed": lambda: leaf(5, 4).t(),
    "every second": lambda: leaf(8, 10)[::2, ::2],
}


@sampled("name", STRIDED, keep=1)
def test_strided_operands_and_adjoints_are_right(name: str) -> None:
    kernel = tct.define(LINEAR)
    x, w, b = leaf(3, 4), leaf(10, 6), leaf(5)
    xs, ws = x.t(), w[::2, ::2]
    ys, yt = kernel(xs, ws, b), torch.nn.functional.linear(xs, ws, b)
    adjoint = STRIDED[name]()
    found = torch.autograd.grad(ys, (x, w, b), adjoint)
    expected = torch.autograd.grad(yt, (x, w, b), adjoint)
    torch.testing.assert_close(found, expected)


@pytest.mark.wide
def test_channels_last_images_are_right() -> None:
    kernel, (image, weights) = tct.define(CONVOLUTION), (leaf(2, 3, 6, 5), leaf(4, 3, 3, 3))
    last = image.detach().to(memory_format=torch.channels_last).requires_grad_()
    kernel(last, weights).square().sum().backward()
    torch.nn.functional.conv2d(image, weights).square().sum().backward()
    torch.testing.assert_close(last.grad, image.grad)


def test_empty_operands_have_gradients_of_their_shape() -> None:
    x, w, b = leaf(0, 3), leaf(5, 3), leaf(5)
    tct.define(LINEAR)(x, w, b).sum().backward()
    assert x.grad.shape == (0, 3)
    assert not w.grad.any()
    assert not b.grad.any()


def test_a_saved_tensor_that_is_changed_in_place_is_noticed() -> None:
    x = leaf(4)
    twin = x * 1
    y = tct.define(CUBE)(twin)
    twin.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_kept_output_that_is_changed_in_place_is_noticed() -> None:
    kernel, x = tct.define("def f(double(N) x) -> (y, z) { y(i) = exp(x(i))  z +=! x(i) }"), leaf(4)
    y, z = kernel(x)
    assert kernel.derivatives.of((x,), {}, (True,)).kept == (0,)
    z.mul_(2)  # nobody reads it
    y.sum().backward(retain_graph=True)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_what_nobody_reads_may_change_and_is_not_kept() -> None:
    kernel = tct.define("def add(double(N) a, double(N) b) -> (y) { y(i) = a(i) + 2 * b(i) }")
    a, b = leaf(4), leaf(4)
    twin = a * 1
    gone = weakref.ref(twin)
    y = kernel(twin, b)
    y.add_(1)
    twin.zero_()
    del twin
    assert gone() is None
    y.sum().backward()
    torch.testing.assert_close(a.grad, torch.ones(4).double())
    torch.testing.assert_close(b.grad, torch.full((4,), 2.0).double())


def test_out_is_refused_where_autograd_would_not_see_it() -> None:
    kernel, x = tct.define(CUBE), leaf(4)
    with pytest.raises(TCTypeError, match=r"out= does not support automatic differentiation"):
        kernel(x, out=torch.empty(4).double())
    with pytest.raises(TCTypeError, match=r"out= does not support automatic differentiation"):
        kernel(x.detach(), out=leaf(4))
    with torch.no_grad():
        out = torch.empty(4).double()
        version = out._version
        assert kernel(x, out=out) is out
        assert out._version > version
    torch.testing.assert_close(out, x.detach() ** 3)


def test_graphs_may_be_kept_and_run_twice_but_not_after_they_are_freed() -> None:
    x = leaf(4)
    y = tct.define(CUBE)(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    torch.testing.assert_close(x.grad, 6 * x * x)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_hooks_see_gradients_and_may_change_them() -> None:
    x = leaf(4)
    seen: list[Any] = []
    y = tct.define(CUBE)(x)

    def twice(gradient: Any) -> Any:
        seen.append(gradient)
        return 2 * gradient

    y.register_hook(twice)
    y.sum().backward()
    assert len(seen) == 1
    torch.testing.assert_close(x.grad, 6 * x * x)


def test_saved_tensor_hooks_see_what_is_saved() -> None:
    packed: list[Any] = []

    def pack(t: Any) -> int:
        packed.append(t.detach().clone())
        return len(packed) - 1

    x = leaf(4)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda i: packed[i]):
        y = tct.define(CUBE)(x)
    y.sum().backward()
    assert packed
    torch.testing.assert_close(x.grad, 3 * x * x)


def test_inference_tensors_are_refused_by_torch_itself() -> None:
    kernel, w = tct.define("def mul(float(N) a, float(N) b) -> (y) { y(i) = a(i) * b(i) }"), leaf(4)
    with torch.inference_mode():
        x = torch.randn(4)
        assert kernel(x, x).is_inference()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        kernel(x, w.detach().float().requires_grad_())


def test_without_grad_mode_nothing_is_recorded() -> None:
    kernel, x = tct.define(CUBE), torch.nn.Parameter(torch.randn(4).double())
    with torch.no_grad():
        y = kernel(x)
    assert type(y) is torch.Tensor
    assert not y.requires_grad


def test_nothing_of_a_recorded_call_outlives_it() -> None:
    kernel, x = tct.define(SOFTMAX), leaf(3, 5)
    gc.collect()
    gc.disable()
    try:
        twin = x * 1
        y = kernel(twin)
        g = torch.autograd.grad(y.sum(), x, create_graph=True)
        gone = [weakref.ref(t) for t in (twin, y, *g)]
        del twin, y, g
        assert [r() for r in gone] == [None] * 3
    finally:
        gc.enable()


def test_a_way_back_runs_in_another_thread() -> None:
    x, found = leaf(4), []
    y = tct.define(CUBE)(x).sum()
    t = threading.Thread(target=lambda: found.append(torch.autograd.grad(y, x)[0]))
    t.start()
    t.join()
    torch.testing.assert_close(found[0], 3 * x * x)


def test_arrays_of_numpy_beside_parameters_give_tensors() -> None:
    kernel, w = tct.define(LINEAR), torch.nn.Parameter(leaf(5, 3).detach())
    x = np.arange(12.0).reshape(4, 3)
    y = kernel(x, w, np.zeros(5))
    y.sum().backward()
    torch.testing.assert_close(w.grad, torch.from_numpy(x).sum(0).expand(5, 3))


def test_tensors_of_rank_0_alone_give_tensors() -> None:
    product = tct.define("def g(double a, double b) -> (y) { y = a * b }")
    a = torch.tensor(3.0)
    for args in ((a, 2.0), (a, a.double())):
        for _ in range(2):  # of a form that is new, and of one that the launcher knows
            assert type(product(*args)) is torch.Tensor
            assert product(*args).item() == 3 * float(args[1])


@pytest.mark.wide
def test_tensors_of_rank_0_alone_give_tensors_that_learn() -> None:
    kernel = tct.define(
        "def f<T>(T(...) a, T(...) b) -> (y, n) { y(...) = a(...) * b(...) n +=! 1 }"
    )
    a, b = torch.tensor(3.0), torch.tensor(5.0)
    for _ in range(2):  # of a form that is new, and of one that the launcher knows
        y, n = kernel(a, b)
        assert type(y) is type(n) is torch.Tensor
        assert (y.item(), n.item()) == (15, 1)
    for given in ((a, b), (a.double(), b.double())):
        leaves = [g.clone().requires_grad_() for g in given]
        for _ in range(2):
            y, _n = kernel(*leaves)
            assert [g.item() for g in torch.autograd.grad(y, leaves)] == [5, 3]
    assert torch.func.grad(lambda x: kernel(x, b).y)(a) == 5
    product = tct.define("def g(double a, double b) -> (y) { y = a * b }")
    for args in ((a, 2.0), (2.0, a), (np.float64(2), a)):
        for _ in range(2):
            assert type(product(*args)) is torch.Tensor
            torch.testing.assert_close(product(*args), 2 * a.double())
    rows = tct.define("def h(double a, double(N) x) -> (y) { y(i) = a * x(i) }")
    for _ in range(2):  # the first array still says it
        assert type(rows(a, np.ones(2))) is np.ndarray
        assert type(rows(np.asarray(2.0), torch.ones(2).double())) is torch.Tensor


class Tagged(torch.Tensor):  # type: ignore[misc, name-defined]
    """A subclass without rules of its own."""


def test_results_of_a_subclass_are_of_it_and_learn() -> None:
    x = leaf(4)
    y = tct.define(CUBE)(x.as_subclass(Tagged))
    assert type(y) is Tagged
    y.sum().backward()
    torch.testing.assert_close(x.grad, 3 * x * x)
    results = tct.define(SCALED)(x.as_subclass(Tagged), 2.0)
    assert [type(r) for r in results] == [Tagged] * 3
    assert results.y is results[0]
