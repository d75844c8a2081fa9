"""Gradients with the forward pass in them: the same values, and true second derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.gradient.whole import whole
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.format import format_program
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef
from tests.codegen.gradient.differences import (
    Differentiated,
    assert_gradient,
    differentiated,
    differentiated_def,
    drawn,
    seeds_of,
)
from tests.codegen.gradient.layers import CORNERS, LAYERS
from tests.codegen.gradient.test_layers import made
from tests.tiers import sampled

OFTEN = ["softmax", "layer_norm", "rnn", "embed", "product with zeros"]
REST = sorted({*LAYERS, *CORNERS} - {*OFTEN, "long sum", "lstm of 64 turns"})


def whole_of(d: Differentiated) -> CheckedDef:
    program = whole(d.gradient)
    assert parse(format_program(program)) == program
    return check(program, d.gradient.name)


@sampled("name", [*OFTEN, *(pytest.param(n, marks=pytest.mark.deep) for n in REST)], keep=1)
def test_its_gradient_is_the_whole_second_derivative(name: str, rng: np.random.Generator) -> None:
    layer = {**LAYERS, **CORNERS}[name]
    first = made(layer)
    both = whole_of(first)
    args = drawn(first.checked, layer.sizes, rng)
    seeds = seeds_of(first.checked, args, rng)
    for got, want in zip(
        evaluate(both, [*args, *seeds], float64=True), first.pull(args, seeds), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    assert_gradient(differentiated_def(both), [*args, *seeds], rng)


def test_nothing_kept_leaves_the_gradient_as_it_is() -> None:
    d = differentiated("def f(float(N) A) -> (O) { O(i) = A(i) * A(i) }")
    assert format_program(whole(d.gradient)) == d.gradient.text


def test_the_callees_get_names_that_nothing_has() -> None:
    d = differentiated(
        "def f(float(N) forward, float backward) -> (O) { O +=! forward(i) O = O * O * backward }"
    )
    assert [x.name for x in whole(d.gradient).defs] == ["forward_", "backward_", "d_f"]
    args = [np.arange(3.0), 0.5, 2.0]
    d_forward, d_backward = evaluate(whole_of(d), args, float64=True)
    assert d_forward.tolist() == [6, 6, 6]
    assert d_backward == 18
