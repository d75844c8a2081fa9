"""Rows side by side whose types have several widths: the compiler's vectors, no explicit ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Case, Problem, differential, problem, spec_of
from tests.tiers import sampled

pytestmark = pytest.mark.cc

SHAPES = [(3, 70), (21, 5), (1, 4), (0, 6), (5, 0), (9, 2100)]


def described(p: Problem, *, exact: bool = True) -> str:
    spec = spec_of(p, exact=exact)
    return compiler.describe(p.program, spec, Config(), detect(), p.sizes)[0][1]


def numbers(rng: np.random.Generator, dtype: str, *shape: int) -> Any:
    if dtype == "bool":
        return rng.random(shape) < 0.1
    values = rng.integers(0 if dtype.startswith("u") else -100, 100, shape)
    return values.astype(dtype)


def ways(p: Problem, split: tuple[bool, ...] = (False, True)) -> list[Case]:
    configs = [Config.of({"g0.walk": "columns", "g0.split": s}) for s in split]
    return [Case(p, exact, c) for exact in (True, False) for c in (Config(), *configs)]


FOLDS = {
    "wide sum": ("int32", "int64(M) O", "O(j) +=! int64(X(i,j))"),
    "bytes to words": ("uint8", "int32(M) O", "O(j) +=! int32(X(i,j)) * j"),
    "least byte": ("int8", "int8(M) O", "O(j) min=! X(i,j)"),
    "wrapping": ("int16", "int16(M) O", "O(j) +=! X(i,j)"),
    "any": ("bool", "bool(M) O", "O(j) max=! X(i,j)"),
    "count": ("float32", "int32(M) O", "O(j) +=! int32(X(i,j) > 1.0)"),
    "double": ("float32", "float(M) O", "s(j) +=! double(X(i,j))  O(j) = float(s(j) / (N + 1))"),
    "two": ("int8", "int8(M) O, int64(M) P", "O(j) max=! X(i,j)  P(j) +=! int64(X(i,j))"),
}


@sampled("name", FOLDS, keep=2)
def test_folds_along_columns(name: str, rng: np.random.Generator) -> None:
    dtype, returns, body = FOLDS[name]
    text = f"def f({dtype.replace('float32', 'float')}(N,M) X) -> ({returns}) {{ {body} }}"
    problems = [problem(text, numbers(rng, dtype, *s)) for s in SHAPES]
    assert "column" in described(problems[0])
    differential([c for p in problems for c in ways(p)], terms=40)


def test_nan_goes_through_an_extreme(rng: np.random.Generator) -> None:
    text = """def f(float(N,M) X) -> (float(M) O, int64(M) n) {
        O(j) max=! X(i,j)  n(j) +=! int64(X(i,j) > 0)
    }"""
    x = rng.normal(size=(19, 37)).astype(np.float32)
    x[3, 5] = x[18, 0] = np.nan
    x[:, 7] = -np.inf
    p = problem(text, x)
    assert "column" in described(p)
    differential(ways(p))


ROWS = {
    "centred": """def f(float(N,K,M) X) -> (float(N,K,M) O, double(N,M) m) {
        m(n,j) +=! double(X(n,i,j)) / (K + 1)
        O(n,i,j) = float(double(X(n,i,j)) - m(n,j)) * i
    }""",
    "chosen": """def f(float(N,K,M) X) -> (float(N,K,M) O, n) {
        n(b,j) +=! int64(X(b,i,j) > 0)
        r(b,j) = n(b,j) > 2 ? float(n(b,j)) : 0.5
        O(b,i,j) = i > 0 ? X(b,i,j) / r(b,j) + X(b,i-1,j) : 0.0 where i in 0:K
    }""",
    "halves": """def f(float16(N,K,M) X) -> (float16(N,K,M) O) {
        m(n,j) +=! double(X(n,i,j))
        e(n,i,j) = double(X(n,i,j)) * 0.5
        s(n,j) max=! e(n,i,j) + m(n,j)
        O(n,i,j) = float16(float(e(n,i,j) - s(n,j)))
    }""",
}


@sampled("name", ROWS, keep=1)
def test_rows_of_several_sweeps(name: str, rng: np.random.Generator) -> None:
    dtype = "float16" if name == "halves" else "float32"
    problems = [problem(ROWS[name], numbers(rng, dtype, 2, *s)) for s in SHAPES]
    assert "along columns" in described(problems[0])
    assert "along columns" in described(problems[0], exact=False)
    differential([c for p in problems for c in ways(p, split=(False,))], terms=40)


@pytest.mark.wide
def test_onto_what_is_there_and_any_layout(rng: np.random.Generator) -> None:
    text = "def f(int8(N,M) X) -> (int64(M) O) { O(j) += int64(X(i,j)) }"
    x = numbers(rng, "int8", 30, 100)
    for given in (x, x[::-1, ::2], x.T, np.broadcast_to(x[:1], x.shape)):
        differential(ways(problem(text, given)))
