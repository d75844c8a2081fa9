"""A condition that all terms of a sum of products share is asked once, behind the sum."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Array, Case, differential, problem, run_cases, spec_of
from tests.tiers import sampled

HEAD = "def f(float(M,K) A, float(N,K) B, float(M,N) C) -> "
STAYS = [
    # a condition that differs between terms, or reads; a read that only it keeps inside
    "(O) { O(i, j) +=! k <= i ? A(i, k) * B(j, k) : 0 }",
    "(O) { O(i, j) +=! C(i, j) > 0 ? A(i, k) * B(j, k) : 0 }",
    "(float(M,N) O) { O(i, j) +=! i > 0 ? A(i - 1, k) * B(j, k) : 0 }",
    "(O) { O(i, j) +=! j <= i ? A(i, k) * B(j, k) : 1 }",
]
SPLITS = [
    "(O) { O(i, j) +=! j <= i ? A(i, k) * B(j, k) : 0 }",
    "(O) { O(i, j) = C(i, j)  O(i, j) += j - 2 < i && i < 7 ? A(i, k) * B(j, k) : 0 }",
    "(O) { O(j, i) +=! j <= i ? A(i, k) * B(j, k) : 0 }",
    "(O) { for t in 0:3 { O(t, i, j) +=! j <= i + t ? A(i, k) * B(j, k) : 0 } }",
]


def arguments(rng: np.random.Generator, m: int, k: int, n: int) -> tuple[Array, ...]:
    shapes = (m, k), (n, k), (m, n)
    return tuple(rng.integers(-4, 5, s).astype(np.float32) for s in shapes)


@pytest.mark.parametrize("text", STAYS)
def test_other_conditions_stay_where_they_are(text: str, rng: np.random.Generator) -> None:
    program = problem(HEAD + text, *arguments(rng, 4, 5, 6)).program
    assert not any("_sum" in s.target for s in program.statements)


@pytest.mark.cc
@sampled("text", SPLITS, keep=1)
def test_sums_are_those_under_the_condition(text: str, rng: np.random.Generator) -> None:
    cases = []
    for sizes in ((9, 5, 11), (1, 1, 1), (3, 0, 4), (20, 33, 7)):
        p = problem(HEAD + text, *arguments(rng, *sizes))
        assert any("_sum" in s.target for s in p.program.statements)
        cases += [Case(p, exact) for exact in (True, False)]
    differential(cases, terms=40)


@pytest.mark.cc
def test_what_the_condition_excludes_is_not_seen(rng: np.random.Generator) -> None:
    a, b, c = arguments(rng, 12, 9, 12)
    b[7:] = np.nan
    p = problem(HEAD + SPLITS[0], a, b, c)
    ((got,),) = run_cases([Case(p, exact=True)])
    want = np.where(np.tri(12, dtype=bool), a @ b.T, 0)
    np.testing.assert_array_equal(got, want)


@pytest.mark.cc
def test_it_has_register_tiles(rng: np.random.Generator) -> None:
    p = problem(HEAD + SPLITS[0], *arguments(rng, 40, 40, 40))
    told = compiler.describe(p.program, spec_of(p, exact=True), Config(), detect(), p.sizes)
    assert "contraction panel" in told[0][1], told
