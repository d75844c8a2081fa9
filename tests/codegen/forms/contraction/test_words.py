"""Products of integers against the reference: every type, layout, word, processor; sums wrap."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler, specialise
from tcdsl.codegen.forms.contraction.problem import Side
from tcdsl.codegen.forms.contraction.sides import required, words_for
from tcdsl.codegen.forms.contraction.words import words_of
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.cc import find_compiler
from tcdsl.codegen.toolchain.host import detect, dots_of
from tcdsl.grammar.types.dtypes import BY_NAME, INT32
from tests.codegen.harness import Case, Problem, differential, problem, spec_of
from tests.codegen.knobs import knobs_of
from tests.codegen.native import ON_X86, compiler_of
from tests.tiers import sampled

pytestmark = pytest.mark.cc

Array = np.ndarray[Any, np.dtype[Any]]

LAYOUTS = {"NN": ("mk", "kn"), "NT": ("mk", "nk"), "TN": ("km", "kn"), "TT": ("km", "nk")}
SHAPES = ((3, 17, 5), (0, 4, 3), (5, 0, 3), (5, 6, 0), (8, 66, 2061))
PANEL = {"g0.method": "panel"}


def integers(dtype: str, shape: tuple[int, ...], *, low: bool = False) -> Array:
    """Return random integers of the whole range of a type; low: its least one everywhere."""
    info, rng = np.iinfo(dtype), np.random.default_rng(shape)
    if low:
        return np.full(shape, info.min, dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def matmul(
    a: str, b: str, m: int, n: int, k: int, layout: str = "NN", to: str = "int32", low: bool = False
) -> Problem:
    left, right = LAYOUTS[layout]
    size = {"m": m, "n": n, "k": k}
    text = (
        f"def mm({a}({','.join(left.upper())}) A, {b}({','.join(right.upper())}) B) "
        f"-> ({to}(M,N) C) {{ C(m,n) +=! {to}(A({','.join(left)})) * {to}(B({','.join(right)})) }}"
    )
    arrays = (integers(t, tuple(size[i] for i in x), low=low) for t, x in ((a, left), (b, right)))
    return problem(text, *arrays)


def words(a: str, b: str) -> list[int]:
    """Return what words of a product may be on this machine, as the knob has them, 1 for none."""
    return [1, *sorted(w.choice for w in words_of(detect(), BY_NAME[a], BY_NAME[b], INT32))]


def configs(a: str, b: str) -> list[Config]:
    return [Config.of({**PANEL, "g0.word": n}) for n in words(a, b)]


def test_sums_of_products_of_bytes_wrap_as_the_reference_does() -> None:
    """-128 * -128 in every term, and values of all bits, by every word."""
    problems = matmul("int8", "int8", 5, 37, 41), matmul("int8", "int8", 5, 37, 41, low=True)
    differential([Case(p, exact=True, config=c) for p in problems for c in configs("int8", "int8")])


def test_known_and_unknown_sizes_take_the_longest_word() -> None:
    p = matmul("int8", "int8", 64, 64, 64)
    wide = replace(detect(), isa="avx512", vector_bytes=64, registers=32, dots=("bytes",))
    machine = replace(wide, fma_per_cycle=2)  # with one, pairs are no slower and packed sooner
    for exact in (True, False):
        spec = spec_of(p, exact=exact)
        unit = compiler.lower(p.program, spec, Config(), machine, p.sizes, "k")
        packer = "tc_weave4_v" if exact else "tc_pack_x_v"
        assert re.search(rf"{packer}\d+i32_i8{'_x4' * (not exact)}", compiler.emit_c(unit))


@pytest.mark.wide
@sampled("b", ["int8", "uint8", "int16"], keep=1, wide=0)
@sampled("a", ["int8", "uint8", "int16"], keep=1, wide=0)
def test_any_types_layouts_and_sizes(a: str, b: str) -> None:
    differential([
        Case(matmul(a, b, *shape, layout), exact=exact, config=config)
        for layout, shape in product(LAYOUTS, SHAPES)
        for exact, config in [*((True, c) for c in configs(a, b)), (False, Config())]
    ])  # fmt: skip


@pytest.mark.deep
def test_wider_factors_and_sums() -> None:
    """What no word holds is widened; int16 * int16 fills an int32, and two of them wrap."""
    pairs = [("int32", "int32", "int32"), ("uint16", "int8", "int32"), ("int32", "int8", "int32")]
    pairs += [
        ("int64", "int64", "int64"),
        ("uint32", "int16", "int64"),
        ("uint8", "int32", "int64"),
    ]
    made = [matmul(a, b, 13, 37, 33, layout, to) for a, b, to in pairs for layout in LAYOUTS]
    made += [matmul("int16", "int16", 5, 17, 6, low=True)]
    differential([Case(p, exact=exact) for p in made for exact in (True, False)])


def others() -> Iterator[Problem]:
    """Yield products whose operands lie otherwise, and with something behind the sum."""
    x, y, z = (integers("int8", s) for s in ((40, 80), (80, 90), (6, 7, 8, 9)))
    text = (
        "def mm(int8(M,K) A, int8(K,N) B) -> (int32(M,N) C) "
        "{ C(m,n) +=! int32(A(m,k)) * int32(B(k,n)) }"
    )
    yield problem(text, x[::2, ::3], y[:27, ::-1])
    yield problem(text, np.broadcast_to(x[:1], (5, 80)), y[:, :33])
    yield problem(
        "def f(int8(A,B,C,D) X, uint8(N,D,B) Y) -> (int32(N,C,A) O) "
        "{ O(n,c,a) +=! int32(X(a,b,c,d)) * int32(Y(n,d,b)) }",
        z, integers("uint8", (21, 9, 7)),
    )  # fmt: skip
    yield problem(
        "def f(int8(P,M,K) A, int8(P,K,N) B, int32(N) c) -> (int32(P,M,N) O) "
        "{ O(p,m,n) +=! 3 * int32(A(p,m,k)) * int32(B(p,k,n)) O(p,m,n) = max(O(p,m,n) + c(n), 0) }",
        integers("int8", (3, 7, 50)), integers("int8", (3, 50, 33)), integers("int32", (33,)),
    )  # fmt: skip
    yield problem(
        "def f(int8(M,K,P) A, int8(K,N,P) B) -> (int32(M,N,P) O) "
        "{ O(m,n,p) +=! int32(A(m,k,p)) * int32(B(k,n,p)) }",
        integers("int8", (7, 20, 18)), integers("int8", (20, 9, 18)),
    )  # fmt: skip
    yield problem(
        "def f(int8(N,K) A, int8(K,M) B) -> (int32(N,M) O) "
        "{ O(n,m) +=! int32(A(n,k)) * int32(B(k,m)) where k in 0:n+1 }",
        integers("int8", (30, 30)), integers("int8", (30, 40)),
    )  # fmt: skip


@pytest.mark.deep
def test_any_strides_batches_ranges_and_epilogues() -> None:
    differential([Case(p, exact=exact) for p in others() for exact in (True, False)])


@pytest.mark.deep
def test_every_knob_value_computes_the_same() -> None:
    p = matmul("int8", "int8", 50, 70, 90, "NT")
    program, spec, machine = p.program, spec_of(p, exact=True), detect()
    knobs = knobs_of(program, spec, machine, p.sizes)
    values = {k.name: k.values for k in knobs}
    assert values["g0.word"] == tuple(words("int8", "int8"))
    values["g0.tile"] = values["g0.tile"][::9]
    tried = [Config.of({**PANEL, name: v}) for name, some in values.items() for v in some]
    differential([Case(p, exact=True, config=c) for c in tried])


@pytest.mark.wide
@pytest.mark.parametrize(
    ("build", "width", "quads"),
    [
        pytest.param("cc", 64, True),
        pytest.param("cc", 32, True, marks=pytest.mark.deep),
        pytest.param("cc", 16, True, marks=pytest.mark.deep),
        pytest.param("cc x86-64-v3", 32, False, marks=ON_X86),
        pytest.param("cc x86-64", 16, True, marks=ON_X86),
        pytest.param("zig", 0, True, marks=[pytest.mark.zig, pytest.mark.deep]),
    ],
)
def test_any_processor_and_compiler_computes_the_same(build: str, width: int, quads: bool) -> None:
    """Without its instruction a word's function is portable text."""
    name, *march = build.split()
    cc, machine = compiler_of(name), detect()
    width = width or machine.vector_bytes
    if machine.vector_bytes < width:
        pytest.skip("this machine has none wider")
    flags = (*cc.flags, *(f"-march={m}" for m in march), f"-DTC_VECTOR_BYTES={width}")
    machine = replace(
        machine, vector_bytes=width, registers=32 if width == 64 else 16, dots=("bytes",) * quads
    )
    pairs = ("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("int16", "uint8")
    problems = [matmul(a, b, 4, 41, 27, "NT" if a == b else "NN") for a, b in pairs]
    problems.append(matmul("int64", "int32", 4, 41, 27, "NT", "int64"))
    cases = [Case(p, exact=True, config=Config.of(PANEL)) for p in problems]
    differential(cases, cc=replace(cc, flags=flags), machine=machine)


def test_what_a_processor_has_is_told_by_the_compilers_macros() -> None:
    assert dots_of(("__AVX512F__", "__AVX512VNNI__", "__AVX512VL__"), "") == ("bytes",)
    assert dots_of(("__AVXVNNI__", "__AVX2__"), "") == ("bytes",)
    assert dots_of(("__AVX512F__", "__AVX512VL__"), "") == ()
    assert ("bytes" in detect().dots) == ("bytes" in dots_of(find_compiler().macros, ""))


def test_only_products_are_made_of_words() -> None:
    p = matmul("int8", "int8", 8, 64, 64)
    spec = spec_of(p, exact=True)
    arrangement = specialise.arrangement_of(p.program, spec, Config(), detect(), p.sizes)
    panel = required(arrangement.contexts[0], Side())
    apart = replace(panel, problem=replace(panel.problem, term="distance"))
    assert words_for(arrangement.contexts[0], panel)
    assert not words_for(arrangement.contexts[0], apart)
