"""Clean-up keeps what a nest does and removes what it does not need."""

from __future__ import annotations

from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    TRUTH,
    Array,
    Assign,
    Bin,
    Block,
    Call,
    Const,
    Elem,
    If,
    Let,
    Return,
    Scalar,
    Simd,
    Stmt,
)
from tcdsl.codegen.loops.simplify import simplify_stmt
from tcdsl.grammar.types import dtypes as d

F32 = Scalar(d.FLOAT32)
i, j, n = b.i64("i"), b.i64("j"), b.i64("n")
x = b.var("x", d.FLOAT32)
dst = b.pointer("dst", d.FLOAT32)
one = b.const(1.0, d.FLOAT32)


def store(at: b.IntLike) -> Stmt:
    return Assign(b.load(dst, at), one)


def test_addresses_fold_and_floats_stay() -> None:
    address = Bin("+", Bin("*", i, b.c64(1), I64), b.c64(0), I64)
    assert simplify_stmt(store(address)) == store(i)
    times_one = Assign(b.load(dst, i), Bin("*", x, one, F32))
    assert simplify_stmt(times_one) == times_one


def test_sum_into_its_own_place_is_an_update() -> None:
    assert simplify_stmt(Assign(x, Bin("+", x, one, F32))) == Assign(x, one, "+=")
    other_side = Assign(x, Bin("+", one, x, F32))
    assert simplify_stmt(other_side) == other_side


def test_loop_of_one_turn_is_its_body() -> None:
    assert simplify_stmt(b.loop(i, 3, 4, store(i))) == store(3)


def test_loop_without_turns_vanishes() -> None:
    assert simplify_stmt(Block((b.loop(i, 4, 4, store(i)), store(n)))) == store(n)


def test_loop_of_one_turn_with_declarations_keeps_its_scope() -> None:
    s = b.loop(i, 0, 1, Let(x, one), Assign(b.load(dst, i), x))
    assert simplify_stmt(s) == s


def test_known_condition_decides() -> None:
    yes, no = Const(True, TRUTH), Const(False, TRUTH)
    assert simplify_stmt(If(yes, store(1), store(2))) == store(1)
    assert simplify_stmt(If(no, store(1), store(2))) == store(2)
    assert simplify_stmt(If(no, store(1))) == Block(())


def test_unused_declarations_vanish_in_chains() -> None:
    s = Block((Let(i, b.c64(3)), Let(j, b.add(i, 1)), Array("a", F32, (4,)), store(n)))
    assert simplify_stmt(s) == store(n)


def test_what_declares_only_the_unused_vanishes() -> None:
    lets = (Let(i, b.c64(3)), Let(b.i64("k"), b.add(i, 1)))
    for inner in (lets[0], Block(lets)):
        assert simplify_stmt(If(b.compare("<", j, n), inner)) == Block(())
        assert simplify_stmt(b.loop(j, 0, n, If(b.compare("<", j, 3), inner))) == Block(())


def test_used_declarations_stay() -> None:
    uses = [
        store(i),
        b.loop(j, 0, n, store(b.add(i, j))),
        If(b.compare("<", i, n), store(0)),
        Return(i),
    ]
    for use in uses:
        s = Block((Let(i, b.c64(3)), use))
        assert simplify_stmt(s) == s


def test_reduction_variable_of_a_simd_loop_stays() -> None:
    loop = b.loop(j, 0, n, store(j), mark=Simd((("+", "x"),)))
    s = Block((Let(x, one, mutable=True), loop))
    assert simplify_stmt(s) == s


def test_array_that_is_written_stays() -> None:
    s = Block((Array("a", F32, (4,)), Assign(Elem("a", (n,), F32), one)))
    assert simplify_stmt(s) == s


def test_calls_with_an_effect_stay() -> None:
    s = Block((Let(i, Call("u_next", (), I64)), store(n)))
    assert simplify_stmt(s) == s
