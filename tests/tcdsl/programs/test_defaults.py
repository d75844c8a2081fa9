"""Numbers that calls may leave out."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.text.format import format_program
from tcdsl.grammar.text.parser import parse

NORM = """
def norm(float(N) x, float eps = 1e-5, float(N) w, int32 n = 0x3, bool is_on = 1) -> (y) {
  m +=! x(i) * x(i) where i in 0:n
  y(i) = is_on ? x(i) * w(i) * rsqrt(m + eps) : 0
}
"""
X = np.arange(1, 6, dtype=np.float32)
W = np.full(5, 2, np.float32)


def norm(x: Any, w: Any, eps: float = 1e-5, n: int = 3) -> Any:
    return x * w / np.sqrt((x[:n] ** 2).sum() + np.float32(eps))


@pytest.mark.parametrize("number", ["-3", "0x1F", "-0x1F", "1e-5", "-.5", "inf", "-inf", "nan"])
def test_a_default_is_printed_as_typed(number: str) -> None:
    text = f"def f(float(N) x, double s = {number}) -> (y) {{\n  y(i) = s * x(i)\n}}\n"
    program = parse(text)
    assert format_program(program) == text
    assert parse(format_program(program)) == program


@pytest.mark.cc
def test_calls_take_what_they_do_not_give() -> None:
    k = tc.define(NORM, tune="off")
    np.testing.assert_allclose(k(X, w=W), norm(X, W), rtol=1e-6)
    np.testing.assert_allclose(k(X, 1.0, W), norm(X, W, 1.0), rtol=1e-6)
    np.testing.assert_allclose(k(w=W, x=X, n=2), norm(X, W, n=2), rtol=1e-6)
    np.testing.assert_array_equal(k(X, w=W, is_on=False), np.zeros(5))
    for same in (copy.deepcopy(k), pickle.loads(pickle.dumps(k)), tc.define(k.source, tune="off")):
        np.testing.assert_array_equal(same(X, w=W), k(X, w=W))
    out = np.empty(5, np.float32)
    assert k(X, w=W, out=out) is out
    np.testing.assert_array_equal(out, k(X, w=W))
    with pytest.raises(TCTypeError, match=r"misses 'w': 1 argument was given"):
        k(X)
    assert k.output_shapes(N=5) == {"y": (5,)}


@pytest.mark.cc
def test_a_known_form_without_its_defaults_runs_without_python() -> None:
    k = tc.define(
        "def f<S=1>(float(N) x, float a = 2, float b = -1) -> (y) { y(i) = S * a * x(i) + b }",
        tune="off",
    )
    calls: list[tuple[Any, ...]] = [((X,), {}), ((X, 3.0), {}), ((X,), {"b": 1.0}),
                                    ((X,), {"S": 3}), ((X,), {"b": 0.5, "S": 2})]  # fmt: skip
    first = [k(*args, **named) for args, named in calls]

    def unwanted(*args: Any, **named: Any) -> Any:
        raise AssertionError(f"a slow call with {args}, {named}")

    k._call_slowly = unwanted  # type: ignore[method-assign] # the launcher has its own reference
    before = k.calls
    again = [k(*args, **named) for args, named in calls]
    assert k.calls == before + len(calls)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(first[3], 6 * X - 1)


@pytest.mark.cc
def test_defaults_of_a_callee_and_arguments_by_name() -> None:
    text = """
    def scale(float(...) x, float s = 2, float t = -1.5) -> (y) { y(...) = x(...) * s + t }
    def f(float(...) x, float u = inf) -> (a, b, c, d) {
      a = scale(x) b = scale(x, 3.0) c = scale(x, t=u) d = scale(t=0.5, s=1, x=x)
    }
    """
    f = tc.define_all(text, tune="off").f
    a, b, c, d = f(X, 4)
    for got, want in ((a, 2 * X - 1.5), (b, 3 * X - 1.5), (c, 2 * X + 4), (d, X + 0.5)):
        np.testing.assert_array_equal(got, want)
    over = f.batched(x=0, u=0)
    assert [p.default for p in over.definition.params] == [None, None]
    np.testing.assert_array_equal(
        over(np.stack([X, X]), np.array([1, 2], np.float32)).c[1], 2 * X + 2
    )
    np.testing.assert_array_equal(f.batched(x=0, u=None)(X[None]).c, np.full((1, 5), np.inf))


@pytest.mark.cc
def test_derivatives_keep_defaults() -> None:
    k = tc.define(NORM, tune="off")
    back = tc.grad(k)
    assert [p.default is None for p in back.definition.params[:5]] == [1, 0, 1, 0, 0]
    y, pull = k.vjp(X, w=W)
    got = pull(np.ones(5, np.float32))
    m = (X[:3] ** 2).sum()
    np.testing.assert_allclose(got.d_w, X / np.sqrt(m), rtol=1e-5)
    np.testing.assert_allclose(got.d_eps, -0.5 * y.sum() / m, rtol=1e-5)
    whole = back.whole
    np.testing.assert_array_equal(whole(X, w=W, d_y=np.ones(5, np.float32)).d_w, got.d_w)
    along = tc.jvp(k, wrt="x")(X, w=W, t_x=X)
    np.testing.assert_allclose(along.y, y)


def test_signatures_tell_defaults() -> None:
    k = tc.define("def f(float(N) x, float s = 2, bool b = 0) -> (y) { y(i) = b ? s : x(i) }")
    assert repr(k) == "<tcdsl kernel f(float32(N) x, float32 s = 2, bool b = 0) -> y>"
    shown = inspect.signature(k).parameters
    assert (shown["s"].default, shown["b"].default) == (2.0, False)
    assert "s : float32, default 2\n" in (k.__doc__ or "")
    assert "eps : float32, default 1e-5" in (tc.define(NORM).__doc__ or "")
    assert inspect.signature(tc.define(NORM)).parameters["eps"].default is inspect.Parameter.empty
