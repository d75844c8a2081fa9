"""Loops are cut where a condition of their counter turns, and give what they gave."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.cut import cut
from tcdsl.codegen.loops.loopir import Function, Let, Simd, Unit
from tcdsl.codegen.loops.walk import walk_expr, walk_stmt
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.types.dtypes import FLOAT32
from tests.codegen.harness import Case, Problem, differential, problem, rand, spec_of

SPREAD = """def f(float(M, K) A, int64 s, int64 n) -> (float(M, n) O) {
  O(m, i) = pad(A(m, i - s), 0) where i in 0:n
}"""
ROWS = """def f(float(K, M) A, int64 s, int64 n) -> (float(n, M) O) {
  O(i, m) = pad(A(i - s, m), 0) where i in 0:n
}"""
BOTH = """def f(float(K, M) A, int64 s, int64 t, int64 n) -> (float(n, n) O) {
  O(i, m) = pad(A(i - s, m - t), 0) where i in 0:n, m in 0:n
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
    every = np.arange(100) % 3 == 0
    others = [problem(FROM_THE_SIDES, rand(100) + 9, every, s) for s in (0, 99)]
    body = text_of(spread[0]).partition("#include")[2]
    assert "i_from0" in body
    assert "?" not in body
    generic = [Case(p, exact=False) for p in (*spread, *others)]
    differential([*generic, Case(spread[1], exact=True), Case(others[1], exact=True)])


@pytest.mark.cc
def test_what_a_condition_says_of_other_variables_is_asked_before_the_loop() -> None:
    a, big = rand(30, 41), 2**63 - 1
    rows = [problem(ROWS, a, s, 40) for s in (3, 0, -7, 39, 41, big, -big - 1)]
    both = [problem(BOTH, a, s, t, 80) for s in (5, 0, -9) for t in (0, -30, 50, big)]
    for p in (rows[0], both[0]):
        for exact in (True, False):
            body = text_of(p, exact=exact).partition("#include")[2]
            assert "if (" in body
            assert "?" not in body
    generic = [Case(p, exact=False) for p in (*rows, *both)]
    differential([*generic, Case(rows[0], exact=True), Case(both[0], exact=True)])


def test_nothing_is_asked_before_a_loop_that_changes_it() -> None:
    i, k, n = b.i64("i"), b.i64("k"), b.i64("n")
    a, o = b.pointer("a", FLOAT32, const=True), b.pointer("o", FLOAT32)
    value = b.select(b.compare("<", k, n), b.load(a, i), b.const(0.0, FLOAT32))
    body = b.block(b.assign(b.load(o, i), value), b.assign(k, b.add(k, 1)))
    loop = b.loop(i, 0, n, body, mark=Simd())
    unit = Unit("u", "", (Function("f", (a, o, k, n), loop, "helper"),), (), ())
    assert cut(unit) == unit


def test_a_part_begins_behind_the_greatest_number_of_all_nowhere() -> None:
    """`i > s` holds for no i below n where s is that number, but `s + 1` would be the least."""
    i, s, n = b.i64("i"), b.i64("s"), b.i64("n")
    a, o = b.pointer("a", FLOAT32, const=True), b.pointer("o", FLOAT32)
    value = b.select(b.compare(">", i, s), b.load(a, i), b.const(0.0, FLOAT32))
    loop = b.loop(i, 0, n, b.assign(b.load(o, i), value), mark=Simd())
    unit = Unit("u", "", (Function("f", (a, o, s, n), loop, "helper"),), (), ())
    (f,) = cut(unit).functions
    (start,) = (x.value for x in walk_stmt(f.body) if isinstance(x, Let) and "from" in x.var.name)
    assert b.add(b.min64(s, n), 1) in walk_expr(start)
    assert b.add(s, 1) not in walk_expr(start)
