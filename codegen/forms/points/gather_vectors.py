"""Sums of a gather in vector registers: a block of a row is as many of them as stay there.

    s0, s1, .. = 0; for l: row = I(b, l), checked; s0 += E[row, d], s1 += E[row, d + lanes], ..

A compiler keeps an array of sums in memory where a loop may end with a fault: each vector then
waits for the store of its last sum.
"""

from __future__ import annotations

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.combine import combined, operator
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.ends import LoopEnds
from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.base.scalars import identity
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Assign, Bin, Call, Expr, Let, Load, Stmt, Var, Vector
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import FLOAT32, FLOAT64
from tcdsl.grammar.types.typed import Range

_VECTORS = (1, 2, 4, 8)  # of a block: eight chains, and registers left beside them


def widths(ctx: Context, s: Statement, row: Range) -> tuple[int, ...]:
    """Return how many elements blocks in registers may have; none where sums have no vectors."""
    dtype = ctx.operands.memory_dtype(s.target)
    if s.op == "=" or dtype not in (FLOAT32, FLOAT64):
        return ()
    if not _is_along(ctx, s.target, s.subs, row) or not _fits(ctx, s, s.value, row):
        return ()
    return tuple(n * vexpr.lanes_of(dtype.bits, ctx.machine) for n in _VECTORS)


def _fits(ctx: Context, s: Statement, e: typed.Expr, row: Range) -> bool:
    """Whether an expression is of the sums' type, and made of rows and of what is one for each."""
    if e.dtype != ctx.operands.memory_dtype(s.target):
        return False
    if row.name not in indices_of(e):
        return True
    match e:
        case typed.Read():
            return _is_along(ctx, e.tensor, e.subs, row)
        case typed.Binary("+" | "-" | "*", lhs, rhs):
            return _fits(ctx, s, lhs, row) and _fits(ctx, s, rhs, row)
        case _:
            return False


def _is_along(ctx: Context, tensor: str, subs: tuple[typed.Expr, ...], row: Range) -> bool:
    """Whether elements of a row are neighbours in memory."""
    unit = ctx.operands.layout(tensor).unit
    if unit is None:
        return False
    at = affine_of(subs[unit])
    others = (x for d, x in enumerate(subs) if d != unit)
    is_one = at is not None and at.coefficient(row.name) == 1
    return is_one and not any(row.name in indices_of(x) for x in others)


def summed(ctx: Context, s: Statement, row: Range, start: Expr, width: int) -> Stmt:
    """Return the work on so many elements of a row from `start` on."""
    ops = ctx.operands
    dtype = ops.memory_dtype(s.target)
    t = Vector(dtype, vexpr.lanes_of(dtype.bits, ctx.machine))
    kind = vexpr.kind_of(t, dtype)
    index: dict[str, Expr] = {r.name: b.i64(safe_name(r.name)) for r in s.ranges}
    index[row.name] = start
    sums = [Var(ops.local(f"sum{u}"), t) for u in range(width // t.lanes)]
    known: dict[typed.Expr, Expr] = {}  # rows by their reads, and what is one for all of a row

    def value(e: typed.Expr, u: int) -> Expr:
        """Return the values of an expression in the lanes of one of the vectors."""
        is_read = isinstance(e, typed.Read) and row.name in indices_of(e)
        if e not in known and (is_read or row.name not in indices_of(e)):
            found = inner.value(e)
            known[e] = found if not is_read else _address(found)
        if is_read:
            return Call(f"tc_load_{kind}", (b.offset(known[e], u * t.lanes),), t)
        if e in known:
            return known[e]
        assert isinstance(e, typed.Binary)
        assert e.op in ("+", "-", "*")
        return Bin(e.op, value(e.lhs, u), value(e.rhs, u), t)

    inner = Values(ops, index)
    ends = LoopEnds(inner, s.ranges)
    step = [
        Assign(acc, combined(operator(s.op), acc, vexpr.splat(value(s.value, u), t)))
        for u, acc in enumerate(sums)
    ]
    step_stmts = b.block(inner.take(), step)
    outer = Values(ops, index, prefix="a")
    to = _address(outer.place(s.target, s.subs, s.subs_checked))
    places = [b.offset(to, u * t.lanes) for u in range(len(sums))]
    none = vexpr.splat(identity(s.op, dtype), t)
    first = [Call(f"tc_load_{kind}", (p,), t) if s.resumes else none for p in places]
    return b.block(
        outer.take(),
        [Let(acc, x, mutable=True) for acc, x in zip(sums, first, strict=True)],
        ends.nested(s.reductions, step_stmts),
        [b.do(f"tc_store_{kind}", p, acc) for p, acc in zip(places, sums, strict=True)],
    )


def _address(place: Expr) -> Expr:
    assert isinstance(place, Load)
    return b.offset(place.pointer, place.index)
