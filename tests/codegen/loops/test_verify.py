"""Each law of loop nests has a nest that breaks it."""

from __future__ import annotations

import pytest

from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    TRUTH,
    Array,
    Assign,
    Bin,
    Block,
    Call,
    Elem,
    Eval,
    Executable,
    Field,
    For,
    Function,
    If,
    Let,
    Return,
    Scalar,
    Simd,
    Stmt,
    Table,
    Unit,
    Unroll,
    Var,
)
from tcdsl.codegen.loops.verify import verify
from tcdsl.grammar.text.errors import InternalError
from tcdsl.grammar.types import dtypes as d

F32 = Scalar(d.FLOAT32)
i, j, n = b.i64("i"), b.i64("j"), b.i64("n")
x = b.var("x", d.FLOAT32)
src = b.pointer("src", d.FLOAT32, const=True)
dst = b.pointer("dst", d.FLOAT32)
one = b.const(1.0, d.FLOAT32)


def unit(*body: Stmt, params: tuple[Var, ...] = (src, dst, n)) -> Unit:
    return Unit("u", "u", (Function("f", params, Block(body), "helper"),))


def test_sound_nest_passes() -> None:
    verify(
        unit(
            Array("acc", F32, (4,)),
            Let(x, b.load(src, 0), mutable=True),
            b.loop(i, 0, n, Assign(x, b.load(src, i), "+="), mark=Simd((("+", "x"),))),
            b.loop(i, 0, 4, Assign(Elem("acc", (i,), F32), x)),
            Assign(b.load(dst, n), x),
        )
    )


def test_an_index_is_within_the_conditions_around_it() -> None:
    store = Assign(Elem("a", (i,), F32), one)
    held = b.all_of(b.compare("<", i, 4), b.compare(">", i, 0))
    verify(unit(Array("a", F32, (4,)), b.loop(i, -1, 5, b.when(held, store))))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ((Let(x, one), Let(x, one)), "'x' is bound twice"),
        ((b.loop(n, 0, 4, Assign(b.load(dst, n), one)),), "'n' is bound twice"),
        ((Assign(b.load(dst, i), one),), "'i' is used before it is bound"),
        ((b.loop(i, 0, n), Assign(b.load(dst, i), one)), "'i' is used before it is bound"),
        ((Let(x, b.c64(1)),), "'x' and its value"),
        ((Let(x, one), Assign(x, one)), "'x' is assigned but not mutable"),
        ((b.loop(i, 0, n, Assign(i, b.c64(0))),), "'i' is assigned but not mutable"),
        ((Assign(b.load(src, n), one),), "stores to input src"),
        ((Assign(b.load(b.offset(src, n), n), one),), "stores to input src"),
        ((Assign(b.load(dst, n), b.const(1.0, d.FLOAT64)),), "a place and its new value"),
        ((Let(x, Bin("+", one, b.const(1, d.INT32), F32)),), r"both sides of \+"),
        ((Let(x, Bin("+", one, one, I64)),), r"the result of \+"),
        ((If(n, Block(())),), "a condition"),
        ((Let(b.var("t", d.BOOL), Bin("&&", n, n, TRUTH)),), "the left side of &&"),
        ((Assign(b.load(dst, x), one), Let(x, one)), "'x' is used before"),
        ((Let(x, one), Assign(b.load(dst, x), one)), "an index is"),
        ((Array("a", F32, (4,)), Assign(Elem("a", (b.c64(4),), F32), one)),
         r"index 4..4 of 'a' is outside \[0, 4\)"),
        ((Array("a", F32, (4,)), b.loop(i, 0, 5, Assign(Elem("a", (i,), F32), one))),
         r"index 0..4 of 'a' is outside \[0, 4\)"),
        ((Array("a", F32, (4,)), b.loop(i, 0, 6, b.when(
            b.all_of(b.compare("<", i, 5), b.compare(">=", i, 2)),
            Assign(Elem("a", (i,), F32), one)))),
         r"index 2..4 of 'a' is outside \[0, 4\)"),
        ((Array("a", F32, (4, 2)), Assign(Elem("a", (n,), F32), one)), "'a' has 2 dimensions"),
        ((Assign(Elem("a", (n,), F32), one),), "'a' is not an array"),
        ((Array("a", F32, (0,)),), "array 'a' has shape"),
        ((For(i, b.c64(0), n, Block(()), b.c64(0)),), "has step 0"),
        ((b.loop(i, 0, n, mark=Unroll()),), "has no constant ends"),
        ((b.loop(i, 0, n, mark=Simd((("+", "x"),))),), "reduces 'x'"),
        ((Eval(Call("g", (), None)),), "calls 'g'"),
        ((Return(one),), "returns a value exactly if"),
    ],
)  # fmt: skip
def test_broken_law_is_named(body: tuple[Stmt, ...], message: str) -> None:
    with pytest.raises(InternalError, match=message):
        verify(unit(*body))


def test_arguments_fit_the_function() -> None:
    callee = Function("g", (n,), Block(()), "helper")
    bad = Function("f", (x,), Eval(Call("g", (x,), None)), "helper")
    with pytest.raises(InternalError, match="argument 'n' of 'g'"):
        verify(Unit("u", "u", (callee, bad)))
    with pytest.raises(InternalError, match="with 0 arguments"):
        verify(Unit("u", "u", (callee, Function("f", (), Eval(Call("g", (), None)), "helper"))))


def test_functions_are_defined_once() -> None:
    f = Function("f", (), Block(()), "helper")
    with pytest.raises(InternalError, match="'f' is defined twice"):
        verify(Unit("u", "u", (f, f)))


def test_phases_have_the_signature_of_the_abi() -> None:
    f = Function("f", (b.ARGS,), Return(b.const(0, d.INT32)), "phase", b.INT)
    with pytest.raises(InternalError, match="a phase has the ABI's signature"):
        verify(Unit("u", "u", (f,)))


def test_executables_and_tables_name_what_exists() -> None:
    phase = b.phase_function("p", Return(b.const(0, d.INT32)))
    plan = b.plan_function("q", Return(b.const(0, d.INT32)))
    verify(Unit("u", "u", (phase, plan), (), (Executable("u", "q", ("p",)),)))
    with pytest.raises(InternalError, match="has no phase 'q'"):
        verify(Unit("u", "u", (phase, plan), (), (Executable("u", "q", ("q",)),)))
    with pytest.raises(InternalError, match="table t names 'r'"):
        verify(Unit("u", "u", (phase,), (Table("t", I64, ("r",)),)))


def test_only_the_plan_may_be_written() -> None:
    f = b.phase_function("p", b.block(Assign(Field(b.ARGS, "threads", I64), b.c64(1)),
                                      Return(b.const(0, d.INT32))))  # fmt: skip
    with pytest.raises(InternalError, match="stores to a field of 'args'"):
        verify(Unit("u", "u", (f,)))
