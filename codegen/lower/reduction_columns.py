"""Folds along columns: neighbours in memory are different results, folded vector by vector.

A task has a block of columns and a part of the rows. It walks the rows eight at a time and adds
them, pairwise, to one row of accumulators that stays in L1: partial results in shared memory where
the fold is split, else the thread's workspace, from which the block is finished at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen import build as b
from tcdsl.codegen.loopir import (
    Cast,
    Const,
    Expr,
    Let,
    Mask,
    Pointer,
    Return,
    Stmt,
    Var,
    Vector,
)
from tcdsl.codegen.lower import vexpr
from tcdsl.codegen.lower.context import Context
from tcdsl.codegen.lower.expr import identity
from tcdsl.codegen.lower.lowered import Lowered, Phase
from tcdsl.codegen.lower.operands import compute_dtype
from tcdsl.codegen.lower.reduction_split import (
    Partials,
    Planned,
    Split,
    plan_split,
    two_phases,
)
from tcdsl.codegen.lower.rows_align import Step
from tcdsl.codegen.lower.rows_fold import combined, merged, operator
from tcdsl.codegen.lower.rows_point import Form, Point, Points
from tcdsl.codegen.lower.rows_space import Space, combines, points, size_expr
from tcdsl.codegen.lower.rows_tasks import cost, row_loop
from tcdsl.codegen.target import short_name
from tcdsl.grammar import typed
from tcdsl.grammar.dtypes import INT32

ROWS = 8  # added up before they meet the accumulators
BLOCK = 2048  # columns of a task at most: accumulators of 8 KB


class ColumnNest(Points):
    """The statements of one block of columns, in vectors along them."""

    def __init__(self, ctx: Context, space: Space, form: Form) -> None:
        super().__init__(ctx, replace(space, kept=space.kept[:-1]), form)
        self.column = space.kept[-1]
        self.accumulators: dict[str, Var] = {}

    def fold_block(
        self, low: Expr, high: Expr, span: tuple[Expr, Expr] | None, start: Expr
    ) -> list[Stmt]:
        """Return the fold of columns [low, high) into accumulators whose first is column start.

        span: the part of the outermost loop of the fold.
        """
        (sweep,) = self.space.aligned.sweeps
        loops = self.space.sweeps[0]
        out = self.along(low, high, lambda p: self.clear(sweep.steps, p, start))
        outer = {x.name: self.counter(x) for x in loops[:-1]}
        inner = loops[-1]
        first: Expr = b.c64(0)
        last = self.size(inner.extent)
        if span is not None and len(loops) == 1:
            first, last = span
        row = self.counter(inner)
        count = b.sub(last, first)
        main = b.i64(self.fresh("main"))
        nest: list[Stmt] = [Let(main, b.add(first, b.mul(b.div(count, ROWS), ROWS)))]
        for begin, end, rows in ((first, main, ROWS), (main, last, 1)):
            body = self.rows(sweep.steps, {**outer, inner.name: row}, rows, low, high, start)
            nest.append(b.loop(row, begin, end, body, step=rows))
        for x in reversed(loops[:-1]):
            part = span if span is not None and x is loops[0] else (b.c64(0), self.size(x.extent))
            nest = [b.loop(outer[x.name], *part, nest)]
        return [*out, *nest]

    def rows(
        self,
        steps: Sequence[Step],
        counters: Mapping[str, Expr],
        rows: int,
        low: Expr,
        high: Expr,
        start: Expr,
    ) -> list[Stmt]:
        """Return the addition of some rows to the accumulators."""
        row = next(reversed(list(counters)))
        hoist: list[Stmt] = []
        hoisted: list[dict[typed.Expr, Expr]] = [{} for _ in range(rows)]

        def at(p: Point) -> list[Stmt]:
            out: list[Stmt] = []
            terms: dict[str, list[Expr]] = {s.statement.target: [] for s in steps}
            for u in range(rows):
                here = {**counters, row: b.add(counters[row], u)}
                point = replace(p, counters={**here, **p.counters}, local={})
                self.hoisted = hoisted[u]
                scope = self.scope(point, self.column, hoist, out)
                for s in steps:
                    value = scope.vector(s.statement.value)
                    terms[s.statement.target].append(scope.name(value))
            for s in steps:
                op = operator(s.statement.op)
                acc = self.accumulator(s, p, start)
                value = combined(op, merged(op, tuple(terms[s.statement.target])), acc)
                out.append(self.keep(s, p, start, value))
            return out

        body = self.along(low, high, at)
        return [*hoist, *body]

    def finish_block(self, low: Expr, high: Expr, start: Expr) -> list[Stmt]:
        """Return what follows from the fold, for columns [low, high), with its stores."""
        (sweep,) = self.space.aligned.sweeps
        hoist: list[Stmt] = []
        self.hoisted = {}

        def at(p: Point) -> list[Stmt]:
            out: list[Stmt] = []
            point = replace(p, local={})
            scope = self.scope(point, self.column, hoist, out)
            for s in sweep.steps:
                self.settle(s, self.accumulator(s, p, start), point, scope, out)
            for s in self.space.aligned.after:
                self.settle(s, scope.vector(s.statement.value), point, scope, out)
            return out

        body = self.along(low, high, at)
        return [*hoist, *body]

    def settle(
        self, step: Step, value: Expr, point: Point, scope: vexpr.Scope, out: list[Stmt]
    ) -> None:
        """Combine a result with what was there, name it and store it."""
        s = step.statement
        if combines(s) and s.base is not None:
            dtype = self.operands.buffer(s.base).dtype
            before = scope.vector(typed.Read(s.base, s.subs, dtype))
            value = combined(operator(s.op), before, value)
        value = scope.name(value)
        point.local[s.target, s.subs] = value
        if self.in_memory(s.target):
            out.append(self.vector_store((s.target, s.subs), point, value))

    # ---- along the columns

    def along(self, low: Expr, high: Expr, body: Callable[[Point], list[Stmt]]) -> list[Stmt]:
        """Return the loops over columns: whole vectors, then one masked."""
        lanes = self.form.lanes
        var = b.i64(self.fresh("c"))
        main = b.i64(self.fresh("main"))
        whole = b.add(low, b.mul(b.div(b.sub(high, low), lanes), lanes))
        rest = Var(self.fresh("tail"), Mask(self.mask_dtype, lanes))
        left = b.sub(high, var)
        masked = Point({self.column.name: var}, rest, left)
        return [
            Let(main, whole),
            b.loop(var, low, main, body(Point({self.column.name: var})), step=lanes),
            b.loop(var, main, high, Let(rest, self.tail(left)), body(masked), step=lanes),
        ]

    def place(self, step: Step, p: Point, start: Expr) -> Expr:
        """Return the address of a fold's accumulators at a point."""
        pointer = self.accumulators[step.statement.target]
        return b.offset(pointer, b.sub(p.counters[self.column.name], start))

    def kind(self, step: Step) -> Vector:
        """Return the type of a fold's vectors."""
        dtype = compute_dtype(self.operands.buffer(step.statement.target).dtype)
        return Vector(dtype, self.form.lanes)

    def accumulator(self, step: Step, p: Point, start: Expr) -> Expr:
        """Return a fold's accumulators at a point."""
        t = self.kind(step)
        at = self.place(step, p, start)
        if p.mask is not None:
            return vexpr.vector_call("loadm", t, at, p.mask)
        return vexpr.vector_call("load", t, at)

    def keep(self, step: Step, p: Point, start: Expr, value: Expr) -> Stmt:
        """Return the store of a fold's accumulators."""
        t = self.kind(step)
        name = f"v{t.lanes}{short_name(t.dtype)}"
        at = self.place(step, p, start)
        if p.mask is not None:
            return b.do(f"tc_storem_{name}", at, p.mask, value)
        return b.do(f"tc_store_{name}", at, value)

    def clear(self, steps: Sequence[Step], p: Point, start: Expr) -> list[Stmt]:
        """Return the start of all folds."""
        out: list[Stmt] = []
        for s in steps:
            t = self.kind(s)
            neutral = identity(s.statement.op, t.dtype)
            assert isinstance(neutral, Const)
            out.append(self.keep(s, p, start, Const(neutral.value, t)))
        return out


def lower_columns(
    ctx: Context,
    space: Space,
    form: Form,
    point_ns: float,
    split: Split | None,
    flops: float,
) -> Lowered:
    """Return tasks of (part, outer row, block of columns), and where split a second phase."""
    nest = ColumnNest(ctx, space, form)
    width = size_expr(ctx.operands, space.kept[-1].extent)
    outer = size_expr(ctx.operands, points(space.kept[:-1]))
    blocks = b.ceil_div(width, BLOCK)
    task, block = b.i64(nest.fresh("task")), b.i64(nest.fresh("block"))
    group, low, high = (b.i64(nest.fresh(n)) for n in ("group", "low", "high"))
    head: list[Stmt] = [
        Let(block, b.mod(task, blocks)),
        Let(group, b.div(task, blocks)),
        Let(low, b.mul(block, BLOCK)),
        Let(high, b.min64(b.add(low, BLOCK), width)),
    ]
    length = size_expr(ctx.operands, space.row_length())
    rows = size_expr(ctx.operands, points(space.kept))
    price = cost(rows, length, point_ns)
    if split is not None:
        planned = plan_split(ctx, split)
        body = _parts(ctx, space, nest, split, planned, task, group, low, high, head, outer)
        tasks = b.mul(planned.plan_parts, outer, blocks)
        return two_phases(ctx, space, body, tasks, price, planned, "column reduction", form, flops)
    at: Expr = b.c64(0)
    declarations: list[Stmt] = []
    for s in space.aligned.sweeps[0].steps:
        t = nest.kind(s)
        p = Var(nest.fresh("sums"), Pointer(t.dtype))
        declarations.append(Let(p, Cast(b.offset(b.WORKSPACE, at), p.type)))
        nest.accumulators[s.statement.target] = p
        at = b.add(at, BLOCK * t.dtype.size_bytes)

    def build(counters: Mapping[str, Expr], _: Expr) -> list[Stmt]:
        nest.enter(counters)
        body = nest.fold_block(low, high, None, low)
        body += nest.finish_block(low, high, low)
        return [*nest.row, *body]

    loop = b.loop(task, b.BEGIN, b.END, head, row_loop(nest, group, b.add(group, 1), build))
    name = f"{ctx.prefix}_columns"
    function = b.phase_function(
        name,
        b.block(ctx.operands.declare(b.block(declarations, loop)), Return(b.const(0, INT32))),
    )
    return Lowered(
        form="column reduction, vectors",
        functions=(function,),
        phases=(Phase(name, b.mul(outer, blocks), price),),
        plan=(),
        thread_bytes=at,
        shared_bytes=b.c64(0),
        flops=flops,
    )


def _parts(
    ctx: Context,
    space: Space,
    nest: ColumnNest,
    split: Split,
    planned: Planned,
    task: Var,
    group: Var,
    low: Var,
    high: Var,
    head: list[Stmt],
    outer: Expr,
) -> Stmt:
    """Return the first phase of a split fold: its accumulators are the partial results."""
    partials = Partials(ctx, space, nest, planned.parts)
    part, index, base = (b.i64(nest.fresh(n)) for n in ("part", "index", "base"))
    begin, end = b.i64(nest.fresh("begin")), b.i64(nest.fresh("end"))
    width = size_expr(ctx.operands, space.kept[-1].extent)
    # a task's row of partial results starts at column 0 of (part, outer row)
    lets: list[Stmt] = [
        Let(part, b.div(group, outer)),
        Let(index, b.mod(group, outer)),
        Let(base, b.add(b.mul(part, partials.rows), b.mul(index, width))),
        Let(begin, b.mul(part, planned.width)),
        Let(end, b.min64(b.add(begin, planned.width), split.extent)),
    ]
    for target, p in partials.pointers.items():
        row = Var(nest.fresh("sums"), p.type)
        lets.append(Let(row, b.offset(p, base)))
        nest.accumulators[target] = row

    def build(counters: Mapping[str, Expr], _: Expr) -> list[Stmt]:
        nest.enter(counters)
        body = nest.fold_block(low, high, (begin, end), b.c64(0))
        return [*nest.row, *body]

    rows = row_loop(nest, index, b.add(index, 1), build)
    return b.block(partials.declarations, b.loop(task, b.BEGIN, b.END, head, lets, rows))
