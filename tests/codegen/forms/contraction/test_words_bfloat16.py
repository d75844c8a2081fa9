"""Products of bfloat16 by pairs: nothing that the instruction takes for zero is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.cc import find_compiler
from tcdsl.codegen.toolchain.host import detect, dots_of, read_processor
from tests.codegen.forms.contraction.matmuls import BF, LAYOUTS, Array, matmul
from tests.codegen.harness import (
    Case,
    Problem,
    assert_same,
    expected,
    problem,
    run_cases,
    spec_of,
)
from tests.codegen.native import ON_X86, compiler_of
from tests.tiers import sampled

pytestmark = pytest.mark.cc

MACHINE = replace(detect(), dots=("bytes", "bfloat16"))
PAIRS = Config.of({"g0.method": "panel", "g0.word": 2})


def normal(*shape: int, scale: float = 1.0) -> Array:
    return (np.random.default_rng(shape).standard_normal(shape) * scale).astype(BF)


def run(cases: list[Case]) -> list[tuple[Array, ...]]:
    return run_cases(cases, machine=MACHINE)


def emitted(p: Problem, *, exact: bool = True) -> str:
    spec = spec_of(p, exact=exact)
    return compiler.emit_c(compiler.lower(p.program, spec, Config(), MACHINE, p.sizes, "k"))


def test_known_and_unknown_sizes_take_pairs_and_look_at_them() -> None:
    p = matmul(normal(64, 64), normal(64, 64))
    for exact in (True, False):
        text = emitted(p, exact=exact)
        packer = "tc_weave2_v" if exact else "tc_pack_x_v"
        assert re.search(rf"{packer}\d+i32_u16", text)
        assert "tc_least_bf16(" in text
    assert "tc_least_bf16" not in emitted(matmul(normal(8, 4096), normal(4096, 4096)))


def least_of_sums(shift: int) -> tuple[Problem, Array]:
    """Return a product whose sums are small multiples of 2^(-126 - shift), and these, exactly."""
    rng = np.random.default_rng(shift)
    a, b = (rng.integers(128, 256, s) * rng.choice((-1, 0, 1), s) for s in ((7, 31), (31, 37)))
    a[0], a[0, :2], b[:2, 0] = 0, (129, 151), (-254, 217)  # one product is larger by 1
    parts = 2.0**-63, 2.0 ** (-63 - shift)
    scaled = [(x * part).astype(BF) for x, part in zip((a, b), parts, strict=True)]
    return matmul(*scaled), (a @ b) * 2.0 ** (-126 - shift)


@sampled("shift", [1, 0, 23], keep=1)
def test_the_least_sums_are_exact(shift: int) -> None:
    """Where differences of products can be denormal, words are widened."""
    p, want = least_of_sums(shift)
    for exact in (True, False):
        ((got,),) = run([Case(p, exact=exact, config=PAIRS if exact else Config())])
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float32))
    assert want[0, 0] == 2.0 ** (-126 - shift)


def test_denormal_factors_of_large_ones_count() -> None:
    a, b = np.full((5, 33), 2.0**-130).astype(BF), np.full((33, 18), 2.0**120).astype(BF)
    ((got,),) = run([Case(matmul(a, b), exact=True, config=PAIRS)])
    np.testing.assert_array_equal(got, np.float32(33 * 2.0**-10))
    b[:] = 0
    ((got,),) = run([Case(matmul(a, b), exact=True, config=PAIRS)])
    np.testing.assert_array_equal(got, 0)


@pytest.mark.wide
def test_one_small_block_of_many_is_widened_alone() -> None:
    """Blocks are looked at one by one, also in the second pass along k."""
    a, b = normal(300, 1100), normal(1100, 70)
    a[:, 1000:] *= BF(2.0**-120)
    b[1000:] *= BF(2.0**-20)
    b[:1000] = 0
    p = matmul(a, b)
    ((got,),) = run([Case(p, exact=True, config=PAIRS)])
    want = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    assert (np.abs(want) > 0).all()
    np.testing.assert_allclose(got, want, rtol=0, atol=float(np.abs(want).max()) * 1e-3)


@pytest.mark.deep
def test_not_a_number_and_infinities_spread() -> None:
    a, b = normal(6, 20), normal(20, 40)
    a[1, 3], a[2, 4], b[5, 7] = np.nan, np.inf, -np.inf
    b[4, 9] = 0
    ((got,),) = run([Case(matmul(a, b), exact=True, config=PAIRS)])
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])


def others() -> Iterator[Problem]:
    """Yield products whose operands lie otherwise, and with something behind the sum."""
    x, y = normal(40, 81), normal(80, 91)
    text = (
        "def mm(bfloat16(M,K) A, bfloat16(K,N) B) -> (float(M,N) C) "
        "{ C(m,n) +=! float(A(m,k)) * float(B(k,n)) }"
    )
    yield problem(text, x[::2, ::3], y[:27, ::-1])
    yield problem(text, np.broadcast_to(x[:1], (5, 81))[:, :80], y[:, :33])
    yield problem(text, normal(3, 0), normal(0, 5))
    yield problem(text, normal(0, 7), normal(7, 5))
    yield problem(
        "def f(bfloat16(A,B,C,D) X, bfloat16(N,D,B) Y) -> (bfloat16(N,C,A) O) "
        "{ O(n,c,a) +=! X(a,b,c,d) * Y(n,d,b) }",
        normal(6, 7, 8, 9), normal(21, 9, 7),
    )  # fmt: skip
    yield problem(
        "def f(bfloat16(P,M,K) A, bfloat16(P,K,N) B, float(N) c) -> (float(P,M,N) O) "
        "{ O(p,m,n) +=! 0.5 * float(A(p,m,k)) * float(B(p,k,n)) "
        "  O(p,m,n) = max(O(p,m,n) + c(n), 0) }",
        normal(3, 7, 50), normal(3, 50, 33), normal(33).astype(np.float32),
    )  # fmt: skip
    yield problem(
        "def f(bfloat16(N,K) A, bfloat16(K,M) B) -> (float(N,M) O) "
        "{ O(n,m) +=! float(A(n,k)) * float(B(k,m)) where k in 0:n+1 }",
        normal(30, 30), normal(30, 40),
    )  # fmt: skip
    yield problem(
        "def f(bfloat16(N,K) A, bfloat16(M,K) B) -> (float(N,M) O) "
        "{ O(n,m) +=! (float(A(n,k)) - float(B(m,k))) * (float(A(n,k)) - float(B(m,k))) }",
        normal(30, 31), normal(40, 31),
    )  # fmt: skip


@pytest.mark.deep
def test_any_layouts_sizes_strides_and_epilogues() -> None:
    shapes = (3, 17, 5), (5, 6, 0), (8, 37, 1029), (19, 67, 70)
    made = [
        matmul(normal(m, k), normal(k, n), layout, to)
        for (m, n, k), layout, to in product(shapes, LAYOUTS, ("float", "bfloat16"))
    ]
    cases = [Case(p, exact=True, config=PAIRS) for p in made]
    cases += [Case(p, exact=exact) for p in [*made, *others()] for exact in (True, False)]
    for case, got in zip(cases, run(cases), strict=True):
        assert_same(got, expected(case.problem), terms=60)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("build", "width"),
    [
        ("cc", 64),
        ("cc", 32),
        pytest.param("cc x86-64-v3", 32, marks=ON_X86),
        pytest.param("zig", 0, marks=[pytest.mark.zig, pytest.mark.deep]),
    ],
)
def test_any_processor_and_compiler_has_them(build: str, width: int) -> None:
    """Without its instruction the function is portable text."""
    name, *march = build.split()
    cc, machine = compiler_of(name), detect()
    width = width or machine.vector_bytes
    if machine.vector_bytes < width:
        pytest.skip("this machine has none wider")
    flags = (*cc.flags, *(f"-march={m}" for m in march), f"-DTC_VECTOR_BYTES={width}")
    registers = 32 if width == 64 else 16
    machine = replace(machine, vector_bytes=width, registers=registers, dots=("bfloat16",))
    problems = [least_of_sums(shift)[0] for shift in (0, 9)]
    problems += [matmul(normal(19, 70), normal(70, 37), layout) for layout in LAYOUTS]
    cases = [Case(p, exact=True, config=PAIRS) for p in problems]
    made = run_cases(cases, cc=replace(cc, flags=flags), machine=machine)
    for p, got in zip(problems, made, strict=True):
        assert_same(got, expected(p), terms=20)


def test_what_a_processor_has_is_told_by_the_compilers_macros() -> None:
    assert dots_of(("__AVX512BF16__", "__AVX512VL__"), "AuthenticAMD") == ("bfloat16",)
    assert dots_of(("__AVX512BF16__", "__AVX512VL__"), "GenuineIntel") == ()
    assert dots_of(("__AVX512BF16__",), "AuthenticAMD") == ()
    vendor = read_processor(Path("/proc/cpuinfo")).get("vendor_id", "")
    here = dots_of(find_compiler().macros, vendor)
    assert ("bfloat16" in detect().dots) == ("bfloat16" in here)
