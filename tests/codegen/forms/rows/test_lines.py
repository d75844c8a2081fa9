"""Pointwise nests for any strides: one object, every layout, nothing written or read outside."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.library.load import load
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.codegen.toolchain.cc import Compiler
from tcdsl.codegen.toolchain.host import detect
from tcdsl.codegen.toolchain.objects import compile_source
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import ScheduleError
from tests.codegen.harness import Array, Problem, call, expected, guarded, problem
from tests.codegen.native import compiler_of
from tests.codegen.under_configs import narrower
from tests.tiers import sampled

RNG = np.random.default_rng(7)
LINE = "def f({t}(K,N,M) A, {t}(K,N,M) B, {t}(K,N,M) C) -> ({r}) {{ {s} }}"
STATEMENTS = {
    "two": "O(k,i,j) = A(k,i,j) - B(k,i,j)",
    "three": "O(k,i,j) = A(k,i,j) > B(k,i,j) ? A(k,i,j) - C(k,i,j) : C(k,i,j)",
    "a truth": "O(k,i,j) = A(k,i,j) < B(k,i,j)",
    "results": "O(k,i,j) = A(k,i,j) - C(k,i,j)  P(k,i,j) = O(k,i,j) + B(k,i,j)",
    "updated": "O(k,i,j) += A(k,i,j) - B(k,i,j)",
}
TYPES = ["float", "double", "float16", "int8", "int32", "int64"]


def text_of(name: str, dtype: str) -> str:
    returns = "O, P" if name == "results" else "O"
    return LINE.format(t=dtype, r=returns, s=STATEMENTS[name])


def any_strides(p: Problem) -> Spec:
    """Return the specialisation that knows nothing."""
    ranks = (len(p.program.buffer(n).shape) for n in p.program.operands)
    return Spec(None, tuple(Layout(r, contiguous=False, unit=None) for r in ranks), 2)


def forms(p: Problem, machine: Machine) -> list[str]:
    config = compiler.default_config(p.program, any_strides(p), machine, p.sizes)
    return [
        form for _, form in compiler.describe(p.program, any_strides(p), config, machine, p.sizes)
    ]


AVX512 = Machine("avx512", 64, 32, 32 << 10, 8, 1 << 20, 32 << 20, 4, 3.0, 2)


@sampled("dtype", TYPES, keep=3)
def test_they_are_vectors_where_dense_ones_are(dtype: str) -> None:
    x = np.ones((2, 3, 40), np.dtype(dtype if dtype != "float" else np.float32))
    p = problem(text_of("two", dtype), x, x, x)
    kind = "simd" if dtype == "int8" else "vectors"
    assert forms(p, AVX512) == [f"g0: pointwise of any strides, {kind}"]


def test_a_value_of_its_place_has_the_nest_that_counts() -> None:
    x = np.ones((3, 40), np.float32)
    text = "def f(float(N,M) A) -> (O) { O(i, j) = A(i, j) * j }"
    assert "any strides" not in forms(problem(text, x), AVX512)[0]


def placed(x: Array, how: int) -> Array:
    """Return the elements of x in memory of another layout, poison around them."""
    k, n, m = x.shape
    match how:
        case 0:
            view = guarded((k, n, m), x.dtype)
        case 1:  # padded rows
            view = guarded((k, n, m + 3), x.dtype)[..., :m]
        case 2:  # every second one
            view = guarded((k, n, 2 * m), x.dtype)[..., ::2]
        case 3:  # transposed
            view = guarded((k, m, n), x.dtype).transpose(0, 2, 1)
        case 4:  # the first dimension last
            view = guarded((m, n, k), x.dtype).transpose(2, 1, 0)
        case 5:  # backwards
            view = guarded((k, n, m), x.dtype)[:, ::-1, ::-1]
        case _:
            view = guarded((k, n, 5 * m), x.dtype)[..., 4::5]
    view[...] = x
    return view


def repeated(x: Array, how: int) -> Array:
    """Return an operand of the shape of x that is repeated along some dimensions."""
    index = ((), (0,), (slice(None), 0), (..., 0), (0, ..., 0), (0, 0, 0))[how]
    small = x[index] if index else x
    keep = {0: (1, 1, 1), 1: (0, 1, 1), 2: (1, 0, 1), 3: (1, 1, 0), 4: (0, 1, 0), 5: (0, 0, 0)}[how]
    shape = tuple(n if one else 1 for n, one in zip(x.shape, keep, strict=True))
    return np.broadcast_to(np.ascontiguousarray(small).reshape(shape), x.shape)


def problems(name: str, dtype: str) -> Iterator[Problem]:
    kind = np.dtype(dtype if dtype != "float" else np.float32)
    turn = itertools.count()
    shapes = ((2, 3, 5), (1, 33, 70), (3, 16, 300), (2, 40, 1), (2, 13, 11), (1, 0, 4), (2, 3, 0))
    for shape in shapes:
        x = [RNG.integers(0, 30, shape).astype(kind) for _ in "ABC"]
        for how in range(7):
            n = next(turn)
            args = [placed(a, (how * (i + 1) + n // 7) % 7) for i, a in enumerate(x)]
            if n % 2 and 0 not in shape:
                args[n % 3] = repeated(x[n % 3], n % 6)
            if n % 3 == 2 and 0 not in shape:  # two of them
                args[0], args[2] = repeated(x[0], 3), repeated(x[2], 3 + n % 2)
            if n % 5 == 4 and 0 not in shape:
                args = [repeated(a, 3) for a in x]
            out = np.dtype(bool) if name == "a truth" else kind
            outs = tuple(
                placed(np.zeros(shape, out), (how + i) % 7) for i in range(1 + (name == "results"))
            )
            yield problem(text_of(name, dtype), *args, outs=outs)


def held(name: str, dtype: str, cc: Compiler | None = None, machine: Machine | None = None) -> None:
    machine = machine or detect()
    first = next(problems(name, dtype))
    spec, sizes = any_strides(first), first.sizes
    for config in ({}, {"g0.stream": True}, {"g0.vectors": False}):
        try:
            unit = compiler.lower(
                first.program,
                spec,
                Config.of(config),
                machine,
                sizes,
                "k",
            )
        except ScheduleError:  # without vectors there are no such knobs
            assert config
            continue
        path = compile_source(Source("lines", compiler.emit_c(unit)), cc)
        address = load(path, "k").address
        for p in problems(name, dtype):
            want = expected(p)
            for got, w in zip(call(address, p, 2, RNG), want, strict=True):
                np.testing.assert_array_equal(got, w)


@pytest.mark.cc
@sampled("dtype", TYPES, keep=1, wide=1)
@sampled("name", STATEMENTS, keep=1, wide=3)
def test_any_layout_is_computed_within_its_memory(name: str, dtype: str) -> None:
    held(name, dtype)


COPY = "def f({t}(K,N,M) A) -> ({t}(K,N,M) O) {{ O(k,i,j) = A(k,i,j) }}"


def turned(dtype: str) -> Iterator[Problem]:
    kind = np.dtype(dtype if dtype != "float" else np.float32)
    sides = (1, 2), (3, 5), (4, 4), (7, 9), (8, 8), (13, 11), (33, 5), (2, 17), (20, 3), (70, 130)
    few = (1, 40), (3, 16), (18, 16), (17, 35)  # rows that make no square
    for n, m in (*sides, *few, (0, 4), (4, 0)):
        for how in (0, 1, 2, 5):
            x = RNG.integers(0, 30, (2, n, m)).astype(kind)
            outs = (placed(np.zeros(x.shape, kind), how),)
            yield problem(COPY.format(t=dtype), placed(x, 3), outs=outs)


def held_by(
    word: str,
    config: Config,
    cases: Callable[[], Iterator[Problem]],
    cc: Compiler | None,
    machine: Machine | None,
) -> None:
    """Hold what one executable for any sizes gives against the reference; word: what it calls."""
    first, machine = next(cases()), machine or detect()
    unit = compiler.lower(first.program, any_strides(first), config, machine, first.sizes, "k")
    text = compiler.emit_c(unit)
    assert word in text
    address = load(compile_source(Source("lines", text), cc), "k").address
    for p in cases():
        np.testing.assert_array_equal(call(address, p, 2, RNG)[0], expected(p)[0])


def held_turned(dtype: str, cc: Compiler | None = None, machine: Machine | None = None) -> None:
    held_by("tc_across_", Config(), lambda: turned(dtype), cc, machine)


@pytest.mark.cc
@sampled("dtype", [t for t in TYPES if t != "float16"], keep=2, wide=4)
def test_copies_that_are_turned_around_go_straight_to_their_place(dtype: str) -> None:
    held_turned(dtype)


@pytest.mark.cc
@pytest.mark.wide
@pytest.mark.parametrize("width", [32, 16])
def test_so_they_do_in_narrower_vectors(width: int) -> None:
    held_turned("float", *narrower(width))


def test_copies_pass_the_caches_where_none_holds_them() -> None:
    """Of any type: 1 KB of a cache is full from 1024 bytes on."""
    machine = replace(detect(), l3_bytes=1 << 10)
    for dtype in (*TYPES, "bool"):
        kind = np.dtype(dtype if dtype != "float" else np.float32)
        for length, past in ((1024, True), (1023, False)):
            x = np.zeros((1, 1, length // kind.itemsize), kind)
            p = problem(COPY.format(t=dtype), placed(x, 3))
            config = compiler.default_config(p.program, any_strides(p), machine, p.sizes)
            text = compiler.emit_c(
                compiler.lower(p.program, any_strides(p), config, machine, p.sizes, "k")
            )
            assert ("tc_past_" in text) is past, (dtype, length)
            assert not past or "tc_stream_end();" in text


def lying(shape: tuple[int, ...], behind: int, pad: int, dtype: np.dtype[Any]) -> Array:
    """Return a poisoned array so many bytes behind the begin of a line, rows so far apart."""
    k, n, m = shape
    base = np.full(k * n * (m + pad) * dtype.itemsize + 256, 0xA5, np.uint8)
    first = -base.ctypes.data % 64 + 64 + behind
    room = base[first : first + k * n * (m + pad) * dtype.itemsize].view(dtype)
    return room.reshape(k, n, m + pad)[..., :m]


def past(dtype: str) -> Iterator[Problem]:
    kind = np.dtype(dtype if dtype != "float" else np.float32)
    size = kind.itemsize
    sides = (1, 1), (1, 300), (2, 700), (3, 200), (5, 130), (70, 2), (300, 3), (64, 64), (65, 131)
    for n, m in (*sides, (130, 64 // size), (260, 33), (0, 4), (4, 0)):
        x = RNG.integers(0, 2 if dtype == "bool" else 30, (2, n, m)).astype(kind)
        for behind, pad in ((0, 0), (0, 64 // size), (size, 0), (64 - size, 1), (size // 2, 5)):
            outs = (lying(x.shape, behind, pad, kind),)
            yield problem(COPY.format(t=dtype), placed(x, 3), outs=outs)
        for how in (2, 3, 5):
            yield problem(
                COPY.format(t=dtype), placed(x, how), outs=(placed(np.zeros_like(x), 8 - how),)
            )


def held_past(dtype: str, cc: Compiler | None = None, machine: Machine | None = None) -> None:
    held_by("tc_past_", Config.of({"g0.stream": True}), lambda: past(dtype), cc, machine)


@pytest.mark.cc
@sampled("dtype", [*TYPES, "bool"], keep=3, wide=5)
def test_whole_lines_of_copies_pass_the_caches(dtype: str) -> None:
    held_past(dtype)


@pytest.mark.cc
@pytest.mark.wide
@pytest.mark.parametrize("width", [32, 16])
def test_so_they_pass_in_narrower_vectors(width: int) -> None:
    held_past("float", *narrower(width))


@pytest.mark.deep
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=getattr(pytest.mark, k)) for k in ("zig", "clang")]
)
def test_so_they_pass_by_other_compilers(kind: str) -> None:
    held_past("float", compiler_of(kind))


@pytest.mark.cc
@sampled("width", [32, 16], keep=1, wide=0)
@sampled("dtype", ["float16", "float", "double"], keep=0, wide=1)
def test_so_it_is_in_narrower_vectors(dtype: str, width: int) -> None:
    held("three", dtype, *narrower(width))


@pytest.mark.deep
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=getattr(pytest.mark, k)) for k in ("zig", "clang")]
)
def test_so_it_is_by_other_compilers(kind: str) -> None:
    held("three", "float", compiler_of(kind))
