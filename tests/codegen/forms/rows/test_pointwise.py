"""Pointwise groups against the reference: shapes, layouts, types, knobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tcdsl
from tcdsl.codegen.choose import compiler, forms
from tcdsl.codegen.forms.points import nest
from tcdsl.codegen.forms.rows.cpu import pointwise
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.types.dtypes import ALL, BY_NAME
from tests.codegen.harness import (
    Array,
    Case,
    Problem,
    assert_same,
    differential,
    expected,
    problem,
    run_cases,
    spec_of,
)
from tests.codegen.native import ON_X86, compiler_of
from tests.tiers import sampled

ADD = "def f(float(N,M) A, float(N,M) B) -> (O) { O(n,m) = A(n,m) + 2 * B(n,m) }"
TURN = "def f(float(N,M) A, float(M,N) B, float(M) c) -> (O) { O(m,n) = A(n,m) * c(m) + B(m,n) }"
RAGGED = [(1, 1), (3, 5), (7, 16), (2, 33), (19, 100), (1, 4099), (0, 4), (4, 0)]


@pytest.fixture(autouse=True)
def _only_pointwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        forms,
        "CPU",
        (
            pointwise.FORM,
            nest.FORM,
        ),
    )


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def layouts(a: Array) -> dict[str, Array]:
    """Return arrays of a's values in layouts that reach every kind of access."""
    n, m = a.shape
    wide = np.zeros((n, 2 * m + 1), a.dtype)
    wide[:, : 2 * m : 2] = a
    return {
        "transposed": np.ascontiguousarray(a.T).T,
        "strided": wide[:, : 2 * m : 2],
        "reversed": np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
        "rows": np.broadcast_to(a[:1], a.shape),
        "columns": np.broadcast_to(a[:, :1], a.shape),
        "padded": np.pad(a, ((0, 0), (0, 3)))[:, :m],
    }


@pytest.mark.cc
def test_a_value_of_a_row_fills_a_few_columns(rng: np.random.Generator) -> None:
    """All lanes of a vector are one value, and pieces of it are stored: gcc 12 broke down on it."""
    cases = []
    for kind, columns in (("float", 7), ("float", 3), ("double", 3)):
        text = f"def f({kind}(N) d, {kind}(N,M) A) -> (O) {{ O(n,m) = d(n) * 2 where m in 0:M }}"
        dtype = numpy_dtype(BY_NAME[kind])
        args = normal(rng, 5).astype(dtype), normal(rng, 5, columns).astype(dtype)
        cases.append(Case(problem(text, *args), exact=True))
    differential(cases)


@pytest.mark.cc
@sampled("exact", [False, True], ids=["generic", "exact"], keep=1)
def test_any_shape(exact: bool, rng: np.random.Generator) -> None:
    problems = [problem(ADD, normal(rng, *s), normal(rng, *s)) for s in RAGGED]
    configs: list[dict[str, Value]] = [
        {},
        {"g0.vectors": False},
        {"g0.unroll": 4},
        {"g0.stream": True},
    ]
    cases = [Case(p, exact, Config.of(c)) for p in problems for c in configs]
    differential(cases)


@pytest.mark.cc
@sampled("exact", [True, False], ids=["exact", "generic"], keep=1)
def test_any_layout(exact: bool, rng: np.random.Generator) -> None:
    a, b = normal(rng, 21, 39), normal(rng, 21, 39)
    cases = [Case(problem(ADD, x, b), exact) for x in layouts(a).values()]
    cases += [Case(problem(ADD, a, x), exact) for x in layouts(b).values()]
    for out in layouts(np.zeros_like(a)).values():
        if 0 not in out.strides:
            cases.append(Case(problem(ADD, a, b, outs=[out.copy(order="K")]), exact))
            cases.append(Case(problem(ADD, a, b, outs=[np.zeros_like(a.T).T]), exact))
    differential(cases)


@pytest.mark.cc
@sampled("exact", [False, True], ids=["generic", "exact"], keep=1)
def test_reads_across_rows_in_turned_tiles(exact: bool, rng: np.random.Generator) -> None:
    cases = []
    for n, m in ((1, 1), (16, 16), (17, 40), (48, 33), (5, 1), (1, 20), (0, 3), (3, 0)):
        args = normal(rng, n, m), normal(rng, m, n), normal(rng, m)
        cases += [
            Case(problem(TURN, *args), exact, Config.of({"g0.tiles": tiles}))
            for tiles in (True, False)
            if n * m > 1 or not exact
        ]
    differential(cases)


RUN = """def f(float(A,B,C,D) X, float(D) y, float(C,D) z) -> (O) {
  O(b,d,c,a) = X(a,b,c,d) * y(d) + z(c,d)
}"""


@pytest.mark.cc
def test_what_follows_in_the_source_is_turned_as_one_run(rng: np.random.Generator) -> None:
    """Of known sizes; whole vectors of it cross the ends of its dimensions."""
    shapes = [(3, 4, 5, 2), (12, 2, 5, 7), (17, 2, 3, 19), (16, 1, 4, 6), (33, 3, 1, 9)]
    problems = [
        problem(RUN, normal(rng, *s), normal(rng, s[3]), normal(rng, s[2], s[3])) for s in shapes
    ]
    differential([Case(p, exact=True) for p in problems])
    assert "_run0[70] = {0, " in _text_of(problems[1])
    whole = problem(RUN, normal(rng, 3, 2, 5, 32), normal(rng, 32), normal(rng, 5, 32))
    assert "_run0" not in _text_of(whole)


def _text_of(p: Problem) -> str:
    machine = replace(detect(), isa="avx512", vector_bytes=64, registers=32)
    spec = spec_of(p, exact=True)
    return compiler.emit_c(compiler.lower(p.program, spec, Config(), machine, p.sizes, "f"))


@pytest.mark.wide
@pytest.mark.cc
def test_permutes_of_four_dimensions_and_float64(rng: np.random.Generator) -> None:
    there = "def f(double(N,C,H,W) A) -> (O) { O(n,h,w,c) = A(n,c,h,w) }"
    back = "def f(float(N,H,W,C) A) -> (O) { O(n,c,h,w) = A(n,h,w,c) }"
    a = rng.normal(size=(2, 9, 3, 17))
    b = normal(rng, 2, 5, 4, 19)
    differential(
        [Case(problem(t, x), e) for t, x in ((there, a), (back, b)) for e in (True, False)]
    )


@pytest.mark.wide
@pytest.mark.cc
def test_every_type(rng: np.random.Generator) -> None:
    cases = []
    for d in ALL:
        name, dtype = d.name, numpy_dtype(d)
        text = f"def f({name}(N,M) A, {name}(N,M) B) -> (O) {{ O(n,m) = A(n,m) * B(n,m) - A(n,m) }}"
        if name == "bool":
            text = "def f(bool(N,M) A, bool(N,M) B) -> (O) { O(n,m) = A(n,m) && !B(n,m) }"
        high = 2 if name == "bool" else 100
        a, b = (rng.integers(0, high, (3, 37)).astype(dtype) for _ in range(2))
        cases += [Case(problem(text, a, b), exact) for exact in (True, False)]
    differential(cases)


def test_what_is_there_anyway_is_read_whatever_a_condition_says() -> None:
    text = "def f(bool(N) A, bool(N) B) -> (O) { O(n) = A(n) && B(n) }"
    p, machine = problem(text, *np.ones((2, 100), bool)), detect()
    spec = spec_of(p, exact=True)
    config = compiler.default_config(p.program, spec, machine, p.sizes)
    made = compiler.emit_c(compiler.lower(p.program, spec, config, machine, p.sizes, "f"))
    assert "&& B[" not in made, "no vectors are made of it"


@pytest.mark.cc
def test_types_meet(rng: np.random.Generator) -> None:
    a, b = normal(rng, 3, 37), rng.normal(size=(3, 37))
    i, h = rng.integers(-9, 9, (3, 37)).astype(np.int32), normal(rng, 3, 37).astype(np.float16)
    texts = [
        "def f(float(N,M) A, double(N,M) B, int32(N,M) I, float16(N,M) H) -> (O) {"
        " O(n,m) = A(n,m) * B(n,m) + I(n,m) }",
        "def f(float(N,M) A, double(N,M) B, int32(N,M) I, float16(N,M) H) -> (O, P) {"
        " O(n,m) = float16(A(n,m) * I(n,m))  P(n,m) = H(n,m) + A(n,m) }",
        "def f(float(N,M) A, double(N,M) B, int32(N,M) I, float16(N,M) H) -> (O) {"
        " O(n,m) = I(n,m) > 2 ? A(n,m) : float(I(n,m) * m) }",
    ]
    differential([Case(problem(t, a, b, i, h), e) for t in texts for e in (True, False)])


@pytest.mark.cc
def test_nan_and_infinity_as_in_the_reference(rng: np.random.Generator) -> None:
    a, b = normal(rng, 5, 40), normal(rng, 5, 40)
    for x in (a, b):
        x.reshape(-1)[rng.permutation(200)[:60]] = np.repeat([np.nan, np.inf, -np.inf, 0], 15)
    texts = [
        "def f(float(N,M) A, float(N,M) B) -> (O) { O(n,m) = max(A(n,m), B(n,m)) }",
        "def f(float(N,M) A, float(N,M) B) -> (O) { O(n,m) = fmin(A(n,m), B(n,m)) }",
        "def f(float(N,M) A, float(N,M) B) -> (O) { O(n,m) = relu(A(n,m)) + clamp(B(n,m), -1, 1) }",
        "def f(float(N,M) A, float(N,M) B) -> (O) { O(n,m) = exp(A(n,m)) * tanh(B(n,m)) }",
        "def f(float(N,M) A, float(N,M) B) -> (O) { O(n,m) = A(n,m) < B(n,m) || !(A(n,m) > 0) ? A(n,m) : sigmoid(B(n,m)) }",  # noqa: E501
    ]
    cases = [
        Case(problem(t, a, b), True, Config.of(c))
        for t in texts
        for c in ({}, {"g0.vectors": False})
    ]
    differential(cases, terms=8)


@pytest.mark.cc
def test_a_guarded_read_stays_guarded(rng: np.random.Generator) -> None:
    shift = "def f(float(N) A) -> (O) { O(i) = i > 0 ? A(i - 1) : 7.0 where i in 0:N }"
    relu = "def f(float(N) A, float(N) D) -> (O) { O(i) = A(i) > 0 ? D(i) : 0.0 }"
    a, d = normal(rng, 100), normal(rng, 100)
    one = problem(relu, a, d)
    differential([Case(p, e) for p in (problem(shift, a), one) for e in (True, False)])
    machine = detect()
    config = compiler.default_config(one.program, spec_of(one, exact=False), machine, one.sizes)
    if machine.isa in ("avx512", "avx2"):  # ranges prove D(i) inside, so both branches may run
        assert config.get("g0.vectors") is True


@pytest.mark.cc
def test_isnan_goes_in_vectors(rng: np.random.Generator) -> None:
    a = normal(rng, 100)
    a[[3, 50, 99]] = np.nan
    a[7] = np.inf
    text = "def f(float(N) A) -> (O) { O(i) = isnan(A(i)) || A(i) > 1 ? -1 : A(i) * A(i) }"
    p = problem(text, a)
    differential([Case(p, e) for e in (True, False)])
    machine = detect()
    config = compiler.default_config(p.program, spec_of(p, exact=False), machine, p.sizes)
    if machine.isa in ("avx512", "avx2"):
        assert config.get("g0.vectors") is True


@pytest.mark.cc
def test_threads_do_not_change_a_bit(rng: np.random.Generator) -> None:
    p = problem(
        "def f(float(N,M) A, float(M) b) -> (O) { O(n,m) = exp(A(n,m)) * b(m) }",
        normal(rng, 70, 333),
        normal(rng, 333),
    )
    runs = run_cases([Case(p, exact, threads=t) for exact in (True, False) for t in (1, 2, 7)])
    assert len({r[0].tobytes() for r in runs}) == 1
    assert_same(runs[0], expected(p), terms=8)


@pytest.mark.wide
@pytest.mark.parametrize(
    "value", ["A(n) % B(n)", "fmod(A(n), B(n))", "remainder(A(n), B(n))", "erfinv(A(n)) % 0.3"]
)
def test_remainders_in_vectors_and_their_tails(value: str) -> None:
    text = f"def f(float(N) A, float(N) B) -> (O) {{ O(n) = {value} }}"
    rng = np.random.default_rng(4)
    a, b = normal(rng, 1003) * 10, normal(rng, 1003)
    b[:5] = 0, np.inf, np.nan, 1e-38, -np.inf
    p = problem(text, a, b)
    spec = spec_of(p, exact=True)
    config = compiler.default_config(p.program, spec, detect(), p.sizes)
    emitted = compiler.emit_c(compiler.lower(p.program, spec, config, detect(), p.sizes, "rest"))
    assert any(f"tc_{name}_v" in emitted for name in ("mod", "fmod", "remainder"))
    differential([Case(p, exact=e) for e in (True, False)])


@pytest.mark.cc
def test_sums_of_bfloat16_have_the_bits_of_the_rounded_sum() -> None:
    """Denormals too, which the processor's own rounding takes for zero."""
    add: Any = tcdsl.define("def add(bfloat16(N) A, bfloat16(N) B) -> (O) { O(i) = A(i) + B(i) }")
    rng = np.random.default_rng(0)

    def bits(n: int) -> Array:
        return rng.integers(0, 1 << 16, n).astype(np.uint16).view(ml_dtypes.bfloat16)

    for n in (1, 15, 33, 70_000):
        a, b = bits(n), bits(n)
        with np.errstate(all="ignore"):
            expected = (a.astype(np.float32) + b.astype(np.float32)).astype(ml_dtypes.bfloat16)
        for lines in (a, np.repeat(a, 2)[::2]):
            found = add(lines, b)
            is_number = ~np.isnan(expected.astype(np.float32))
            np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), ~is_number)
            same = found.view(np.uint16) == expected.view(np.uint16)
            assert same[is_number].all()
    denormals = np.arange(256, dtype=np.uint16).view(ml_dtypes.bfloat16)
    found = add(denormals, np.zeros_like(denormals))
    np.testing.assert_array_equal(found.view(np.uint16), denormals.view(np.uint16))


SELECTS = (
    "x <= 0 ? 2 * expm1(x) : x",
    "x > 0 ? x : exp(x)",
    "isnan(x) || x < 1 ? 1 - x : x < 3 ? tanh(x) : sigmoid(x) * x",
    "x < 0 ? exp(x) : log(x) + exp(x)",
    "A(0, 0) < 0 ? exp(x) : x",
)


@pytest.mark.cc
@pytest.mark.parametrize(
    "dtype", ["float", *(pytest.param(t, marks=pytest.mark.wide) for t in ("double", "float16"))]
)
def test_what_no_lane_asks_for_is_left_out(dtype: str, rng: np.random.Generator) -> None:
    """Vectors in which no, some and all elements take the branch that costs much."""
    a = rng.normal(size=(9, 67)).astype(numpy_dtype(BY_NAME[dtype]))
    a[0], a[1], a[2, ::5], a[3, 7] = np.abs(a[0]), -np.abs(a[1]), np.nan, -np.inf
    a[4], a[5, :40], a[6, 3] = 0, -0.0, np.inf
    problems = [
        problem(f"def f({dtype}(N,M) A) -> (O) {{ O(n,m) = {s} where x = A(n,m) }}", a)
        for s in SELECTS
    ]
    differential([Case(p, exact) for p in problems for exact in (True, False)])


def test_a_branch_is_taken_where_it_spares_a_function() -> None:
    def text(expression: str) -> str:
        made: str = tcdsl.define(f"def f(float(N) A) -> (O) {{ O(n) = {expression} }}").text()
        return made

    lanes = detect().lanes(4)
    assert f"tc_any_v{lanes}i32" in text("A(n) <= 0 ? expm1(A(n)) : A(n)")
    assert "tc_any_" not in text("A(n) <= 0 ? 2 * A(n) : A(n)")
    assert "tc_any_" not in text("A(n) <= 0 ? exp(A(n)) : tanh(A(n))")


@ON_X86
@pytest.mark.cc
def test_branches_compile_where_vectors_of_doubles_cannot_be_chosen_from() -> None:
    cc, lanes = compiler_of("cc"), "-DTC_VECTOR_BYTES=16"
    machine = replace(detect(), isa="avx2", vector_bytes=16, registers=16)
    text = "def f(double(N) A) -> (O) { O(n) = A(n) != 0 ? exp(A(n)) : A(n) }"
    case = Case(problem(text, np.arange(-3.0, 4.0)), exact=False)
    differential([case], cc=replace(cc, flags=(*cc.flags, "-march=x86-64", lanes)), machine=machine)


@pytest.mark.cc
@pytest.mark.parametrize("behind", [0, 1], ids=["lines", "anywhere"])
def test_turned_tiles_may_go_past_the_caches(behind: int) -> None:
    past = Config.of({"g0.form": "pointwise", "g0.tiles": True, "g0.stream": True})
    cases = []
    for dtype, tc in (("float32", "float"), ("float64", "double"), ("int32", "int32")):
        for rows, columns in ((48, 64), (37, 50), (1, 5), (0, 3)):
            x = np.arange(rows * columns).reshape(rows, columns).astype(dtype)
            base = np.zeros(rows * columns + 64, dtype)
            first = -base.ctypes.data % 64 // base.itemsize + behind
            out = base[first : first + x.size].reshape(columns, rows)
            text = f"def f({tc}(M,N) A) -> (O) {{ O(n, m) = A(m, n) + 1 }}"
            p = problem(text, x, outs=[out])
            cases += [Case(p, exact, past) for exact in (True, False)]
    differential(cases)


def test_a_turn_keeps_its_slice_in_the_caches() -> None:
    """Stores past the caches are for what no cache holds, not for a part that is read at once."""
    text = (
        "def f(float(T,N) X) -> (A, B) { A(0,n) = X(0,n)  B(0,n) = X(0,n)  for t in 0:T-1 "
        "{ A(t+1,n) = B(t,n) + X(t,n)  B(t+1,n) = A(t+1,n) * X(t,n) } }"
    )
    machine = replace(detect(), l3_bytes=1 << 16)

    def streamed(text: str, *shapes: tuple[int, int]) -> list[Value]:
        p = problem(text, *(np.zeros(shape, np.float32) for shape in shapes))
        config = compiler.default_config(p.program, spec_of(p, exact=True), machine, p.sizes)
        return [value for knob, value in config.items if knob.endswith(".stream")]

    assert streamed(ADD, (64, 512), (64, 512)) == [True]
    assert set(streamed(text, (64, 512))) == {False}
