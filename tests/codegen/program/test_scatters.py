"""Scatters that can be solved for an index run as gathers; what they write is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Case, Problem, differential, problem, spec_of
from tests.tiers import sampled

RNG = np.random.default_rng(53)


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.normal(size=shape).astype(dtype)


def held(*problems: Problem) -> None:
    differential([Case(p, exact=e) for p in problems for e in (True, False)], 256)


def forms(p: Problem, *, exact: bool) -> list[str]:
    spec = spec_of(p, exact=exact)
    config = compiler.default_config(p.program, spec, detect(), p.sizes)
    return [form for _, form in compiler.describe(p.program, spec, config, detect(), p.sizes)]


def transposed(step: int) -> str:
    return f"""def f(float(N,C,H,W) I, float(C,F,KH,KW) K) -> (O) {{
      O(n, f_, {step} * y + i, {step} * x + j) +=! I(n, c, y, x) * K(c, f_, i, j)
    }}"""


@pytest.mark.cc
@sampled("step", [1, 2, pytest.param(3, marks=pytest.mark.deep)], keep=1)
def test_transposed_convolutions_are_contractions(step: int) -> None:
    p = problem(transposed(step), floats(2, 16, 7, 9), floats(16, 8, 4, 3))
    for exact in (True, False):
        copies = ("pointwise", "stencil 1x1")
        found = [x for x in forms(p, exact=exact) if not any(copy in x for copy in copies)]
        assert len(found) >= step * step
        assert all("contraction" in x or "convolution" in x for x in found), found
    empty = problem(transposed(step), floats(0, 3, 7, 9), floats(3, 2, 4, 3))
    small = problem(transposed(step), floats(1, 2, 1, 2), floats(2, 3, 1, 1))
    held(p, empty, small) if step == 2 else held(small)


@pytest.mark.wide
@pytest.mark.cc
def test_windows_side_by_side_are_a_contraction() -> None:
    text = transposed(2).replace("j)\n", "j) where i in 0:2, j in 0:2\n")
    p = problem(text, floats(2, 16, 7, 9), floats(16, 8, 2, 2))
    for exact in (True, False):
        found = forms(p, exact=exact)
        assert len(found) == 2
        assert "contraction" in found[0], found
    held(p)


SEVERAL = """def f(float(C,H,W) I, float(C,F,KH,KW) K, float(F) b) -> (O) {
  O(f_, 2 * i - y, 3 * x + j + 1) +=! I(c, y, x) * K(c, f_, i, j) * b(f_)
}"""
DOWN = "def f(float(C,N) A, float(C,M,F) B) -> (O) { O(f_, i - 2 * j) +=! A(c, i) * B(c, j, f_) }"
TURNS = """def f(float(T,C,N) A, float(C,M,F) B) -> (O) {
  for t in 0:T {
    S(f_, i) = 0.5 where f_ in 0:F, i in 0:N + M
    S(f_, i + j) += A(t, c, i) * B(c, j, f_)
    O(t, f_, i) = S(f_, i) * S(f_, i) where f_ in 0:F, i in 0:N + M
  }
}"""
MEETING = """def f(float(N) A, float(M) B, float(L) b) -> (float(L) O) {
  O(i) = b(i)
  O(i + 2 * j + 1) += A(i) * B(j) where i in 0:N, j in 0:M
  O(2 * i + j) max= A(i) + B(j) where i in 0:N, j in 0:M
}"""


@pytest.mark.cc
def test_windows_without_gaps_are_one_product_that_is_moved() -> None:
    text = """def up(float(N,C,H,W) I, float(C,F,2,3) K) -> (float(N,F,2*H,3*W) O) {
      O(n, f, 2*y + i, 3*x + j) +=! I(n,c,y,x) * K(c,f,i,j) }"""
    p = problem(text, floats(2, 5, 3, 9), floats(5, 4, 2, 3))
    assert [s.op for s in p.program.statements] == ["+=!", "="]
    line = """def up(float(C,L) I, float(C,F,2) K) -> (float(F,2*L) O) {
      O(f, 2*x + j) +=! I(c,x) * K(c,f,j) }"""
    held(p, problem(line, floats(3, 7), floats(3, 2, 2)))
    gaps = text.replace("2*H,", "2*H + 1,")
    channels = """def up(float(H,W,C) I, float(C,2,2,F) K) -> (float(2*H,2*W,F) O) {
      O(2*y + i, 2*x + j, f) +=! I(y,x,c) * K(c,i,j,f) }"""
    assert len(problem(gaps, *p.args).program.statements) > 2
    found = problem(channels, floats(2, 3, 5), floats(5, 2, 2, 4)).program
    assert len(found.statements) == 4  # rows of channels are stored as they are


@pytest.mark.wide
@pytest.mark.cc
def test_values_are_those_of_the_scatter() -> None:
    half = DOWN.replace("float(", "float16(")
    several = problem(SEVERAL, floats(3, 5, 7), floats(3, 8, 2, 3), floats(8))
    down = problem(DOWN, floats(3, 13), floats(3, 4, 5))
    turns = problem(TURNS, floats(2, 3, 6), floats(3, 4, 5))
    for p in (several, down, turns):
        assert any("contraction" in x for x in forms(p, exact=False))
    halves = problem(half, floats(3, 9, dtype=np.float16), floats(3, 2, 5, dtype=np.float16))
    held(several, down, turns, halves, problem(MEETING, floats(13), floats(4), floats(40)))


def statements(text: str, *args: Any) -> list[str]:
    return [s.op for s in problem(text, *args).program.statements]


def test_what_points_meet_in_by_data_or_division_stays_a_scatter() -> None:
    a = floats(9)
    for target in ("O(i / 2)", "O(i % 3)", "O(i + i / 2)"):
        ops = statements(f"def f(float(N) A) -> (O) {{ {target} +=! A(i) }}", a)
        assert ops == ["+=!"], target


def test_a_part_that_starts_anew_stays_a_scatter() -> None:
    text = """def f(float(C,N) A, float(C,M,F) B) -> (O) {
      O(f_, i) = 2.0 where f_ in 0:F, i in 0:3 * N
      O(f_, i + j) +=! A(c, i) * B(c, j, f_)
    }"""
    assert statements(text, floats(2, 9), floats(2, 3, 4)) == ["=", "=", "+="]
