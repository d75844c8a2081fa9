"""A version of a tensor that only some of its statements make has the box of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from tcdsl.codegen.gradient.jvp import tangents
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef
from tests.codegen.gradient.differences import assert_gradient, differentiated_def, drawn
from tests.tiers import sampled

TEXTS = {
    "sums of every third": """def f(float(H) x, float(K) k) -> (float(H) y) {
      y(3 * i) +=! x(3 * i) * k(j)
      y(3 * i + 1) +=! k(j) * x(3 * i + 1) * k(j)
      y(i) = y(i) * y(i) * x(i) where i in 0:H }""",
    "a temporary": """def f(float(H) x, float(H) k) -> (y) {
      t(2 * i) = x(2 * i) * x(2 * i)
      t(2 * i + 1) = k(2 * i + 1)
      t(i) = t(i) * t(i) * k(i) where i in 0:H
      y(i) = t(i) * t(i) where i in 0:H }""",
    "of sizes that are known": """def f(float(8) x, float(K) k) -> (float(8) y) {
      y(3 * i) +=! x(3 * i) * k(j)
      y(2 * i + 1) += x(2 * i + 1) * x(2 * i)
      y(i) = y(i) * y(i) * x(i) where i in 0:8 }""",
    "a maximum, all others -inf": """def f(float(H) x, float(K) k) -> (float(H) y) {
      y(3 * i) max=! x(3 * i) * k(j)
      y(3 * i + 1) max= x(3 * i + 1) * x(3 * i + 1)
      y(i) = y(i) < 0 - 9 ? x(i) : y(i) * x(i) where i in 0:H }""",
    "a product, all others 1": """def f(float(H) x, float(K) k) -> (float(H) y) {
      y(3 * i) *=! x(3 * i) * k(j)
      y(3 * i + 1) = x(3 * i + 1)
      y(i) = y(i) * y(i) * x(i) where i in 0:H }""",
}
CONVOLUTION = """def conv(double(N,C,W) I, double(M,C,KW) K) -> (O) {{
  O(n, m, x) +=! I(n, c, {S} * x + kw) * K(m, c, kw) }}"""


@pytest.mark.parametrize("extent", [8, pytest.param(7, marks=pytest.mark.wide)])
@sampled("name", TEXTS, keep=3)
def test_gradient_of_what_statements_write_in_parts(
    name: str, extent: int, rng: np.random.Generator
) -> None:
    f = check(parse(TEXTS[name]))
    args = drawn(f, {"H": extent, "K": 3}, rng)
    assert_gradient(differentiated_def(f), args, rng)
    for wrt in "xk":
        assert_same_forward(f, args, wrt)


def assert_same_forward(f: CheckedDef, args: Sequence[object], *wrt: str) -> None:
    """Hold the results of a training forward against those of the definition."""
    made = gradient(f, wrt=wrt or None)
    wanted = evaluate(f, args, float64=True)
    found = evaluate(check(parse(made.forward)), args, float64=True)
    for got, want in zip(found, wanted, strict=False):
        np.testing.assert_array_equal(got, want, err_msg=made.forward)


def test_turns_that_write_a_part_each_leave_what_others_wrote(rng: np.random.Generator) -> None:
    text = """def f(float(H) x, float(H) k) -> (float(H) y) {
      for t in 1:H { h(t) = x(t) * x(t) }
      h(i) = h(i) * x(i) where i in 0:H
      y(i) = h(i) * k(i) }"""
    f = check(parse(text))
    args = drawn(f, {"H": 5}, rng)
    for wrt in "xk":
        assert_same_forward(f, args, wrt)


def pushed_back(stride: int, *along: str) -> CheckedDef:
    """Return the tangents of the gradient of a convolution."""
    back = check(parse(gradient(check(parse(CONVOLUTION.format(S=stride)))).text))
    return check(parse(tangents(back, wrt=along or None).text))


def sizes_of(stride: int, extent: int) -> dict[str, int]:
    sizes = {"N": 1, "C": 2, "W": extent, "M": 2, "KW": 3}
    return {**sizes, "d_O_n2": (extent - 3) // stride + 1}


@pytest.mark.wide
def test_forward_over_reverse_of_a_strided_convolution_trains(rng: np.random.Generator) -> None:
    both = pushed_back(2)
    assert_same_forward(both, drawn(both, sizes_of(2, 6), rng))


@pytest.mark.parametrize(
    "along",
    [
        pytest.param(a, marks=pytest.mark.wide if a == ("K", "d_O") else pytest.mark.deep)
        for count in (1, 2, 3)
        for a in combinations(("I", "K", "d_O"), count)
    ],
    ids="-".join,
)
@pytest.mark.parametrize("stride", [2, 3])
def test_forward_over_reverse_of_a_strided_convolution_trains_by_each_parameter(
    stride: int, along: tuple[str, ...], rng: np.random.Generator
) -> None:
    both = pushed_back(stride, *along)
    for extent in (6, 7, 8, 9):
        args = drawn(both, sizes_of(stride, extent), rng)
        assert_same_forward(both, args)
    for t in both.params:
        assert_same_forward(both, args, t.name)
