"""Statements in SSA form, affine subscripts, boxes that are covered."""

from __future__ import annotations

import pytest

from tcdsl.codegen.program.affine import Affine, affine_of
from tcdsl.codegen.program.program import Program, carried
from tcdsl.codegen.program.ssa import program_of
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import FLOAT32, INT32, INT64

N, M = Size.symbol("N"), Size.symbol("M")
ZERO = Size.const(0)


def index(name: str) -> typed.IndexValue:
    return typed.IndexValue(name, INT32)


def lit(value: int) -> typed.Lit:
    return typed.Lit(value, INT32)


def plus(a: typed.Expr, b: typed.Expr, op: str = "+") -> typed.Binary:
    return typed.Binary(op, a, b, INT32)  # type: ignore[arg-type]


def read(name: str, *subs: typed.Expr) -> typed.Read:
    return typed.Read(name, subs, FLOAT32, (False,) * len(subs))


def span(name: str, high: Size, low: Size = ZERO, kind: str = "output") -> typed.Range:
    return typed.Range(name, low, high, kind)  # type: ignore[arg-type]


def definition(
    *body: typed.Stmt, returns: tuple[typed.Tensor, ...], temps: tuple[typed.Tensor, ...] = ()
) -> typed.CheckedDef:
    a = typed.Tensor("A", FLOAT32, (N, M), (ZERO, ZERO), "param")
    return typed.CheckedDef("f", ("N", "M"), (), (a,), returns, temps, body, (), (), "def f ...")


def softmax_like() -> Program:
    out = typed.Tensor("O", FLOAT32, (N, M), (ZERO, ZERO), "return")
    row = typed.Tensor("t", FLOAT32, (N,), (ZERO,), "temp")
    n, m = index("n"), index("m")
    return program_of(
        definition(
            typed.Statement(
                "t", (n,), "max=!", read("A", n, m), (span("n", N), span("m", M, kind="reduction"))
            ),
            typed.Statement(
                "O",
                (n, m),
                "=",
                typed.Binary("-", read("A", n, m), read("t", n), FLOAT32),
                (span("n", N), span("m", M)),
            ),
            typed.Statement(
                "t", (n,), "+=!", read("O", n, m), (span("n", N), span("m", M, kind="reduction"))
            ),
            typed.Statement(
                "O",
                (n, m),
                "=",
                typed.Binary("/", read("O", n, m), read("t", n), FLOAT32),
                (span("n", N), span("m", M)),
            ),
            returns=(out,),
            temps=(row,),
        )
    )


def test_every_statement_makes_a_version() -> None:
    p = softmax_like()
    assert [s.target for s in p.statements] == ["t", "O", "t.1", "O.1"]
    assert [[r.tensor for r in s.reads()] for s in p.statements] == [
        ["A"],
        ["A", "t"],
        ["O"],
        ["O", "t.1"],
    ]
    assert p.outputs == ("O.1",)
    assert p.inputs == ("A",)
    assert all(s.covers for s in p.statements)


def test_versions_share_memory_and_initialise_anew() -> None:
    p = softmax_like()
    assert {p.buffer("O").home, p.buffer("O.1").home} == {"O"}
    assert p.buffer("t.1").home == "t"
    assert [s.base for s in p.statements] == [None, None, None, None]


def test_caller_buffer_is_the_base_of_an_update() -> None:
    out = typed.Tensor("O", FLOAT32, (N,), (ZERO,), "return", is_updated=True)
    s = typed.Statement(
        "O",
        (index("n"),),
        "+=",
        read("A", index("n"), index("m")),
        (span("n", N), span("m", M, kind="reduction")),
    )
    p = program_of(definition(s, returns=(out,)))
    assert p.statements[0].base == "O"
    assert p.outputs == ("O.1",)
    assert p.buffer("O.1").home == "O"


@pytest.mark.parametrize(
    ("subs", "low", "high", "covers"),
    [
        (index("i"), ZERO, N, True),
        (index("i"), ZERO, N - 1, False),
        (plus(index("i"), lit(1)), Size.const(-1), N - 1, True),
        (plus(index("i"), index("i")), ZERO, N, False),
        (plus(lit(2), index("i"), "*"), ZERO, N, False),
    ],
)
def test_box_is_covered(subs: typed.Expr, low: Size, high: Size, covers: bool) -> None:
    out = typed.Tensor("O", FLOAT32, (N,), (ZERO,), "return")
    s = typed.Statement("O", (subs,), "=", typed.Lit(1.0, FLOAT32), (span("i", high, low),))
    assert program_of(definition(s, returns=(out,))).statements[0].covers == covers


def test_lowest_element_is_subtracted_in_writes_and_reads() -> None:
    low = Size.const(-2)
    out = typed.Tensor("O", FLOAT32, (N,), (low,), "return")
    i = index("i")
    first = typed.Statement("O", (i,), "=", typed.Lit(1.0, FLOAT32), (span("i", N - 2, low),))
    again = typed.Statement("O", (i,), "=", read("O", i), (span("i", N - 2, low),))
    p = program_of(definition(first, again, returns=(out,)))
    assert [affine_of(s.subs[0]) for s in p.statements] == [
        Affine((("i", 1),), Size.const(2)),
        Affine((("i", 1),), Size.const(2)),
    ]
    assert p.statements[0].covers
    assert affine_of(p.statements[1].reads()[0].subs[0]) == Affine((("i", 1),), Size.const(2))


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (index("i"), Affine((("i", 1),), ZERO)),
        (plus(plus(lit(2), index("h"), "*"), index("k")), Affine((("h", 2), ("k", 1)), ZERO)),
        (plus(index("i"), typed.SizeValue(N, INT32), "-"), Affine((("i", 1),), ZERO - N)),
        (plus(index("i"), index("i"), "-"), Affine((), ZERO)),
        (typed.Cast(index("i"), INT64), Affine((("i", 1),), ZERO)),
        (plus(index("i"), index("j"), "*"), None),
        (plus(index("i"), typed.SizeValue(N, INT32), "*"), None),
        (plus(index("i"), lit(2), "/"), None),
        (read("A", index("i")), None),
    ],
)
def test_affine_subscripts(e: typed.Expr, expected: Affine | None) -> None:
    assert affine_of(e) == expected


def test_a_loop_is_a_span_of_statements_behind_initial_contents() -> None:
    text = """def f(float(T,N) A) -> (S) {
        for t in 1:T { Z(n) = A(t, n) * 2  S(t) +=! Z(n) }
    }"""
    program = program_of(check(parse(text)))
    assert [s.text for s in program.statements] == [
        "Z(i0) = 0.0 where i0 in 0:N",
        "S(i0) = 0.0 where i0 in 0:T",
        "Z(n) = A(t, n) * 2",
        "S(t) +=! Z(n)",
    ]
    (loop,) = program.loops
    assert (loop.var, loop.first, loop.last) == ("t", 2, 4)
    assert {program.buffer(n).tensor for n in carried(program)} == {"S"}
