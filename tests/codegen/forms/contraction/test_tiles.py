"""Products of words in tiles: by the instructions of processors, and by the text of others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler, specialise
from tcdsl.codegen.forms.contraction.problem import Side
from tcdsl.codegen.forms.contraction.sides import required, words_for
from tcdsl.codegen.forms.contraction.words import FLOAT16_TILES, TILES
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain import host
from tcdsl.codegen.toolchain.cc import Compiler, find_compiler
from tcdsl.codegen.toolchain.host import detect, tiles_are_granted, tiles_in
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

MACHINE = replace(detect(), dots=(TILES, FLOAT16_TILES))
HALVES = {"bfloat16": BF, "float16": np.float16}
# rows, columns and steps that fill tiles, and that leave any rest of them; two passes
SHAPES = ((33, 47, 66), (16, 17, 64), (1, 1, 1), (4, 0, 5), (3, 5, 0), (0, 4, 3), (70, 40, 2090))
HAS_TILES = pytest.mark.skipif(
    not (tiles_in(find_compiler().macros) and tiles_are_granted()), reason="no tiles here"
)


def operand(dtype: str, shape: tuple[int, ...], *, low: bool = False) -> Array:
    """Return random numbers, of integers all; low: the least integer everywhere."""
    rng = np.random.default_rng(shape)
    if dtype in HALVES:
        return rng.standard_normal(shape).astype(HALVES[dtype])
    info = np.iinfo(dtype)
    if low:
        return np.full(shape, info.min, dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def made(
    a: str, b: str, shape: tuple[int, int, int], layout: str = "NN", to: str = "", low: bool = False
) -> Problem:
    m, n, k = shape
    return matmul(operand(a, (m, k), low=low), operand(b, (k, n), low=low), layout, to)


def of_tiles(p: Problem, *, exact: bool) -> Config:
    """Return the config by which a product is one of tiles, large or not."""
    steps = 32 if p.checked.params[0].dtype.is_half else 64
    return Config.of({"g0.word": steps} | ({"g0.method": "panel"} if exact else {}))


def as_text() -> Compiler:
    """Return the compiler, by which tiles are vectors, as where the processor has none."""
    cc = find_compiler()
    return replace(cc, flags=(*cc.flags, "-DTC_PORTABLE_TILES"))


def run(
    problems: list[Problem], cc: Compiler | None = None, machine: Machine = MACHINE
) -> Iterator[tuple[Problem, tuple[Array, ...]]]:
    """Yield problems and outputs, of known and of unknown sizes."""
    cases = [Case(p, exact=e, config=of_tiles(p, exact=e)) for p in problems for e in (True, False)]
    for case, got in zip(cases, run_cases(cases, cc=cc, machine=machine), strict=True):
        yield case.problem, got


def check(problems: list[Problem], cc: Compiler | None = None, machine: Machine = MACHINE) -> None:
    for p, got in run(problems, cc, machine):
        assert_same(got, expected(p), terms=60)


def test_known_and_unknown_sizes_take_tiles_and_give_them_back() -> None:
    for dtype in ("int8", *HALVES):
        p = made(dtype, dtype, (64, 64, 64))
        for exact in (True, False):
            spec = spec_of(p, exact=exact)
            unit = compiler.lower(p.program, spec, Config(), MACHINE, p.sizes, "k")
            text = compiler.emit_c(unit)
            assert text.index("tc_shape_tiles(") < text.index("tc_drop_tiles(")
            assert ("tc_least_rows_bf16(" in text) == (dtype == "bfloat16")


@sampled("layout", list(LAYOUTS), keep=1, wide=0)
@pytest.mark.parametrize("dtype", ["int8", *HALVES])
@pytest.mark.parametrize("body", ["instructions", "text"])
def test_any_rest_of_a_tile(body: str, dtype: str, layout: str) -> None:
    cc = as_text() if body == "text" else None
    check([made(dtype, dtype, shape, layout) for shape in SHAPES], cc)


@pytest.mark.parametrize("body", ["instructions", "text"])
def test_bytes_of_any_signs_wrap_as_the_reference_does(body: str) -> None:
    kinds = [*product(("int8", "uint8"), repeat=2)]
    problems = [made(a, b, (5, 37, 270)) for a, b in kinds]
    problems.append(made("int8", "int8", (5, 37, 270), low=True))
    check(problems, as_text() if body == "text" else None)


def small(shift: int) -> tuple[Problem, Array]:
    """Return a product whose sums are small multiples of 2^(-126 - shift), and these, exactly."""
    rng = np.random.default_rng(shift)
    a, b = (rng.integers(128, 256, s) * rng.choice((-1, 0, 1), s) for s in ((37, 38), (38, 39)))
    parts = 2.0**-63, 2.0 ** (-63 - shift)
    scaled = [(x * part).astype(BF) for x, part in zip((a, b), parts, strict=True)]
    return matmul(*scaled), (a @ b) * 2.0 ** (-126 - shift)


@pytest.mark.parametrize("body", ["instructions", "text"])
def test_what_instructions_take_for_zero_is_not_lost(body: str) -> None:
    """Rows are looked at where they lie: some sums, or factors, are denormal."""
    a, b = np.full((5, 34), 2.0**-130).astype(BF), np.full((34, 18), 2.0**120).astype(BF)
    problems = {id(p): (p, want) for p, want in (small(0), small(9))}
    denormal = matmul(a, b)
    problems[id(denormal)] = denormal, np.full((5, 18), 34 * 2.0**-10)
    cc = as_text() if body == "text" else None
    for p, (got,) in run([p for p, _ in problems.values()], cc):
        np.testing.assert_array_equal(got, problems[id(p)][1].astype(np.float32))


@pytest.mark.parametrize("body", ["instructions", "text"])
def test_small_sums_that_a_pass_begins_with_are_not_lost(body: str) -> None:
    """The caller's, those of a pass that widened: of two, and a part of the last behind it."""
    text = (
        "def f(bfloat16(M,K) A, bfloat16(K,N) B) -> (float(M,N) O) "
        "{ O(m,n) += float(A(m,k)) * float(B(k,n)) }"
    )
    a, b = np.zeros((34, 38)).astype(BF), np.ones((38, 18)).astype(BF)
    a[:, 5] = 2.0**-126
    least = np.full((34, 18), -1.5 * 2.0**-126, np.float32)  # normal itself; the total is not
    cases = [
        Case(problem(text, a, b, outs=(least.copy(),)), exact=e, config=Config.of({"g0.word": 32}))
        for e in (True, False)
    ]
    a, b = np.zeros((34, 1100)).astype(BF), np.zeros((1100, 18)).astype(BF)
    a[:, :3] = b[:3] = 2.0**-70
    p = matmul(a, b)
    cases += [Case(p, exact=e, config=of_tiles(p, exact=e)) for e in (True, False)]
    got = run_cases(cases, cc=as_text() if body == "text" else None, machine=MACHINE)
    for (sums,), want in zip(got, (*[-(2.0**-127)] * 2, *[3 * 2.0**-140] * 2), strict=True):
        np.testing.assert_array_equal(sums, np.full((34, 18), want, np.float32))


@pytest.mark.parametrize("body", ["instructions", "text"])
def test_denormal_float16_and_sums_that_a_pass_begins_with_are_not_lost(body: str) -> None:
    """Least products, in two passes; sums of the caller's that are denormal."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, s).astype(np.float32) for s in ((37, 1100), (1100, 39)))
    p = matmul((a * 2.0**-24).astype(np.float16), (b * 2.0**-24).astype(np.float16))
    cases = [Case(p, exact=e, config=of_tiles(p, exact=e)) for e in (True, False)]
    text = (
        "def f(float16(M,K) A, float16(K,N) B) -> (float(M,N) O) "
        "{ O(m,n) += float(A(m,k)) * float(B(k,n)) }"
    )
    least = np.full((34, 39), 2.0**-140, np.float32)
    least[:, 1::3], least[5] = 2.0**-126, 1.5
    x, y = np.zeros((34, 38), np.float16), np.ones((38, 39), np.float16)
    x[33, 5] = 2.0**-24
    for e in (True, False):
        of = problem(text, x, y, outs=(least.copy(),))
        cases.append(Case(of, exact=e, config=Config.of({"g0.word": 32})))
    got = run_cases(cases, cc=as_text() if body == "text" else None, machine=MACHINE)
    products, sums = (a @ b) * np.float32(2.0**-48), least.copy()
    sums[33] = 2.0**-24
    for (found,), want in zip(got, (products, products, sums, sums), strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("dtype", [*HALVES])
def test_not_a_number_and_infinities_stay_in_their_rows_and_columns(dtype: str) -> None:
    """Nothing that lies behind a row, a column or the last step is multiplied, not even by 0."""
    a, b = operand(dtype, (40, 38)), operand(dtype, (38, 45))
    a[33, 3], a[2, 4], b[5, 44] = np.nan, np.inf, -np.inf
    b[4, 9] = 0
    wide = np.full((45, 64), np.nan).astype(a.dtype)
    wide[:40, :38] = a
    p = matmul(a, b)
    among = replace(p, args=(wide[:40, :38], b))  # rows with NaN between them
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float32) @ b.astype(np.float32)
    for _, (got,) in run([p, among]):
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])
        fine = np.isfinite(want)
        np.testing.assert_allclose(got[fine], want[fine], rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [*HALVES])
def test_bits_do_not_depend_on_sizes_that_are_known_nor_on_threads(dtype: str) -> None:
    p = made(dtype, dtype, (100, 70, 1100))
    cases = [
        Case(p, exact=exact, config=of_tiles(p, exact=exact), threads=threads)
        for exact, threads in product((True, False), (1, 2, 5))
    ]
    first, *others = run_cases(cases, machine=MACHINE)
    for other in others:
        assert other[0].tobytes() == first[0].tobytes()


@pytest.mark.parametrize("k", [40, 1200, 2100])
def test_what_is_added_is_added_once(k: int) -> None:
    """Sums of one pass, of one in parts, of two; a matrix, a row."""
    text = (
        "def f(int8(M,K) A, int8(K,N) B, int32({0}) c) -> (int32(M,N) O) "
        "{{ O(m,n) +=! int32(A(m,k)) * int32(B(k,n)) O(m,n) = O(m,n) + c({1}) }}"
    )
    a, b = operand("int8", (34, k)), operand("int8", (k, 18))
    c = np.arange(34 * 18, dtype=np.int32).reshape(34, 18)
    check([problem(text.format("M,N", "m,n"), a, b, c), problem(text.format("N", "n"), a, b, c[1])])


def others() -> Iterator[Problem]:
    """Yield products whose operands lie otherwise, and with something behind the sum."""
    for dtype, of in (("int8", "int32"), ("bfloat16", "float"), ("float16", "float")):
        x, y = operand(dtype, (40, 81)), operand(dtype, (80, 91))
        text = (
            f"def mm({dtype}(M,K) A, {dtype}(K,N) B) -> ({of}(M,N) C) "
            f"{{ C(m,n) +=! {of}(A(m,k)) * {of}(B(k,n)) }}"
        )
        yield problem(text, x[::2, ::3], y[:27, ::-1])
        yield problem(text, np.broadcast_to(x[:1], (5, 81))[:, :80], y[:, :33])
        yield problem(text, x[:, 1:], y)  # words of a begin at any byte
        yield problem(
            f"def f({dtype}(P,M,K) A, {dtype}(P,K,N) B, {of}(N) c) -> ({of}(P,M,N) O) "
            f"{{ O(p,m,n) +=! 2 * {of}(A(p,m,k)) * {of}(B(p,k,n)) "
            "  O(p,m,n) = max(O(p,m,n) + c(n), 0) }",
            operand(dtype, (3, 7, 52)), operand(dtype, (3, 52, 33)),
            np.arange(33).astype("int32" if of == "int32" else "float32"),
        )  # fmt: skip
        yield problem(
            f"def f({dtype}(A,B,C,D) X, {dtype}(N,D,B) Y) -> ({of}(N,C,A) O) "
            f"{{ O(n,c,a) +=! {of}(X(a,b,c,d)) * {of}(Y(n,d,b)) }}",
            operand(dtype, (6, 7, 8, 9)), operand(dtype, (21, 9, 7)),
        )  # fmt: skip
        yield problem(
            f"def f({dtype}(M,K) A, {dtype}(K,N) B) -> ({of}(M,N) O) "
            f"{{ O(m,n) += {of}(A(m,k)) * {of}(B(k,n)) }}",
            operand(dtype, (34, 1200)), operand(dtype, (1200, 18)),
        )  # fmt: skip
        yield problem(
            f"def f({dtype}(M,K) A, {dtype}(K,N) B, {of}(M,N) c) -> ({of}(M,N) O) "
            f"{{ O(m,n) +=! {of}(A(m,k)) * {of}(B(k,n)) O(m,n) = O(m,n) + c(m,n) }}",
            operand(dtype, (34, 600)), operand(dtype, (600, 18)),
            np.ones((34, 18), "int32" if of == "int32" else "float32"),
        )  # fmt: skip


@pytest.mark.wide
@pytest.mark.parametrize("body", ["instructions", "text"])
def test_any_strides_batches_and_epilogues(body: str) -> None:
    narrow = [made(d, d, s, x, d) for d in HALVES for s in SHAPES for x in LAYOUTS]
    check([*narrow, *others()], as_text() if body == "text" else None)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("build", "width"),
    [
        ("cc", 32),
        pytest.param("cc x86-64", 16, marks=ON_X86),
        pytest.param("zig", 0, marks=pytest.mark.zig),
    ],
)
def test_any_processor_and_compiler_has_them(build: str, width: int) -> None:
    name, *march = build.split()
    cc, machine = compiler_of(name), detect()
    width = width or machine.vector_bytes
    if machine.vector_bytes < width:
        pytest.skip("this machine has none wider")
    flags = (*cc.flags, *(f"-march={m}" for m in march), f"-DTC_VECTOR_BYTES={width}")
    registers = 32 if width == 64 else 16
    machine = replace(machine, vector_bytes=width, registers=registers, dots=MACHINE.dots)
    problems = [made(d, d, SHAPES[0], layout) for d in ("int8", *HALVES) for layout in LAYOUTS]
    check(problems, replace(cc, flags=flags), machine)


# ---- which machines have them


def test_tiles_are_chosen_where_they_are_quicker() -> None:
    """Not for a few sums; and nothing else has their words."""

    def word(p: Problem, machine: Machine) -> object:
        spec = spec_of(p, exact=True)
        return compiler.default_config(p.program, spec, machine, p.sizes).get("g0.word")

    both = replace(MACHINE, vector_bytes=64, registers=32, dots=("bytes", TILES))
    large = made("int8", "int8", (64, 64, 64))
    assert word(large, both) == 64
    without = replace(both, dots=("bytes",))
    assert word(large, without) == 4
    spec = spec_of(large, exact=True)
    tuned = compiler.default_config(large.program, spec, both, large.sizes)
    assert not compiler.is_legal(large.program, spec, tuned, without, large.sizes)
    assert word(made("int8", "int8", (2, 2, 2)), both) != 64
    assert word(made("bfloat16", "bfloat16", (16, 16, 16)), both) != 32
    assert word(made("bfloat16", "bfloat16", (64, 64, 64)), both) == 32
    halves = made("float16", "float16", (64, 64, 64))
    assert word(halves, both) is None
    assert word(halves, replace(both, dots=(TILES, FLOAT16_TILES))) == 32
    assert word(made("int16", "int8", (64, 64, 64)), both) == 2
    arrangement = specialise.arrangement_of(
        large.program, spec_of(large, exact=True), Config(), both, large.sizes
    )
    (ctx,) = arrangement.contexts
    assert [w.choice for w in words_for(ctx, required(ctx, Side()))] == [64, 4, 2]


def test_a_machine_that_is_refused_tiles_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "tiles_in", lambda _: True)
    for answer in (True, False):
        host._detect.cache_clear()
        monkeypatch.setattr(host, "tiles_are_granted", lambda answer=answer: answer)
        assert (TILES in detect().dots) == answer
        for macro in ("__AMX_BF16__", "__AMX_FP16__"):
            has_float16 = answer and macro == "__AMX_FP16__"
            assert (FLOAT16_TILES in host._tile_dots((macro,))) == has_float16
    host._detect.cache_clear()


_REFUSED = """
import ctypes
class Stack(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
room = ctypes.create_string_buffer(4096)  # a frame with tiles has 11 KB
assert not ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(room), 0, 4096)), None)
from tcdsl.codegen.toolchain.host import detect
assert "tiles" not in detect().dots, detect()
import numpy as np, tcdsl as tc
mm = tc.define("def mm(uint8(M,K) A, uint8(K,N) B) -> (int32(M,N) C) "
               "{ C(m,n) +=! int32(A(m,k)) * int32(B(k,n)) }")
a, b = (np.full(s, 200, np.uint8) for s in ((33, 40), (40, 34)))
assert (mm(a, b) == 40 * 200 * 200).all()
"""


@HAS_TILES
def test_a_process_that_the_kernel_refuses_them_computes_without() -> None:
    """Its stack for signals is too small for them: the one cause that a test can bring about."""
    done = subprocess.run([sys.executable, "-c", _REFUSED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_records_of_machines_with_and_without_tiles_are_apart() -> None:
    from tcdsl.calls.bindings.index import Index

    p = made("int8", "int8", (64, 64, 64))
    spec = spec_of(p, exact=True)
    parts = [
        Index("identity", "mm", replace(MACHINE, dots=dots))._parts(spec, p.sizes)
        for dots in ((), (TILES,))
    ]
    assert parts[0] != parts[1]
