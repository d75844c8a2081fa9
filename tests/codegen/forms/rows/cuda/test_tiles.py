"""Statements that write a part of a tensor each, and scatters that become such, on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.gpu import gpu_of
from tests.codegen.forms.rows.test_tiles import HALVES, QUARTERS, SHARES, floats
from tests.codegen.harness import Problem, problem, spec_of
from tests.codegen.program.test_scatters import transposed
from tests.cusim.harness import differential

pytestmark = pytest.mark.cusim


def forms(p: Problem) -> list[str]:
    spec = spec_of(p, exact=True, threads=0)
    return [f for _, f in compiler.describe(p.program, spec, Config(), gpu_of("sm_90"), p.sizes)]


@pytest.mark.wide
def test_tiles_that_cover_are_all_there_is() -> None:
    differential(problem(HALVES, floats(9), floats(9)), exact=(True,))
    differential(problem(QUARTERS, floats(5, 4), floats(3)), exact=(False,))
    once = HALVES.replace("O(2 * i + 1) +=!", "O(4 * i + 1) max=!").replace("0:N / 2", "0:(N+2)/4")
    differential(problem(once, floats(7), floats(7)), exact=(True,))


def test_tiles_are_contractions() -> None:
    p = problem(SHARES, floats(5, 6), floats(6, 3))
    assert all("simt" in form for form in forms(p))
    differential(p)


@pytest.mark.deep
def test_transposed_convolutions_are_contractions() -> None:
    p = problem(transposed(2), floats(1, 3, 3, 2), floats(3, 2, 3, 2))
    assert sum("simt" in form for form in forms(p)) == 4
    differential(p, exact=(True,))
    half = transposed(2).replace("float(", "float16(")
    args = (floats(1, 3, 3, 2).astype(np.float16), floats(3, 2, 2, 2).astype(np.float16))
    differential(problem(half, *args), exact=(True,))
