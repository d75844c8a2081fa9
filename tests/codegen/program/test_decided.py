"""Conditions that hold at all points of known sizes are gone, others stay."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.program.bounds import bounds_of
from tcdsl.codegen.program.decided import decided
from tcdsl.codegen.program.expressions import walk_typed
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.types import typed
from tests.codegen.harness import Case, Problem, differential, problem, spec_of

N = 40
DECIDED = [
    "O(i) = 0 <= i - j && i - j < N ? A(i - j) : 1 where i in 2:9, j in 0:3",
    "O(i) = i - j < N && A(0) > 0 ? A(i) : 1 where i in 2:9, j in 0:3",
    "O(i) = i >= N ? 1 : A(i)",
    "O(i) = !(i < N || A(0) > 0) ? 1 : A(i)",
    "O(i) = i == N ? 1 : 2 * i + 3 <= 2 * N + 1 ? A(i) : 0",
]
STAYS = [
    "O(i) = i < N - 1 ? A(i) : 1",
    "O(i) = i > 0 ? A(i) : 1",
    "O(i) = i == 3 ? A(i) : 1",
    "O(i) = i * 1000000000 / 1000000000 <= N ? A(i) : 1",  # of int32: wraps
    "O(i) = i < N * 1000000000 / 1000000000 ? A(i) : 1",
    "O(i) = 100000000 * i <= 100000000 * N ? A(i) : 1",
    "O(i) = i - j >= 0 ? A(i) : 1 where i in 0:9, j in 0:0",  # no points
    "O(i) = int64(i) * 1000000000000000000 < 5000000000000000000 ? A(i) : 1",
]


def line(body: str) -> Problem:
    body = body.replace("=", "+=!", 1) if "where" in body else body
    text = f"def f(float(N) A) -> (O) {{ {body} }}"
    return problem(text, np.arange(1, N + 1, dtype=np.float32))


def conditions(p: Problem, *, known: bool) -> int:
    program = decided(p.program, tuple(p.sizes.items())) if known else p.program
    found = [x for s in program.statements for x in walk_typed(s.value)]
    return sum(isinstance(x, typed.Binary) and x.op[0] in "<>=" for x in found)


@pytest.mark.parametrize("body", DECIDED)
def test_what_ranges_decide_is_gone(body: str) -> None:
    p = line(body)
    assert conditions(p, known=True) < conditions(p, known=False)


@pytest.mark.parametrize("body", STAYS)
def test_what_they_do_not_or_what_may_wrap_stays(body: str) -> None:
    p = line(body)
    assert conditions(p, known=True) == conditions(p, known=False)


def test_a_quotient_that_wraps_is_no_bound() -> None:
    (s,) = line(STAYS[4]).program.statements
    assert isinstance(s.value, typed.Select)
    ranges = {r.name: r for r in s.ranges}
    assert bounds_of(s.value.cond, ranges, (("N", N),)) is None
    assert bounds_of(s.value.cond, ranges, (("N", 2),)) is not None


@pytest.mark.wide
@pytest.mark.cc
def test_values_stay_what_they_are() -> None:
    differential([Case(line(body), exact=True) for body in DECIDED + STAYS], terms=3)


POINTS = """def conv(float(N,C,H,W) I, float(F,C,1,1) K) -> (O) {
  O(n,f,y,x) +=! pad(I(n, c, 2*y + i, 2*x + j), 0) * K(f,c,i,j) where y in 0:4, x in 0:6 }"""
SHIFTED = """def f(float(N,M) A, float(M,K) B) -> (O) {
  T(i,j) = A(i + 1, j) where i in 0:N-1, j in 0:M-1
  O(i,k) +=! T(i,j) * B(j,k) where i in 0:N-1, j in 0:M-1 }"""


def test_a_padding_without_an_outside_is_no_pass() -> None:
    """Nor is a copy of what lies as it did, before a sum of products."""
    rng = np.random.default_rng(5)

    def of(text: str, *shapes: tuple[int, ...]) -> Problem:
        return problem(text, *(rng.standard_normal(s, dtype=np.float32) for s in shapes))

    points = of(POINTS, (2, 3, 7, 11), (5, 3, 1, 1))
    found = [points, of(SHIFTED, (5, 7), (7, 4)), of(SHIFTED, (1, 7), (7, 4))]
    for p in found[:2]:
        spec = spec_of(p, exact=True)
        config = compiler.default_config(p.program, spec, detect(), p.sizes)
        assert not config.group(1), config
    differential([Case(p, exact=True) for p in found], terms=7)
