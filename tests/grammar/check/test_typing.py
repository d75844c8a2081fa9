"""Types: every conversion is written out, and C, CUDA and NumPy read the same tree."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import TCError
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.dtypes import (
    ALL,
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT8,
    UINT32,
    UINT64,
    DType,
    promote,
)

PARAMS = (
    "bool(N) b, uint8(N) u, uint32(N) w, uint64(N) x, int8(N) c, int32(N) i, int64(N) l, "
    "float16(N) h, bfloat16(N) g, float(N) f, double(N) d"
)


def statement(value: str, op: str = "=", returns: str = "O", **generics: Any) -> t.Statement:
    text = f"def t({PARAMS}) -> ({returns}) {{ O(n) {op} {value} }}"
    (found,) = check(parse(text), generics=generics).body
    assert isinstance(found, t.Statement)
    return found


def out(value: str, op: str = "=", returns: str = "O") -> DType:
    text = f"def t({PARAMS}) -> ({returns}) {{ O(n) {op} {value} }}"
    return check(parse(text)).returns[0].dtype


def show(e: t.Expr) -> str:
    """Return an expression with the type of each node that has a choice."""
    match e:
        case t.Lit(value, dtype):
            return f"{value}:{dtype}"
        case t.IndexValue(name, dtype):
            return f"{name}:{dtype}"
        case t.SizeValue(size, dtype):
            return f"{size}:{dtype}"
        case t.Read(name):
            return name
        case t.Unary(op, operand):
            return f"{op}{show(operand)}"
        case t.Binary(op, lhs, rhs):
            return f"({show(lhs)} {op} {show(rhs)})"
        case t.Select(cond, then, other):
            return f"({show(cond)} ? {show(then)} : {show(other)})"
        case t.Cast(operand, dtype):
            return f"{dtype}({show(operand)})"
        case t.Builtin(name, args):
            return f"{name}({', '.join(map(show, args))}):{e.dtype}"


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ("u(n) + u(n)", UINT8),
        ("u(n) + w(n)", UINT32),
        ("u(n) + c(n)", DType("int8", "int", 8)),
        ("w(n) + i(n)", INT32),
        ("x(n) + i(n)", INT64),
        ("u(n) + 1", INT32),
        ("b(n) + b(n)", INT32),
        ("b(n) && b(n)", BOOL),
        ("b(n) ? b(n) : b(n)", BOOL),
        ("i(n) < f(n)", BOOL),
        ("i(n) / 2", INT32),
        ("i(n) / 2.0", FLOAT32),
        ("l(n) * f(n)", FLOAT32),
        ("i(n) * h(n)", FLOAT16),
        ("h(n) * g(n)", FLOAT32),
        ("h(n) * f(n)", FLOAT32),
        ("f(n) * d(n)", FLOAT64),
        ("d(n) * 0.1", FLOAT64),
        ("h(n) * 0.1 + 2", FLOAT16),
        ("exp(i(n))", FLOAT32),
        ("exp(d(n))", FLOAT64),
        ("exp(h(n))", FLOAT16),
        ("fmax(i(n), 2)", FLOAT32),
        ("max(i(n), 2)", INT32),
        ("abs(l(n))", INT64),
        ("clamp(u(n), 0, 3)", INT32),
        ("isnan(f(n))", BOOL),
        ("n + N", INT32),
        ("int64(n) * N", INT64),
        ("3", INT32),
        ("3000000000", INT64),
        ("0.5", FLOAT32),
        ("double(0.5)", FLOAT64),
        ("nan", FLOAT32),
        ("b(n) ? 0.5 : 1", FLOAT32),
        ("b(n) ? 0.5 : d(n)", FLOAT64),
        ("b(n) ? i(n) : u(n)", INT32),
        ("-b(n)", INT32),
        ("-u(n)", UINT8),
    ],
)
def test_type_of_a_value(value: str, dtype: DType) -> None:
    assert out(value + _bound(value)) == dtype


def _bound(value: str) -> str:
    """Return a clause that gives n a range where the value reads nothing at n."""
    return "" if "(n)" in value.replace("int64(n)", "") else " where n in 0:N"


@pytest.mark.parametrize(
    ("value", "tree"),
    [
        ("f(n) + i(n)", "(f + float32(i))"),
        ("u(n) < i(n)", "(int32(u) < i)"),
        ("w(n) < x(n)", "(uint64(w) < x)"),
        ("b(n) == b(n)", "(int32(b) == int32(b))"),
        ("fmax(f(n), 0)", "fmax(f, 0.0:float32):float32"),
        ("max(u(n), 3)", "max(int32(u), 3:int32):int32"),
        ("pow(f(n), i(n))", "pow(f, float32(i)):float32"),
        ("f(n) * 0.1", "(f * 0.1:float32)"),
        ("d(n) * (1.0 / 3)", "(d * 0.3333333333333333:float64)"),
        ("d(n) * sqrt(2.0)", "(d * sqrt(2.0:float64):float64)"),
        ("f(n) * -inf", "(f * -inf:float32)"),
        ("double(1.0 / N) + d(n)", "((1.0:float64 / float64(N:int32)) + d)"),
        ("1.0 / N + d(n)", "(float64((1.0:float32 / float32(N:int32))) + d)"),
        ("f(n) * (b(n) ? 1.0 : 0)", "(f * (b ? 1.0:float32 : 0.0:float32))"),
        ("d(n) * (b(n) ? 1.0 : 0)", "(d * (b ? 1.0:float64 : 0.0:float64))"),
        ("i(n) > 0.5", "(float32(i) > 0.5:float32)"),
        ("int32(f(n) + 0.3)", "int32((f + 0.3:float32))"),
        ("int32(2.7) + i(n)", "(int32(2.7:float64) + i)"),
        ("bool(f(n))", "bool(f)"),
        ("float(f(n))", "f"),
        ("f(n) + n", "(f + float32(n:int32))"),
        ("int64(n) + l(n)", "(n:int64 + l)"),
        ("f(n) % 2", "(f % 2.0:float32)"),
        ("!b(n) || i(n) < 3", "(!b || (i < 3:int32))"),
        ("1e300 * 1e300 * f(n)", "(inf:float32 * f)"),
        ("f(n) * 2.0 * 3.0", "((f * 2.0:float32) * 3.0:float32)"),
        ("2.0 * 3.0 * f(n)", "(6.0:float32 * f)"),
    ],
)
def test_conversions_are_written_out(value: str, tree: str) -> None:
    assert show(statement(value).value) == tree


def test_a_half_is_read_as_float32_and_rounded_where_it_is_stored() -> None:
    assert show(statement("h(n) * 2 + 0.1").value) == (
        "float16(((float32(h) * 2.0:float32) + 0.1:float32))"
    )
    assert show(statement("float16(f(n)) * h(n)").value) == (
        "float16((float32(float16(f)) * float32(h)))"
    )
    assert show(statement("h(n)", returns="float(N) O").value) == "float32(h)"


def test_a_reduction_into_a_half_has_a_float32_value() -> None:
    found = statement("h(n) * h(n)", "+=!")
    assert found.value.dtype == FLOAT32
    assert out("h(n)", "+=!") == FLOAT16


def test_a_half_temporary_is_a_float32_tensor_of_the_half_type() -> None:
    text = """def t(bfloat16(N, K) A) -> (O) {
      m(n) max=! A(n, k)
      e(n, k) = exp(A(n, k) - m(n))
      O(n, k) = e(n, k)
    }"""
    definition = check(parse(text))
    assert {x.name: x.dtype for x in definition.temps} == {"m": FLOAT32, "e": FLOAT32}
    assert definition.returns[0].dtype == BFLOAT16


def test_subscripts_are_int64_and_values_int32() -> None:
    text = "def t(float(N) A, uint8(N) U) -> (O) { O(i) = A(i + U(i)) * i where i in 0:3 }"
    (found,) = check(parse(text)).body
    assert isinstance(found, t.Statement)
    value = found.value
    assert isinstance(value, t.Binary)
    assert isinstance(value.lhs, t.Read)
    assert show(value.lhs.subs[0]) == "(i:int64 + int64(U))"
    assert show(value.rhs) == "float32(i:int32)"


TARGETS = ("int32", "uint8", "bool", "float16")


@pytest.mark.parametrize(("target", "value"), list(product(TARGETS, "fdil")))
def test_a_wider_value_needs_a_cast(target: str, value: str) -> None:
    returns = f"{target}(N) O"
    fits = {("int32", "i"), ("float16", "i"), ("float16", "l")}
    if (target, value) in fits:
        assert out(f"{value}(n)", returns=returns).name == target
        return
    with pytest.raises(TCError) as caught:
        out(f"{value}(n)", returns=returns)
    assert caught.value.diagnostics[0].code == "TC303"
    assert out(f"{target}({value}(n))", returns=returns).name == target


def test_the_annotation_of_a_return_is_its_type() -> None:
    assert out("f(n)", returns="double(N) O") == FLOAT64
    assert show(statement("f(n)", returns="double(N) O").value) == "float64(f)"
    assert show(statement("0.1", returns="double(N) O").value) == "0.1:float64"
    assert show(statement("u(n) > 3", "+=!", returns="int64(N) O").value) == (
        "int64((int32(u) > 3:int32))"
    )


def test_counting_gives_int32() -> None:
    assert out("f(n) > 0.0", "+=!") == INT32


def test_promotion_is_symmetric_and_never_narrows_a_float() -> None:
    for a, b in product(ALL, ALL):
        both = promote(a, b)
        assert both == promote(b, a)
        if a.is_float or b.is_float:
            assert both.is_float
            assert both.bits >= max(x.bits for x in (a, b) if x.is_float)
        elif UINT64 not in (a, b):
            assert both.bits >= max(a.bits, b.bits)
