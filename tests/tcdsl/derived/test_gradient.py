"""`tc.grad`, `kernel.vjp` and `kernel.with_grad()`: gradients for those who call kernels."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.grammar.text.errors import ShapeError, TCTypeError
from tcdsl.kernel import Kernel

pytestmark = pytest.mark.cc

SOFTMAX = """def softmax(float(B,N) X) -> (Y) {
  top(b) max=! X(b, n)
  Z(b) +=! exp(X(b, n) - top(b))
  Y(b, n) = exp(X(b, n) - top(b)) / Z(b)
}"""
MOMENTS = """def moments(float(B,N) X) -> (m, v) {
  m(b) +=! X(b, n) / N
  v(b) +=! (X(b, n) - m(b)) * (X(b, n) - m(b)) / N
}"""


def kernel(text: str) -> Kernel:
    made = tc.define(text, tune="off")
    assert isinstance(made, Kernel)
    return made


def test_vjp_gives_the_outputs_and_the_way_back(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 5)).astype(np.float32)
    seed = rng.normal(size=(3, 5)).astype(np.float32)
    softmax = kernel(SOFTMAX)
    y, pull = softmax.vjp(x)
    np.testing.assert_array_equal(y, softmax(x))
    want = y * (seed - (seed * y).sum(1, keepdims=True))
    np.testing.assert_allclose(pull(seed), want, atol=1e-6)
    np.testing.assert_allclose(pull(2 * seed), 2 * want, atol=1e-6)


def test_several_outputs_are_a_named_tuple_and_take_an_adjoint_each(
    rng: np.random.Generator,
) -> None:
    x = rng.normal(size=(3, 4)).astype(np.float32)
    outputs, pull = kernel(MOMENTS).vjp(x)
    assert outputs._fields == ("m", "v")
    ones = np.ones(3, np.float32)
    np.testing.assert_allclose(pull(ones, None), np.full((3, 4), 0.25), atol=1e-6)
    want = (x - x.mean(1, keepdims=True)) / 2
    np.testing.assert_allclose(pull(None, ones), want, atol=1e-6)
    np.testing.assert_allclose(pull((ones, ones)), want + 0.25, atol=1e-6)
    with pytest.raises(TCTypeError, match=r"expected 2 adjoints \(d_m, d_v\), got 1"):
        pull(ones)


def test_a_number_needs_no_adjoint(rng: np.random.Generator) -> None:
    x = rng.normal(size=7)
    y, pull = kernel("def norm(double(N) x) -> (y) { y +=! x(i) * x(i) }").vjp(x)
    assert y == pytest.approx((x * x).sum())
    np.testing.assert_allclose(pull(), 2 * x)


def test_generics_ranks_and_keywords_are_those_of_the_call(rng: np.random.Generator) -> None:
    every = kernel("def every<S=2, T>(T(N) A) -> (B) { B(i) = A(S * i) * A(S * i) }")
    for dtype in (np.float64, np.float32):
        a = rng.normal(size=7).astype(dtype)
        _, pull = every.vjp(A=a, S=3)
        got = pull(np.ones(3, dtype))
        assert got.dtype == dtype
        assert np.allclose(got[::3], 2 * a[::3])
    add = kernel("def mul(float(...) A, float(...) B) -> (C) { C(...) = A(...) * B(...) }")
    a, b = np.ones((3, 4), np.float32), np.full((1, 4), 2, np.float32)
    d = add.vjp(a, b)[1](np.ones((3, 4), np.float32))
    assert d.d_A.tolist() == [[2] * 4] * 3
    assert d.d_B.tolist() == [[3] * 4]


def test_integers_are_passed_on() -> None:
    embed = kernel("def embed(float(V,D) E, int32(B) I) -> (O) { O(b, d) = E(I(b), d) }")
    _, pull = embed.vjp(np.zeros((4, 2), np.float32), np.array([1, 3, 1], np.int32))
    assert pull(np.ones((3, 2), np.float32)).tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]]


def test_grad_is_a_kernel_that_has_a_gradient() -> None:
    cube = kernel("def cube(double(N) x) -> (y) { y(i) = x(i) * x(i) * x(i) }")
    first = tc.grad(cube)
    x, one = np.array([1.0, -2.0]), np.ones(2)
    assert first.params == ("x", "d_y")
    np.testing.assert_allclose(first(x, one), 3 * x * x)
    by_x, by_d_y = first.vjp(x, one)[1](one)
    np.testing.assert_allclose(by_x, 6 * x)
    np.testing.assert_allclose(by_d_y, 3 * x * x)
    third = tc.grad(tc.grad(first))
    assert third.params[:2] == ("x", "d_y")


def test_grad_takes_generics_and_types_by_name() -> None:
    every = kernel("def every<S=2, T>(T(N) A) -> (B) { B(i) = A(S * i) * A(S * i) }")
    double = tc.grad(every, S=3, T="float64")
    assert double(np.arange(7.0), np.ones(3)).tolist() == [0, 0, 0, 6, 0, 0, 12]
    with pytest.raises(TCTypeError, match="the type variable 'T' has no type"):
        tc.grad(every)


def test_the_forward_pass_is_traced_once_per_type() -> None:
    softmax = kernel(SOFTMAX)
    both = softmax.with_grad()
    assert both is softmax.with_grad()
    x = np.ones((2, 3), np.float32)
    both(x)
    both(np.ones((4, 3), np.float32))
    made = both.of(softmax.call(x).variant)
    assert made.forward.returns == ("Y",)
    assert made.backward.params == ("X", "Y", "d_Y")


CONV = """def conv(float(N,C,H) I, float(F,C,KH) K) -> (O) {
  O(n, f, h) +=! I(n, c, h + kh) * K(f, c, kh)
}"""


def test_adjoints_have_the_shape_and_the_type_of_their_outputs() -> None:
    conv = kernel(CONV)
    image, window = np.ones((2, 3, 7), np.float32), np.ones((4, 3, 3), np.float32)
    right, _ = conv.vjp(image, window)
    _, pull = conv.vjp(image, window)
    gradient = tc.grad(conv)
    assert pull(right).d_I.shape == image.shape
    wrong = np.ones((2, 4, 6), np.float32)
    message = (
        "d_conv(I, K, d_O): expected d_O of the shape of 'O', (N, F, H - KH + 1) = (2, 4, 5), "
        "got (2, 4, 6)"
    )
    for call in (pull, partial(gradient, image, window)):
        with pytest.raises(ShapeError) as larger:
            call(wrong)
        assert str(larger.value) == message
        with pytest.raises(ShapeError, match="expected d_O of the shape of 'O'"):
            call(np.ones((2, 4, 4), np.float32))
        with pytest.raises(ShapeError, match=r"expected d_O of shape \(N, F, .* with N = 2"):
            call(np.ones((1, 4, 5), np.float32))
        with pytest.raises(ShapeError, match="expected d_O with 3 dimensions, got shape"):
            call(np.ones((4, 5), np.float32))
        with pytest.raises(TCTypeError, match="expected d_O of type float32, got float64"):
            call(np.ones((2, 4, 5)))
    with pytest.raises(ShapeError, match="expected K of shape"):  # given in another order
        gradient(image, right, window)
    with pytest.raises(TCTypeError, match="misses 'd_O'"):
        gradient(image, window)
    assert np.array_equal(gradient(d_O=right, K=window, I=image).d_K, pull(right).d_K)


def test_adjoints_go_by_name_too(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4)).astype(np.float32)
    ones, twos = np.ones(3, np.float32), np.full(3, 2, np.float32)
    _, pull = kernel(MOMENTS).vjp(x)
    want = pull(ones, twos)
    np.testing.assert_array_equal(pull(d_v=twos, d_m=ones), want)
    np.testing.assert_array_equal(pull(ones, d_v=twos), want)
    np.testing.assert_array_equal(pull(d_v=twos), pull(None, twos))
    for args, named, message in (
        ((), {"d_x": ones}, r"d_moments: the way back takes d_m, d_v, not 'd_x'"),
        ((ones,), {"d_m": ones}, r"d_moments: the way back takes d_m, d_v; 'd_m' is given twice"),
        ((ones,), {}, r"d_moments: expected 2 adjoints \(d_m, d_v\), got 1"),
        ((ones,) * 3, {}, r"d_moments: expected 2 adjoints \(d_m, d_v\), got 3"),
    ):
        with pytest.raises(TCTypeError, match=message):
            pull(*args, **named)
    assert repr(pull) == "<the way back (d_m, d_v) -> d_X>"


def test_kept_values_have_the_shape_they_were_kept_with(rng: np.random.Generator) -> None:
    text = "def f(double(N) x, double(K) w) -> (y) { s(i) +=! x(i + k) * w(k) y(i) = sin(s(i)) }"
    x, w = rng.normal(size=7), rng.normal(size=3)
    gradient = tc.grad(kernel(text))
    assert gradient.params == ("x", "w", "s", "d_y")
    with pytest.raises(
        ShapeError, match=r"expected s as it was kept, \(N - K \+ 1,\) = \(5,\), got"
    ):
        gradient(x, w, np.ones(6), np.ones(5))


def test_what_goes_wrong_in_the_forward_pass_names_the_definition() -> None:
    text = """
def xent(float(B,C) X, int32(B) labels) -> (l) {
  Z(b) +=! exp(X(b, c))
  l +=! log(Z(b)) - X(b, labels(b))
}
def turns(float(N) x, int32 T) -> (H) {
  H(0, i) = x(i)
  for t in 0:T { H(t + 1, i) = exp(H(t, i)) }
}"""
    k = tc.define_all(text, tune="off")
    x, labels = np.zeros((2, 3), np.float32), np.array([0, 3], np.int32)
    messages = []
    for call in (k.xent, k.xent.vjp, k.xent.with_grad(copy=False)):
        with pytest.raises(tc.BoundsError, match=r"^xent: subscript 1 of 'X' is 3") as caught:
            call(x, labels)
        messages.append(str(caught.value))
    with pytest.raises(tc.BoundsError, match=r"^xent: subscript 1 of 't_X' is 3"):
        k.xent.jvp((x, labels), (x, None))
    assert len({*messages}) == 1
    with pytest.raises(MemoryError, match=r"^turns: no memory"):
        k.turns.vjp(np.zeros(1 << 20, np.float32), 1 << 26)
    made = k.xent.with_grad().of(k.xent.variant())
    assert made.forward.name == "xent"
    assert "forward" not in made.forward.source
