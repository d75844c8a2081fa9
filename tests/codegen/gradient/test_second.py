"""The gradient of a gradient is a gradient: second and third derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.gradient.differences import (
    assert_gradient,
    differentiated_def,
    drawn,
    seeds_of,
)
from tests.codegen.gradient.layers import CORNERS, LAYERS
from tests.codegen.gradient.test_layers import made
from tests.tiers import sampled

OFTEN = ["layer_norm", "max_pool", "embed", "scatter", "product with zeros", "state overwritten"]
# Their gradients ask whether a value is the one that another version had, or the kept maximum:
# moved alone, it is not. Their whole second derivatives are in test_whole.py.
JUMPS = {
    "attention",
    "log_softmax",
    "maximum over a window",
    "min_distance",
    "scatter of products, then more",
    "softmax",
    "softmax_tmp",
    "updates of a part",
}
REST = sorted({*LAYERS, *CORNERS} - {*OFTEN, *JUMPS, "long sum", "lstm of 64 turns"})


@sampled("name", [*OFTEN, *(pytest.param(n, marks=pytest.mark.deep) for n in REST)], keep=3)
def test_second_derivative(name: str, rng: np.random.Generator) -> None:
    layer = {**LAYERS, **CORNERS}[name]
    first = made(layer)
    second = differentiated_def(first.backward)
    args = drawn(first.checked, layer.sizes, rng)
    seeds = seeds_of(first.checked, args, rng)
    kept = first.kept(args)
    # What is kept is another parameter, by which the gradient has a gradient too.
    assert_gradient(second, [*args, *kept, *seeds], rng)


def test_third_derivative_of_embedding(rng: np.random.Generator) -> None:
    layer = LAYERS["embed"]
    d = made(layer)
    args = drawn(d.checked, layer.sizes, rng)
    for _ in range(3):
        args = [*args, *d.kept(args), *seeds_of(d.checked, args, rng)]
        d = differentiated_def(d.backward)
    assert_gradient(d, args, rng)
