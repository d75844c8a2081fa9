"""Scans whose points each add a term: which may go in vectors, in another grouping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.loops.loopir import Vector
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed


@dataclass(frozen=True, slots=True)
class Steps:
    """A scan as what each point adds: `element = last op term`."""

    op: str  # "+", "*", "max" or "min"
    term: typed.Expr
    kept: typed.Read  # of what the point before has written
    is_forward: bool  # memory is walked upwards
    t: Vector = field(compare=False)


def steps_of(ctx: Context, s: Statement, kept: typed.Read | None) -> Steps | None:
    """Return a scan as steps in vectors; None if it is none, or its terms have no vectors."""
    ops = ctx.operands
    parts = _parts(s, kept)
    if parts is None or kept is None or s.is_ragged:
        return None
    op, term = parts
    dtype = term.dtype
    bits = vexpr.width_of((term,))
    if bits is None or dtype != ops.memory_dtype(s.target) or dtype.computed.bits != bits:
        return None
    # max of equal zeros is the second: vectors pass the term so, as a loop has to that goes in them
    is_extreme = isinstance(s.value, typed.Builtin) and s.value.args[0] == kept
    # factors far apart may over- or underflow, where what lies before is 0 or brings them back
    is_sum = s.regroups and op != "*"
    if not (is_sum or dtype.is_integer or is_extreme):
        return None
    if vexpr.unsupported(term, varies(s)) is not None:
        return None
    coefficients = {_along(ctx, s, s.target, s.subs)}
    home = ops.buffer(s.target).home
    for r in (x for x in s.reads() if x != kept):
        if ops.buffer(r.tensor).home == home:
            return None
        coefficients.add(_along(ctx, s, r.tensor, r.subs))
    coefficients.discard(0)
    numbers = any(isinstance(x, typed.IndexValue) and x.name == s.along for x in vexpr.walk(term))
    if coefficients not in ({1}, {-1}) or (numbers and coefficients == {-1}):
        return None
    t = Vector(dtype, vexpr.lanes_of(bits, ctx.machine))
    return Steps(op, term, kept, coefficients == {1}, t)


def _parts(s: Statement, kept: typed.Read | None) -> tuple[str, typed.Expr] | None:
    match s.value:
        case typed.Binary(op="+" | "*" as op, lhs=a, rhs=c):
            pass
        case typed.Builtin(name="max" | "min" as op, args=(a, c)):
            pass
        case _:
            return None
    if (a == kept) is (c == kept):
        return None
    return op, c if a == kept else a


def varies(s: Statement) -> Callable[[typed.Expr], bool]:
    """Return whether a leaf differs from point to point."""
    return lambda leaf: s.along in indices_of(leaf)


def _along(ctx: Context, s: Statement, tensor: str, subs: tuple[typed.Expr, ...]) -> int | None:
    """Return the step of an access in memory from point to point: 1, -1, 0; None for others."""
    step = 0
    for d, e in enumerate(subs):
        a = affine_of(e)
        if a is None:
            return None
        c = a.coefficient(s.along or "")
        if c and (d != ctx.operands.layout(tensor).unit or c not in (1, -1)):
            return None
        step += c
    return step
