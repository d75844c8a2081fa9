"""Arg reductions at one output point: which point of the reduction holds the extreme.

    best = -1
    for reductions (row-major): if (best < 0 || value beats extreme) extreme = value, best = place
    store best < 0 ? 0 : best

The first of equals wins, and the first NaN over everything.
"""

from __future__ import annotations

from collections.abc import Callable

from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import TRUTH, Assign, Bin, Expr, If, Let, Load, Scalar, Stmt
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.types.dtypes import BOOL


def arg_reduction(values: Values, s: Statement, loops: Callable[[Stmt], Stmt]) -> Stmt:
    """Return the search at one output point and the store of its result.

    loops puts a statement into loops over the reductions, in their order.
    """
    ops = values.operands
    dtype = s.value.dtype.computed
    target = values.place(s.target, s.subs, s.subs_checked)
    assert isinstance(target, Load)
    locate = values.take()
    extreme = b.var(ops.local("extreme"), dtype)
    best = b.i64(ops.local("best"))
    value = values.introduce(values.value(s.value))
    none_yet: Expr = b.compare("<", best, 0)
    found = b.var(ops.local("found"), BOOL)
    is_guess = any(r.is_guess for r in s.reductions)
    if is_guess:  # any number may be the place
        none_yet = b.not_(found)
    wins = b.any_of(none_yet, beats(value, extreme, is_max=s.op.startswith("argmax")))
    search = b.block(
        values.take(),
        If(
            wins,
            b.block(
                Assign(extreme, value),
                Assign(best, place_of(values, s)),
                [Assign(found, b.const(True, BOOL))] if is_guess else [],
            ),
        ),
    )
    return b.block(
        locate,
        Let(extreme, b.const(False if dtype.kind == "bool" else 0, dtype), mutable=True),
        Let(best, b.c64(-1), mutable=True),
        [Let(found, b.const(False, BOOL), mutable=True)] if is_guess else [],
        loops(search),
        Assign(target, b.select(none_yet, b.c64(0), _found(values, s, best))),
    )


def beats(value: Expr, extreme: Expr, *, is_max: bool) -> Expr:
    """Return whether a value takes the place of an extreme found before it."""
    scalar = b.type_of(value)
    assert isinstance(scalar, Scalar)
    if not scalar.dtype.is_float:
        return Bin(">" if is_max else "<", value, extreme, TRUTH)
    is_number = Bin("==", extreme, extreme, TRUTH)
    return b.all_of(is_number, b.not_(Bin("<=" if is_max else ">=", value, extreme, TRUTH)))


def same(value: Expr, extreme: Expr) -> Expr:
    """Return whether neither of two beats the other: then the first of them wins."""
    scalar = b.type_of(value)
    assert isinstance(scalar, Scalar)
    equal = Bin("==", value, extreme, TRUTH)
    if not scalar.dtype.is_float:
        return equal
    none_is_number = b.all_of(Bin("!=", value, value, TRUTH), Bin("!=", extreme, extreme, TRUTH))
    return b.any_of(equal, none_is_number)


def result_of(values: Values, s: Statement, best: Expr) -> Expr:
    """Return what is stored for the position of the extreme, which is negative for no point."""
    return b.select(b.compare("<", best, 0), b.c64(0), _found(values, s, best))


def _found(values: Values, s: Statement, best: Expr) -> Expr:
    if len(s.reductions) == 1:  # then the result is the index itself
        return b.add(best, values.operands.size(s.reductions[0].low))
    return best


def place_of(values: Values, s: Statement) -> Expr:
    """Return the row-major position of a point among the reductions."""
    at: Expr = b.c64(0)
    for r in s.reductions:
        step = b.sub(b.i64(safe_name(r.name)), values.operands.size(r.low))
        at = b.add(b.mul(at, values.operands.size(r.extent)), step)
    return at
