"""A fold in parts: partial results of every part in shared memory, combined by a second phase.

Part s folds the counters [s * width, (s + 1) * width) of the outermost loop of the fold. Its
partial results lie at `partial[s][row]`, one table per fold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tcdsl.codegen.forms.base.align import AlignedStatement
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.scalars import combine
from tcdsl.codegen.forms.base.space import IterationSpace, points
from tcdsl.codegen.forms.rows.cpu.nest import RowNest
from tcdsl.codegen.forms.rows.cpu.tasks import cost, price, row_loop
from tcdsl.codegen.forms.rows.point import RowPoints, RowWalk
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Assign,
    Cast,
    Expr,
    Field,
    Function,
    Let,
    Opaque,
    Pointer,
    Return,
    Simd,
    Stmt,
    Var,
)
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT32

_FINISH_POINTS = 4096  # results that a task of the second phase combines


@dataclass(frozen=True, slots=True)
class Split:
    """How a fold is split: the extent of its outermost loop and the wanted number of parts.

    Both depend on sizes only, never on threads: the order of combination is part of the result.
    """

    extent: Expr
    wanted: Expr

    @property
    def width(self) -> Expr:
        """Counters of one part."""
        return b.max64(1, b.ceil_div(self.extent, self.wanted))

    def parts(self, width: Expr) -> Expr:
        """Return the number of parts, at least one."""
        return b.max64(1, b.ceil_div(self.extent, width))


class Partials:
    """Where partial results lie: one table of [part][row] per fold, in shared memory."""

    def __init__(self, ctx: Context, space: IterationSpace, nest: RowPoints, parts: Expr) -> None:
        self.rows = ctx.operands.size(points(space.kept))
        self.pointers: dict[str, Var] = {}
        self.declarations: list[Stmt] = []
        at: Expr = ctx.shared_base
        for step in space.aligned.sweeps[0].steps:
            target = step.statement.target
            dtype = ctx.operands.buffer(target).dtype.computed
            p = Var(nest.fresh("partial"), Pointer(dtype))
            base = b.offset(Field(b.ARGS, "shared", Opaque("char *")), at)
            self.declarations.append(Let(p, Cast(base, p.type)))
            self.pointers[target] = p
            at = b.add(at, table_bytes(self.rows, parts, dtype.size_bytes))

    def element(self, target: str, part: Expr, row: Expr) -> Expr:
        """Return the partial result of a part for a row."""
        return b.load(self.pointers[target], b.add(b.mul(part, self.rows), row))


def table_bytes(rows: Expr, parts: Expr, size: int) -> Expr:
    """Return the bytes of one table, to a whole number of lines."""
    return b.round_up(b.mul(rows, parts, size), LINE)


def shared_bytes(ctx: Context, space: IterationSpace, parts: Expr) -> Expr:
    """Return the bytes of all tables."""
    rows = ctx.operands.size(points(space.kept))
    total: Expr = b.c64(0)
    for step in space.aligned.sweeps[0].steps:
        dtype = ctx.operands.buffer(step.statement.target).dtype.computed
        total = b.add(total, table_bytes(rows, parts, dtype.size_bytes))
    return total


@dataclass(frozen=True, slots=True)
class Planned:
    """Width and number of parts as phases see them and as the plan does, and its statements."""

    width: Expr
    parts: Expr
    plan_parts: Expr
    stmts: tuple[Stmt, ...]
    params: int


def plan_split(ctx: Context, split: Split) -> Planned:
    """Return constants where sizes are exact, else plan parameters."""
    if ctx.is_exact():
        parts = split.parts(split.width)
        return Planned(split.width, parts, parts, (), 0)
    base = ctx.param_base
    width, parts = (Field(b.PLAN, f"param[{base + i}]", I64) for i in (0, 1))
    stmts = (b.set_param(base, split.width), b.set_param(base + 1, split.parts(width)))
    return Planned(b.plan_param(base), b.plan_param(base + 1), parts, stmts, 2)


class PartNest(RowNest):
    """A row of one part: its folds end in the tables, nothing follows."""

    def __init__(
        self, ctx: Context, space: IterationSpace, walk: RowWalk, planned: Planned
    ) -> None:
        alone = replace(space, aligned=replace(space.aligned, after=()))
        super().__init__(ctx, alone, walk)
        self.partials = Partials(ctx, space, self, planned.parts)
        self.part, self.at = b.i64(self.fresh("part")), b.i64(self.fresh("at"))

    def finish(self, step: AlignedStatement, value: Expr) -> None:
        """Store a partial result."""
        place = self.partials.element(step.statement.target, self.part, self.at)
        self.row.append(Assign(place, value))  # type: ignore[arg-type]


def lower_split(
    ctx: Context, space: IterationSpace, walk: RowWalk, point_ns: float, split: Split
) -> Lowered:
    """Return a phase of (part, row) tasks along rows, and the phase that combines."""
    planned = plan_split(ctx, split)
    nest = PartNest(ctx, space, walk, planned)
    rows = nest.partials.rows
    task, low, high = b.i64(nest.fresh("task")), b.i64(nest.fresh("low")), b.i64(nest.fresh("high"))
    body = b.block(
        nest.partials.declarations,
        b.loop(
            task,
            b.BEGIN,
            b.END,
            Let(nest.part, b.div(task, rows)),
            Let(nest.at, b.mod(task, rows)),
            Let(low, b.mul(nest.part, planned.width)),
            Let(high, b.min64(b.add(low, planned.width), split.extent)),
            row_loop(nest, nest.at, b.add(nest.at, 1), lambda at, _: nest.build(at, (low, high))),
        ),
    )
    length = ctx.operands.size(space.row_length())
    tasks = b.mul(planned.plan_parts, rows)
    return two_phases(
        ctx,
        space,
        body,
        tasks,
        price(ctx, space, rows, length, point_ns),
        planned,
        "row reduction",
        walk,
    )


def two_phases(
    ctx: Context,
    space: IterationSpace,
    body: Stmt,
    tasks: Expr,
    cost_ns: Expr,
    planned: Planned,
    title: str,
    walk: RowWalk,
) -> Lowered:
    """Return the group as the phase given and one that combines its partial results."""
    first = _phase(ctx, f"{ctx.prefix}_part", body)
    second = _phase(ctx, f"{ctx.prefix}_whole", _combine(ctx, space, planned))
    rows = ctx.operands.size(points(space.kept))
    count = b.ceil_div(rows, _FINISH_POINTS)
    kind = "vectors" if walk.lanes > 1 else "simd"
    return Lowered(
        title=f"{title} in parts, {kind}",
        functions=(first, second),
        phases=(
            Phase(first.name, tasks, cost_ns),
            Phase(second.name, count, cost(rows, planned.plan_parts, 0.3)),
        ),
        plan=planned.stmts,
        thread_bytes=b.c64(0),
        shared_bytes=shared_bytes(ctx, space, planned.plan_parts),
        params_used=planned.params,
    )


def _phase(ctx: Context, name: str, body: Stmt) -> Function:
    return b.phase_function(name, b.block(ctx.operands.declare(body), Return(b.const(0, INT32))))


def _combine(ctx: Context, space: IterationSpace, planned: Planned) -> Stmt:
    """Return the second phase: add up the parts row by row, then what follows from the fold."""
    nest = RowNest(
        ctx, replace(space, sweeps=(), aligned=replace(space.aligned, sweeps=())), RowWalk(1, 32, 1)
    )
    partials = Partials(ctx, space, nest, planned.parts)
    low, high = b.i64(nest.fresh("low")), b.i64(nest.fresh("high"))
    part = b.i64(nest.fresh("part"))
    sums: list[Stmt] = []
    for step in space.aligned.sweeps[0].steps:
        at = b.i64(nest.fresh("at"))
        total = partials.element(step.statement.target, b.c64(0), at)
        value = combine(step.statement.op, total, partials.element(step.statement.target, part, at))
        place = Assign(total, value)  # type: ignore[arg-type]
        sums.append(b.loop(part, 1, planned.parts, b.loop(at, low, high, place, mark=Simd())))

    def row(counters: Mapping[str, Expr], at: Expr) -> list[Stmt]:
        nest.enter(counters)
        for step in space.aligned.sweeps[0].steps:
            nest.finish(step, partials.element(step.statement.target, b.c64(0), at))
        return nest.build(counters, None)

    return b.block(
        partials.declarations,
        Let(low, b.mul(b.BEGIN, _FINISH_POINTS)),
        Let(high, b.min64(b.mul(b.END, _FINISH_POINTS), partials.rows)),
        sums,
        row_loop(nest, low, high, row),
    )
