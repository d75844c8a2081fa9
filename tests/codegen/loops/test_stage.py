"""Loops over subscripts from data: copies in blocks, of which the compiler makes vectors."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.loops.stage import BLOCK
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain import cc
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Array, Case, Problem, differential, problem, spec_of

SUM = "def f(float(N) X, int32(B) I) -> (O) { O +=! pad(X(I(b)), 0) }"
ELEMENTS = "def f(float(N) X, int32(B) I) -> (O) { O(b) = exp(pad(X(I(b)), 0)) }"
ALONG = "def f(float(N,D) X, int32(B,D) I) -> (O) { O(b,d) = pad(X(I(b,d), d), 0) }"
FIXED = """def f(float(N,N) X, int32(B) I, int32(D) J) -> (O) {
    O(b,d) = pad(X(I(b), J(d)), 0) * 2 }"""
SHIFTED = """def f(float(N) X, int32(B) I) -> (O) {
    O(b) = pad(X(I(b)), 0) - pad(X(I(b + 1)), 0) where b in 0:B-1 }"""
NESTED = """def f(float(N) X, int32(B) I, int32(B) J) -> (O) {
    O(b) = pad(X(pad(J(I(b)), 0)), 0) }"""
SHORT = "def f(float(N) X, int32(B,L) I) -> (O) { O(b) +=! pad(X(I(b,l)), 0) }"
LENGTHS = (0, 1, 31, 32, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK + 17)

EXACT = (BLOCK, 3 * BLOCK + 17)


def rows(rng: np.random.Generator, *shape: int, outside: int = 2) -> Array:
    return rng.integers(-outside, 40 + outside, shape).astype(np.int32)


def values(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-8, 8, shape).astype(np.float32)


def text_of(p: Problem, *, exact: bool = True) -> str:
    unit = compiler.lower(
        p.program, spec_of(p, exact=exact, threads=1), Config(), detect(), p.sizes, "k"
    )
    return compiler.emit_c(unit)


def test_reads_are_copied_and_no_loop_of_points_has_one(rng: np.random.Generator) -> None:
    for text in (SUM, ELEMENTS):
        for exact in (True, False):
            made = text_of(problem(text, values(rng, 40), rows(rng, 1000)), exact=exact)
            assert "tc_peek_i32(I" in made
            assert "tc_settle" in made
            assert "tc_once_" not in made


def test_what_does_not_change_along_a_loop_is_read_before_it(rng: np.random.Generator) -> None:
    args = values(rng, 40, 40), rows(rng, 50), rows(rng, 600)
    body = text_of(problem(FIXED, *args)).split("#pragma omp simd")
    assert "tc_once_i32(I" in body[0]
    assert all("tc_once_" not in part for part in body[1:])


def test_loops_that_cannot_have_copies_are_not_said_to_be_vectors(
    rng: np.random.Generator,
) -> None:
    nested = text_of(problem(NESTED, values(rng, 40), rows(rng, 100), rows(rng, 100)))
    short = text_of(problem(SHORT, values(rng, 40), rows(rng, 100, 8)))
    for text in (nested, short):
        assert "tc_once_" in text
        assert "omp simd" not in text


@pytest.mark.cc
def test_copies_of_any_length(rng: np.random.Generator) -> None:
    cases = []
    for n in LENGTHS:
        for text in (SUM, ELEMENTS):
            p = problem(text, values(rng, 40), rows(rng, n))
            cases += [Case(p, exact=exact) for exact in (False, *([True] * (n in EXACT)))]
    two = problem(FIXED, values(rng, 40, 40), rows(rng, 3), rows(rng, BLOCK + 5))
    shifted = problem(SHIFTED, values(rng, 40), rows(rng, 2 * BLOCK + 1))
    along = problem(ALONG, values(rng, 40, 300), rows(rng, 3, 300))
    cases += [Case(p, exact=exact) for p in (two, shifted, along) for exact in (True, False)]
    differential(cases, terms=1000)


@pytest.mark.cc
@pytest.mark.parametrize("text", [SUM, ELEMENTS])
def test_such_loops_are_vectors(text: str, rng: np.random.Generator, tmp_path: Path) -> None:
    found = cc.find_compiler()
    if found.kind != "gcc" or detect().isa not in ("avx512", "avx2"):
        pytest.skip("gcc tells which loops are vectors, of gathers on AVX2 and AVX-512")
    made = text_of(problem(text, values(rng, 40), rows(rng, 5000)))
    (tmp_path / "k.c").write_text(made)
    folder = cc.INCLUDES
    done = subprocess.run(
        [*found.command, "-O3", *found.flags, "-mtune=haswell", "-fopt-info-vec", f"-I{folder}",
         "-c", "k.c", "-o", "k.o"],  # Zen 1, for one, gathers as slowly as it loads one by one
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = {int(n) for n in re.findall(r"k\.c:(\d+):\d+: optimized: loop vectorized", done.stderr)}
    body = made.splitlines()
    points = next(n for n, line in enumerate(body, 1) if "= staged[k]" in line)
    assert any(points - 3 <= n < points for n in lines), done.stderr
