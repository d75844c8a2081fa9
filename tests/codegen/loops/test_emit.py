"""The printer: spelling, precedence, literals."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.emit import emit
from tcdsl.codegen.loops.loopir import (
    I64,
    TRUTH,
    Array,
    Assign,
    Bin,
    Block,
    Call,
    Cast,
    Comment,
    Const,
    Elem,
    Eval,
    Executable,
    Expr,
    Field,
    Function,
    If,
    Let,
    Mask,
    Offset,
    Opaque,
    Pointer,
    Return,
    Scalar,
    Select,
    Simd,
    Stmt,
    Table,
    Un,
    Unit,
    Unroll,
    Var,
    Vector,
)
from tcdsl.codegen.loops.spelling import literal
from tcdsl.codegen.loops.target import C
from tcdsl.grammar.types import dtypes as d

F32, I32, I8 = Scalar(d.FLOAT32), Scalar(d.INT32), Scalar(d.INT8)
x, y, z = (b.var(n, d.FLOAT32) for n in "xyz")
i, j = b.i64("i"), b.i64("j")
p = b.pointer("p", d.FLOAT32)


def body_text(*stmts: Stmt) -> str:
    text = emit(Unit("u", "u", (Function("f", (), Block(stmts), "helper"),)), C)
    return text.split("{\n", 1)[1].rsplit("}", 1)[0]


def text(e: Expr) -> str:
    return body_text(Return(e)).strip().removeprefix("return ").removesuffix(";")


def fbin(op: str, lhs: Expr, rhs: Expr) -> Bin:
    return Bin(op, lhs, rhs, F32)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (fbin("*", fbin("+", x, y), z), "(x + y) * z"),
        (fbin("+", fbin("*", x, y), z), "x * y + z"),
        (fbin("-", x, fbin("-", y, z)), "x - (y - z)"),
        (fbin("-", fbin("-", x, y), z), "x - y - z"),
        (fbin("+", x, fbin("+", y, z)), "x + (y + z)"),  # rounding depends on the order
        (Un("-", Un("-", x, F32), F32), "-(-x)"),
        (Un("-", b.const(-1.0, d.FLOAT32), F32), "-(-1.0f)"),
        (fbin("-", x, Un("-", y, F32)), "x - -y"),
        (Un("-", fbin("*", x, y), F32), "-(x * y)"),
        (Un("!", b.compare("<", i, j), TRUTH), "!(i < j)"),
        (Select(b.compare("<", i, j), x, Select(b.compare("<", j, i), y, z, F32), F32),
         "i < j ? x : j < i ? y : z"),
        (Select(b.compare("<", i, j), x, y, F32), "i < j ? x : y"),
        (fbin("+", Select(b.compare("<", i, j), x, y, F32), z), "(i < j ? x : y) + z"),
        (Cast(fbin("+", x, y), Scalar(d.FLOAT64)), "(double)(x + y)"),
        (Cast(b.load(p, i), Scalar(d.FLOAT64)), "(double)p[i]"),
        (b.load(b.offset(p, i), j), "(p + i)[j]"),
        (b.load(p, b.add(b.mul(i, 4), j, 1)), "p[i * 4 + j + 1]"),
        (Field(b.ARGS, "sizes[2]", I64), "args->sizes[2]"),
        (b.load(Cast(Field(b.ARGS, "data[0]", Opaque("char *")), Pointer(d.FLOAT32)), i),
         "((float *)args->data[0])[i]"),
        (Offset(p, i, p.type, bytes=True), "(float *)((char *)p + i)"),
        (b.any_of(b.all_of(b.compare("<", i, j), b.compare(">", i, 0)), b.compare("==", j, 0)),
         "i < j && i > 0 || j == 0"),
        (Bin("+", b.var("s", d.INT8), b.const(1, d.INT8), I8), "(tc_i8)(s + (tc_i8)1)"),
        (Bin("+", b.var("s", d.INT32), b.const(1, d.INT32), I32), "s + 1"),
        (Bin("<<", b.c64(1), i, I64), "(tc_i64)1 << i"),
        (Bin("*", b.c64(100000), b.c64(100000), I64), "(tc_i64)100000 * 100000"),
        (Const(0.0, Vector(d.FLOAT32, 16)), "tc_splat_v16f32(0.0f)"),
        (Elem("acc", (b.c64(1), i), F32), "acc[1][i]"),
    ],
)  # fmt: skip
def test_expression_has_fewest_parentheses(e: Expr, expected: str) -> None:
    assert text(e) == expected


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (0.0, d.FLOAT32, "0.0f"),
        (-0.0, d.FLOAT32, "-0.0f"),
        (0.1, d.FLOAT32, "0.1f"),
        (0.1, d.FLOAT64, "0.1"),
        (1.0, d.FLOAT16, "1.0f"),
        (1e-45, d.FLOAT32, "1e-45f"),
        (1e40, d.FLOAT32, "TC_INF_F32"),
        (-math.inf, d.FLOAT64, "-TC_INF_F64"),
        (math.nan, d.FLOAT32, "TC_NAN_F32"),
        (2**31 - 1, d.INT32, "2147483647"),
        (-(2**31), d.INT32, "(tc_i32)(-2147483647 - 1)"),
        (-(2**63), d.INT64, "(tc_i64)(-9223372036854775807 - 1)"),
        (2**64 - 1, d.UINT64, "18446744073709551615ull"),
        (2**32 - 1, d.UINT32, "4294967295u"),
        (255, d.UINT8, "(tc_u8)255"),
        (True, d.BOOL, "1"),
    ],
)
def test_literal_carries_its_type(value: float, dtype: d.DType, expected: str) -> None:
    assert literal(value, dtype) == expected


def test_address_constants_fold() -> None:
    assert b.add(i, 1, b.add(j, 2)) == b.add(i, j, 3)
    assert b.mul(b.add(i, 0), 1) == i
    assert b.mul(0, i) == b.c64(0)
    assert b.sub(b.add(i, 5), 5) == i
    assert text(b.sub(i, 3)) == "i - 3"
    assert b.add(b.sub(i, 3), 3) == i
    assert b.ceil_div(17, 4) == b.c64(5)
    assert b.min64(3, 4) == b.c64(3)
    assert b.all_of() == Const(True, TRUTH)


def test_whole_unit(golden: Callable[[str, str], None]) -> None:
    vec = Vector(d.FLOAT32, 16)
    mask = Mask(d.FLOAT32, 16)
    acc = Elem("acc", (b.c64(0), i), vec)
    m = Var("m", mask)
    s = b.var("s", d.FLOAT32)
    src = b.pointer("src", d.FLOAT32, const=True, restrict=True)
    dst = b.pointer("dst", d.FLOAT32, restrict=True)
    n = b.i64("n")
    micro = Function(
        "u_micro",
        (src, dst, n),
        b.block(
            Array("acc", vec, (1, 2), zero=True),
            Let(m, Call("tc_tail_v16f32", (n,), mask)),
            b.loop(
                i,
                0,
                2,
                Assign(acc, Call("tc_loadm_v16f32", (b.offset(src, b.mul(i, 16)), m), vec), "+="),
                mark=Unroll(),
            ),
            If(
                b.compare(">", n, 16),
                Eval(
                    Call("tc_storem_v16f32", (dst, m, Elem("acc", (b.c64(0), b.c64(1)), vec)), None)
                ),
                Comment("nothing */ to do"),
            ),
        ),
        "micro",
    )
    total = b.phase_function(
        "u_phase0",
        b.block(
            Let(s, b.const(0.0, d.FLOAT32), mutable=True),
            Let(src, Cast(Field(b.ARGS, "data[0]", Opaque("char *")), src.type)),
            b.loop(
                i, b.BEGIN, b.END, Assign(s, b.load(src, i), "+="), mark=Simd((("+", "s"),)), step=2
            ),
            b.when(b.compare("<", s, b.const(0.0, d.FLOAT32)), Return(b.const(1, d.INT32))),
            Return(b.const(0, d.INT32)),
        ),
    )
    plan = b.plan_function(
        "u_plan",
        b.block(
            Assign(Field(b.PLAN, "tasks[0]", I64), Field(b.ARGS, "sizes[0]", I64)),
            Assign(Field(b.PLAN, "cost_ns[0]", Scalar(d.FLOAT64)), b.const(12.5, d.FLOAT64)),
            b.set_param(0, 7),
            Return(b.const(0, d.INT32)),
        ),
    )
    tables = (
        Table("u_steps", I64, (1, 2, 4)),
        Table("u_kernels", Opaque("tc_phase"), ("u_phase0",)),
    )
    unit = Unit(
        "u",
        "def u(float(N) A) -> (B) {\n  B(i) = A(i)\n}\nconfig g0.mr=6 */",
        (micro, total, plan),
        tables,
        (Executable("u", "u_plan", ("u_phase0",)),),
    )
    golden(emit(unit, C), "emit/unit.c")
