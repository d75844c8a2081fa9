"""Rows and parts of rows as tasks: how a phase walks them and how its plan counts them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.space import IterationSpace, points
from tcdsl.codegen.forms.rows import schedule
from tcdsl.codegen.forms.rows.cpu.nest import RowNest, shorts
from tcdsl.codegen.forms.rows.point import RowPoints, RowWalk
from tcdsl.codegen.forms.rows.waiting import waiting
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Assign,
    Expr,
    Field,
    Function,
    If,
    Let,
    Return,
    Scalar,
    Stmt,
)
from tcdsl.codegen.machine.wall import FAR_BYTES_PER_NS, TASK_NS
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import FLOAT64, INT32

_ROW_NS = 15.0  # what a row costs beside its points


@dataclass(frozen=True, slots=True)
class Tasks:
    """How many rows a task has and, where rows are cut, how many points; in the phase and plan.

    width is None where a row is never cut: it folds.
    """

    rows: Expr
    width: Expr | None


def lower_rows(
    ctx: Context, space: IterationSpace, walk: RowWalk, point_ns: float, task_us: int, title: str
) -> Lowered:
    """Return the group as one phase over its rows."""
    nest = RowNest(ctx, space, walk)
    if nest.held_count() is None:
        nest = RowNest(ctx, waiting(ctx, space, walk), walk)
    cut = _is_cut(space)
    plan, tasks, count, params = plan_tasks(ctx, space, walk, point_ns, task_us, cut=cut)
    end = b.do("tc_stream_end") if walk.stream else None
    body = b.block(nest.arena_pointers(), _walk(ctx, space, nest, tasks), end)
    points_of_row = ctx.operands.size(space.row_length())
    for pair in reversed(shorts(space, walk)) if tasks.width is None else ():
        short = RowNest(ctx, space, walk, pair)
        held = b.block(short.arena_pointers(), _walk(ctx, space, short, tasks))
        body = If(b.compare("<=", points_of_row, pair[1] * walk.lanes), held, body)
    name = f"{ctx.prefix}_rows"
    function: Function = b.phase_function(
        name, b.block(ctx.operands.declare(body), Return(b.const(0, INT32)))
    )
    total = ctx.operands.size(points(space.kept))
    length = ctx.operands.size(space.row_length())
    _, arena = nest.arena_offsets()
    kind = "vectors" if walk.lanes > 1 else "simd"
    return Lowered(
        title=f"{title}, {kind}",
        functions=(function,),
        phases=(Phase(name, count, price(ctx, space, total, length, point_ns)),),
        plan=tuple(plan),
        thread_bytes=arena,
        shared_bytes=b.c64(0),
        params_used=params,
    )


def meaning(
    ctx: Context, space: IterationSpace, walk: RowWalk, point_ns: float, task_us: int
) -> Hashable:
    """Return what of a walk and of a task's time decides the nest of `lower_rows`.

    Rows that stay in registers have no turns of vectors.
    """
    _, tasks, _, _ = plan_tasks(ctx, space, walk, point_ns, task_us, cut=_is_cut(space))
    if walk.lanes == 1:
        return tasks, walk.lanes
    if not _is_cut(space) and RowNest(ctx, space, walk).held_count() is not None:
        walk = replace(walk, unroll=1)
    return tasks, walk


def _is_cut(space: IterationSpace) -> bool:
    """Whether rows may be cut: what is cut is the range of the one loop over a row's points."""
    is_line = len(space.sweeps) == 1 and len(space.sweeps[0]) == 1
    return is_line and not any(s.folds for w in space.aligned.sweeps for s in w.steps)


def price(ctx: Context, space: IterationSpace, rows: Expr, length: Expr, point_ns: float) -> Expr:
    """Return the `cost` of the points of a space.

    What does not fit in a core's own cache takes longer a point, and of any size the plan alone
    knows whether it does. It decides whether sleeping threads are woken.
    """
    each = schedule.memory_per_point(ctx, space)
    if ctx.is_exact() or not each:
        return cost(rows, length, point_ns)
    far_ns = max(point_ns, each / FAR_BYTES_PER_NS)
    return cost(rows, length, point_ns, (int(ctx.machine.l2_bytes / each), far_ns))


def cost(
    rows: Expr, length: Expr, point_ns: float, beyond: tuple[int, float] | None = None
) -> Expr:
    """Return rows * (length * point_ns + row_ns) as float64.

    beyond: so many points, and the time of one where there are more.
    """
    real = Scalar(FLOAT64)
    n, m = b.value_of(rows), b.value_of(length)
    if n is not None and m is not None:
        if beyond and n * m > beyond[0]:
            point_ns = beyond[1]
        return b.const(n * (m * point_ns + _ROW_NS), FLOAT64)
    point: Expr = b.const(point_ns, FLOAT64)
    if beyond and beyond[1] > point_ns:
        are_more = b.compare(">", b.mul(rows, length), beyond[0])
        point = b.select(are_more, b.const(beyond[1], FLOAT64), point)
    per_row = b.arith("*", b.cast(length, real), point)
    row = b.arith("+", per_row, b.const(_ROW_NS, FLOAT64))
    return b.arith("*", b.cast(rows, real), row)


def plan_tasks(
    ctx: Context, space: IterationSpace, walk: RowWalk, point_ns: float, task_us: int, *, cut: bool
) -> tuple[list[Stmt], Tasks, Expr, int]:
    """Return the plan's statements, what the phase uses, the count of tasks, parameters used."""
    least, most = int(TASK_NS / point_ns), int(1000 * task_us / point_ns)
    most = max(most, least)
    turn = max(16, walk.lanes * walk.unroll)
    rows = ctx.operands.size(points(space.kept))
    length = b.max64(ctx.operands.size(space.row_length()), 1)
    exact = ctx.is_exact()
    parts: Expr = b.c64(4 * ctx.spec.threads) if exact else b.mul(4, Field(b.ARGS, "threads", I64))
    share = b.ceil_div(b.max64(rows, 1), parts)
    fewest, largest = b.div(b.c64(least), length), b.div(b.c64(most), length)
    per_task = b.max64(b.max64(1, fewest), b.min64(share, largest))
    base = ctx.param_base
    plan: list[Stmt] = []
    if exact:
        in_phase = per_task
    else:
        plan.append(b.set_param(base, per_task))
        in_phase, per_task = b.plan_param(base), Field(b.PLAN, f"param[{base}]", I64)
    groups = b.ceil_div(rows, per_task)
    if not cut:
        return plan, Tasks(in_phase, None), groups, 0 if exact else 1
    known = b.value_of(length)
    if not exact and known is not None and known <= least:  # no part is shorter
        return plan, Tasks(in_phase, length), groups, 1
    # few long rows: cut them, at whole turns of the loop
    wanted = b.max64(least, b.min64(b.ceil_div(b.mul(b.max64(rows, 1), length), parts), most))
    rounded = b.round_up(wanted, turn)
    few = b.compare("<", rows, parts)
    width = b.select(few, rounded, length)
    if exact:
        whole, part = b.value_of(length), b.value_of(width)
        if whole is not None and part is not None and part >= whole:
            width = length
        return plan, Tasks(in_phase, width), b.mul(groups, b.ceil_div(length, width)), 0
    plan.append(b.set_param(base + 1, width))
    width_plan = Field(b.PLAN, f"param[{base + 1}]", I64)
    count = b.mul(groups, b.ceil_div(length, width_plan))
    return plan, Tasks(in_phase, b.plan_param(base + 1)), count, 2


def _walk(ctx: Context, space: IterationSpace, nest: RowNest, tasks: Tasks) -> Stmt:
    """Return the loops of a phase over the rows, or parts of rows, of its tasks."""
    length = ctx.operands.size(space.row_length())
    rows = ctx.operands.size(points(space.kept))
    whole = tasks.width is None or tasks.width == b.max64(length, 1)
    if whole:
        first, last = b.mul(b.BEGIN, tasks.rows), b.min64(b.mul(b.END, tasks.rows), rows)
        return b.block(row_loop(nest, first, last, lambda at, _: nest.build(at, None)))
    width = tasks.width
    assert width is not None
    if not space.kept:
        low, high = b.i64(nest.fresh("low")), b.i64(nest.fresh("high"))
        return b.block(
            Let(low, b.mul(b.BEGIN, width)),
            Let(high, b.min64(b.mul(b.END, width), length)),
            nest.build({}, (low, high)),
        )
    task, chunks = b.i64(nest.fresh("task")), b.i64(nest.fresh("chunks"))
    low, high = b.i64(nest.fresh("low")), b.i64(nest.fresh("high"))
    first, last = b.i64(nest.fresh("first")), b.i64(nest.fresh("last"))
    body = b.block(
        Let(low, b.mul(b.mod(task, chunks), width)),
        Let(high, b.min64(b.add(low, width), length)),
        Let(first, b.mul(b.div(task, chunks), tasks.rows)),
        Let(last, b.min64(b.add(first, tasks.rows), rows)),
        row_loop(nest, first, last, lambda at, _: nest.build(at, (low, high))),
    )
    return b.block(
        Let(chunks, b.ceil_div(b.max64(length, 1), width)), b.loop(task, b.BEGIN, b.END, body)
    )


RowBody = Callable[[Mapping[str, Expr], Expr], list[Stmt]]  # of counters and the row's number


def row_loop(nest: RowPoints, first: Expr, last: Expr, build: RowBody) -> list[Stmt]:
    """Return the loop over rows [first, last), whose counters run like an odometer."""
    kept = nest.space.kept
    match kept:
        case ():
            return [b.when(b.compare("<", first, last), build({}, b.c64(0)))]
        case (only,):
            row = nest.counter(only)
            return [b.loop(row, first, last, build({only.name: row}, row))]
    counters = {x.name: nest.counter(x) for x in kept}
    start = b.i64(nest.fresh("first"))
    lets: list[Stmt] = [Let(start, first)]
    below: Expr = b.c64(1)
    for x in reversed(kept):
        at = b.div(start, below)
        value = at if x is kept[0] else b.mod(at, nest.size(x.extent))
        lets.append(Let(counters[x.name], value, mutable=True))
        below = b.mul(below, nest.size(x.extent))
    advance: list[Stmt] = []
    for x in kept:  # from the slowest: it advances inside the carry of the next
        c = counters[x.name]
        carry = b.when(b.compare("==", c, nest.size(x.extent)), Assign(c, b.c64(0)), advance)
        advance = [Assign(c, b.c64(1), "+=")] + ([] if x is kept[0] else [carry])
    row = b.i64(nest.fresh("row"))
    body = build(dict(counters), row)
    # without rows the odometer would divide by an empty extent
    return [b.when(b.compare("<", first, last), lets, b.loop(row, start, last, body, advance))]
