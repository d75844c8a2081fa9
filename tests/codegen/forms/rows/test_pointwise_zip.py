"""Copies of rows of two to four points: vectors whose lanes take turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Case, Problem, differential, problem, spec_of
from tests.codegen.pages import between_pages
from tests.codegen.under_configs import narrower

LAST = "def f(T(N,C,H,W) A) -> (O) { O(n,y,x,c) = A(n,c,y,x) }"
SHUFFLE = """def g(float(F,3,3,H,W) A) -> (float(F,3*H,3*W) O) {
  O(f, 3*y + i, 3*x + j) = A(f,i,j,y,x) where y in 0:H, x in 0:W }"""


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def last(*shape: int, dtype: str = "float32") -> Problem:
    return problem(LAST.replace("T(", f"{dtype}("), numbers(*shape, dtype=dtype))


def form(p: Problem) -> str:
    spec = spec_of(p, exact=True)
    config = compiler.default_config(p.program, spec, detect(), p.sizes)
    return compiler.describe(p.program, spec, config, detect(), p.sizes)[0][1]


@pytest.mark.cc
def test_lanes_of_channels_take_turns() -> None:
    found = [last(2, 3, 5, 7), problem(SHUFFLE, numbers(2, 3, 3, 2, 21))]
    assert all("turns of lanes" in form(p) for p in found)
    assert "tiles" in form(last(1, 5, 4, 8))
    assert "turns" not in form(last(1, 3, 1, 2))  # few lanes of a vector
    differential([Case(p, exact=True) for p in found])


@pytest.mark.wide
@pytest.mark.cc
@pytest.mark.parametrize("width", [64, 32])
def test_rows_of_any_length_are_copied(width: int) -> None:
    cc, machine = (None, None) if width == 64 else narrower(width)
    found = [last(1, c, 1, n) for c in (2, 3, 4) for n in (8, 16, 33)]
    found += [last(1, c, 3, 7, dtype="float64") for c in (2, 3, 4)]
    found += [last(0, 3, 4, 4), problem(SHUFFLE, numbers(1, 3, 3, 3, 16))]
    cases = [Case(p, exact=True) for p in found]
    with between_pages(found[2], "after") as p, between_pages(found[5], "before") as q:
        differential([*cases, Case(p, exact=True), Case(q, exact=True)], cc=cc, machine=machine)
