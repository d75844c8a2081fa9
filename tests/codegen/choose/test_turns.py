"""Loops whose turns have single points are one phase each."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.loops.loopir import Assign, Call, Field, For, If, Let, Pointer, Var
from tcdsl.codegen.loops.walk import all_exprs, sub_stmts, walk_stmt
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.text.errors import BoundsError
from tests.codegen.harness import Array, Case, Problem, differential, problem, run_cases, spec_of
from tests.tiers import sampled

RNG = np.random.default_rng(7)
SHUFFLE = """def f(T(N) X, int32(N) I) -> (T(N) Y) {
  rest(i) = X(i)
  for i in 0:N {
    Y(i) = rest(I(i))
    first(0) = rest(i)
    rest(I(i)) = first(0)
  }
}"""
TWO_STATES = """def f(T(N) X) -> (T(N) level, T(N) trend) {
  level(0) = X(0)
  trend(0) = 0
  for t in 1:N {
    level(t) = 0.5 * X(t) + 0.5 * (level(t - 1) + trend(t - 1))
    trend(t) = 0.25 * (level(t) - level(t - 1)) + 0.75 * trend(t - 1)
  }
}"""
NESTED = """def f(T(N,M) X) -> (T(N,M) Y, T(N) s) {
  s(n) = 0
  for i in 0:N {
    for j in 0:M {
      s(i) = s(i) * 0.5 + X(i, j)
      Y(i, j) = s(i) + i
    }
    s(i) = s(i) + Y(i, M - 1)
  }
}"""
# The first loop is joined; the second has rows in its turns, and reads its own variable.
BESIDE = """def f(T(N,M) X) -> (T(N,M) Y, T(M) p) {
  p(0) = X(0, 0)
  for j in 1:M { p(j) = p(j - 1) * 0.5 + X(0, j)  last(0) = p(j) }
  Y(n, m) = X(n, m) + last(0)
  for i in 1:N { Y(i, m) = Y(i - 1, m) * 0.5 + i + p(m) }
}"""
# Numbers go from turn to turn, one of them chooses an element.
WALK = """def f(T(N) X) -> (T(N) Y, level, at, low) {
  Y(n) = T(0) where exists X(n)
  level() = X(0)
  trend() = T(0)
  at() = 0
  low() = 0
  for t in 0:N {
    e() = at()
    trend() = T(0.75) * trend() + T(0.25) * (X(e()) - level())
    is_low() = level() < T(0)
    level() = T(0.5) * X(t) + T(0.5) * (level() + trend())
    Y(e()) = is_low() ? level() : Y(e()) + trend()
    low() = low() + (is_low() ? 1 : 0)
    at() = at() + (level() > T(0) ? 1 : 0)
  }
}"""
# The inner loop, which keeps a number, ends where the outer one is.
TRIANGLE = """def f(T(N) X) -> (T(N) Y, level, sum) {
  Y(n) = X(n)
  level() = X(0)
  sum() = T(0)
  for t in 0:N {
    sum() = sum() + X(t)
    for u in 0:t { level() = T(0.5) * level() + X(u) * X(t) }
    Y(t) = sum() + level()
  }
}"""
PROGRAMS = {"shuffle": SHUFFLE, "two states": TWO_STATES, "nested": NESTED, "beside": BESIDE}
PROGRAMS |= {"walk": WALK, "triangle": TRIANGLE}
LEFT = {"shuffle": 0, "two states": 0, "nested": 0, "beside": 2}  # loops of the launcher
LEFT |= {"walk": 0, "triangle": 0}


def made(name: str, n: int, m: int, dtype: str = "float") -> Problem:
    text = PROGRAMS[name].replace("T(", f"{dtype}(")
    x: tuple[Array, ...] = (RNG.standard_normal((n, m)),)
    if name in ("two states", "walk", "triangle"):
        x = (x[0][:, 0],)
    if name == "shuffle":
        x = x[0][:, 0], np.array([RNG.integers(i, n) for i in range(n)], np.int32)
    return problem(text, x[0].astype({"float": "float32"}.get(dtype, dtype)), *x[1:])


KEPT = {
    "walk": {"level_kept", "trend_kept", "at_kept"}, "shuffle": {"first_kept"},
    "beside": {"last_kept"},
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("exact", [True, False])
def test_a_loop_whose_turns_are_points_is_one_phase(name: str, exact: bool) -> None:
    p = made(name, 5, 400)
    spec = spec_of(p, exact=exact)
    lower = compiler.lower if exact else compiler.lower_generic
    unit = lower(p.program, spec, Config(), detect(), p.sizes, "k")
    (exe,) = unit.executables
    spans = [(x.first, x.last) for x in exe.loops]
    assert len(spans) == LEFT[name], spans
    assert all(x < y for x, y in spans[-1:]), "loops that are left keep their places, no more"
    functions = {f.name: f for f in unit.functions}
    joined = [f for f in unit.functions if "_loop" in f.name]
    called = {e.function for f in joined for e in all_exprs(f.body) if isinstance(e, Call)}
    if name in KEPT:  # as text, whose numbers stay in registers
        turns = [s for f in joined for s in walk_stmt(f.body) if isinstance(s, For)]
        kept = [s.place for f in turns for s in walk_stmt(f) if isinstance(s, Assign)]
        assert not called & functions.keys()
        assert {p.name for p in kept if isinstance(p, Var)} >= KEPT[name]
        return
    points = [functions[name] for name in called & functions.keys()]
    pointers = [s.var.type for f in points for s in walk_stmt(f.body) if isinstance(s, Let)]
    assert len(points) > 1
    assert not any(isinstance(t, Pointer) and t.restrict for t in pointers)


SHAPES = ((7, 5), (17, 33), (1, 1), (3, 1))


@pytest.mark.cc
@pytest.mark.parametrize("name", PROGRAMS)
@sampled("exact", [False, True], keep=1)
def test_they_mean_what_the_text_says(name: str, exact: bool) -> None:
    differential([Case(made(name, *shape), exact) for shape in SHAPES], terms=64)


@pytest.mark.cc
def test_without_turns_a_number_may_not_exist() -> None:
    text = """def f(float(N) X) -> (y) {
      y(n) = X(n)
      for t in 0:N { y(0) = y(0) + X(t) }
    }"""
    p = problem(text, np.zeros(0, np.float32))
    spec = spec_of(p, exact=False)
    unit = compiler.lower_generic(p.program, spec, Config(), detect(), p.sizes, "k")
    loop = next(f for f in unit.functions if "_loop" in f.name)
    (begun,) = (s for s in sub_stmts(loop.body) if isinstance(s, If))
    assert isinstance(begun.then, If)  # there are some
    fields = [e for e in all_exprs(begun) if isinstance(e, Field)]
    assert not any("turn" in e.text for e in fields)  # a turn that nobody else is told
    differential([Case(p, exact) for exact in (True, False)])


@pytest.mark.wide
@pytest.mark.cc
def test_they_mean_the_same_in_doubles() -> None:
    differential([Case(made(x, 9, 4, "double"), False) for x in PROGRAMS], terms=64)


@pytest.mark.cc
@pytest.mark.parametrize("exact", [True, False])
def test_a_point_outside_ends_the_loop(exact: bool) -> None:
    p = made("shuffle", 9, 1)
    p.args[1][4] = 9
    with pytest.raises(BoundsError, match="9 of 9"):
        run_cases([Case(p, exact)])
