"""`kernel.batched(...)`: one call over a batch gives what a loop over its elements gives."""

from __future__ import annotations

import pickle
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.kernel import Kernel
from tests.tcdsl.batches import assert_same, batch_of, evaluated
from tests.tcdsl.differential import dtype_of, shape_of, small_numbers, viewed
from tests.tiers import sampled

pytestmark = [pytest.mark.cc, pytest.mark.filterwarnings("ignore:(.|\\n)*TC15")]


def kernel(text: str, name: str | None = None, **options: Any) -> Kernel:
    defined = tc.define(text, name, tune="off", **options)
    assert isinstance(defined, Kernel)
    return defined


SIZES = {"N": 5, "M": 7, "K": 3, "T": 4}

# What the language has, and which operands have the batch, where.
PROGRAMS: list[Any] = [
    ("def f(float(M,K) A, float(K,N) W) -> (o) { o(i, j) +=! A(i, k) * W(k, j) }", {"A": 0}),
    ("def f(float(M,K) A, float(K,N) W) -> (o) { o(i, j) +=! A(i, k) * W(k, j) }", {"W": 1}),
    ("def f(float(M,K) A, float(K,N) W) -> (o) { o(i, j) +=! A(i, k) * W(k, j) }",
     {"A": -1, "W": 0}),
    ("def f(float(N) x, float a) -> (y) { y(i) = a * x(i) + 1 }", {"a": 0}),
    ("def f(float(N) x, float a) -> (s, y) { s +=! x(i) y(i) = s * a where i in 0:2 }", {"x": 1}),
    ("def f(int32(N,M) X) -> (s, p, lo, hi) { s(i) +=! X(i, j) p(i) *=! X(i, j) "
     "lo(j) min=! X(i, j) hi max=! X(i, j) }", {"X": 1}),
    ("def f(float(N,M) X) -> (a, b) { a(i) argmax=! X(i, j) b argmin=! X(i, j) }", {"X": 2}),
    ("def f(float(N,M) X) -> (s) { s(i) += X(i, j)  s(i) *= X(i, j)  s(i) max= X(i, j) }",
     {"X": 0}),
    ("def f(float(N) x, float(M) w) -> (o) { t(j) = w(j) * 2 u(j) = exp(0 * t(j)) "
     "o(i, j) = x(i) * t(j) + u(j) }", {"x": 0}),
    ("def f(float(N) x, float(M) w) -> (o, p) { t = 3.0 p(j) = w(j) * t "
     "o(i) = x(i) * t }", {"x": 0}),
    ("def f(float(N,M) E, int32(T) I) -> (o) { o(t, j) = E(I(t), j) }", {"I": 0}),
    ("def f(float(N,M) E, int32(T) I) -> (o) { o(t, j) = E(I(t), j) }", {"E": 1}),
    ("def f(float(T) V, int32(T) I) -> (float(N) H) { H(I(t)) += V(t) }", {"I": 0, "V": 0}, "N"),
    ("def f(float(T) V, int32(T) I) -> (float(N) H) { H(I(t)) += V(t) }", {"I": 0}, "N"),
    ("def f(float(T) V, int32(T) I) -> (float(N) H) { H(I(t)) max= V(t) }", {"V": 0}, "N"),
    ("def f(float(T,M,N) X, float(M,M) U, float(M) h0) -> (H) { H(0, j) = h0(j) "
     "for t in 0:T { Z(j) +=! H(t, i) * U(i, j)  H(t + 1, j) = X(t, j, 0) - Z(j) } }", {"X": 1}),
    ("def f(float(T,M,N) X, float(M,M) U, float(M) h0) -> (H) { H(0, j) = h0(j) "
     "for t in 0:T { Z(j) +=! H(t, i) * U(i, j)  H(t + 1, j) = X(t, j, 0) - Z(j) } }", {"U": 0}),
    ("def f(float(N) x) -> (o) { o(0) = x(0)  for t in 1:N { o(t) = o(t - 1) + x(t) } }", {"x": 0}),
    ("def f(float(M) x, float(K) w) -> (o) { o(i) +=! pad(x(i + k - 1), 0.5) * w(k) "
     "where i in 0:M }", {"x": 1}),
    ("def f(float(M) x, float(K) w) -> (o) { o(i) +=! pad(x(i + k - 1), 0.5) * w(k) "
     "where i in 0:M }", {"w": 0}),
    ("def f(float(M) x, float(N) g) -> (o) { o(i) = i >= 2 && i - 2 < N ? g(i - 2) * x(i) : x(i) }",
     {"g": 0}),
    ("def f(float(M) x, float(N) g) -> (float(M) o) { o(i) = i < N ? g(i) : 0 }", {"g": 0}),
    ("def f(float(M) x, float(N) g) -> (o) { o(i) = v * v + x(i) where v = g(0) - 1, i in 0:3 }",
     {"g": 0}),
    ("def f(float(M) x, float(N) g) -> (o) { o(i) = 2.0 where exists x(i) }", {"x": 0}),
    ("def f(float(M) x) -> (float(M) o) { o(i) +=! x(j) where j in 0:i + 1 }", {"x": 0}),
    ("def f(float(M) x, int32(N) n) -> (o) { o(i) +=! x(j) where j in 0:min(n(i), M) }", {"n": 0}),
    ("def f(float(M) x, int32(N) n) -> (o) { o +=! x(j) where i in 0:N, j in 0:min(n(i), M) }",
     {"x": 0, "n": 0}),
    ("def f(float(M,K) x) -> (o) { o(n) = x(n / K, n % K) * x.1 + x.-2 where n in 0:M*K }",
     {"x": 1}),
    ("def f(float(M,K) x, float(N,K) y) -> (o) { o(i, k) = x(i, k)  o(M + i, k) = y(i, k) }",
     {"y": 1}),
    ("def f(float(M,K) x) -> (float(M+2) o) { o(i + 1) = x(i, 0) }", {"x": -1}),
    ("def f<S=2>(float(M) x) -> (o) { o(i) = x(S * i) }", {"x": 0}),
    ("def f(float(M) x, int32 n) -> (o) { o(i) = x(i + n) + n where i in 0:4 }", {"n": 0}),
    ("def f(float(M) x, int32 n) -> (o) { o(i) = i < n ? x(i) : 0 where i in 0:M }",
     {"n": 0, "x": 0}),
    ("def f(float(M) x, int32 n) -> (o) { o +=! i < n ? x(i) : 0 }", {"n": -1}),
    ("def f(float(M) x, bool c) -> (o) { o(i) = c ? x(i) : -x(i) }", {"c": 0}),
    ("def f(float(M) x, uint64 seed) -> (o, r) { r(i) = rand(seed, i) where i in 0:M "
     "o(i) = x(i) * r(i) }", {"x": 0}),
    ("def f(float(M) x, uint64 seed) -> (o) { o(i) = x(i) * rand(seed + 1, i) }", {"seed": 0}),
    ("def f(float16(M) x, bfloat16(M) w) -> (o, t) { t(i) = x(i) * float16(w(i)) o +=! t(i) }",
     {"w": 0}),
    ("def f(float(N,M) X) -> (Y) { m(i) max=! X(i, j)  Y(i, j) = X(i, j) - m(i) "
     "m(i) +=! Y(i, j)  Y(i, j) = Y(i, j) * m(i) }", {"X": 0}),
    ("def g(float(N) x, float a) -> (y, s) { y(i) = x(i) * a  s +=! y(i) } "
     "def f(float(M) x, float c) -> (o, q) { t, q = g(x, c * 2)  o(i) = t(i) + q }", {"c": 0}),
    ("def g(float(N) x, float a) -> (y, s) { y(i) = x(i) * a  s = a } "
     "def f(float(M) x, float c) -> (o, q) { t, q = g(x, c * 2)  o(i) = t(i) + q }", {"x": -1}),
    ("def g(float(N) w) -> (y) { y(i) = w(i) + 1 } def h(float(N) w) -> (y) { y = g(w) } "
     "def f(float(M) x, float(M) w) -> (o) { o = h(w)  o(i) += x(i)  p = h(o) o(i) *= p(i) }",
     {"x": 0}),
    ("def g(float(...) x, float(...) w) -> (y) { y(...) = x(...) * w(...) } "
     "def f(float(N,M) x, float(M) w) -> (o) { o = g(x, w) }", {"w": 0}),
    ("def f(float(N,M) w, float(N) x) -> (o, p) { t +=! w(i, j)  p = t  t = t * x(0) "
     "o(i) = x(i) * t + p }", {"x": 0}),
    ("def f(int32(N,M) w, int32(N) x) -> (o) { o(i) +=! w(i, j)  o(i) = o(i) / 2 where i in 0:3 "
     "for t in 0:3 { o(i) = o(i) * x(t) }  o(i + 3) max= x(i) }", {"x": 1}),
    ("def f(float(M,N) w, float(N) x) -> (p, o) { s(i + 1) = w(i, 0) * 2  s(i) +=! w(i, j) "
     "p(i) = s(i)  s(i) += x(j)  o(i) = s(i) }", {"x": 0}),
    ("def f(float(N,M) w, float(N) x) -> (o, p) { p(i) = w(i, 0) + 1 where i in 2:4  o(i) = p(i) "
     "p(j) += x(j) }", {"x": 0}),
    ("def f(float16(N,M) w, float(N) x) -> (o) { o(i) +=! w(i, j) * w(i, j)  o(i) = o(i) / 3 "
     "o(i) = o(i) * float16(x(i)) }", {"x": 0}),
    ("def f(float(N,M) w, float(N) x) -> (double(N) o) { o(i) +=! w(i, j)  o(i) = o(i) * x(i) }",
     {"x": 0}),
    ("def g(float(N,M) w, float(N) x) -> (o) { o(i) +=! w(i, j)  o(i) *= x(i) } "
     "def f(float(N,M) w, float(N) x) -> (o) { o = g(w, x) }", {"x": 0}),
    ("def g<P=1>(float(N) x) -> (y) { y(i) = x(i) * P } "
     "def f<Q=3>(float(N) x) -> (o) { y = g(x, P=Q)  o(i) = y(i) }", {"x": 1}),
]  # fmt: skip


CASES = [(t.replace("def f(", f"def f<{''.join(g)}>(") if g else t, d, *g) for t, d, *g in PROGRAMS]


@cache
def drawn(text: str, *given: str) -> tuple[Kernel, list[Any]]:
    """Return a program and small numbers for it, which any order of summation adds exactly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        k = kernel(text, "f")
    rng = np.random.default_rng(len(text))
    params = k.variant(**{name: SIZES[name] for name in given}).checked.params
    return k, [
        rng.integers(0, 3, shape_of(p, SIZES)).astype(dtype_of(p))
        if p.dtype.is_integer
        else small_numbers(shape_of(p, SIZES), dtype_of(p), rng)
        for p in params
    ]


@sampled("text, in_dims, given", [(t, d, g) for t, d, *g in CASES], keep=15)
def test_the_text_means_what_a_loop_means(
    text: str, in_dims: dict[str, int], given: list[str]
) -> None:
    generics = {name: SIZES[name] for name in given}
    k, args = drawn(text, *given)
    for extent in (3, 0):
        batch = batch_of(args, k.params, in_dims, extent)
        assert_same(k, batch, in_dims, generics, run=evaluated)


@sampled("extent", [3, 0, 1], keep=1)
@sampled("text,in_dims,given", [(t, d, g) for t, d, *g in CASES], keep=1, wide=14)
def test_one_call_gives_what_a_loop_gives(
    text: str, in_dims: dict[str, int], given: list[str], extent: int
) -> None:
    generics = {name: SIZES[name] for name in given}
    k, args = drawn(text, *given)
    batch = batch_of(args, k.params, in_dims, extent)
    assert_same(k, batch, in_dims, generics)
    views = ("sliced", "transposed", "strided")
    strided = [viewed(a, view) for a, view in zip(batch, views, strict=False)]
    assert_same(k, strided, in_dims, generics)


def test_what_does_not_depend_on_the_batch_stays_as_it_is() -> None:
    text = "def f(float(N) x, float(N) w) -> (o, p) { p(i) = w(i) * 2  o(i) = x(i) * p(i) }"
    k = kernel(text)
    assert k.out_dims == (None, None)
    over = k.batched("x")
    assert over.out_dims == (0, None)
    o, p = over(np.ones((4, 3), np.float32), np.ones(3, np.float32))
    assert (o.shape, p.shape) == ((4, 3), (3,))
    both = k.batched("x", out_dims={"o": 1, "p": -1})
    assert both.out_dims == (1, -1)
    o, p = both(np.ones((4, 3), np.float32), np.ones(3, np.float32))
    assert (o.shape, p.shape) == ((3, 4), (3, 4))


def test_the_same_is_asked_in_several_ways_and_made_once() -> None:
    k = kernel("def f(float(N) x, float a, float b) -> (y) { y(i) = x(i) * a + b }")
    over = k.batched("x", "a")
    assert over is k.batched(x=0, a=0) is k.batched((0, 0, None)) is k.batched({"a": 0, "x": 0})
    assert over is k.batched("a", x=0, b=None) is k.batched([0, 0, None], out_dims=0)
    assert over is not k.batched("x")
    with pytest.raises(TCTypeError, match="for each parameter"):
        k.batched(("x", 0))
    assert k.batched() is k.batched("x", "a", "b")
    assert over.name == "batched_f"
    assert over.params == k.params


def test_a_batch_of_a_batch() -> None:
    k = kernel("def f(float(N) x, float(N) w, float b) -> (s) { s +=! x(i) * w(i) * b }")
    rng = np.random.default_rng(0)
    x, w, b = (small_numbers(s, np.dtype(np.float32), rng) for s in ((3, 4, 5), (5,), (4,)))
    twice = k.batched("x", b=-1).batched(x=0)
    np.testing.assert_array_equal(twice(x, w, b), np.einsum("cbn,n,b->cb", x, w, b))
    other = k.batched("x").batched(x=1, b=0).batched("w", out_dims=-1)
    w = small_numbers((2, 5), np.dtype(np.float32), rng)
    np.testing.assert_array_equal(other(x, w, b), np.einsum("cbn,dn,b->bcd", x, w, b))


def test_names_of_the_user_are_not_captured() -> None:
    text = "def f(float(B) b, float(B_2) B_3) -> (b_2) { b_2(b_3, j) = b(b_3) * B_3(j) * b_3 + B }"
    k = kernel(text)
    rng = np.random.default_rng(1)
    b, other = (small_numbers(s, np.dtype(np.float32), rng) for s in ((4, 3), (2,)))
    assert_same(k, [b, other], {"b": 0})
    assert_same(k.batched("b"), [np.stack([b, b]), other], {"b": 0})


def test_any_rank_broadcasts_within_an_element_only() -> None:
    k = kernel("def f<T>(T(...) X, T(...) W) -> (o, s) { o(...) = X(...) * W(...)  s +=! X(...) }")
    rng = np.random.default_rng(2)
    for x, w in (((3, 4), (4,)), ((3,), (2, 3)), ((3, 1), (3, 4)), ((), (3,)), ((3,), ())):
        for dtype in (np.float32, np.int64):
            a, b = (small_numbers(s, np.dtype(dtype), rng) for s in (x, w))
            for in_dims in ({"X": 0}, {"W": 0}, {"X": 0, "W": 0}, {"X": -1}):
                args = batch_of((a, b), k.params, in_dims, 3)
                assert_same(k, args, in_dims, run=evaluated)
    a, b = (small_numbers(s, np.dtype(np.int16), rng) for s in ((4, 1, 3), (5, 4)))
    assert_same(k, [a.transpose(2, 1, 0), b], {"X": 0})


def test_a_scalar_that_ranges_depend_on_is_refused() -> None:
    for text in (
        "def f(float(M) x, int32 n) -> (o) { o(i) = x(i) where i in 0:n }",
        "def f(float(M) x, int32 n) -> (o) { o +=! x(i) where i in 0:n }",
        "def f(float(M) x, int32 n) -> (o) { o(i) = x(i + n) }",
        "def f(float(M) x, int32 n) -> (float(n) o) { o(i) = x(i) }",
        "def f(float(M) x, int32 n) -> (o) { o(i) = x(i)  for t in 0:n { o(i) = o(i) * 2 } }",
        "def f<T>(T(M) x, int32 n) -> (o) { o(i) = x(i) where i in 0:n }",
        "def g(float(M) x, int32 n) -> (o) { o(i) = x(i) where i in 0:n } "
        "def f(float(M) x, int32 n) -> (o) { o = g(x, n + 1) }",
    ):
        k = kernel(text, "f")
        with pytest.raises(TCTypeError, match="TC160"):
            k.batched("n")
        with pytest.raises(TCTypeError, match="TC160"):
            k.batched()
        assert k.batched("x").params == ("x", "n")


@pytest.mark.parametrize(
    ("which", "named", "message"),
    [
        ((), {"z": 0}, "f.batched: no parameter 'z'; it has x, a"),
        (("z",), {}, "f.batched: no parameter 'z'; it has x, a"),
        (("x",), {"x": 1}, "f.batched: 'x' is given twice"),
        ((), {"x": None}, "f.batched: no parameter has the batch; name at least one of x, a"),
        ((), {"x": True},
         "f.batched: expected the number of a dimension for 'x', or None, got True"),
        ((), {"x": "0"}, "f.batched: expected the number of a dimension for 'x', or None, got '0'"),
        ((0,), {}, "f.batched: expected names of parameters, got int\n"
         "  as in batched('x', 'a'), or their dimensions: batched(x=0)"),
        (((0,),), {}, r"f.batched: expected a dimension or None for each parameter (x, a), got 1"),
        ((), {"x": 0, "out_dims": {"z": 0}}, "f.batched: no return 'z'; it has y"),
        ((), {"x": 0, "out_dims": 0.5},
         "f.batched: expected the number of a dimension for 'out_dims', or None, got 0.5"),
        ((), {"x": 0, "randomness": "error"},
         "f.batched: randomness is 'error'; expected 'same' or 'different'"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(which: Any, named: Any, message: str) -> None:
    k = kernel("def f(float(N) x, float a) -> (y) { y(i) = x(i) * a }")
    with pytest.raises(TCTypeError) as caught:
        k.batched(*which, **named)
    assert str(caught.value) == message


def test_a_definition_without_parameters_has_no_batch() -> None:
    with pytest.raises(TCTypeError, match=r"^f.batched: it has no parameters, so nothing differs"):
        kernel("def f() -> (y) { y(i) = 1.0 where i in 0:3 }").batched()


def test_parameters_may_have_the_names_of_settings() -> None:
    k = kernel(
        "def f(float(N) out_dims, float randomness) -> (y) { y(i) = out_dims(i) * randomness }"
    )
    over = k.batched({"out_dims": 1, "randomness": 0}, out_dims=-1)
    x, a = np.ones((3, 2), np.float32), np.array([2, 3], np.float32)
    np.testing.assert_array_equal(over(x, a), x * a)


def test_random_numbers_are_the_same_or_different_for_each_element() -> None:
    k = kernel("def f(float(N) x, uint64 seed) -> (o) { o(i) = rand(seed, i) + 0 * x(i) }")
    x = np.zeros((3, 4), np.float32)
    same_numbers = k.batched("x")(x, 7)
    np.testing.assert_array_equal(same_numbers, np.broadcast_to(k(x[0], 7), (3, 4)))
    different = k.batched("x", randomness="different")(x, 7)
    assert len(np.unique(different)) == 12
    np.testing.assert_array_equal(k.batched("x", randomness="different")(x, 7), different)
    seeds = np.arange(3, dtype=np.uint64)
    want = np.stack([k(x[0], int(s)) for s in seeds])
    for randomness in ("same", "different"):  # a seed of its own is a stream of its own
        over = k.batched("seed", randomness=randomness)
        np.testing.assert_array_equal(over(x[0], seeds), want)


def test_a_batch_of_adjoints_meets_the_numbers_of_the_one_forward_pass() -> None:
    k = kernel("def f(double(N) x, uint64 seed) -> (o) { o(i) = rand(seed, i) * x(i) }")
    gradient = tc.grad(k).batched("d_o", randomness="different")
    rows = gradient(np.ones(4), 7, np.eye(4))
    np.testing.assert_array_equal(np.diag(rows), k(np.ones(4), 7))


@pytest.mark.filterwarnings("ignore:.*TC150")
def test_outputs_that_are_given_are_added_to_for_each_element() -> None:
    k = kernel("def f(float(N) x, float(N) w) -> (y, z) { y(i) += x(i)  z(i) += w(i) }")
    x, w = np.ones((2, 3), np.float32), np.ones(3, np.float32)
    y, z = np.full((2, 3), 5, np.float32), np.full(3, 7, np.float32)
    k.batched("x")(x, w, out=(y, z))
    np.testing.assert_array_equal(y, np.full((2, 3), 6))
    np.testing.assert_array_equal(z, np.full(3, 8))


@pytest.mark.wide
def test_the_gradient_of_a_batch_is_the_batch_of_gradients() -> None:
    text = """def f(double(N) x, double(K, N) W, int32(K) I) -> (y) {
        t(k) +=! W(k, n) * x(n)
        y(k) = t(k) * t(I(k)) + W(k, 0)
    }"""
    k = kernel(text)
    rng = np.random.default_rng(3)
    x, w, d_y = rng.normal(size=(3, 4)), rng.normal(size=(2, 4)), rng.normal(size=(3, 2))
    at = np.array([1, 0], np.int32)
    y, pull = k.batched("x").vjp(x, w, at)
    d_x, d_w = pull(d_y)
    each = [k.vjp(x[b], w, at) for b in range(3)]
    np.testing.assert_allclose(y, np.stack([y for y, _ in each]), rtol=1e-14)
    pulled = [pull(d_y[b]) for b, (_, pull) in enumerate(each)]
    np.testing.assert_allclose(d_x, np.stack([p.d_x for p in pulled]), rtol=1e-12)
    np.testing.assert_allclose(d_w, sum(p.d_W for p in pulled), rtol=1e-12)


def test_a_gradient_over_a_batch_of_adjoints_and_its_own_gradient() -> None:
    k = kernel("def f(double(N) x) -> (y) { s +=! x(i) * x(i)  y(i) = x(i) * s }")
    gradient = tc.grad(k)
    x = np.random.default_rng(4).normal(size=5)
    jacobian = gradient.whole.batched("d_y")(x, np.eye(5))
    np.testing.assert_allclose(jacobian, np.eye(5) * (x @ x) + 2 * np.outer(x, x), rtol=1e-13)
    kept = [p for p in gradient.params if p not in ("x", "d_y")]
    assert kept
    over = gradient.batched("d_y")
    np.testing.assert_allclose(over.whole(x, np.eye(5)), jacobian, rtol=1e-14)
    xs = np.stack([x, x[::-1]])
    every = gradient.batched()
    assert every.whole.params == ("x", "d_y")
    got = every.whole(xs, np.ones((2, 5)))
    want = np.stack([gradient.whole(row, np.ones(5)) for row in xs])
    np.testing.assert_allclose(got, want, rtol=1e-13)
    hessian, pull = every.whole.vjp(xs, np.ones((2, 5)))
    np.testing.assert_allclose(hessian, want, rtol=1e-13)
    assert pull(np.ones((2, 5))).d_x_2.shape == (2, 5)


def test_adjoints_over_a_batch_have_the_shape_of_the_outputs() -> None:
    text = "def f(double(N) x, double(K) w) -> (y) { y(i) +=! x(i + k) * w(k) }"
    over = tc.grad(kernel(text)).batched("x", d_y=-1)
    x, w = np.ones((2, 5)), np.ones(3)
    assert over(x, w, np.ones((3, 2))).d_x.shape == (2, 5)
    with pytest.raises(tc.TCError, match=r"expected d_y of the shape of 'y', .* = \(3, 2\), got"):
        over(x, w, np.ones((4, 2)))


def test_a_kernel_over_a_batch_is_tuned_pickled_and_kept_like_any_other() -> None:
    k = kernel("def f(float(N) x) -> (y) { y(i) = x(i) * 2 }").batched(out_dims=1)
    again = pickle.loads(pickle.dumps(k))
    assert again.out_dims == k.out_dims == k.with_tune("off").out_dims == (1,)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(again(x), 2 * x.T)


def test_products_over_a_batch_are_those_of_numpy() -> None:
    text = "def mm(float(M,K) A, float(K,N) W) -> (C) { C(m, n) +=! A(m, k) * W(k, n) }"
    k = kernel(text)
    a, w = (
        np.random.default_rng(5).normal(size=s).astype(np.float32) for s in ((8, 6, 16), (16, 9))
    )
    np.testing.assert_allclose(k.batched("A")(a, w), a @ w, rtol=1e-4, atol=1e-5)
    ws = np.stack([w] * 8)
    np.testing.assert_allclose(k.batched()(a, ws), a @ ws, rtol=1e-4, atol=1e-5)
