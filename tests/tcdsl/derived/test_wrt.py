"""`wrt=`: gradients by some parameters, for those who call kernels."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tcdsl as tc
from tcdsl.cli.app import main
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.kernel import Kernel

pytestmark = pytest.mark.cc

FC = """def fc(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
  O(i, n) +=! I(i, m) * W(n, m)
  O(i, n) = tanh(O(i, n) + b(n))
}"""
SCAN = """def scan<N=3>(float(T,D) X, float(D) w) -> (h) {
  h(d) = X(0, d)
  for t in 1:T { h(d) = tanh(h(d) * w(d) + N * X(t, d)) }
}"""


def kernel(text: str) -> Kernel:
    made = tc.define(text, tune="off")
    assert isinstance(made, Kernel)
    return made


def fc_arguments(rng: np.random.Generator) -> list[Any]:
    return [rng.normal(size=s).astype(np.float32) for s in ((3, 5), (4, 5), (4,), (3, 4))]


def test_every_way_to_a_gradient_takes_wrt(rng: np.random.Generator) -> None:
    k = kernel(FC)
    *args, seed = fc_arguments(rng)
    y, pull = k.vjp(*args)
    every = pull(seed)
    for wrt, want in ((["b", "W"], (every.d_b, every.d_W)), (("W",), (every.d_W,))):
        got_y, pull = k.vjp(*args, wrt=wrt)
        assert np.array_equal(got_y, y)
        found = [pull(seed), k.with_grad(wrt=wrt)(*args)[1](seed)]
        found.append(tc.grad(k, wrt=wrt).whole(*args, seed))
        found.append(tc.grad(k.with_grad(wrt=wrt)).whole(*args, seed))
        for got in found:
            listed = got if len(wrt) > 1 else (got,)
            assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(listed, want, strict=True))
    assert pull(seed).shape == (4, 5)  # bare, as there is one
    assert repr(k.vjp(*args, wrt="b")[1]) == "<the way back (d_O) -> d_b>"


def test_a_kernel_with_its_gradient_is_made_once_for_the_same_names() -> None:
    k = kernel(FC)
    both = k.with_grad(wrt=["W", "b"])
    assert both is k.with_grad(wrt=("W", "b"))
    assert both is not k.with_grad(wrt=["b", "W"])
    assert k.with_grad(wrt="b") is k.with_grad(wrt=["b"])
    assert k.with_grad(copy=False, wrt="b") is k.with_grad(copy=False, wrt="b")
    assert tc.grad(k, wrt="b") is tc.grad(k, wrt=["b"])
    call = k.call(np.ones((2, 3), np.float32), np.ones((4, 3), np.float32), np.ones(4, np.float32))
    bound = call.variant
    every = k.with_grad()
    one = every.of(bound, call.sizes, wrt=("b",))
    assert one is every.of(bound, call.sizes, wrt=("b",))
    assert one.backward.returns == ("d_b",)
    assert one.gradient.wrt == ("b",)
    assert every.of(bound, call.sizes).backward.returns == ("d_I", "d_W", "d_b")


def test_derivatives_of_derivatives_take_wrt(rng: np.random.Generator) -> None:
    k = kernel("def f(double(N) x, double(N) w) -> (y) { y +=! x(i) * x(i) * x(i) * w(i) }")
    x, w, u = rng.normal(size=(3, 4))
    first = tc.grad(k, wrt="x")
    assert first.whole.returns == ("d_x",)
    assert tc.grad(first, wrt=["w", "d_y"]).returns == ("d_w", "d_d_y")
    second = tc.grad(tc.grad(k, wrt=["x"]), wrt=["x"]).whole
    assert second.returns == ("d_x_2",)
    assert np.allclose(second(x, w, 1.0, u), 6 * x * w * u)
    _, pull = k.vjp(x, w, wrt="x")
    d_x, again = pull.vjp(wrt=["d_y", "w"])
    assert np.allclose(d_x, 3 * x * x * w)
    found = again(u)
    assert np.allclose(found.d_d_y, (3 * x * x * w * u).sum())
    assert np.allclose(found.d_w, 3 * x * x * u)


@pytest.mark.wide
@pytest.mark.parametrize("options", [{}, {"checkpoint": 2}, {"memory_limit": 40}])
def test_loops_generics_and_limits_go_with_wrt(
    options: dict[str, Any], rng: np.random.Generator
) -> None:
    k = kernel(SCAN)
    x, w = rng.normal(size=(9, 2)).astype(np.float32), np.ones(2, np.float32)
    want = k.vjp(x, w, N=2)[1](w)
    for wrt in ("X", "w"):
        _, pull = k.with_grad(wrt=wrt, **options)(x, w, N=2)
        assert np.allclose(pull(w), getattr(want, f"d_{wrt}"), atol=1e-5)
        whole = tc.grad(k, wrt=wrt, N=2, **options).whole
        assert np.allclose(whole(x, w, w), getattr(want, f"d_{wrt}"), atol=1e-5)


def test_any_rank_and_any_type(rng: np.random.Generator) -> None:
    k = kernel("def mul<T>(T(...) A, T(...) B) -> (C) { C(...) = A(...) * B(...) }")
    for dtype in (np.float64, np.float32):
        a, b = rng.normal(size=(2, 3, 4)).astype(dtype)
        _, pull = k.vjp(a, b[0], wrt="B")
        assert np.allclose(pull(np.ones((3, 4), dtype)), a.sum(0))
    scale = kernel("def scale<T>(T(N) A, float(N) B) -> (C) { C(i) = A(i) * B(i) }")
    with pytest.raises(TCTypeError, match="scale: wrt: 'A' is int32, which has no derivative"):
        scale.vjp(np.ones(4, np.int32), np.ones(4, np.float32), wrt="A")


@pytest.mark.wide
def test_a_name_of_the_text_comes_before_the_option() -> None:
    k = kernel(
        "def f<wrt=1, checkpoint=1>(float(N) x, float(N) z) -> (y) {"
        " y(i) = checkpoint * wrt * x(i) }"
    )
    x = np.ones(2, np.float32)
    assert k.vjp(x, x, wrt=3)[1](x).d_x.tolist() == [3, 3]
    assert k.with_grad(wrt="x")(x, x, wrt=3)[1](x).tolist() == [3, 3]
    assert tc.grad(k, wrt=3)(x, x, x).d_x.tolist() == [3, 3]
    assert tc.grad(k.with_grad(wrt=["x"]), wrt=4, checkpoint=2)(x, x, x).tolist() == [8, 8]
    p = kernel("def f(float(N) x, float(N) wrt) -> (y) { y(i) = wrt(i) * x(i) }")
    assert p.vjp(x, wrt=2 * x)[1](x).d_x.tolist() == [2, 2]
    assert p.with_grad(wrt="wrt")(x, wrt=x)[1](x).tolist() == [1, 1]


def test_what_is_wrong_is_said_before_the_call() -> None:
    k = kernel("def f(float(N) x, int32(N) I) -> (y) { s +=! x(i) y(i) = s * x(I(i)) * x(i) }")
    for wrong, message in (
        ("I", "f: wrt: 'I' is int32, which has no derivative"),
        (["x", "q"], "f: wrt: there is no parameter 'q'"),
        ([], "f: wrt names no parameter"),
        (7, "f: wrt: expected names of parameters, got 7"),
    ):
        with pytest.raises(TCTypeError, match=message):
            k.with_grad(wrt=wrong)  # type: ignore[arg-type]
        with pytest.raises(TCTypeError, match=message):
            tc.grad(k, wrt=wrong)
    kept = tc.grad(k)
    assert "s" in kept.params
    with pytest.raises(TCTypeError, match="d_f: wrt: 's' is kept of the forward pass"):
        tc.grad(kept, wrt=["s"])
    x = np.ones(2, np.float32)
    with pytest.raises(TCTypeError, match=r"set it before the call: f\.with_grad\(wrt="):
        k(x, np.zeros(2, np.int32), wrt=["x"])
    with pytest.raises(TCTypeError, match="pass them to with_grad, or the kernel itself to grad"):
        tc.grad(k.with_grad(), wrt=["x"])


def test_it_travels(rng: np.random.Generator) -> None:
    *args, seed = fc_arguments(rng)
    both = kernel(FC).with_grad(wrt=["b"])
    for other in (pickle.loads(pickle.dumps(both)), copy.deepcopy(both)):
        assert other.wrt == ("b",)
        assert np.array_equal(other(*args)[1](seed), both(*args)[1](seed))


def test_the_command_takes_wrt(tmp_path: Any) -> None:
    file = tmp_path / "fc.tc"
    file.write_text(FC)
    shown = CliRunner().invoke(main, ["grad", str(file), "--wrt", "b, W"])
    assert "-> (d_b, d_W) {" in shown.output
    refused = CliRunner().invoke(main, ["grad", str(file), "--wrt", "b,b"])
    assert (refused.exit_code, "fc: wrt names 'b' twice" in refused.output) == (1, True)
