"""Rows and folds across them as one group: against the reference, and bit by bit against two."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.types.dtypes import BY_NAME
from tests.codegen.harness import Array, Case, Problem, differential, problem, run_cases, spec_of

NORM = """
def f(T(B,N) X, T(B,N) dY, T(N) g, T(B) m, T(B) r) -> (dX, dg, db) {
  a(b) +=! dY(b,n) * g(n)
  c(b) +=! dY(b,n) * g(n) * (X(b,n) - m(b)) * r(b)
  dX(b,n) = r(b) * (dY(b,n) * g(n) - (a(b) + (X(b,n) - m(b)) * r(b) * c(b)) / N)
  dg(n) +=! dY(b,n) * (X(b,n) - m(b)) * r(b)
  db(n) +=! dY(b,n)
}
"""
# What rows make is folded across them: a value per point, and one per row.
MADE = """
def f(float(B,N) X) -> (Y, O, P) {
  m(b) max=! X(b,n)
  Y(b,n) = exp(X(b,n) - m(b))
  O(n) +=! Y(b,n) * m(b)
  P(n) max=! Y(b,n)
}
"""
# Not these: another row is read, a part of the rows is, a column is.
OTHERS = [
    MADE.replace("O(n) +=! Y(b,n) * m(b)", "O(n) +=! Y(b,n) * X(B-1-b,n)"),
    MADE.replace("P(n) max=! Y(b,n)", "P(n) max=! Y(b,n) where b in 1:B"),
    MADE.replace("O(n) +=! Y(b,n) * m(b)", "O(n) +=! Y(b,n) * X(n,b)"),
]


def rand(rng: np.random.Generator, *shape: int, dtype: str = "float32") -> Array:
    return rng.uniform(-1, 1, shape).astype(numpy_dtype(BY_NAME[dtype]))


def norm(rng: np.random.Generator, rows: int, n: int, dtype: str = "float32") -> Problem:
    shapes = (rows, n), (rows, n), (n,), (rows,), (rows,)
    text = NORM.replace("T(", f"{dtype}(")
    return problem(text, *(rand(rng, *s, dtype=dtype) for s in shapes))


def made(rng: np.random.Generator, rows: int, n: int) -> Problem:
    return problem(MADE, rand(rng, rows, n))


def form_of(p: Problem, *, exact: bool = True, threads: int = 2) -> str:
    spec = spec_of(p, exact=exact, threads=threads)
    groups = next(iter(compiler.choices(p.program, spec, detect(), p.sizes).values()))
    return next(iter(groups[-1])).name


def under(p: Problem, **values: int | bool) -> Case:
    return Case(p, True, Config.of({f"g0.{k}": v for k, v in values.items()}))


@pytest.mark.cc
def test_rows_and_folds_across_them_are_the_references(rng: np.random.Generator) -> None:
    cases = [
        under(norm(rng, 1803, 149)),  # neither whole vectors nor whole turns of rows
        under(norm(rng, 1803, 149), stream=True),
        under(made(rng, 261, 1031), rows=16, unroll=1, prefetch=False),
    ]
    assert [form_of(c.problem) for c in cases] == ["crossed"] * 3
    differential(cases, terms=2000)


@pytest.mark.cc
def test_sums_are_those_of_two_groups_at_any_number_of_threads(rng: np.random.Generator) -> None:
    p = norm(rng, 1803, 149)
    assert [form_of(p, threads=t) for t in (1, 2, 3)] == ["crossed", "crossed", "reduction"]
    apart = Case(p, True, Config.of({"partition": "fused"}))
    others = [Case(p, True, threads=t) for t in (1, 3)]
    runs = run_cases([Case(p, True), apart, *others, under(p, rows=32)])
    assert len({tuple(o.tobytes() for o in outs) for outs in runs}) == 1


@pytest.mark.cc
def test_rows_of_any_length_are_one_group_with_their_folds(rng: np.random.Generator) -> None:
    """And fall in two where they are short, or few: those have an executable of their own."""
    sizes = [(1803, 149), (4099, 65), (4099, 64), (3, 149)]
    problems = [norm(rng, *s) for s in sizes]
    differential([Case(p, exact=False) for p in problems], terms=4000)


@pytest.mark.cc
@pytest.mark.wide
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_types_of_other_widths(dtype: str, rng: np.random.Generator) -> None:
    p = norm(rng, 1803, 149, dtype)
    differential([Case(p, True), Case(p, False)], terms=2000)


@pytest.mark.cc
def test_operands_lie_as_they_like(rng: np.random.Generator) -> None:
    """Lines apart, backwards, repeated; turned around they are no rows, and fall in two."""
    wide, tall = rand(rng, 3606, 160), rand(rng, 149, 1803).T
    g, m, r = rand(rng, 298)[::-2], rand(rng, 1803), np.broadcast_to(np.float32(0.5), 1803)
    text = NORM.replace("T(", "float(")
    lines, turned = (problem(text, x, wide[1::2, :149], g, m, r) for x in (wide[::-2, 11:], tall))
    assert form_of(lines) == "crossed"
    differential([Case(lines, True), Case(lines, False), Case(turned, True)], terms=2000)


@pytest.mark.parametrize("text", OTHERS)
def test_folds_of_something_else_are_groups_of_their_own(
    text: str, rng: np.random.Generator
) -> None:
    p = problem(text, rand(rng, 600, 600))
    assert "crossed" not in compiler.choices(p.program, spec_of(p, exact=True), detect(), p.sizes)


@pytest.mark.parametrize("shape", [(0, 4096), (4096, 0), (300, 149), (9000, 64), (100, 9000)])
def test_few_short_and_far_rows_are_groups_of_their_own(
    shape: tuple[int, int], rng: np.random.Generator
) -> None:
    assert form_of(norm(rng, *shape)) != "crossed"
