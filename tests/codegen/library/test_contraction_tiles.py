"""Contractions whose register tiles are the library's: epilogues behind them, who has its own.

Bits are held against each other, so kernels are compiled here as users have them.
"""

from __future__ import annotations

import shlex

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.contraction.library import Tiles
from tcdsl.codegen.loops.loopir import Vector
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.check.definition import check as check_types
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.dtypes import FLOAT32
from tests.codegen.assembly import held_in_registers
from tests.codegen.forms.contraction.test_contraction import (
    EPILOGUES,
    NN,
    NT,
    TN,
    TT,
    matmul,
    tensors,
)
from tests.codegen.harness import (
    Case,
    Problem,
    assert_same,
    differential,
    expected,
    rand,
    run_cases,
    spec_of,
)
from tests.codegen.native import compiler_of
from tests.tiers import sampled

pytestmark = pytest.mark.cc

OWN, SHARED = (Config.of({"g0.tiles": tiles}) for tiles in ("own", "library"))

# What tiles of the library go on from.
ADDED = {
    "a bias": (
        "def run(float(M,K) A, float(N,K) B, float(N) c) -> (C) "
        "{ T(m,n) +=! A(m,k) * B(n,k)  C(m,n) = T(m,n) + c(n) }"
    ),
    "a matrix": (
        "def run(double(M,K) A, double(K,N) B, double(M,N) R) -> (C) "
        "{ C(m,n) +=! A(m,k) * B(k,n)  C(m,n) = R(m,n) + C(m,n) }"
    ),
}

# Whose sums wait in the workspace or in the output, and what is added to them there.
FINISHED = {
    **EPILOGUES,
    **ADDED,
    "added to halves": (
        "def run(float16(M,K) A, float16(K,N) B) -> (float16(M,N) C) "
        "{ C(m,n) += A(m,k) * B(k,n)  C(m,n) = fmax(C(m,n), 0) }"
    ),
    "rounded": "def run(bfloat16(M,K) A, bfloat16(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
    "two results": (
        "def run(double(M,K) A, double(K,N) B) -> (C, D) "
        "{ C(m,n) +=! A(m,k) * B(k,n)  D(m,n) = exp(-C(m,n)) }"
    ),
    "turned around": (
        "def run(float(M,K) A, float(N,K) B, float(N,M) R) -> (C) "
        "{ C(n,m) +=! A(m,k) * B(n,k)  C(n,m) = C(n,m) + R(n,m) }"
    ),
    "of neighbours": (
        "def run(float(M,K,P) A, float(N,K,P) B, float(M,N,P) R) -> (C) "
        "{ C(m,n,p) +=! A(m,k,p) * B(n,k,p)  C(m,n,p) = C(m,n,p) * R(m,n,p) }"
    ),
    "numbers of the caller": (
        "def run(float(M,K) A, float(K,N) B, float(M,N) R, float s, float t) -> (C) "
        "{ T(m,n) +=! A(m,k) * B(k,n)  C(m,n) = (t == 0 ? 0.0 : t * R(m,n)) + s * T(m,n) }"
    ),
    "long": (
        "def run(float(M,K) A, float(K,N) B, float(N) c) -> (C) "
        "{ T(m,n) +=! A(m,k) * B(k,n)  C(m,n) = float16(gelu(T(m,n) + c(n))) }"
    ),
    "scaled": (
        "def run(float(M,K) A, float(N,K) B, float s) -> (C) { C(m,n) +=! s * A(m,k) * B(n,k) }"
    ),
}


def finished(text: str, m: int, n: int, k: int) -> Problem:
    """Return a problem of a text whose parameters have some of M, N, K, P."""
    checked = check_types(parse(text))
    sizes = {"M": m, "N": n, "K": k, "P": 5} | ({"B": m, "M": k} if "B,M" in text else {})
    shapes = [tuple(s.evaluate(sizes) for s in t.shape) for t in checked.params]
    args = [
        rand(*shape, seed=i).astype(numpy_dtype(t.dtype)) if shape else 0.7
        for i, (shape, t) in enumerate(zip(shapes, checked.params, strict=True))
    ]
    return Problem(checked, tuple(args))


@pytest.mark.wide
def test_no_accumulator_leaves_its_register() -> None:
    """The k loop of every register tile lays no vector on the stack."""
    machine = detect()
    vector = Vector(FLOAT32, machine.lanes(4))
    units = [compiler.lower_library(Tiles(vector, machine.registers).name)]
    for name in ("bias and relu", "numbers of the caller"):
        p = finished(FINISHED[name], 64, 64, 64)
        units.append(compiler.lower(p.program, spec_of(p, exact=False), OWN, machine, p.sizes, "k"))
    for unit in units:
        assert len(held_in_registers(unit, r"\w*tile_\d+x\d+")) > 12


@sampled("text", FINISHED.values(), ids=list(FINISHED), keep=1, wide=4)
def test_whoever_has_the_tiles_the_bits_are_the_same(text: str) -> None:
    """A pass over finished tiles computes what the epilogue in the tiles does."""
    sizes = [(1, 1, 1), (3, 17, 700), (37, 130, 40), (14, 33, 0), (0, 5, 9), (5, 0, 9)]
    problems = [finished(text, *mnk) for mnk in sizes]
    found = [run_cases([Case(p, False, c) for p in problems]) for c in (OWN, SHARED)]
    for p, own, shared in zip(problems, *found, strict=True):
        assert [x.tobytes() for x in own] == [x.tobytes() for x in shared]
        assert_same(shared, expected(p), terms=800)


@sampled("text", FINISHED.values(), ids=list(FINISHED), keep=1, wide=5)
def test_nan_and_infinity_pass_a_finished_tile(text: str) -> None:
    p = finished(text, 9, 35, 20)
    for x in p.args[:2]:
        x.reshape(-1)[::37] = np.nan
        x.reshape(-1)[5::41] = np.inf
    with np.errstate(invalid="ignore"):
        (got,) = run_cases([Case(p, False, SHARED)])
        assert_same(got, expected(p), terms=100)


def test_short_sums_with_an_epilogue_have_tiles_of_their_own() -> None:
    p = tensors(EPILOGUES["residual"], (64, 64), (64, 64), (64, 64))
    spec = spec_of(p, exact=False)
    for m, tiles in ((95, "own"), (96, "library")):
        config, regime = compiler.generic_choice(p.program, spec, detect(), p.sizes | {"M": m})
        assert config.get("g0.tiles", None) == tiles
        assert regime.holds({"B": 1, "N": 1, "M": m})
        assert not regime.holds({"B": 1, "N": 1, "M": 191 - m})
    plain = matmul(NN, 4, 4, 4)
    config, _ = compiler.generic_choice(
        plain.program, spec_of(plain, exact=False), detect(), plain.sizes
    )
    assert config.get("g0.tiles", None) is None


@pytest.mark.parametrize("text", ADDED.values(), ids=list(ADDED))
def test_what_is_added_needs_no_tiles_of_its_own(text: str) -> None:
    """Register tiles of the library go on from it, however short the sums are."""
    p = finished(text, 9, 35, 20)
    spec = spec_of(p, exact=False)
    config, regime = compiler.generic_choice(p.program, spec, detect(), p.sizes)
    assert config.get("g0.tiles", None) == "library"
    assert not any("K" in size.symbols() for size, _, _ in regime.answers)
    sizes = [(9, 35, 20), (1, 1, 1), (3, 17, 700), (37, 130, 40), (14, 33, 0), (0, 5, 9)]
    differential([Case(finished(text, *mnk), exact=False) for mnk in sizes], terms=800)


def test_contractions_for_all_sizes_share_what_takes_a_compiler_long() -> None:
    """Nothing in their text grows with the number of tiles."""
    for text in (NN, NT, TN, TT):
        p = matmul(text, 64, 64, 64)
        unit = compiler.lower(p.program, spec_of(p, exact=False), Config(), detect(), p.sizes, "k")
        by = {f.linkage for f in unit.functions}
        assert by == {"import", "phase", "plan"}


@pytest.mark.deep
@pytest.mark.parametrize(
    "compiler_",
    [
        pytest.param("zig", marks=pytest.mark.zig),
        pytest.param("clang", marks=pytest.mark.clang),
    ],
)
def test_another_compiler_makes_the_library(
    compiler_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = shlex.join(compiler_of(compiler_).command)
    monkeypatch.setenv("TCDSL_CC", command)
    cases = [matmul(t, m, 37, 300) for t in (NN, NT, TN) for m in (2, 21)]
    cases += [tensors(EPILOGUES["bias and relu"], (21, 160), (70, 160), (70,))]
    differential([Case(p, exact=False) for p in cases], terms=300)
