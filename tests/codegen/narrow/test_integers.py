"""Narrowed integers: the same values in fewer bits, and nothing that overflows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.base.scalars import once
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.emit import emit
from tcdsl.codegen.loops.loopir import (
    I64,
    TRUTH,
    Argument,
    Array,
    Assign,
    Bin,
    Call,
    Cast,
    Elem,
    Expr,
    For,
    Function,
    If,
    Launch,
    Let,
    Load,
    Offset,
    Return,
    Scalar,
    Select,
    Stmt,
    Table,
    Un,
    Unit,
    Var,
)
from tcdsl.codegen.loops.target import CUDA
from tcdsl.codegen.loops.verify import verify
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.gpu import gpu_of
from tcdsl.codegen.machine.spec import SMALL, Layout, Spec
from tcdsl.codegen.narrow import spans
from tcdsl.codegen.narrow.integers import narrow
from tcdsl.codegen.program.program import Program
from tcdsl.codegen.program.ssa import program_of
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.dtypes import FLOAT32, INT8, INT32, INT64
from tests.codegen.harness import problem
from tests.codegen.interpreter import Machine
from tests.cusim.harness import differential
from tests.tiers import sampled

TEXT = """def f(int64 long, int32 word, int8 byte, int32(N,M) A, int64(N) W) -> (O) {
    O(n, m) = int64(A(n, m)) * W(n) * (long + int64(word + byte))
}"""
PROGRAM = program_of(check(parse(TEXT)))
I32, I8 = Scalar(INT32), Scalar(INT8)
A, W = b.pointer("A", INT32, const=True), b.pointer("W", INT64, const=True)
OUT, T = b.pointer("O", INT64), b.pointer("T", FLOAT32)
N, M, LONG = b.i64("N"), b.i64("M"), b.i64("long")
STRIDE = b.i64("A_s0")
WORD, BYTE = b.var("word", INT32), b.var("byte", INT8)
PARAMS = {
    A: Argument("data", 3), W: Argument("data", 4), OUT: Argument("data", 5),
    T: Argument("workspace", 0),
    N: Argument("size", PROGRAM.sizes.index("N")), M: Argument("size", PROGRAM.sizes.index("M")),
    LONG: Argument("scalar", 0), WORD: Argument("scalar", 1), BYTE: Argument("scalar", 2),
    STRIDE: Argument("stride", 3, 0),
}  # fmt: skip
BLOCK, THREAD = Call("tc_block", (), I32), Call("tc_thread", (), I32)
POINT = Call("tc_point", (), I64)


def unit_of(
    *body: Stmt | Sequence[Stmt],
    blocks: b.IntLike = 8,
    threads: int = 128,
    functions: Sequence[Function] = (),
    tables: Sequence[Table] = (),
) -> Unit:
    f = Function("k", tuple(PARAMS), b.block(*body), "kernel", threads=threads)
    launch = Launch("k", tuple(PARAMS.values()), b.expr(blocks), threads)
    return Unit("k", "", (*functions, f), tuple(tables), launches=(launch,), workspace=(b.c64(8),))


def spec_of(*, small: bool = False) -> Spec:
    layouts = tuple(Layout(1, contiguous=False, unit=0) for _ in PROGRAM.operands)
    return Spec(None, layouts, 0, is_small=small)


def narrowed(unit: Unit, *, small: bool = False, temps: int = 0) -> Unit:
    result = narrow(unit, PROGRAM, spec_of(small=small), temps)
    verify(result)
    return result


def lines(
    *body: Stmt | Sequence[Stmt],
    small: bool = False,
    temps: int = 0,
    blocks: b.IntLike = 8,
    threads: int = 128,
    functions: Sequence[Function] = (),
    tables: Sequence[Table] = (),
) -> list[str]:
    """Return the lines of a narrowed kernel's body."""
    unit = unit_of(*body, blocks=blocks, threads=threads, functions=functions, tables=tables)
    text = emit(narrowed(unit, small=small, temps=temps), CUDA)
    kernel = text[text.index('extern "C"') :]
    return [line.strip() for line in kernel.splitlines()[1:-1]]


def store(value: Expr, at: b.IntLike = 0) -> Assign:
    assert isinstance(value.type, Scalar)
    return Assign(Load(OUT, b.expr(at), I64), b.cast(value, I64))


i, j = b.i64("i"), b.i64("j")


# ---- indices


def test_a_point_of_a_known_grid_is_int32() -> None:
    assert lines(Let(i, POINT), store(i, i)) == [
        "const tc_i32 i = tc_block() * 128 + tc_thread();",
        "O[i] = (tc_i64)i;",
    ]


def test_a_point_of_an_unknown_grid_is_int64() -> None:
    count = b.mul(N, M)
    assert lines(Let(i, POINT), store(i, i), blocks=count)[0] == "const tc_i64 i = tc_point();"


def test_a_small_grid_is_known_by_its_launch() -> None:
    blocks = b.ceil_div(b.mul(N, M), 128)
    first = lines(Let(i, POINT), store(i, i), blocks=blocks, small=True)[0]
    assert first == "const tc_i32 i = tc_block() * 128 + tc_thread();"


def test_loops_are_as_wide_as_their_ends() -> None:
    loop = b.loop(i, 0, 1 << 20, store(i, i), step=64)
    assert lines(loop)[0] == "for (tc_i32 i = 0; i < 1048576; i += 64) {"
    loop = b.loop(i, 0, (1 << 31) - 1, store(i, i), step=64)  # its last step leaves 32 bits
    assert lines(loop)[0] == "for (tc_i64 i = 0; i < 2147483647; i += 64) {"
    loop = b.loop(i, 0, N, store(i, i))
    assert lines(loop)[0] == "for (tc_i64 i = 0; i < N; i++) {"
    assert lines(loop, small=True)[0] == "for (tc_i32 i = 0; i < N; i++) {"


def test_what_a_division_leaves_may_fit() -> None:
    body: list[Stmt] = [Let(i, POINT), Let(j, b.mod(i, 10)), store(b.add(i, j), j)]
    assert lines(body, blocks=N)[1:] == [
        "const tc_i32 j = (tc_i32)(i % 10);",
        "O[j] = i + j;",
    ]


def test_an_address_in_small_memory_is_computed_in_32_bits() -> None:
    body = b.loop(i, 0, N, store(b.load(A, b.add(b.mul(i, STRIDE), 3)), i))
    assert lines(body, small=True)[1] == "O[i] = (tc_i64)A[i * A_s0 + 3];"
    assert lines(body)[1] == "O[i] = (tc_i64)A[i * A_s0 + 3];"
    assert lines(body)[0] == "for (tc_i64 i = 0; i < N; i++) {"


def test_a_variable_that_is_only_an_address_may_be_one_in_32_bits() -> None:
    first = Let(j, b.mul(i, STRIDE))
    used = store(b.load(A, b.add(j, 1)), i)
    assert lines(b.loop(i, 0, N, first, used), small=True)[1] == "const tc_i32 j = i * A_s0;"
    also = store(j, i)  # as a value it must be exact
    body = lines(b.loop(i, 0, N, first, used, also), small=True)
    assert body[1] == "const tc_i64 j = (tc_i64)i * A_s0;"
    assert body[2] == "O[i] = (tc_i64)A[j + 1];"


def test_pointers_to_small_memory_are_followed() -> None:
    p = Var("p", A.type)
    body: list[Stmt] = [
        Let(p, Offset(A, b.mul(N, STRIDE), A.type)),
        store(b.load(p, b.mul(M, STRIDE))),
    ]
    assert lines(body, small=True)[:2] == [
        "const tc_i32 *p = A + N * A_s0;",
        "O[0] = (tc_i64)p[M * A_s0];",
    ]
    assert "(tc_i64)" not in lines(body)[0]  # the parameters are int64 then


def test_partial_sums_are_not_promised_to_be_small() -> None:
    at = b.add(b.mul(b.i64("i"), b.mul(N, M)), 1)
    body = b.loop(i, 0, 64, Assign(b.load(T, at), b.const(0.0, FLOAT32)))
    assert lines(body, small=True)[1] == "T[(tc_i64)i * (N * M) + 1] = 0.0f;"
    assert lines(body, small=True, temps=1)[1] == "T[i * (N * M) + 1] = 0.0f;"


def test_offsets_in_bytes_are_64_bits() -> None:
    p = Var("p", OUT.type)
    body: list[Stmt] = [
        Let(p, Offset(OUT, b.mul(N, STRIDE, 8), OUT.type, bytes=True)),
        Assign(b.load(p, 0), N),
    ]
    assert lines(body, small=True)[0].endswith("(tc_i64 *)((char *)O + (tc_i64)N * A_s0 * 8);")


def test_parameters_of_a_small_unit_are_int32_where_they_hold_sizes_and_strides() -> None:
    (f,) = narrowed(unit_of(store(N)), small=True).functions
    types = {p.name: p.type for p in f.params}
    assert types["N"] == types["A_s0"] == I32
    assert types["long"] == I64
    (f,) = narrowed(unit_of(store(N))).functions
    assert {p.type for p in f.params if p.name in ("N", "A_s0", "long")} == {I64}


# ---- values


def test_values_that_may_overflow_wrap() -> None:
    assert lines(store(b.mul(LONG, LONG))) == ["O[0] = tc_wrap_mul_i64(long, long);"]
    assert lines(store(Bin("+", WORD, WORD, I32))) == [
        "O[0] = (tc_i64)tc_wrap_add_i32(word, word);"
    ]
    assert lines(store(Un("-", WORD, I32))) == ["O[0] = (tc_i64)tc_wrap_neg_i32(word);"]
    small = Bin("*", Cast(BYTE, I32), Cast(BYTE, I32), I32)
    assert lines(store(small)) == ["O[0] = (tc_i64)((tc_i32)byte * (tc_i32)byte);"]


def test_products_of_sizes_that_count_nothing_are_exact() -> None:
    squared = b.loop(i, 0, N, store(b.mul(N, N), i))
    assert lines(squared, small=True)[1] == "O[i] = (tc_i64)N * N;"
    counted = b.loop(i, 0, N, store(b.mul(N, M), i))  # the points of the output
    assert lines(counted, small=True)[1] == "O[i] = (tc_i64)(N * M);"


def test_products_of_indices_are_exact() -> None:
    product = b.mul(i, j)
    body = b.loop(i, 0, N, b.loop(j, 0, M, store(product, i)))
    assert lines(body, small=True)[2] == "O[i] = (tc_i64)i * j;"


def test_a_cast_that_truncates_stays() -> None:
    assert lines(store(Cast(LONG, I32))) == ["O[0] = (tc_i64)(tc_i32)long;"]
    again = Cast(Bin("+", Cast(LONG, I32), b.const(1, INT32), I32), I64)
    assert lines(store(again)) == ["O[0] = (tc_i64)tc_wrap_add_i32((tc_i32)long, 1);"]


def test_integer_accumulators_wrap_and_float_ones_are_left() -> None:
    acc, total = b.var("acc", INT32), b.var("total", FLOAT32)
    body: list[Stmt] = [
        Let(acc, b.const(0, INT32), mutable=True),
        Let(total, b.const(0.0, FLOAT32), mutable=True),
        b.loop(
            i, 0, N, Assign(acc, b.load(A, i), "+="), Assign(total, b.load(T, i), "+=")
        ),
        store(acc),
    ]  # fmt: skip
    found = lines(body)
    assert "acc = tc_wrap_add_i32(acc, A[i]);" in found
    assert "total += T[i];" in found


def test_a_counter_that_goes_round_is_int32() -> None:
    stage = b.i64("stage")
    turn = Assign(stage, b.mod(b.add(stage, 1), 4))
    body: list[Stmt] = [Let(stage, b.c64(0), mutable=True), b.loop(i, 0, N, store(stage, i), turn)]
    found = lines(body)
    assert found[0] == "tc_i32 stage = 0;"
    assert "stage = (stage + 1) % 4;" in found


def test_a_local_array_is_as_wide_as_what_it_is_given() -> None:
    at = Array("at", I64, (4,))
    element = Elem("at", (i,), I64)
    body: list[Stmt] = [
        at,
        b.loop(i, 0, 4, Assign(element, b.mul(i, 100))),
        b.loop(i, 0, 4, store(b.load(A, Elem("at", (i,), I64)), i)),
    ]
    assert lines(body)[0] == "tc_i32 at[4];"
    body[1] = b.loop(i, 0, 4, Assign(element, LONG))
    assert lines(body)[0] == "tc_i64 at[4];"


def test_tables_are_as_wide_as_their_values() -> None:
    table = Table("offsets", I64, (0, 5, -7))
    text = lines(store(b.load(A, Elem("offsets", (b.c64(1),), I64))), tables=[table])
    assert text == ["O[0] = (tc_i64)A[offsets[1]];"]
    (found,) = narrowed(unit_of(store(N), tables=[table])).tables
    assert found.type == I32


def test_functions_take_what_their_callers_give() -> None:
    x = b.i64("x")
    twice = Function("twice", (x,), Return(b.mul(x, 2)), "inline", result=I64)
    calls = [b.loop(i, 0, 9, store(Call("twice", (i,), I64), i))]
    unit = narrowed(unit_of(*calls, functions=[twice]))
    assert unit.functions[0].params == (Var("x", I32),)
    unit = narrowed(unit_of(*calls, store(Call("twice", (LONG,), I64)), functions=[twice]))
    assert unit.functions[0].params == (x,)
    assert "tc_wrap_mul_i64(x, 2)" in emit(unit, CUDA)


# ---- conditions


def test_a_checked_subscript_is_small_behind_its_check() -> None:
    t = b.i64("t")
    outside = b.any_of(b.compare("<", t, 0), b.compare(">=", t, b.c64(100)))
    found = lines(Let(t, LONG), If(outside, Return()), store(b.load(A, b.add(b.mul(t, 10), 1))))
    assert found[0] == "const tc_i64 t = long;"
    assert found[-1] == "O[0] = (tc_i64)A[(tc_i32)t * 10 + 1];"


def test_a_subscript_is_exact_before_its_check() -> None:
    t = b.i64("t")
    outside = b.compare(">=", t, N)
    found = lines(
        Let(t, b.mul(Cast(once(b.load(A, b.c64(0))), I64), 1000)),
        If(outside, Return()),
        store(b.load(A, t)),
        small=True,
    )
    assert found[0] == "const tc_i64 t = (tc_i64)tc_once_i32(A) * 1000;"
    assert found[1] == "if (t >= N) {"


def test_a_guard_bounds_what_stands_under_it() -> None:
    guard = b.all_of(b.compare(">=", LONG, 0), b.compare("<", LONG, 1000))
    found = lines(If(guard, store(b.mul(LONG, 1000)), store(b.mul(LONG, 1000))))
    assert found[1] == "O[0] = (tc_i64)((tc_i32)long * 1000);"
    assert found[3] == "O[0] = tc_wrap_mul_i64(long, 1000);"


# ---- random kernels


SCALARS: dict[str, tuple[Expr, tuple[int, int]]] = {
    "N": (N, (0, SMALL - 1)), "M": (M, (0, 40)), "long": (LONG, spans.LONG),
    "word": (Cast(WORD, I64), spans.WORD), "byte": (Cast(BYTE, I64), (-128, 127)),
    "block": (Cast(BLOCK, I64), (0, 7)), "thread": (Cast(THREAD, I64), (0, 127)),
    "loaded": (b.load(W, b.c64(0)), spans.LONG),
    "read": (Cast(b.load(A, b.c64(0)), I64), spans.WORD),
}  # fmt: skip
CONSTANTS = (0, 1, 2, 3, 7, 32, 1000, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 63) - 1)


def expressions(names: Sequence[Expr]) -> st.SearchStrategy[Expr]:
    constants = st.sampled_from([s * c for c in CONSTANTS for s in (1, -1)]).map(b.c64)
    leaves = st.sampled_from(list(names)) | constants

    def extend(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        def call(name: str, *args: Expr) -> Expr:
            return Call(f"tc_{name}_i64", args, I64)

        def positive(e: Expr) -> Expr:
            return call("max", e, b.c64(0))

        compares = st.builds(
            lambda op, x, y: Bin(op, x, y, TRUTH), st.sampled_from(["<", ">=", "=="]), inner, inner
        )
        words = st.builds(
            lambda op, x, y: Cast(Bin(op, Cast(x, I32), Cast(y, I32), I32), I64),
            st.sampled_from(["+", "-", "*", "&"]),
            inner,
            inner,
        )
        divisors = st.sampled_from([1, 2, 10, 1 << 33]).map(b.c64)
        return st.one_of(
            st.builds(
                lambda op, x, y: Bin(op, x, y, I64), st.sampled_from("+-*&|^"), inner, inner
            ),
            st.builds(call, st.sampled_from(["div", "mod", "min", "max"]), inner, inner),
            st.builds(
                lambda op, x, y: Bin(op, positive(x), y, I64),
                st.sampled_from("/%"), inner, divisors,
            ),
            st.builds(lambda x: Un("-", x, I64), inner),
            st.builds(lambda c, x, y: Select(c, x, y, I64), compares, inner, inner),
            st.builds(lambda x, n: Bin(">>", x, b.c64(n), I64), inner, st.integers(0, 63)),
            st.builds(lambda x, t: Cast(Cast(x, t), I64), inner, st.sampled_from([I32, I8])),
            words,
        )  # fmt: skip

    return st.recursive(leaves, extend, max_leaves=12)


NAMES = [e for e, _ in SCALARS.values()]
TOTAL, HELD = b.i64("total"), Elem("held", (i,), I64)
FIRST = expressions(NAMES)
OUTSIDE = expressions([*NAMES, b.i64("p")])
INSIDE = expressions([*NAMES, b.i64("p"), i, TOTAL])
STORED = expressions([*NAMES, b.i64("p"), i, TOTAL, HELD])


@st.composite
def kernels(draw: st.DrawFn) -> Unit:
    turn: list[Stmt] = [
        Assign(TOTAL, draw(INSIDE), draw(st.sampled_from(["=", "+=", "*="]))),
        Assign(HELD, draw(INSIDE)),
        store(draw(STORED)),
    ]
    compare = draw(st.sampled_from(["<", ">=", "!="]))
    guard = Bin(compare, draw(st.sampled_from(NAMES)), draw(OUTSIDE), TRUTH)  # type: ignore[arg-type]
    return unit_of(
        Let(b.i64("p"), draw(FIRST)),
        Let(TOTAL, draw(OUTSIDE), mutable=True),
        Array("held", I64, (4,), zero=True),
        For(i, b.c64(0), b.c64(4), b.block(turn)),
        If(guard, Return() if draw(st.booleans()) else store(NAMES[0])),
        store(draw(OUTSIDE)),
    )


def values_of() -> st.SearchStrategy[dict[str, int]]:
    def within(low: int, high: int) -> st.SearchStrategy[int]:
        return st.sampled_from([low, high]) | st.integers(low, high)

    return st.fixed_dictionaries({name: within(*span) for name, (_, span) in SCALARS.items()})


def check_same(unit: Unit, values: dict[str, int], small: bool) -> None:
    values = {**values, "tc_block": values["block"], "tc_thread": values["thread"], "A_s0": 1}
    memory: dict[str, Callable[[int], int]] = {
        "W": lambda _: values["loaded"], "A": lambda _: values["read"]
    }  # fmt: skip
    expected = Machine(values, memory, strict=False).run(unit.functions[-1])
    result = narrowed(unit, small=small)
    assert Machine(values, memory, strict=True).run(result.functions[-1]) == expected


@settings(max_examples=40)
@given(kernels(), values_of(), st.booleans())
def test_narrowed_kernels_store_the_same_and_never_overflow(
    unit: Unit, values: dict[str, int], small: bool
) -> None:
    check_same(unit, values, small)


@pytest.mark.deep
@settings(max_examples=2000)
@given(kernels(), values_of(), st.booleans())
def test_many_narrowed_kernels_store_the_same(
    unit: Unit, values: dict[str, int], small: bool
) -> None:
    check_same(unit, values, small)


# ---- whole programs


GATHER = """def gather(int64(N,K) X, int32(N) idx, int32(K) w, float(M,K) T) -> (O, P, S) {
    O(n, k) = X(n, k) * int64(w(k)) + int64(n) * 3
    P(n, k) = T(idx(n), k)
    S(k) +=! w(k) * idx(n)
}"""
SIZES = {"N": 100, "K": 77, "M": 9}


def lowered(program: Program, *, exact: bool, small: bool = False) -> Unit:
    ranks = [len(next(x.shape for x in program.buffers if x.name == n)) for n in program.operands]
    layouts = tuple(Layout(r, contiguous=exact, unit=r - 1 if r else None) for r in ranks)
    spec = Spec(tuple(SIZES.items()) if exact else None, layouts, 0, small)
    plain = Config.of({f"g{g}.form": "nest" for g in range(3)})
    return compiler.lower(program, spec, plain, gpu_of("sm_90"), SIZES, "gather")


@pytest.mark.parametrize(
    ("name", "exact", "small"),
    [("exact", True, False), ("small", False, True), ("big", False, False)],
)
def test_integers_read_well(
    golden: Callable[[str, str], None], name: str, exact: bool, small: bool
) -> None:
    program = program_of(check(parse(GATHER)))
    text = compiler.emit_cuda(lowered(program, exact=exact, small=small))
    golden(text, f"emit/integers_{name}.cu")


WRAPPING = """def wrapping(int64(N,K) X, int32(N) idx, int32(K) w, float(M,K) T, int64 far)
    -> (O, P, S, Q) {
    O(n, k) = X(n, k) * int64(w(k)) - far * int64(n)
    P(n, k) = T(idx(n), k)
    S(k) +=! w(k) * w(k) - idx(n)
    Q(n) +=! -X(n, k) + int64(n) * int64(k)
}"""


@pytest.mark.cusim
@sampled("small", [True, False], keep=2)
@sampled("turned", [False, True], keep=1)
def test_kernels_wrap_as_the_language_does_and_nothing_overflows(
    small: bool, turned: bool, rng: np.random.Generator
) -> None:
    limits = np.iinfo(np.int64)
    x = rng.integers(limits.min, limits.max, (5, 70), np.int64, endpoint=True)
    w = rng.integers(-(2**31), 2**31, 70).astype(np.int32)
    table = rng.standard_normal((9, 70)).astype(np.float32)
    rows = rng.integers(0, 9, 5).astype(np.int32)
    if turned:  # strides are negative, and parameters of the kernel
        x, table = x[::-1, ::-1], table[::-1]
    case = problem(WRAPPING, x, rows, w, table, limits.max - 3)
    differential(case, exact=(True, False) if small else (False,), is_small=small)


@pytest.mark.cusim
def test_a_checked_subscript_that_wraps_in_32_bits_is_still_outside() -> None:
    text = "def far(float(N) A, int32(M) at) -> (B) { B(m) = A(at(m) * 65536 + 1) }"
    at = np.array([0, 65536], np.int32)  # times 65536 is 0 in 32 bits
    case = problem(text, np.ones(4, np.float32), at)
    for small in (True, False):
        differential(case, is_small=small)
