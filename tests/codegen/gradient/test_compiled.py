"""Training forwards and gradients as kernels: equal to the reference evaluator."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.program.dtypes import numpy_dtype
from tests.codegen.gradient.differences import drawn, seeds_of
from tests.codegen.gradient.layers import CORNERS, LAYERS
from tests.codegen.gradient.test_layers import made
from tests.codegen.harness import Case, Problem, differential

pytestmark = pytest.mark.cc

OFTEN = [["softmax", "embed", "state overwritten"]]
EVERY = sorted({*LAYERS, *CORNERS} - {"long sum"})
REST = [EVERY[k : k + 6] for k in range(0, len(EVERY), 6)]


@pytest.mark.parametrize(
    "names",
    [*OFTEN, *(pytest.param(n, marks=pytest.mark.deep) for n in REST)],
    ids=lambda names: names[0],
)
def test_kernels_of_a_gradient(names: list[str], rng: np.random.Generator) -> None:
    cases = []
    for name in names:
        layer = {**LAYERS, **CORNERS}[name]
        d = made(layer)
        drawn_args = drawn(d.checked, layer.sizes, rng)
        args = [
            np.asarray(a, numpy_dtype(t.dtype))
            for a, t in zip(drawn_args, d.checked.params, strict=True)
        ]
        seeds = seeds_of(d.checked, args, rng)
        more = [
            np.asarray(a, numpy_dtype(t.dtype))
            for a, t in zip([*d.kept(args), *seeds], d.backward.params[len(args) :], strict=True)
        ]
        backward = Problem(d.backward, (*args, *more))
        cases.append(Case(backward, exact=True))
        if names not in OFTEN:
            cases.append(Case(backward, exact=False))
            cases.append(Case(Problem(d.forward, tuple(args)), exact=False))
    differential(cases, terms=300)
