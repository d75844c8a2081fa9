"""Loops are cut where a condition of their counter turns, and give what they gave."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Case, Problem, differential, problem, rand, spec_of

SPREAD = """def f(float(M, K) A, int64 s, int64 n) -> (float(M, n) O) {
  O(m, i) = pad(A(m, i - s), 0) where i in 0:n
}"""
FROM_THE_SIDES = """def f(float(N) A, bool(N) B, int64 s) -> (O) {
  O(i) = 3 <= i && A(0) > s && 70 > i ? float64(A(i)) : B(i) ? 1.0 : 2.0
}"""


def text_of(p: Problem, *, exact: bool = True) -> str:
    """Return what is printed for a problem."""
    spec, machine = spec_of(p, exact=exact), detect()
    config = compiler.default_config(p.program, spec, machine, p.sizes)
    return compiler.emit_c(compiler.lower(p.program, spec, config, machine, p.sizes, "f"))


@pytest.mark.cc
def test_a_loop_is_cut_where_its_condition_turns() -> None:
    a, big = rand(3, 40), 2**63 - 1
    spread = [problem(SPREAD, a, s, 100) for s in (0, 33, -7, 61, 100, 141, -40, big, -big - 1)]
    b = np.arange(100) % 3 == 0
    others = [problem(FROM_THE_SIDES, rand(100) + 9, b, s) for s in (0, 99)]
    body = text_of(spread[0]).partition("#include")[2]
    assert "i_from0" in body
    assert "?" not in body
    generic = [Case(p, exact=False) for p in (*spread, *others)]
    differential([*generic, Case(spread[1], exact=True), Case(others[1], exact=True)])
