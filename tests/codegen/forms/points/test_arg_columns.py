"""Arg reductions of columns: blocks of neighbours, searched side by side."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.points import arg_columns
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Array, Case, Problem, differential, problem, spec_of

RNG = np.random.default_rng(6)
COLUMNS = "def f(T(N,M) X) -> (O) { O(m) argmax=! X(n, m) }"
TEXTS = [
    COLUMNS,
    "def f(T(N,M) X) -> (O) { O(m) argmin=! X(n, m) where n in 1:N }",
    "def f(T(A,N,M) X) -> (O) { O(a, m) argmax=! X(a, n, m) }",
    "def f(T(A,N,M) X) -> (O) { O(m) argmin=! X(a, n, m) * 2 - X(0, 0, m) }",
]


def values(dtype: str, *shape: int) -> Array:
    name = {"float": "float32", "double": "float64"}.get(dtype, dtype)
    return RNG.integers(-5, 6, shape).astype(name)


def case(text: str, dtype: str, n: int, m: int, *, exact: bool) -> Case:
    shape = (3, n, m) if "(A,N,M)" in text else (n, m)
    return Case(problem(text.replace("T(", f"{dtype}("), values(dtype, *shape)), exact)


def title(p: Problem) -> str:
    ((_, told),) = compiler.describe(p.program, spec_of(p, exact=True), Config(), detect(), p.sizes)
    return told


def test_columns_have_their_form_and_few_of_them_do_not() -> None:
    told = [title(case(COLUMNS, "float", 9, m, exact=True).problem) for m in (40, 3)]
    assert told == ["g0: arg reduction of columns", "g0: nest"]


@pytest.mark.cc
def test_the_first_of_equals_wins() -> None:
    differential([case(COLUMNS, "float", 33, 150, exact=exact) for exact in (True, False)])


@pytest.mark.cc
def test_blocks_of_other_widths_find_the_same() -> None:
    p = case(COLUMNS, "float", 9, 150, exact=True).problem
    differential([Case(p, True, Config.of({"g0.block": n})) for n in (32, 64)])


@pytest.mark.cc
def test_places_are_wider_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arg_columns, "_MOST", 20)  # positions of narrow places
    differential([case(COLUMNS, "float", n, 150, exact=False) for n in (19, 20, 33)])


@pytest.mark.wide
@pytest.mark.cc
@pytest.mark.parametrize("text", TEXTS)
def test_results_are_those_of_the_text(text: str) -> None:
    cases = [
        case(text, dtype, n, m, exact=exact)
        for dtype in ("float", "double", "int32", "uint8", "float16")
        for n, m in ((33, 150), (2, 128), (1, 257), (4, 9))
        for exact in (True, False)
    ]
    cases += [case(text, "float", 5, 0, exact=exact) for exact in (True, False)]
    if "where" not in text:
        cases += [case(text, "float", 0, 20, exact=exact) for exact in (True, False)]
    differential(cases)


@pytest.mark.deep
@pytest.mark.cc
def test_nan_wins_and_strides_count() -> None:
    x = values("float", 40, 300)
    x[7, ::3], x[20, ::3], x[4, ::5], x[9, ::7] = np.nan, np.nan, np.inf, -np.inf
    cases = []
    for text in TEXTS[:2]:
        for view in (x, x[::2, 1:], x[::-1], x[:, ::2], np.broadcast_to(x[:1], (7, 300))):
            p = problem(text.replace("T(", "float("), view)
            cases += [Case(p, exact) for exact in (True, False)]
    differential(cases)
