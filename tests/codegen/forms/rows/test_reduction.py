"""Reductions against the reference: directions, parts, operators, types, accuracy, threads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.choose import compiler, forms
from tcdsl.codegen.forms.points import nest
from tcdsl.codegen.forms.rows.cpu import pointwise, reduction, rows
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.text.errors import InternalError, ShapeError
from tcdsl.grammar.types.dtypes import ALL
from tests.codegen.harness import Array, Case, differential, problem, run_cases, spec_of
from tests.codegen.under_configs import cases_under
from tests.tiers import sampled

ROWS = "def f(float(N,M) A, float(M) w) -> (O) { s(n) +=! A(n,m) * w(m)  O(n) = s(n) / M + n }"
COLUMNS = "def f(float(N,M) A, float(N) w) -> (O) { s(m) +=! A(n,m) * w(n)  O(m) = s(m) * 2 - m }"
MIDDLE = "def f(float(N,K,M) A) -> (O) { O(n,m) max=! A(n,k,m) }"
TOTAL = "def f(float(N,M) A) -> (O) { O +=! A(n,m) * A(n,m) }"
TOTALS = "def f(float(N,M) A) -> (O, P, Q) { O +=! A(n,m)  P max=! A(n,m)  Q = P - O / N }"
PLANES = "def f(float(N,C,H,W) A) -> (O, P) { O(c) +=! A(n,c,h,w)  P(c) max=! A(n,c,h,w) }"
WALKS: list[Mapping[str, Value]] = [
    {"g0.walk": "rows", "g0.split": False},
    {"g0.walk": "rows", "g0.split": True},
    {"g0.walk": "columns", "g0.split": False},
    {"g0.walk": "columns", "g0.split": True},
    {"g0.walk": "rows", "g0.split": True, "g0.vectors": False},
]


@pytest.fixture(autouse=True)
def _only_reductions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        forms,
        "CPU",
        (
            pointwise.FORM,
            reduction.FORM,
            rows.FORM,
            nest.FORM,
        ),
    )


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def cases_of(
    *texts_and_args: tuple[object, ...], configs: Sequence[Mapping[str, Value]] = WALKS
) -> list[Case]:
    """Return every problem under every direction that it has, exact and generic."""
    problems = [problem(str(text), *args) for text, *args in texts_and_args]
    return [c for p in problems for c in cases_under(p, configs)]


@pytest.mark.cc
@sampled("shapes", [[(2, 500)], [(3, 17), (1, 1), (0, 3), (3, 0)]], ids=["usual", "ends"], keep=0)
def test_along_rows(shapes: list[tuple[int, int]], rng: np.random.Generator) -> None:
    differential(cases_of(*((ROWS, normal(rng, *s), normal(rng, s[1])) for s in shapes)), terms=500)


@pytest.mark.cc
def test_rows_of_any_length_have_one_executable(rng: np.random.Generator) -> None:
    shapes = ((1, 1), (3, 17), (0, 3), (3, 0))
    problems = [problem(ROWS, normal(rng, *s), normal(rng, s[1])) for s in shapes]
    differential([Case(p, exact=False) for p in problems], terms=17)


@pytest.mark.cc
@sampled("shapes", [[(37, 19), (3, 0)], [(1, 1), (9, 2100), (0, 3)]], keep=1)
def test_along_columns(shapes: list[tuple[int, int]], rng: np.random.Generator) -> None:
    problems = ((COLUMNS, normal(rng, *s), normal(rng, s[0])) for s in shapes)
    differential(cases_of(*problems), terms=40)


@pytest.mark.wide
@pytest.mark.cc
def test_middle_total_and_planes(rng: np.random.Generator) -> None:
    problems = [
        (MIDDLE, normal(rng, 3, 11, 35)),
        (TOTAL, normal(rng, 7, 700)),
        (TOTAL, normal(rng, 0, 4)),
        (TOTALS, normal(rng, 7, 701)),
        (PLANES, normal(rng, 2, 3, 5, 7)),
        (TOTAL, np.zeros((6, 900), np.float32)[:, ::3] + 1),
        (MIDDLE, normal(rng, 5, 4, 3)[::-1].transpose(0, 2, 1)),
    ]
    differential(cases_of(*problems), terms=5000)


@pytest.mark.cc
@sampled("op", ["+=!", "*=!", "min=!", "max=!"], keep=1)
@sampled("first", range(3), keep=1)
def test_every_operator_and_type(op: str, first: int, rng: np.random.Generator) -> None:
    problems = []
    for d in [d for d in ALL if d.name != "bool"][first::3]:
        dtype = numpy_dtype(d)
        text = f"def f({d.name}(N,M) A) -> (O, P) {{ O(n) {op} A(n,m)  P(m) {op} A(n,m) }}"
        a = rng.integers(1, 4, (3, 21)) if d.is_float else rng.integers(0, 120, (3, 21))
        problems.append((text, a.astype(dtype)))
    differential(cases_of(*problems, configs=({}, {"g0.vectors": False})), terms=40)


@pytest.mark.cc
def test_min_and_max_hand_nan_on_wherever_it_stands(rng: np.random.Generator) -> None:
    text = "def f(float(N,M) A) -> (O, P) { O(n) max=! A(n,m)  P(m) min=! A(n,m) }"
    problems = []
    for at in (0, 5, 31, 32, 63, 66):
        a = normal(rng, 4, 67)
        a[1, at] = np.nan
        a[2, at], a[3, at] = np.inf, -np.inf
        problems.append((text, a))
    problems.append((text, np.full((3, 40), -np.inf, np.float32)))
    differential(cases_of(*problems, configs=({}, {"g0.vectors": False})))


@pytest.mark.cc
@sampled("configs", [WALKS[:1], WALKS[1:]], ids=["one", "others"], keep=1)
def test_products_go_in_vectors(
    configs: list[Mapping[str, Value]], rng: np.random.Generator
) -> None:
    text = "def f(float(N,M) A) -> (O) { O(n) *=! A(n,m) }"
    a = rng.uniform(0.8, 1.2, (4, 67)).astype(np.float32)
    a[1, 66], a[2, 31], a[3, 5] = np.nan, np.inf, -0.0
    differential(cases_of((text, a), configs=configs), terms=200)


@pytest.mark.cc
@pytest.mark.deep
def test_products_of_any_length_hand_on_what_is_not_a_number(rng: np.random.Generator) -> None:
    text = "def f(float(N,M) A) -> (O, P) { O(n) *=! A(n,m)  P(m) *=! A(n,m) }"
    rows_only = "def f(float(N,M) A) -> (O) { O(n) *=! A(n,m) }"
    problems: list[tuple[object, ...]] = []
    for shape in ((3, 1), (1, 67), (5, 200), (2, 0)):
        a = rng.uniform(0.8, 1.2, shape).astype(np.float32)
        problems += [(text, a), (rows_only, a)]
    for at, value in ((0, np.nan), (66, np.nan), (31, np.inf), (64, -0.0), (5, 0.0)):
        a = rng.uniform(0.8, 1.2, (4, 67)).astype(np.float32)
        a[1, at] = value
        problems.append((rows_only, a))
    strided = rng.uniform(0.9, 1.1, (90, 300)).astype(np.float32)
    problems += [(rows_only, strided[::-3, ::2]), (rows_only, strided.T)]
    differential(cases_of(*problems), terms=200)


@pytest.mark.cc
def test_updates_start_from_what_the_output_holds(rng: np.random.Generator) -> None:
    text = "def f(float(N,M) A) -> (O) { O(n) += A(n,m) }"
    cases = []
    for c in WALKS:
        p = problem(text, normal(rng, 5, 40), outs=[normal(rng, 5)])
        cases.append(Case(p, True, Config.of(c)))
    differential(cases, terms=40)


@pytest.mark.cc
@sampled("exact", [False, True], keep=1)
def test_a_sum_is_the_same_at_any_number_of_threads(exact: bool, rng: np.random.Generator) -> None:
    whole = problem(TOTAL, normal(rng, 300, 1000))
    columns = problem(COLUMNS, normal(rng, 3000, 70), normal(rng, 3000))
    totals = problem(TOTALS, normal(rng, 300, 1000))
    for p in (whole, columns, totals):
        runs = run_cases([Case(p, exact, threads=t) for t in (1, 2, 5)])
        assert len({r[0].tobytes() for r in runs}) == 1


@pytest.mark.cc
@pytest.mark.parametrize("text", [COLUMNS, MIDDLE])
def test_columns_of_any_sizes_have_the_parts_of_known_ones(
    text: str, rng: np.random.Generator
) -> None:
    """One part whose task finishes it, or some that a second phase combines."""
    shapes = [(3, 5), (290, 513), (40_000, 4), (18, 8191), (17, 8192)]  # the last is never split
    outer = [2] if text == MIDDLE else []
    arrays = [normal(rng, *outer, *shape) for shape in shapes]
    found = [problem(text, a, *([normal(rng, len(a))] if text == COLUMNS else ())) for a in arrays]
    known = [Case(p, exact=True) for p in found]
    unknown = [Case(p, exact=False, of_call=True) for p in found]
    differential(unknown, terms=40_000)
    for one, other in zip(run_cases(known), run_cases(unknown), strict=True):
        np.testing.assert_array_equal(one[0], other[0])


@pytest.mark.cc
def test_long_sums_are_formed_in_blocks() -> None:
    # one accumulator after the other would lose a tenth of a million ones added to 2^24
    a = np.full((1, 1 << 20), np.float32(0.1))
    p = problem("def f(float(N,M) A) -> (O) { O(n) +=! A(n,m) }", a)
    exact_sum = float(np.float32(0.1)) * (1 << 20)
    for c in WALKS[:2]:
        (out,) = run_cases([Case(p, True, Config.of(c))])[0]
        assert abs(out[0] / exact_sum - 1) < 4e-6


@pytest.mark.parametrize(
    ("op", "dtype", "parts"), [("+", "float", 15), ("*", "float", 4), ("*", "int32", 15)]
)
def test_products_of_floats_go_in_fewer_parts(op: str, dtype: str, parts: int) -> None:
    text = f"def f({dtype}(N) A) -> (O) {{ O {op}=! A(i) }}"
    p = problem(text, np.ones(1_000_000, {"float": np.float32, "int32": np.int32}[dtype]))
    machine, spec = detect(), spec_of(p, exact=True)
    config = Config.of({"g0.split": True})
    emitted = compiler.emit_c(compiler.lower(p.program, spec, config, machine, p.sizes, "f"))
    assert f"plan->tasks[0] = {parts};" in emitted


def test_what_is_larger_than_a_cache_costs_more_a_point() -> None:
    machine = replace(detect(), l2_bytes=1 << 20)
    p = problem("def f(float(N) A) -> (float(N) O) { O(i) = A(i) + 1 }", np.ones(8, np.float32))
    spec = spec_of(p, exact=False)
    config = compiler.default_config(p.program, spec, machine, p.sizes)
    text = compiler.emit_c(compiler.lower(p.program, spec, config, machine, p.sizes, "f"))
    found = re.search(r"N > (\d+) \? ([0-9.]+) : ([0-9.]+)", text)
    assert found
    limit, beyond, within = map(float, found.groups())
    assert limit == (1 << 20) / 8
    assert beyond > 2 * within


@pytest.mark.parametrize("m", [31, 60])
def test_sizes_that_no_call_has_are_not_lowered(m: int) -> None:
    """Loops of less than no turns would run: `bind` refuses such sizes, so that none come here."""
    text = "def f(float(N) A, float(M) B) -> (T) { T +=! A(p) where p in M:N }"
    args = np.ones(30, np.float32), np.ones(m, np.float32)
    kernel: Any = tc.define(text, tune="off")
    with pytest.raises(ShapeError, match="the range of 'p' would have N - M values"):
        kernel(*args)
    p = problem(text, *args)
    message = f"f: of N=30 M={m} the range of 'p' has {30 - m} values"
    with pytest.raises(InternalError, match=message):
        compiler.lower(p.program, spec_of(p, exact=True), Config(), detect(), p.sizes, "k")
