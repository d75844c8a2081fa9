"""Statements that write a part of a tensor each: nothing is filled or read that they overwrite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Case, Problem, differential, problem, spec_of
from tests.tiers import sampled

RNG = np.random.default_rng(47)


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def held(p: Problem, *kinds: bool) -> None:
    """Hold a problem against the reference; kinds: whether its sizes are known, else both."""
    differential([Case(p, exact=e) for e in kinds or (True, False)], 256)


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


@pytest.mark.deep
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
@sampled("exact", [False, True], keep=1)
def test_parts_that_start_anew_leave_the_rest(exact: bool) -> None:
    text = """def f(float(N,K) A, float(N) B) -> (float(N) O, P) {
      O(i) = B(i)
      O(3 * i + 1) +=! A(i, k) where i in 0:(N + 1) / 3
      P(i) = O(i)
      O(2 * i) max=! A(i, k) where i in 0:(N + 1) / 2
      O(i) += P(i) where i in 0:N
    }"""
    for shape in ((13, 4), (2, 1), (7, 0)):
        held(problem(text, floats(*shape), floats(shape[0])), exact)


@pytest.mark.deep
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


ENDS = """def f(float(N,K) A, float(M,K) B) -> (float(N + M,K) O) {
  O(N + j, k) = B(j, k)
  O(i, k) = A(i, k) + 1
}"""
MIDDLE = """def f(float(N,K) A, float(K,M) B) -> (float(N,2 + M) O) {
  O(i, 0) +=! A(i, k)
  O(i, 1 + j) +=! A(i, k) * B(k, j)
  O(i, M + 1) max=! A(i, k)
}"""


@pytest.mark.deep
@pytest.mark.cc
def test_parts_that_follow_each_other_are_all_there_is() -> None:
    for n, m, k in ((3, 4, 5), (0, 4, 1), (33, 0, 2), (0, 0, 3), (2, 2, 0)):
        p = problem(ENDS, floats(n, k), floats(m, k))
        assert len(p.program.statements) == 2
        held(p)
        p = problem(MIDDLE, floats(n, k), floats(k, m))
        assert len(p.program.statements) == 3
        held(p)


@pytest.mark.deep
@pytest.mark.cc
@pytest.mark.parametrize(
    ("box", "first", "ranges"),
    [
        ("N + M + 1,K", "N + 1 + j, k", ""),  # a gap, and an end
        ("N + M + 1,K", "N + j, k", ""),
        ("N + M,K", "N + j, k", "where k in 0:K / 2, j in 0:M"),  # cut in two dimensions
        ("N + M,K + 1", "N + j, k", ""),
        ("N + M,K", "N + M - 1 - j, k", ""),  # backwards
    ],
)
def test_what_parts_leave_out_is_filled(box: str, first: str, ranges: str) -> None:
    text = ENDS.replace("N + M,K) O", f"{box}) O").replace(
        "O(N + j, k) = B(j, k)", f"O({first}) = B(j, k) {ranges}"
    )
    for n, m, k in ((3, 4, 5), (0, 4, 1), (2, 2, 0)):
        held(problem(text, floats(n, k), floats(m, k)))


@pytest.mark.wide
@pytest.mark.cc
def test_parts_of_a_turn() -> None:
    text = """def f(float(N) A) -> (float(N) O) {
      for t in 0:N { O(i) = A(i) where i in 0:t
        O(t + i) = 2 * A(i) where i in 0:N - t }
    }"""
    held(problem(text, floats(5)))


@pytest.mark.deep
@pytest.mark.cc
@pytest.mark.parametrize("dtype", ["float32", "int32", "float64", "int64"])
def test_rows_are_read_backwards(dtype: str) -> None:
    text = f"def f({dtype}(M,N) A) -> (O) {{ O(i, j) = A(i, N - 1 - j) + A(i, j) }}"
    for n in (0, 1, 15, 16, 17, 64, 97, 131):
        held(problem(text, RNG.integers(-90, 90, (2, n)).astype(dtype)))
