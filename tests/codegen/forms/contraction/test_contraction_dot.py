"""The dot form of contractions in configs that no analytic schedule chooses."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.forms.contraction.test_contraction import forms
from tests.codegen.harness import Case, Problem, differential, problem, spec_of
from tests.codegen.under_configs import held
from tests.tiers import sampled

pytestmark = pytest.mark.cc

NT = "def mm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"


@sampled("tile", ["5x2", "6x4", "1x1"], keep=1)
def test_blocks_whose_rows_leave_a_remainder_of_their_own(tile: str) -> None:
    tile = held(tile)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s, dtype=np.float32) for s in ((100, 40), (37, 40)))
    p = problem(NT, a, b)
    default = compiler.default_config(p.program, spec_of(p, exact=True), detect(), p.sizes)
    cases = [
        Case(
            p,
            exact=True,
            config=Config.of(
                {**dict(default.items), "g0.method": "dot", "g0.tile": tile, "g0.rows": rows}
            ),
        )
        for rows in (1, 2, 3)
    ]
    differential(cases, terms=40)


NN = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
RELU = """def mm(float(M,K) A, float(K,N) B, float(N) D) -> (C) {
  C(m,n) +=! A(m,k) * B(k,n)
  C(m,n) = fmax(C(m,n) + D(n), 0)
}"""
BATCH = "def mm(float(S,M,K) A, float(S,K,N) B) -> (C) { C(s,m,n) +=! A(s,m,k) * B(s,k,n) }"
HALVES = "def mm(float(M,K) A, float16(K,N) B) -> (C) { C(m,n) +=! A(m,k) * float(B(k,n)) }"
# rows, terms, columns: one, primes, whole vectors and groups, nothing
FEW = [
    *((1, 1, 1), (1, 129, 2), (5, 17, 1), (8, 64, 8), (101, 40, 3), (33, 129, 7), (0, 9, 1)),
    *((257, 1000, 1), (19, 0, 2), (96, 512, 4), (97, 521, 5), (3, 33, 0)),
]


def few(text: str, m: int, k: int, n: int) -> Problem:
    """Return a product of random factors, columns of b further apart than they are long."""
    rng = np.random.default_rng(m + k + n)
    batch = (3,) if "S," in text else ()
    a = rng.standard_normal((*batch, m, k), dtype=np.float32)
    b = rng.standard_normal((*batch, k, n + 3), dtype=np.float32)[..., :n]
    b = b.astype(np.float16) if "float16" in text else b
    bias = (rng.standard_normal(n, dtype=np.float32),) if "D" in text else ()
    return problem(text, a, b, *bias)


TEXTS = [pytest.param(NN, marks=pytest.mark.wide), RELU, BATCH, HALVES]


@sampled("text", TEXTS, ids=["nn", "relu", "batch", "half"], keep=1)
def test_few_columns_are_turned_around(text: str) -> None:
    problems = [few(text, *sizes) for sizes in FEW]
    large = few(text, 257, 1000, 2)
    assert "contraction dot" in forms(large, exact=True)[0]
    assert "or dot" in forms(large, exact=False)[0]
    differential([Case(p, exact) for p in problems for exact in (True, False)], terms=1000)


@sampled("whole", [False, True], ids=["one", "all"], keep=1)
def test_few_columns_of_long_ones_are_the_rows_of_tiles(whole: bool) -> None:
    """Of `A(k,m) * B(k,n)` vectors run along m, where n fills less of one."""
    lanes = detect().vector_bytes // 4
    text = "def mm(float(K,M) A, float(K,N) B) -> (C) { C(m,n) +=! A(k,m) * B(k,n) }"
    relu = text.replace(" }", "  C(m,n) = fmax(C(m,n) * 2, 0) }")
    rng = np.random.default_rng(3)
    problems = [
        problem(t, *(rng.standard_normal((k, x), dtype=np.float32) for x in (m, n)))
        for t in (text, relu)
        for m, k, n in (
            (257, 40, 3),
            (lanes, 7, 1),
            (lanes - 1, 7, 3),
            (2 * lanes - 1, 129, lanes - 3),
            (40, 0, 5),
            (40, 9, lanes * 7 // 8),
        )
    ]
    for p, side in zip(problems, "AABAAB", strict=False):
        exact, generic = (spec_of(p, exact=exact) for exact in (True, False))
        default = compiler.default_config(p.program, exact, detect(), p.sizes)
        for_all, _ = compiler.generic_choice(p.program, generic, detect(), p.sizes)
        assert default.get("g0.columns") == for_all.get("g0.columns") == side
    cases = [Case(p, exact) for p in problems for exact in (True, False)]
    differential(cases if whole else cases[2:3], terms=129)


def test_any_number_of_columns_may_be_turned_around() -> None:
    p = few(NN, 50, 40, 37)
    default = compiler.default_config(p.program, spec_of(p, exact=True), detect(), p.sizes)
    dots = {**dict(default.items), "g0.method": "dot"}
    cases = [
        Case(p, exact=True, config=Config.of({**dots, "g0.cols": cols, "g0.rows": rows}))
        for rows, cols in ((1, 1), (2, 3), (3, 2))
    ]
    differential(cases, terms=40)
