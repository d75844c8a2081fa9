"""Sums that no cache holds: whole lines of them are stored past the caches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import CORE_L3, Machine
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Array, Case, Problem, differential, problem, rand, spec_of

pytestmark = pytest.mark.cc

PANELS = Config.of({"g0.form": "contraction", "g0.method": "panel"})
NO_CACHE = replace(detect(), l3_bytes=1 << 10)
NN = "def mm({0}(M,K) A, {0}(K,N) B) -> (O) {{ O(m,n) +=! A(m,k) * B(k,n) }}"
RELU = (
    "def run(float(M,K) A, float(K,N) B, float(N) c) -> (O) "
    "{ O(m,n) +=! A(m,k) * B(k,n)  O(m,n) = fmax(O(m,n) + c(n), 0) }"
)
ADDED = (
    "def run(float(M,K) A, float(K,N) B, float(M,N) C) -> (O) "
    "{ O(m,n) +=! A(m,k) * B(k,n)  O(m,n) = O(m,n) + C(m,n) }"
)
ONTO = "def run(float(M,K) A, float(K,N) B) -> (float(M,N) O) { O(m,n) += A(m,k) * B(k,n) }"


def lying(shape: tuple[int, ...], behind: int, dtype: str = "float32") -> Array:
    """Return a poisoned array so many elements behind the beginning of a line."""
    size = int(np.prod(shape))
    base = np.full(size + 64, 0x5A5A5A5A, np.int32 if "32" in dtype else np.int64).view(dtype)
    first = -base.ctypes.data % 64 // base.itemsize + behind
    return base[first : first + size].reshape(shape)


def product(m: int, k: int, n: int, behind: int = 0, dtype: str = "float32") -> Problem:
    tc = {"float32": "float", "float64": "double", "int32": "int32"}[dtype]
    a, b = rand(m, k), rand(k, n, seed=1)
    if dtype == "int32":
        a, b = a * 8, b * 8
    operands = a.astype(dtype), b.astype(dtype)
    return problem(NN.format(tc), *operands, outs=[lying((m, n), behind, dtype)])


def text_of(p: Problem, machine: Machine, *, exact: bool = True, config: Config = PANELS) -> str:
    what = p.program, spec_of(p, exact=exact), config, machine, p.sizes, "k"
    return compiler.emit_c(compiler.lower(*what))


def test_a_rented_part_of_a_processor_has_its_share_of_the_third_level() -> None:
    machine = replace(detect(), cores=2, l3_bytes=260 << 20)
    assert machine.own_l3_bytes == 2 * CORE_L3
    assert replace(machine, l3_bytes=1 << 20).own_l3_bytes == 1 << 20


def test_lines_go_past_the_caches_where_none_holds_the_output() -> None:
    text = text_of(product(30, 7, 64), NO_CACHE)
    assert "tc_stream_v" in text
    assert "tc_stream_end();" in text
    assert "tc_stream" not in text_of(product(30, 7, 64), replace(NO_CACHE, l3_bytes=1 << 20))
    assert "tc_stream_v" not in text_of(product(30, 7, 63), NO_CACHE), "rows begin anywhere"


def test_sizes_tell_whether_the_output_is_past_the_caches() -> None:
    text = text_of(product(30, 100, 64), NO_CACHE, exact=False)
    assert "M * N * 4 >= 1024 ? 24" in text
    assert "if (M * N * 4 >= 1024) {\n    tc_stream_end();" in text


def test_products_past_the_caches_are_the_references() -> None:
    shapes = ((30, 7, 64), (37, 5, 130), (16, 600, 48), (1, 40, 64), (50, 0, 32), (0, 9, 9))
    problems = [product(*s, behind=b) for s in shapes for b in (0, 1)]
    problems += [product(41, 12, 64, 0, dtype) for dtype in ("float64", "int32")]
    problems += [problem(RELU, rand(19, 6), rand(6, 96), rand(96), outs=[lying((19, 96), 0)])]
    added = rand(19, 70), rand(70, 64), rand(19, 64)
    problems += [problem(ADDED, *added, outs=[lying((19, 64), 0)])]
    cases = [Case(p, exact, PANELS) for p in problems for exact in (True, False)]
    differential(cases, 600, machine=NO_CACHE)


def test_what_is_added_to_an_output_past_the_caches_is_the_references() -> None:
    cases = []
    for exact in (True, False):
        there = lying((19, 64), 0)
        there[...] = 1
        cases.append(Case(problem(ONTO, rand(19, 6), rand(6, 64), outs=[there]), exact, PANELS))
    differential(cases, 6, machine=NO_CACHE)
