"""Addresses that depend on data: each way to break the law is refused, each sound one passes."""

from __future__ import annotations

import pytest

from tcdsl.codegen.forms.base.scalars import once
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    TRUTH,
    Address,
    Array,
    Assign,
    Bin,
    Call,
    Cast,
    Elem,
    Expr,
    Field,
    Function,
    If,
    Let,
    Opaque,
    Pointer,
    Return,
    Scalar,
    Select,
    Stmt,
    Unit,
    Var,
)
from tcdsl.codegen.loops.verify import verify
from tcdsl.grammar.text.errors import InternalError
from tcdsl.grammar.types import dtypes as d

index, byte = b.pointer("I", d.INT64, const=True), b.pointer("U", d.UINT8, const=True)
table, out = b.pointer("A", d.FLOAT32, const=True), b.pointer("O", d.FLOAT32)
own = b.pointer("own", d.INT64)
i, j, k, t, u, n = *map(b.i64, "ijktu"), b.c64(7)
element = b.load(table, t)
inside = b.all_of(b.compare(">=", t, 0), b.compare("<", t, n))
outside = b.any_of(b.compare("<", t, 0), b.compare(">=", t, n))
fault = Return(b.const(1, d.INT32))
read_once = Let(t, once(b.load(index, i)))
zero = b.const(0.0, d.FLOAT32)
copied = Elem("rows", (b.c64(0),), I64)
peek = Assign(copied, Call("tc_peek_i64", (b.offset(index, i),), I64))
settle = b.do("tc_settle", Address(copied, Pointer(d.INT64)))


def store(value: Expr) -> Stmt:
    return Assign(b.load(out, i), value)


def check(*body: Stmt) -> None:
    def data(k: int, p: Var) -> Let:
        return Let(p, Cast(Field(b.ARGS, f"data[{k}]", Opaque("char *")), p.type))

    shared = Field(b.ARGS, "shared", Opaque("char *"))
    head = [data(k, p) for k, p in enumerate((index, byte, table, out))]
    head.append(Let(own, Cast(shared, own.type)))
    points = b.loop(i, b.BEGIN, b.END, *body)
    f = b.phase_function("p", b.block(head, points, Return(b.const(0, d.INT32))))
    verify(Unit("u", "u", (f,)))


SOUND: dict[str, tuple[Stmt, ...]] = {
    "checked": (read_once, If(outside, fault), store(element)),
    "guarded": (read_once, store(Select(inside, element, zero, zero.type))),
    "in a branch": (read_once, If(inside, store(element))),
    "in the other": (read_once, If(outside, store(zero), store(element))),
    "by its conjunction": (
        read_once,
        If(b.all_of(inside, b.compare(">", b.cast(element, I64), 0)), store(zero)),
    ),
    "a name for the condition": (
        read_once,
        Let(Var("ok", TRUTH), inside),
        If(Var("ok", TRUTH), store(element)),
    ),
    "clamped": (
        read_once,
        store(b.load(table, b.max64(0, b.min64(t, 6)))),
    ),
    "its low bits": (read_once, store(b.load(table, Bin("&", t, b.c64(3), I64)))),
    "kept after the check": (
        Array("rows", I64, (8,)),
        read_once,
        If(outside, fault),
        Assign(Elem("rows", (b.c64(0),), I64), t),
        store(b.load(table, Elem("rows", (b.c64(0),), I64))),
    ),
    "a settled copy": (
        Array("rows", I64, (8,)),
        peek,
        settle,
        Let(t, copied),
        store(Select(inside, element, zero, zero.type)),
    ),
    "of the call's own memory": (Let(t, b.load(own, i)), store(element)),
    "a byte": (store(b.load(table, b.cast(b.load(byte, i), I64))),),
    "a name that stood for data in another block": (
        If(b.compare("<", i, 3), b.block(Let(t, b.load(index, i)), store(zero))),
        b.loop(t, 0, 3, store(element)),
    ),
    "the outer index": (Let(t, b.add(i, 1)), store(element)),
}
BROKEN: dict[str, tuple[tuple[Stmt, ...], str]] = {
    "a plain load": ((store(b.load(table, b.load(index, i))),), "plain load"),
    "a plain load by name": (
        (Let(t, b.load(index, i)), If(outside, fault), store(element)),
        "plain load",
    ),
    "a plain load, kept": (
        (
            Array("rows", I64, (8,)),
            Assign(Elem("rows", (b.c64(0),), I64), b.load(index, i)),
            store(b.load(table, Elem("rows", (b.c64(0),), I64))),
        ),
        "plain load",
    ),
    "a copy": (
        (Array("rows", I64, (8,)), peek, Let(t, copied), If(outside, fault), store(element)),
        "plain load",
    ),
    "a copy that is written again": (
        (
            Array("rows", I64, (8,)),
            peek,
            settle,
            peek,
            Let(t, copied),
            If(outside, fault),
            store(element),
        ),
        "plain load",
    ),
    "a copy of the same name": (
        (
            If(b.compare("<", i, 3), b.block(Array("rows", I64, (8,)), peek, settle)),
            Array("rows", I64, (8,)),
            peek,
            Let(t, copied),
            If(outside, fault),
            store(element),
        ),
        "plain load",
    ),
    "a settled copy that nothing asked about": (
        (Array("rows", I64, (8,)), peek, settle, Let(t, copied), store(element)),
        "nothing asks where t lies",
    ),
    "a settled copy without a name": (
        (
            Array("rows", I64, (8,)),
            peek,
            settle,
            Let(t, copied),
            If(outside, fault),
            store(b.load(table, copied)),
        ),
        "nothing asks",
    ),
    "what is stored to": ((Let(t, b.load(index, i)), Assign(b.load(out, t), zero)), "plain load"),
    "a vector": (
        (
            Let(t, Call("tc_first_i64", (b.offset(index, i),), I64)),
            If(outside, fault),
            store(element),
        ),
        "plain load",
    ),
    "a byte that was clamped": (
        (store(b.load(table, b.min64(b.cast(b.load(byte, i), I64), 3))),),
        "plain load",
    ),
    "nothing asked": ((read_once, store(element)), "nothing asks where t lies"),
    "asked too late": ((read_once, store(element), If(outside, fault)), "nothing asks"),
    "another was asked": (
        (read_once, Let(j, once(b.load(index, i))), If(outside, fault), store(b.load(table, j))),
        "nothing asks where j lies",
    ),
    "asked in a branch": (
        (read_once, If(b.compare(">", i, 3), If(outside, fault)), store(element)),
        "nothing asks",
    ),
    "read twice": (
        (read_once, If(outside, fault), store(b.load(table, once(b.load(index, i))))),
        "nothing asks",
    ),
    "a plain load of the turn before": (
        (
            Let(j, b.c64(0), mutable=True),
            b.loop(t, 0, 7, store(b.load(table, j)), Assign(j, b.load(index, t))),
        ),
        "plain load",
    ),
    "what the turn before read": (
        (
            Let(j, b.c64(0), mutable=True),
            b.loop(
                t,
                0,
                7,
                b.loop(u, 0, 3, store(b.load(table, j))),
                Let(k, once(b.load(index, t))),
                Assign(j, k),
            ),
        ),
        "nothing asks where k lies",
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_addresses_pass(name: str) -> None:
    check(*SOUND[name])


@pytest.mark.parametrize("name", BROKEN)
def test_addresses_that_may_be_anywhere_are_refused(name: str) -> None:
    body, message = BROKEN[name]
    with pytest.raises(InternalError, match=message):
        check(*body)


@pytest.mark.parametrize("is_own", [True, False])
def test_a_parameter_is_what_callers_give(is_own: bool) -> None:
    given = b.pointer("p", d.INT64, const=True)
    helper = Function(
        "g",
        (given, table, i),
        Return(b.load(table, b.load(given, i))),
        "helper",
        Scalar(d.FLOAT32),
    )
    data = Cast(Field(b.ARGS, "data[0]", Opaque("char *")), index.type)
    shared = Cast(Field(b.ARGS, "shared", Opaque("char *")), index.type)
    assert isinstance(table.type, Pointer)
    a = Cast(Field(b.ARGS, "data[1]", Opaque("char *")), table.type)
    call = Call("g", (shared if is_own else data, a, b.c64(0)), Scalar(d.FLOAT32))
    f = b.phase_function(
        "p", b.block(Let(Var("x", call.type or b.INT), call), Return(b.const(0, d.INT32)))
    )
    unit = Unit("u", "u", (helper, f))
    if is_own:
        verify(unit)
    else:
        with pytest.raises(InternalError, match="g: an address depends on a plain load"):
            verify(unit)
