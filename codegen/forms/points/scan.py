"""Scans: rows whose points run in order, several rows at a time.

    for rows, 4 at a time:
        last = the element that the first point reads
        for t: last = value of t and last; store it

What a point reads of the one before stays in a register, so a step takes as long as its
arithmetic. The rows of a block have a chain each, whose steps overlap. More than 4 do not where
rows are a power of two apart: two arrays of 4 fill a set of the cache. The steps are those of the
text, in its order, so the bits do not depend on threads or tasks.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from math import prod

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.guarded import behind_conditions
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.phase import float_product, point_ns
from tcdsl.codegen.forms.base.scalars import narrow, widen
from tcdsl.codegen.forms.points import scan_lanes
from tcdsl.codegen.forms.points.scan_steps import Steps, steps_of
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Assign,
    Expr,
    Let,
    Load,
    Return,
    Serial,
    Stmt,
    Var,
)
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.machine.wall import TASK_NS, divided_ns
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT32
from tcdsl.grammar.types.typed import Range

_ROWS, _COUNTS = 4, (1, 2, 4, 8)  # of a block
_MOST_BLOCKS = 1024  # of a task
_STEP_NS = 1.0  # of a point, beside what its value takes


def matches(ctx: Context) -> bool:
    """Whether the group is one scan."""
    return len(ctx.group.statements) == 1 and ctx.group.statements[0].along is not None


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return the rows of a block; whether it goes in vectors, where its steps may be grouped so."""
    rows = Knob("rows", _COUNTS)
    return (rows,) if _steps(ctx) is None else (rows, Knob("lanes", (False, True)))


def default(ctx: Context) -> dict[str, Value]:
    """Return vectors for rows that are not short."""
    if _steps(ctx) is None:
        return {"rows": _ROWS}
    s = ctx.group.statements[0]
    turns = next(r for r in s.ranges if r.name == s.along)
    return {"rows": _ROWS, "lanes": ctx.at_least(turns.extent, scan_lanes.SHORTEST)}


def meaning(ctx: Context, values: Mapping[str, Value]) -> Hashable:
    """Return what of the values decides the nest: in vectors a row is walked alone."""
    return FORM.name, *(["lanes"] if values.get("lanes") else [values["rows"]])


def _steps(ctx: Context) -> Steps | None:
    s = ctx.group.statements[0]
    return ctx.once("steps", lambda: steps_of(ctx, s, _kept(ctx, s)))


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return a rough time of a call."""
    s = ctx.group.statements[0]
    points = prod(max(0, ctx.extent(r.extent)) for r in s.ranges)
    rows = prod(max(0, ctx.extent(r.extent)) for r in _rows(s))
    if values.get("lanes"):
        return scan_lanes.cost_ns(ctx, s, points, rows)
    several = int(values["rows"])
    return divided_ns(points * _point_ns(s, several), -(-rows // several), ctx.spec.threads)


def _point_ns(s: Statement, rows: int) -> float:
    return _STEP_NS + point_ns(s) / rows


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase, whose tasks are blocks of rows; in vectors, see `scan_lanes.py`."""
    s = ctx.group.statements[0]
    if values.get("lanes"):
        steps = _steps(ctx)
        assert steps is not None
        return scan_lanes.lower(ctx, s, steps)
    ops = ctx.operands
    rows, side_by_side = _rows(s), int(values["rows"])
    name = f"{ctx.prefix}_scan"
    turns = next(r for r in s.ranges if r.name == s.along)
    count = b.mul(*(ops.size(r.extent) for r in rows)) if rows else b.c64(1)
    length = ops.size(turns.extent)
    of_a_task = _rows_of_a_task(s, length, side_by_side)
    plan: list[Stmt] = []
    block = of_a_task
    if b.value_of(of_a_task) is None:  # told once a call: rows may be short or long
        plan = [b.set_param(ctx.param_base, of_a_task)]
        block = b.plan_param(ctx.param_base)
    task, row, end = b.i64("task"), b.i64(ops.local("row")), b.i64(ops.local("behind"))
    first = b.mul(task, block)
    one = _row_loops(ctx, s, rows, turns, [row])
    several = _row_loops(ctx, s, rows, turns, [b.add(row, k) for k in range(side_by_side)])
    # whole blocks, then what is left; both from where the one before stopped
    stop = b.i64(ops.local("whole"))
    body = b.block(
        Let(end, b.min64(count, b.add(first, block))),
        Let(stop, b.add(first, b.mul(b.div(b.sub(end, first), side_by_side), side_by_side))),
        b.loop(row, first, stop, several, step=side_by_side),
        b.loop(row, stop, end, one),
    )
    function = b.phase_function(
        name,
        b.block(ops.declare(b.loop(task, b.BEGIN, b.END, body)), Return(b.const(0, INT32))),
    )
    extents = [*(ops.size(r.extent) for r in rows), b.max64(0, length)]
    phase = Phase(
        name, b.ceil_div(count, of_a_task), float_product(extents, _point_ns(s, side_by_side))
    )
    return Lowered(
        title=f"scan along {s.along}",
        functions=(function,),
        phases=(phase,),
        plan=tuple(plan),
        thread_bytes=b.c64(0),
        shared_bytes=b.c64(0),
        params_used=len(plan),
    )


def _rows(s: Statement) -> tuple[Range, ...]:
    return tuple(r for r in s.outputs if r.name != s.along)


def _rows_of_a_task(s: Statement, length: Expr, rows: int) -> Expr:
    """Return how many rows are worth a task: a multiple of those of a block, so many rows."""
    points = max(1, round(TASK_NS / (_point_ns(s, rows) * rows)))  # of so many rows each
    blocks = b.div(b.c64(points), b.max64(1, length))
    return b.mul(rows, b.max64(1, b.min64(_MOST_BLOCKS, blocks)))


def _row_loops(
    ctx: Context, s: Statement, rows: Sequence[Range], turns: Range, points: Sequence[Expr]
) -> Stmt:
    """Return the loop along some rows at once, each at a point of its own."""
    ops = ctx.operands
    t = b.i64(safe_name(turns.name))
    low, high = ops.size(turns.low), ops.size(turns.high)
    before: list[Stmt] = []
    steps: list[Stmt] = []
    kept = _kept(ctx, s)
    for k, point in enumerate(points):
        index: dict[str, Expr] = {turns.name: t}
        at = b.unravel(point, [ops.size(r.extent) for r in rows])
        for r, x in zip(rows, at, strict=True):
            v = b.i64(ops.local(f"{safe_name(r.name)}_{k}"))
            before.append(Let(v, b.add(x, ops.size(r.low))))
            index[r.name] = v
        last: Var | None = None
        if kept is not None:
            last = b.var(ops.local(f"last_{k}"), ops.memory_dtype(s.target))
            begin = Values(ops, {**index, turns.name: low}, prefix=f"b{k}")
            place = begin.place(kept.tensor, kept.subs, kept.checked)
            before += [*begin.take(), Let(last, place, mutable=True)]

        def local(r: typed.Read, last: Var | None = last) -> Expr | None:
            is_kept = last is not None and kept is not None and r.subs == kept.subs
            if not is_kept or not _is_own(ctx, s, r):
                return None
            assert last is not None
            return widen(last, ops.memory_dtype(s.target))

        values = Values(ops, index, local, prefix=f"t{k}")
        value = narrow(values.value_of(s), ops.memory_dtype(s.target))
        steps += values.take()
        place = values.place(s.target, s.subs, s.subs_checked)
        assert isinstance(place, Load)
        if last is None:
            steps += [*values.take(), Assign(place, value)]
        else:
            steps += [*values.take(), Assign(last, value), Assign(place, last)]
    along = b.loop(t, low, high, b.block(steps), mark=Serial())
    return b.block(b.when(b.compare("<", low, high), b.block(before, along)))


def _is_own(ctx: Context, s: Statement, r: typed.Read) -> bool:
    home = ctx.operands.buffer(s.target).home
    return ctx.operands.buffer(r.tensor).home == home


def _kept(ctx: Context, s: Statement) -> typed.Read | None:
    """Return the read of what the point before has written, if every point does it.

    A condition around it may keep the first point from reading outside.
    """
    guarded = {*behind_conditions(s.value)}
    for r in s.reads():
        if not _is_own(ctx, s, r) or r in guarded:
            continue
        if all(_follows(a, e, s.along) for a, e in zip(r.subs, s.subs, strict=True)):
            return r
    return None


def _follows(read: typed.Expr, written: typed.Expr, along: str | None) -> bool:
    """Whether a subscript is the written one, along the index that of the point before."""
    a, w = affine_of(read), affine_of(written)
    if a is None or w is None:
        return False
    step = dict(w.terms).get(along or "", 0)
    return replace(a, const=a.const + Size.const(step)) == w


FORM = Form(
    "scan",
    matches,
    knobs,
    default,
    cost_ns,
    lower,
    meaning,
    takes_scans=True,
    leaves_kept_open=True,
)
