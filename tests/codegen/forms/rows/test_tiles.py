"""Statements that write a part of a tensor each: nothing is filled or read that they overwrite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Case, Problem, differential, problem, spec_of

RNG = np.random.default_rng(47)


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def held(p: Problem) -> None:
    differential([Case(p, exact=e) for e in (True, False)], 256)


def forms(p: Problem, *, exact: bool) -> list[str]:
    spec = spec_of(p, exact=exact)
    config = compiler.default_config(p.program, spec, detect(), p.sizes)
    return [form for _, form in compiler.describe(p.program, spec, config, detect(), p.sizes)]


HALVES = """def f(float(N) A, float(N) B) -> (float(N) O) {
  O(2 * i) +=! A(i) * B(i) where i in 0:(N + 1) / 2
  O(2 * i + 1) +=! A(i) - B(i) where i in 0:N / 2
}"""
SHARES = """def f(float(N,K) A, float(K,M) B) -> (float(N,2*M) O) {
  O(i, 2 * j) +=! A(i, k) * B(k, j)
  O(i, 2 * j + 1) +=! A(i, k) * B(k, j) where k in 0:K/2
}"""
QUARTERS = """def f(float(H,W) A, float(K) B) -> (float(H,W) O) {
  O(2 * y + 1, 2 * x + 1) = A(y, x) where y in 0:H / 2, x in 0:W / 2
  O(2 * y, 2 * x) +=! A(y, x) * B(k) where y in 0:(H + 1) / 2, x in 0:(W + 1) / 2
  O(2 * y + 1, 2 * x) max=! A(y, x) * B(k) where y in 0:H / 2, x in 0:(W + 1) / 2
  O(2 * y, 2 * x + 1) *=! A(y, x) where y in 0:(H + 1) / 2, x in 0:W / 2
}"""


@pytest.mark.wide
@pytest.mark.cc
def test_tiles_that_cover_are_all_there_is() -> None:
    for n in (0, 1, 2, 17):
        p = problem(HALVES, floats(n), floats(n))
        assert len(p.program.statements) == 2
        held(p)
    for shape in ((5, 8), (1, 1), (0, 3), (2, 7)):
        p = problem(QUARTERS, floats(*shape), floats(3))
        assert len(p.program.statements) == 4
        held(p)


@pytest.mark.wide
@pytest.mark.cc
def test_tiles_are_contractions() -> None:
    p = problem(SHARES, floats(40, 33), floats(33, 24))
    assert len(p.program.statements) == 2
    for exact in (True, False):
        assert all("contraction" in form for form in forms(p, exact=exact))
    held(p)
    for n, k, m in ((1, 1, 1), (3, 0, 5), (0, 4, 2), (17, 5, 1)):
        held(problem(SHARES, floats(n, k), floats(k, m)))


@pytest.mark.cc
def test_what_no_tile_holds_is_filled() -> None:
    text = HALVES.replace("O(2 * i + 1) +=!", "O(4 * i + 1) +=!").replace(
        "i in 0:N / 2", "i in 0:(N + 2) / 4"
    )
    held(problem(text, floats(19), floats(19)))
    once = (
        "def f(float(N) A, float(N) B) -> (float(N) O) { O(3 * i) max=! A(i) where i in 0:(N+2)/3 }"
    )
    held(problem(once, floats(11), floats(11)))


@pytest.mark.cc
def test_parts_that_start_anew_leave_the_rest() -> None:
    text = """def f(float(N,K) A, float(N) B) -> (float(N) O, P) {
      O(i) = B(i)
      O(3 * i + 1) +=! A(i, k) where i in 0:(N + 1) / 3
      P(i) = O(i)
      O(2 * i) max=! A(i, k) where i in 0:(N + 1) / 2
      O(i) += P(i) where i in 0:N
    }"""
    for shape in ((13, 4), (2, 1), (7, 0)):
        held(problem(text, floats(*shape), floats(shape[0])))


@pytest.mark.wide
@pytest.mark.cc
def test_tiles_of_a_temporary_in_halves_and_in_turns() -> None:
    text = """def f(float16(T,N) A, float16(N) B) -> (float16(T,N) O) {
      for t in 0:T {
        S(2 * i) +=! A(t, i) * B(i) where i in 0:(N + 1) / 2
        S(2 * i + 1) = A(t, i) where i in 0:N / 2
        O(t, i) = S(i) + B(i) where i in 0:N
      }
    }"""
    text = text.replace("S(2 * i) +=!", "S(i) = B(i) where i in 0:N\n S(2 * i) +=!")
    held(problem(text, floats(3, 9).astype(np.float16), floats(9).astype(np.float16)))


def test_only_tiles_in_a_row_that_read_nothing_of_it_are_taken() -> None:
    n = floats(6)
    between = HALVES.replace("O(2 * i + 1)", "O(i) = A(i) where i in 0:3 O(2 * i + 1)")
    assert "O.1" in {s.base for s in problem(between, n, n).program.statements}
    reading = HALVES.replace("+=! A(i) - B(i)", "= O(2 * i + 1)")
    assert problem(reading, n, n).program.statements[0].base is None
