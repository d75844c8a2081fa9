"""Sums of squared and of absolute differences in register tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Case, Problem, differential, problem, rand, spec_of
from tests.codegen.under_configs import held, narrower

pytestmark = pytest.mark.cc

Array = np.ndarray[Any, np.dtype[Any]]

SQUARED = """
def squared(float(N,D) A, float(M,D) B) -> (O) {
  O(i,j) +=! (A(i,d) - B(j,d)) * (A(i,d) - B(j,d))
}"""
MANHATTAN = "def l1(float(N,D) A, float(M,D) B) -> (O) { O(i,j) +=! abs(A(i,d) - B(j,d)) }"
TURNED = "def l1(float(D,N) A, float(D,M) B) -> (O) { O(j,i) +=! fabs(A(d,i) - B(d,j)) }"
KERNEL = """
def rbf(float(P,N,D) A, float(P,M,D) B, float(M) w, float g) -> (O) {
  O(p,i,j) +=! w(j) * (A(p,i,d) - B(p,j,d)) * (A(p,i,d) - B(p,j,d))
  O(p,i,j) = exp(-g * O(p,i,j))
}"""


def pair(text: str, n: int, m: int, d: int, dtype: str = "float32") -> Problem:
    shapes = ((d, n), (d, m)) if text == TURNED else ((n, d), (m, d))
    return problem(text, *(rand(*s, seed=i, dtype=dtype) for i, s in enumerate(shapes)))


def form(p: Problem, *, exact: bool) -> Any:
    spec = spec_of(p, exact=exact)
    return compiler.default_config(p.program, spec, detect(), p.sizes).get("g0.form")


def both(problems: list[Problem]) -> list[Case]:
    return [Case(p, exact) for p in problems for exact in (True, False)]


def test_differences_have_register_tiles() -> None:
    problems = [pair(text, 21, 37, 19) for text in (SQUARED, MANHATTAN, TURNED)]
    assert {form(p, exact=exact) for p in problems for exact in (True, False)} == {"contraction"}
    differential([Case(p, exact=True) for p in problems[:2]], terms=19)


@pytest.mark.wide
def test_any_layout_and_sizes_not_known() -> None:
    problems = [pair(text, 21, 37, 19) for text in (SQUARED, MANHATTAN, TURNED)]
    differential(both(problems), terms=19)


def test_few_rows_are_folded_along_the_sum() -> None:
    assert form(pair(SQUARED, 1, 100, 64), exact=True) != "contraction"
    assert form(pair(SQUARED, 100, 3, 64), exact=True) != "contraction"


@pytest.mark.wide
def test_what_is_no_number_stays_where_it_is() -> None:
    a, b = rand(20, 9), rand(33, 9, seed=1)
    a[3, 4], a[7, 2], b[5, 1], b[11, 2] = np.nan, np.inf, np.nan, np.inf
    differential(both([problem(text, a, b) for text in (SQUARED, MANHATTAN)]), terms=9)


@pytest.mark.wide
def test_points_that_nearly_meet_do_not_cancel() -> None:
    far = 4096 + rand(40, 12) / 1024
    apart = problem(SQUARED, far.astype(np.float32), far[:20].astype(np.float32))
    differential(both([apart]), terms=12)


@pytest.mark.deep
def test_edges_layouts_and_an_epilogue() -> None:
    sizes = ((4, 16, 1), (5, 17, 0), (0, 20, 3), (30, 0, 3), (49, 130, 700))
    problems = [pair(text, *s) for text in (SQUARED, TURNED) for s in sizes]
    a = np.asfortranarray(rand(23, 14))[:, ::2]
    same = problem(SQUARED, a, a)
    into = np.full((23, 80), np.nan, np.float32)[:, ::2]
    strided = problem(SQUARED, a, rand(40, 7), outs=[into])
    kernel = problem(KERNEL, rand(3, 21, 9), rand(3, 18, 9, seed=1), rand(18), 0.1)
    double = pair(SQUARED.replace("float", "double"), 21, 37, 19, "float64")
    half = pair(SQUARED.replace("float(", "float16("), 21, 37, 19, "float16")
    differential(both([*problems, same, strided, kernel, double, half]), terms=700)


@pytest.mark.deep
def test_every_tile_and_narrow_vectors() -> None:
    p = pair(MANHATTAN, 45, 70, 8)
    tiles = map(held, ("1x1", "6x4", "14x2", "9x3", "23x1"))
    cases = [
        Case(p, True, Config.of({"g0.tile": tile, "g0.pack_a": pack_a, "g0.depth": 8}))
        for tile in tiles
        for pack_a in (False, True)
    ]
    differential(cases, terms=8)
    narrow = [Case(p, True), Case(pair(SQUARED, 21, 37, 19), True)]
    differential(narrow, 19, *narrower(32))
