"""Random programs: their gradients agree with central differences, compiled and by reference."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.gradient.whole import whole
from tcdsl.grammar.check.definition import check
from tests.codegen.gradient.differences import (
    assert_gradient,
    differentiated,
    differentiated_def,
    drawn,
    seeds_of,
)
from tests.codegen.harness import Case, Problem, differential
from tests.codegen.random_programs import random_program

SIZES = {"N": 3, "M": 4}
RARELY = sorted({*range(3, 150)} - {32})  # 32 takes the square root of 0


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(s, marks=pytest.mark.deep) for s in RARELY)]
)
def test_gradient_of_a_random_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = differentiated(random_program(rng).text)
    args = drawn(d.checked, SIZES, rng)
    assert_gradient(d, args, rng, step=1e-7, tolerance=1e-4)


@pytest.mark.deep
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(s, marks=pytest.mark.deep) for s in range(1, 30))]
)
def test_second_derivative_of_a_random_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = differentiated(random_program(rng).text)
    args = drawn(d.checked, SIZES, rng)
    args += seeds_of(d.checked, args, rng)
    both = differentiated_def(check(whole(d.gradient), d.gradient.name))
    assert_gradient(both, args, rng, step=1e-7, tolerance=1e-4)


@pytest.mark.cc
@pytest.mark.parametrize("seed", [pytest.param(s, marks=pytest.mark.deep) for s in range(12)])
def test_compiled_gradients_of_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cases = []
    for _ in range(3):
        d = differentiated(random_program(rng).text)
        args = [np.asarray(a, np.float32) for a in drawn(d.checked, {"N": 9, "M": 17}, rng)]
        seeds = [s.astype(np.float32) for s in seeds_of(d.checked, args, rng)]
        kept = [k.astype(np.float32) for k in d.kept(args)]
        problem = Problem(d.backward, (*args, *kept, *seeds))
        cases += [Case(problem, exact) for exact in (True, False)]
    differential(cases, terms=200)
