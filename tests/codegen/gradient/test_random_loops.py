"""Random loop programs: their gradients agree with central differences, to the second order."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.gradient.whole import whole
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.gradient.differences import (
    assert_gradient,
    differentiated_def,
    drawn,
    seeds_of,
)
from tests.codegen.gradient.random_loops import SIZES, random_loops


def _seeds(fast: int, wide: int, deep: int, *long: int) -> list[object]:
    often = [s for s in (0, *range(max(fast, 1), wide)) if s not in long]
    return [
        *range(1, fast),
        *(pytest.param(s, marks=pytest.mark.wide) for s in often),
        *(pytest.param(s, marks=pytest.mark.deep) for s in (*long, *range(wide, deep))),
    ]


@pytest.mark.parametrize("seed", _seeds(1, 6, 150))
def test_gradient_of_a_random_loop_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    checked = check(parse(random_loops(rng)))
    for checkpoint in (None, 2) if seed % 3 == 0 else (None,):
        d = differentiated_def(checked, checkpoint)
        args = drawn(d.checked, SIZES, rng)
        assert_gradient(d, args, rng, step=1e-7, tolerance=1e-4)


@pytest.mark.parametrize("seed", _seeds(0, 3, 40, 1))
def test_second_derivative_of_a_random_loop_program(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    d = differentiated_def(check(parse(random_loops(rng))))
    args = drawn(d.checked, SIZES, rng)
    args += seeds_of(d.checked, args, rng)
    both = differentiated_def(check(whole(d.gradient), d.gradient.name))
    assert_gradient(both, args, rng, step=1e-7, tolerance=1e-3)


@pytest.mark.parametrize("seed", _seeds(0, 4, 40))
def test_gradient_of_a_random_loop_program_of_halves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = "float16" if seed % 2 else "bfloat16"
    d = differentiated_def(check(parse(random_loops(rng, dtype))))
    assert_gradient(d, drawn(d.checked, SIZES, rng), rng, step=1e-7, tolerance=1e-4)
    check(whole(d.gradient), d.gradient.name)
