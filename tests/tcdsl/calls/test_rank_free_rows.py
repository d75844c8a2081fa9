"""Definitions along rows: few executables for the rows of all ranks, dimensions and layouts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tcdsl
from tcdsl.calls.bindings import rankfree
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.toolchain import records
from tests.tcdsl.calls.layouts import Array, layouts
from tests.tiers import sampled

pytestmark = pytest.mark.cc

tc: Any = tcdsl

SOFTMAX = """
def softmax(float(..., K) X) -> (Y) {
  M(...) max=! X(..., k)
  S(...) +=! exp(X(..., k) - M(...))
  Y(..., k) = exp(X(..., k) - M(...)) / S(...)
}"""


def softmax(x: Array, dim: int = -1) -> Array:
    e = np.exp(x - x.max(dim, keepdims=True))
    found: Array = e / e.sum(dim, keepdims=True)
    return found


def test_ranks_and_sizes_share_what_follows_the_first_call(compiled: list[str]) -> None:
    f: Any = tc.define(SOFTMAX)
    rng = np.random.default_rng(0)
    for shape in ((3, 5), (4, 17), (2, 3, 40), (9,), (1, 7), (2, 3, 1, 33)):
        x = rng.random(shape, dtype=np.float32)
        np.testing.assert_allclose(f(x), softmax(x), rtol=1e-5)
    assert len(compiled) == 3  # (3, 5), one row alone, and all others
    assert f.call(x).view.kept == 1


def test_a_diagonal_is_no_row() -> None:
    trace = tc.define("def trace(float(N,N) X) -> (t) { t +=! X(i, i) }")
    traces = tc.define("def traces(float(N,N,M) X) -> (t) { t(m) max=! X(i, i, m) }")
    for n in (3, 5, 17, 4):  # of the first sizes, and of any
        x = np.random.default_rng(n).integers(-9, 9, (n, n, 2)).astype(np.float32)
        assert trace(x[..., 0]) == np.trace(x[..., 0])
        np.testing.assert_array_equal(traces(x), x.diagonal().max(1))


SHAPES = [(5,), (3, 4), (33, 6), (2, 3, 4), (5, 1, 7), (2, 3, 4, 5), (1, 16, 4, 2)]
OPS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (lambda x, d: x.sum(d), lambda x, d: x.sum(d)),
    "mean": (lambda x, d: x.mean(d), lambda x, d: x.mean(d)),
    "softmax": (lambda x, d: tc.nn.functional.softmax(x, d), softmax),
    "logsumexp": (lambda x, d: x.logsumexp(d), lambda x, d: np.log(np.exp(x).sum(d))),
    "argmax": (lambda x, d: x.argmax(d), lambda x, d: x.argmax(d)),
    "norm": (lambda x, d: x.norm(2, d), lambda x, d: np.sqrt((x * x).sum(d))),
    "var": (lambda x, d: x.var(d, unbiased=False), lambda x, d: x.var(d)),
}


@sampled("name", OPS, keep=1)
def test_ops_over_any_dimension_of_any_rank_make_three_executables(
    compiled: list[str], name: str
) -> None:
    ours, numpys = OPS[name]
    rng = np.random.default_rng(1)
    for shape in SHAPES:
        for dim in range(len(shape)):
            x = rng.random(shape)
            got = ours(tc.from_numpy(x), dim).numpy()
            np.testing.assert_allclose(got, numpys(x, dim), rtol=1e-12)
    # none kept, one after the other, side by side; few side by side, and few of an arg reduction,
    # whose blocks of neighbours have a form of their own
    assert len(compiled) <= (5 if name == "argmax" else 4)


@pytest.mark.wide
def test_gradients_are_along_rows_too(compiled: list[str]) -> None:
    rng = np.random.default_rng(2)
    for shape in SHAPES:
        for dim in range(len(shape)):
            x = tc.from_numpy(rng.random(shape)).requires_grad_()
            tc.nn.functional.softmax(x, dim).backward(tc.ones(shape, dtype=tc.float64))
            np.testing.assert_allclose(x.grad.numpy(), np.zeros(shape), atol=1e-12)
    assert len([text for text in compiled if "softmax_vjp" in text]) <= 4


PROGRAMS: dict[tuple[str, type[np.number[Any]]], tuple[str, Callable[[Array, Array], Any]]] = {
    ("sum", np.int64): ("O(..) +=! A(.., k)", lambda a, w: a.sum(-1)),
    ("product", np.int32): ("O(..) *=! A(.., k)", lambda a, w: a.prod(-1)),
    ("greatest", np.float64): ("O(..) max=! A(.., k)", lambda a, w: a.max(-1)),
    ("place", np.float32): ("O(..) argmin=! A(.., k)", lambda a, w: a.argmin(-1)),
    ("of its number", np.int32): (
        "O(..) +=! A(.., k) * k",
        lambda a, w: (a * np.arange(a.shape[-1])).sum(-1),
    ),
    ("weighed", np.int8): (
        "S(..) +=! A(.., k)  O(.., k) = A(.., k) * w(k) - S(..) * K",
        lambda a, w: a * w - a.sum(-1, keepdims=True) * a.shape[-1],
    ),
}


@sampled("of_type", PROGRAMS, keep=1)
def test_rows_of_any_layout_give_what_dense_ones_give(of_type: tuple[str, Any]) -> None:
    """Of small whole numbers, so that no order of sums tells."""
    (line, of), dtype = PROGRAMS[of_type], of_type[1]
    takes = "T(..., K) A, T(K) w" if "w(k)" in line else "T(..., K) A"
    f: Any = tc.define(f"def f<T>({takes}) -> (O) {{ {line.replace('..', '...')} }}")
    rng = np.random.default_rng(3)
    for shape in ((37,), (18, 67), (5, 3, 40), (4, 1, 2, 16)):
        a = rng.integers(-1, 2, shape).astype(dtype)
        w = np.arange(shape[-1]).astype(dtype)
        given = itertools.zip_longest(layouts(a), layouts(w), fillvalue=w)
        for x, y in [*given, (np.broadcast_to(a[..., :1], shape), w)]:
            got = f(x, y) if "w(k)" in line else f(x)
            want = np.asarray(of(np.asarray(x), w)).astype(got.dtype)
            np.testing.assert_array_equal(got, want)


@pytest.mark.deep
def test_results_may_lie_anywhere_and_in_their_operands() -> None:
    f: Any = tc.define(SOFTMAX)
    x = np.random.default_rng(4).random((6, 5, 33), dtype=np.float32)
    want = softmax(x)
    for place in layouts(x):
        given = place.copy() if place is x else place
        assert f(x, out=given) is given
        np.testing.assert_allclose(given, want, rtol=1e-5)
    for shape in ((7, 4), (3, 7, 4)):
        y = np.random.default_rng(5).random(shape, dtype=np.float32)
        want = softmax(y)
        assert f(y, out=y) is y
        np.testing.assert_allclose(y, want, rtol=1e-5)


@pytest.mark.wide
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3), (2, 3, 0)])
def test_sums_of_nothing_are_zero(shape: tuple[int, ...]) -> None:
    for dim in range(len(shape)):
        got = tc.zeros(shape).sum(dim).numpy()
        np.testing.assert_array_equal(got, np.zeros(shape).sum(dim))


def test_not_a_number_is_handed_on_in_every_form() -> None:
    x = np.ones((4, 5, 6), np.float32)
    x[1, 2, 3] = np.nan
    for dim in range(3):
        np.testing.assert_array_equal(tc.from_numpy(x).amax(dim).numpy(), x.max(dim))
        np.testing.assert_array_equal(tc.from_numpy(x).argmax(dim).numpy(), x.argmax(dim))


@sampled("dtype", [np.float32, np.float64, np.float16], keep=1)
def test_rows_of_every_length_are_whole(dtype: Any) -> None:
    """Those of few vectors stay in registers, the others are looped over."""
    text = "def f<T>(T(M,K) X) -> (O, P) { O(m) +=! X(m, k)  P(m, k) = X(m, k) + O(m) }"
    f: Any = tc.define(text)
    f(np.ones((2, 2), dtype))
    for length in (*range(36), 47, 48, 49, 63, 64, 65, 127, 128, 129, 200):
        x = (np.arange(3 * length).reshape(3, length) % 5 - 2).astype(dtype)
        whole = np.full((3, length + 3), 9, dtype)
        out = whole[:, 1:-2]
        sums, _ = f(x, out=(np.empty(3, dtype), out))
        np.testing.assert_array_equal(sums, x.sum(1))
        np.testing.assert_array_equal(out, x + x.sum(1, keepdims=True))
        assert (whole[:, 0] == 9).all()
        assert (whole[:, -2:] == 9).all()


@pytest.mark.wide
def test_rows_that_no_process_had_lower_nothing(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "generator", lambda: "0" * 32)
    x = np.random.default_rng(6).random((2, 8, 6))
    tc.from_numpy(x).std(2)
    tc.from_numpy(x).std(1)
    count = len(compiled)
    monkeypatch.setattr(rankfree, "_general", {})  # as another process

    def refused(*_: Any) -> Any:
        raise AssertionError("it is lowered again")

    for name in ("generic_choice", "lower_generic", "lower", "default_config"):
        monkeypatch.setattr(compiler, name, refused)
    y = np.random.default_rng(7).random((9, 5))
    np.testing.assert_allclose(tc.from_numpy(y).std(0).numpy(), y.std(0, ddof=1))
    np.testing.assert_allclose(tc.from_numpy(y).std(1).numpy(), y.std(1, ddof=1))
    assert len(compiled) == count


@pytest.mark.deep
def test_layouts_beyond_the_first_have_one_executable(compiled: list[str]) -> None:
    x = np.random.default_rng(8).random((12, 10))
    a = tc.from_numpy(x)
    views = [np.repeat(x, 2, -1)[..., ::2], np.broadcast_to(x[:, :1], x.shape)]
    seen = {a.softmax(1).numpy().shape}
    for view in (*views, np.asfortranarray(x), np.repeat(x, 3, -1)[..., ::3]):
        np.testing.assert_allclose(tc.from_numpy(view).softmax(1).numpy(), softmax(view))
    assert seen == {(12, 10)}
    assert len(compiled) <= 1 + 3 + 1
