"""Gradients of layers, and of every corner of the language, agree with central differences."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.dtypes import BY_NAME
from tests.codegen.gradient.differences import (
    Differentiated,
    assert_gradient,
    differentiated_def,
    drawn,
)
from tests.codegen.gradient.layers import CORNERS, LAYERS, Layer
from tests.tiers import sampled


def made(layer: Layer) -> Differentiated:
    program = parse(layer.text)
    generics = {k: BY_NAME.get(v, v) for k, v in layer.generics.items()}
    return differentiated_def(check(program, program.defs[-1].name, generics=generics))


OFTEN = {
    "conv_padded", "max_pool", "softmax", "batch_norm", "lstm", "bag", "scatter", "min_distance",
    *list(CORNERS)[::3],
}  # fmt: skip


@sampled(
    "name",
    [pytest.param(n, marks=() if n in OFTEN else pytest.mark.deep) for n in (*LAYERS, *CORNERS)],
    keep=5,
)
def test_gradient_agrees_with_central_differences(name: str, rng: np.random.Generator) -> None:
    layer = {**LAYERS, **CORNERS}[name]
    d = made(layer)
    assert_gradient(d, drawn(d.checked, layer.sizes, rng), rng)
