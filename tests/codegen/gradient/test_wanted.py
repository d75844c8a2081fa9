"""Gradients by some parameters: their values, and that nothing is there for the others."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tcdsl.codegen.gradient.derivatives import Gradient
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.text.parser import parse
from tests.codegen.gradient.differences import (
    assert_gradient,
    differentiated,
    drawn,
    floats,
    seeds_of,
)
from tests.codegen.gradient.layers import CORNERS, LAYERS
from tests.codegen.gradient.test_layers import made
from tests.tiers import sampled

FCRELU = """def fcrelu(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
  O(i, n) +=! I(i, m) * W(n, m)
  O(i, n) = fmax(O(i, n) + b(n), 0)
}"""
TWO = """def two(float(B,M) X, float(N,M) W, float(P,N) V) -> (O) {
  Z(b, n) +=! X(b, m) * W(n, m)
  H(b, n) = tanh(Z(b, n))
  Y(b, p) +=! H(b, n) * V(p, n)
  O(b, p) = tanh(Y(b, p))
}"""
OFTEN = ["casts", "in place", "half", "unused parameter"]
REST = sorted({*LAYERS, *CORNERS} - {*OFTEN, "long sum", "lstm of 64 turns"})


def of(text: str, *wrt: str) -> Gradient:
    return gradient(check(parse(text)), wrt=wrt or None)


@sampled("name", [*OFTEN, *REST], keep=4, wide=20)
def test_a_gradient_by_one_parameter_is_that_of_all(name: str, rng: np.random.Generator) -> None:
    layer = {**LAYERS, **CORNERS}[name]
    d = made(layer)
    args = drawn(d.checked, layer.sizes, rng)
    seeds = seeds_of(d.checked, args, rng)
    params = [d.checked.params[i].name for i in floats(d.checked)]
    for want, param in zip(d.pull(args, seeds), params, strict=True):
        one = gradient(d.checked, wrt=param)
        assert {*one.extra} <= {*d.gradient.extra}
        forward, backward = check(parse(one.forward)), check(parse(one.text))
        values = evaluate(forward, args, float64=True)
        names = [t.name for t in forward.returns]
        kept = [values[names.index(k)] for k in one.kept]
        (got,) = evaluate(backward, [*args, *kept, *seeds], float64=True)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12, err_msg=one.text)
        assert all(re.search(rf"\b{k}\(|\b{k}\b.*\{{.*\b{k}\b", one.text, re.S) for k in one.kept)


def test_what_only_others_need_is_not_in_the_text() -> None:
    assert "d_I" not in of(FCRELU, "W", "b").text
    by_v = of(TWO, "V")
    body = by_v.text.split("{")[1]
    assert body.count("=") == 3  # H again, the adjoint of Y, and its share
    assert "V(" not in body.replace("d_V(", "")
    assert by_v.kept == ("O", "Z")


def test_what_is_kept_is_what_the_text_reads() -> None:
    text = """def f(float(B,N) X, float(N) w) -> (O) {
      m(b) +=! X(b, n)
      s(b) +=! sin(X(b, n) - m(b))
      O(b, n) = s(b) * w(n)
    }"""
    assert of(text).kept == ("m", "s")
    assert of(text, "w").kept == ("s",)
    assert of(text, "X").kept == ("m",)


def test_results_come_in_the_order_asked_for() -> None:
    assert of(FCRELU, "b", "I").wrt == ("b", "I")
    head = of(FCRELU, "b", "I").text.split("{")[0]
    assert head.split("->")[1].strip() == "(float32(N) d_b, float32(B, M) d_I)"
    assert of(FCRELU, "I", "W", "b").text == of(FCRELU).text


@pytest.mark.parametrize(
    ("wrt", "message"),
    [
        (["w"], "f: wrt: there is no parameter 'w'\n  its float parameters are X, weight"),
        (
            "wieght",
            "f: wrt: there is no parameter 'wieght'\n"
            "  did you mean 'weight'? its float parameters are X, weight",
        ),
        (
            ["X", "I"],
            "f: wrt: 'I' is int32, which has no derivative\n"
            "  leave it out: its float parameters are X, weight",
        ),
        (
            (),
            "f: wrt names no parameter\n"
            "  name some, or leave wrt out for all: its float parameters are X, weight",
        ),
        (["X", "weight", "X"], "f: wrt names 'X' twice\n  name it once"),
        (
            ["X", 3],
            'f: wrt: expected names of parameters, got 3\n  give them as strings, as in wrt=["x"]',
        ),
    ],
)
def test_what_is_no_float_parameter_is_refused(wrt: list[str], message: str) -> None:
    text = "def f(float(N) X, int32(N) I, float(N) weight) -> (O) { O(i) = X(I(i)) * weight(i) }"
    with pytest.raises(TCTypeError) as caught:
        gradient(check(parse(text)), wrt=wrt)
    assert str(caught.value) == message


def test_tensors_may_be_called_as_a_gradient_is(rng: np.random.Generator) -> None:
    text = "def f(float(N) d_f) -> (y) { f_forward +=! d_f(i) y(i) = f_forward * d_f(i) * d_f(i) }"
    d = differentiated(text)
    assert d.gradient.name == "d_f_2"
    assert_gradient(d, drawn(d.checked, {"N": 3}, rng), rng)


# ---- loops that only other parameters go through

STILL = {
    "a state": "h(n) = X(0, n) for t in 1:T { h(n) = tanh(h(n) + X(t, n)) } y(n) = h(n) * w(n)",
    "two loops": """h(n) = X(0, n)
      for t in 1:T { h(n) = sin(h(n) + X(t, n)) }
      y(n) = h(n) * w(n)
      for t in 1:T { h(n) = h(n) * X(t, n) }
      y(n) += h(n) * w(n) * w(n)""",
    "a part of a state": """h(n) = X(0, n)
      for t in 1:T { h(t % 2) = h(t % 2) * X(t, 0) }
      y(n) = h(n) * w(n)""",
    "loops in a loop": """h(n) = X(0, n)
      for t in 0:T {
        z(n) = X(t, n)
        for s in 0:T { z(n) = z(n) * X(s, n) }
        h(n) = h(n) + z(n)
      }
      y(n) = exp(h(n)) * w(n)""",
    "begun in the loop": "for t in 0:T { y(n) += X(t, n) y(n) *= X(t, n) } v(n) = y(n) * w(n)",
    "an active loop behind": """h(n) = X(0, n)
      for t in 1:T { h(n) = cos(h(n) * X(t, n)) }
      g(n) = w(n)
      for t in 0:T { g(n) = g(n) * h(n) }
      y(n) = g(n)""",
    "an active loop around": """h(n) = X(0, n)  g(n) = w(n)
      for t in 1:T { h(n) = cos(h(n) * X(t, n))  g(n) = g(n) * h(n) }
      y(n) = g(n)""",
    "changed on the way": """h(n) = w(n)
      for t in 1:T { z(n) = sin(X(t, n))  z(n) = z(n) * z(n)  k(n) max=! z(n) }
      y(n) = k(n) * h(n)""",
}


@sampled("name", STILL, keep=2)
@pytest.mark.parametrize("dtype", ["float", pytest.param("float16", marks=pytest.mark.wide)])
@pytest.mark.parametrize("checkpoint", [None, pytest.param(2, marks=pytest.mark.wide)])
def test_loops_of_other_parameters_are_not_gone_through(
    name: str, dtype: str, checkpoint: int | None, rng: np.random.Generator
) -> None:
    results = "(y, v)" if "v(n) =" in STILL[name] else "(y)"
    text = f"def f({dtype}(T,N) X, {dtype}(N) w) -> {results} {{ {STILL[name]} }}"
    f = check(parse(text))
    d = differentiated(text)
    args = drawn(f, {"T": 5, "N": 2}, rng)
    seeds = seeds_of(f, args, rng)
    _, want = d.pull(args, seeds)
    one = gradient(f, checkpoint, "w")
    forward, backward = check(parse(one.forward)), check(parse(one.text))
    values = evaluate(forward, args, float64=True)
    for got, plain in zip(values, evaluate(f, args, float64=True), strict=False):
        np.testing.assert_allclose(got, plain, rtol=1e-12)
    names = [t.name for t in forward.returns]
    given = [*args, *(values[names.index(k)] for k in one.kept), *seeds]
    (found,) = evaluate(backward, given, float64=True)
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-12, err_msg=one.text)
    is_apart = name != "an active loop around"
    if is_apart and name != "an active loop behind":
        assert "for " not in one.text
        assert not any("_all" in k or "_old" in k or "_kept" in k for k in one.kept)
