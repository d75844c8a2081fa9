"""The general leaf nest: any one statement, loops over its ranges in the order of the text.

    for outputs: acc = identity (or the base's element); for reductions: acc op value; store

Parallel over the output indices in which the write is injective. The others, whose points may meet
in one element (a scatter's), are run through in the order of the text by every task. A statement
that initialises a box it does not cover fills the box in a phase before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.ends import LoopEnds
from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.outputs import injective_in, innermost, is_injective
from tcdsl.codegen.forms.base.phase import (
    PointNest,
    fill,
    phase_over,
    point_ns,
    reduction_mark,
    typical,
)
from tcdsl.codegen.forms.base.scalars import combine, identity, narrow, widen
from tcdsl.codegen.forms.points.arg import arg_reduction
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Assign,
    Expr,
    Function,
    Let,
    Load,
    Stmt,
)
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.loops.walk import all_exprs, variables, walk_stmt
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.machine.wall import divided_ns
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.types.typed import Range


def matches(ctx: Context) -> bool:
    """Whether the group is one statement."""
    return len(ctx.group.statements) == 1


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return the choices of the innermost output index, and of the innermost one that is summed."""
    s = ctx.group.statements[0]
    names = tuple(r.name for r in s.outputs)
    outputs = (Knob("inner", names),) if len(names) > 1 else ()
    sums = _summed(s)
    return (*outputs, Knob("sum", sums)) if len(sums) > 1 else outputs


def _summed(s: Statement) -> tuple[str, ...]:
    """Return the reduction indices, where their loops may stand in any order."""
    is_free = not s.is_ragged and not s.is_arg
    return tuple(r.name for r in s.reductions) if is_free else ()


def default(ctx: Context) -> dict[str, Value]:
    """Return the index that walks memory in unit steps in most accesses, the target's first."""
    s = ctx.group.statements[0]
    best = innermost(ctx.operands, s)
    inner: dict[str, Value] = {"inner": best} if best is not None and len(s.outputs) > 1 else {}
    sums = _summed(s)
    return {**inner, "sum": sums[-1]} if len(sums) > 1 else inner


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return a rough time of a call (`wall.py`): nodes of the expression times points."""
    s = ctx.group.statements[0]
    points = 1.0
    for r in s.ranges:
        points *= typical(ctx, s, r)
    serial_ns = points * point_ns(s) * (1.0 if values == default(ctx) else 1.5)
    divided = _divided(ctx, s, str(values.get("inner", "")))
    pieces = prod(ctx.extent(r.extent) for r in divided[:-1] or divided)
    return divided_ns(serial_ns, pieces, ctx.spec.threads)


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase, and one before it where the box has to be filled."""
    s = ctx.group.statements[0]
    functions, phases = [], []
    parts = []
    if s.base is None and not s.covers:
        parts.append(fill(ctx, s))
    parts.append(_main(ctx, s, str(values.get("inner", "")), str(values.get("sum", ""))))
    for function, phase in parts:
        functions.append(function)
        phases.append(phase)
    return Lowered(
        title=_title(s),
        functions=tuple(functions),
        phases=tuple(phases),
        plan=(),
        thread_bytes=b.c64(0),
        shared_bytes=b.c64(0),
    )


def _title(s: Statement) -> str:
    if is_injective(s):
        return "nest"
    return "nest, points that meet in order" if injective_in(s) else "nest, serial"


def _ordered(s: Statement, inner: str) -> list[Range]:
    return sorted(s.outputs, key=lambda r: r.name == inner)  # stable: inner goes last


def _turning(ctx: Context, outputs: Sequence[Range]) -> list[Range]:
    """Return the ranges whose extents the turn of a loop decides."""
    return [r for r in outputs if r.bounds or any(map(ctx.program.depends, (r.low, r.high)))]


def _divided(ctx: Context, s: Statement, inner: str) -> list[Range]:
    """Return the ranges that are divided among tasks: all but the last, or that one alone."""
    outputs = _ordered(s, inner)
    turning = _turning(ctx, outputs)
    return [r for r in outputs if r.name in injective_in(s) and r not in turning]


def _main(ctx: Context, s: Statement, inner: str, summed: str) -> tuple[Function, Phase]:
    ops = ctx.operands
    tasked = _divided(ctx, s, inner)
    turning = _turning(ctx, _ordered(s, inner))
    meeting = [r for r in s.outputs if r.name not in injective_in(s)]  # in the order of the text
    turning = [r for r in turning if r not in meeting]  # plan does not know their extents
    if any(r.bounds for r in s.outputs):  # their loops are those of the text, inside of the tasks
        meeting, turning = [r for r in s.outputs if r not in tasked], []
    values = Values(ops, {r.name: b.i64(safe_name(r.name)) for r in s.ranges})
    ends = LoopEnds(values, s.ranges)
    # a scatter may meet an element twice, so what stands there counts
    starts_fresh = not (s.resumes or len(injective_in(s)) < len(s.outputs))
    reductions = sorted(s.reductions, key=lambda r: r.name == summed)  # stable: it goes last
    locate: list[Stmt] = []

    if s.op == "=":
        value = values.value_of(s)
        body = b.block(values.take(), _store(values, s, value))
    elif s.is_arg:
        body = arg_reduction(values, s, lambda x: ends.nested(reductions, x))
    else:
        acc = b.var(ops.local("acc"), ops.buffer(s.target).dtype.computed)
        first = identity(s.op, ops.buffer(s.target).dtype)
        place = values.place(s.target, s.subs, s.subs_checked)
        assert isinstance(place, Load)
        locate = values.take()
        if not starts_fresh:
            first = widen(place, ops.memory_dtype(s.target))
        step = combine(s.op, acc, values.value_of(s))
        front = values.take()
        if tasked and s.is_ragged and not s.reductions:  # checks that are the same along a row
            shared, front = _apart(front, safe_name(tasked[-1].name))
            locate += shared
        update = b.block(front, Assign(acc, step))
        body = b.block(
            Let(acc, first, mutable=True),
            ends.nested(reductions, update, reduction_mark(s, acc)),
            Assign(place, narrow(acc, ops.memory_dtype(s.target))),
        )
    if turning:
        locate, body = [], ends.nested(turning, b.block(locate, body))
    return phase_over(ctx, f"{ctx.prefix}_nest", PointNest(tasked, meeting, locate, body, ends), s)


def _apart(stmts: Sequence[Stmt], last: str) -> tuple[list[Stmt], list[Stmt]]:
    """Return the statements that do not depend on a variable, and those that do."""
    found: tuple[list[Stmt], list[Stmt]] = [], []
    depending = {last}
    for t in stmts:
        used = {name for e in all_exprs(t) for name in variables(e)}
        found[not depending.isdisjoint(used)].append(t)
        if not depending.isdisjoint(used):
            depending |= {x.var.name for x in walk_stmt(t) if isinstance(x, Let)}
    return found


def _store(values: Values, s: Statement, value: Expr) -> Stmt:
    place = values.place(s.target, s.subs, s.subs_checked)
    assert isinstance(place, Load)
    return b.block(
        values.take(), Assign(place, narrow(value, values.operands.memory_dtype(s.target)))
    )


FORM = Form(
    "nest",
    matches,
    knobs,
    default,
    cost_ns,
    lower,
    takes_any_points=True,
    takes_ragged=True,
    leaves_open=True,
)
