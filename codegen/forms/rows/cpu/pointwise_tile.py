"""Pointwise statements that read something along another dimension than they write along.

    O(i, j) = A(j, i) + B(i, j)

In the square tile of lanes x lanes points, `A` is read as vectors along `i` and turned around in
registers, so that all memory is walked in unit steps. Squares beside each other take a few lines of
`A` at once: those of other rows are pages apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tcdsl.codegen.forms.base.access import ONE, ZERO, DimLoop
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.space import Access, IterationSpace, points
from tcdsl.codegen.forms.rows.cpu.tasks import cost, row_loop
from tcdsl.codegen.forms.rows.point import RowPoint, RowPoints, RowWalk
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Array,
    Call,
    Elem,
    Eval,
    Expr,
    Field,
    If,
    Let,
    Mask,
    Return,
    Stmt,
    Unroll,
    Var,
    Vector,
)
from tcdsl.codegen.loops.target import short_name
from tcdsl.grammar.types.dtypes import FLOAT32, FLOAT64, INT32

_TASK_POINTS = 1 << 16
_STRETCH = 256  # bytes of what is turned, which are next to each other


def turned_loop(ctx: Context, space: IterationSpace) -> DimLoop | None:
    """Return the loop along which reads that cross the rows have unit steps, None if there is none.

    Whatever is written must lie along the rows.
    """
    inner = space.sweeps[0][-1].name
    for (buffer, _), linear in space.linear.items():
        if buffer in space.written and linear.step(inner) != ONE:
            return None
    best, most = None, 0
    for loop in space.kept:
        count = len(_turned(ctx, space, loop))
        if count > most:
            best, most = loop, count
    return best


def _turned(ctx: Context, space: IterationSpace, loop: DimLoop) -> list[Access]:
    """Return the reads with unit steps along a loop over rows, and larger ones within a row."""
    inner = space.sweeps[0][-1].name
    return [
        access
        for access, linear in space.linear.items()
        if access[0] not in space.written
        and linear.step(inner) not in (ZERO, ONE)
        and linear.step(loop.name) == ONE
        and ctx.operands.memory_dtype(access[0]) in (FLOAT32, FLOAT64)
    ]


class TileNest(RowPoints):
    """The statements of one square tile."""

    def __init__(self, ctx: Context, space: IterationSpace, walk: RowWalk, across: DimLoop) -> None:
        rows = tuple(x for x in space.kept if x != across)
        super().__init__(ctx, replace(space, kept=rows), walk)
        self.across = across
        self.inner = space.sweeps[0][-1]
        self.turned = _turned(ctx, space, across)
        self.turned_bytes = min(self.stored(a[0]).size_bytes for a in self.turned)

    def tile(self, t: Expr, v: Expr, rows: Expr | None, columns: Expr | None) -> list[Stmt]:
        """Return the tile at (t, v): whole, or its first rows and columns."""
        lanes = self.walk.lanes
        out: list[Stmt] = []
        row_mask = column_mask = None
        if rows is not None and columns is not None:
            row_mask, column_mask = self.mask(rows, out), self.mask(columns, out)
        squares: dict[Access, tuple[str, Vector]] = {}
        for access in self.turned:
            squares[access] = self.turn(access, t, v, row_mask, columns, out)
        u = b.i64(self.fresh("u"))
        point = RowPoint({self.across.name: b.add(t, u), self.inner.name: v}, column_mask, columns)
        for access, (name, kind) in squares.items():
            point.local[access] = Elem(name, (u,), kind)
        body = self.points(point)
        if rows is None:
            out.append(b.loop(u, 0, lanes, body, mark=Unroll()))
        else:
            out.append(b.loop(u, 0, rows, body))
        return out

    def mask(self, count: Expr, out: list[Stmt]) -> Var:
        """Declare the mask of the first count lanes."""
        mask = Var(self.fresh("tail"), Mask(self.mask_dtype, self.walk.lanes))
        out.append(Let(mask, self.tail(count)))
        return mask

    def turn(
        self,
        access: Access,
        t: Expr,
        v: Expr,
        mask: Var | None,
        columns: Expr | None,
        out: list[Stmt],
    ) -> tuple[str, Vector]:
        """Load a square along the other loop and turn it; return its name and type."""
        kind = Vector(self.stored(access[0]).computed, self.walk.lanes)
        name = self.fresh("square")
        short = f"v{kind.lanes}{short_name(kind.dtype)}"
        c = b.i64(self.fresh("c"))
        # beyond the last column the last one is loaded again: nothing outside is touched
        column = c if columns is None else b.min64(c, b.sub(columns, 1))
        pointer, index = self.address(
            access, {self.across.name: t, self.inner.name: b.add(v, column)}
        )
        at = b.offset(pointer, index)
        load = Call(f"tc_load_{short}", (at,), kind)
        if mask is not None:
            load = Call(f"tc_loadm_{short}", (at, mask), kind)
        out.append(Array(name, kind, (kind.lanes,)))
        row: list[Stmt] = [b.assign(Elem(name, (c,), kind), load)]
        if mask is None:  # rows of the source are pages apart: no hardware fetches the next tile
            ahead = b.mul(self.size(self.space.linear[access].step(self.inner.name)), kind.lanes)
            row.insert(0, b.do("tc_prefetch", b.offset(pointer, b.add(index, ahead))))
        out.append(b.loop(c, 0, kind.lanes, row, mark=Unroll()))
        out.append(Eval(Call(f"tc_transpose_{short}", (Var(name, kind),), None)))
        return name, kind

    def points(self, point: RowPoint) -> list[Stmt]:
        """Return the statements at one row of a tile."""
        out: list[Stmt] = []
        self.hoisted = {}
        scope = self.scope(point, self.inner, out, out)
        for step in self.space.aligned.sweeps[0].steps:
            s = step.statement
            self.settle(s, scope.vector(s.value), point, scope, out)
        return out


def lower_tiles(
    ctx: Context, space: IterationSpace, walk: RowWalk, across: DimLoop, point_ns: float
) -> Lowered:
    """Return tasks of (outer row, a run of tiles along the other loop)."""
    nest = TileNest(ctx, space, walk, across)
    lanes = walk.lanes
    outer = ctx.operands.size(points(nest.space.kept))
    height = ctx.operands.size(across.extent)
    width = ctx.operands.size(nest.inner.extent)
    side = max(lanes, _STRETCH // nest.turned_bytes)
    band = b.mul(b.max64(1, b.div(b.c64(_TASK_POINTS), b.mul(side, b.max64(width, 1)))), side)
    plan: list[Stmt] = []
    planned: Expr = band
    if not ctx.is_exact():
        plan.append(b.set_param(ctx.param_base, band))
        planned, band = Field(b.PLAN, f"param[{ctx.param_base}]", I64), b.plan_param(ctx.param_base)
    bands = b.i64(nest.fresh("bands"))
    task, low, high, group = (b.i64(nest.fresh(n)) for n in ("task", "low", "high", "group"))
    t, v = nest.counter(across), nest.counter(nest.inner)

    def build(counters: Mapping[str, Expr], _: Expr) -> list[Stmt]:
        nest.enter(counters)
        rows, columns = b.i64(nest.fresh("rows")), b.i64(nest.fresh("columns"))
        whole = b.all_of(b.compare("==", rows, lanes), b.compare("==", columns, lanes))
        tile = If(
            whole,
            b.block(nest.tile(t, v, None, None)),
            b.block(nest.tile(t, v, rows, columns)),
        )
        # squares along a stretch of what is turned, one after the other
        u, stop = b.i64(nest.fresh("from")), b.i64(nest.fresh("to"))
        squares = b.loop(t, u, stop, Let(rows, b.min64(lanes, b.sub(high, t))), tile, step=lanes)
        along = b.loop(
            v, 0, width, Let(columns, b.min64(lanes, b.sub(width, v))), squares, step=lanes
        )
        across_loop = b.loop(
            u, low, high, Let(stop, b.min64(b.add(u, side), high)), along, step=side
        )
        return [*nest.row, across_loop]

    body = b.block(
        Let(bands, b.ceil_div(height, band)),
        b.loop(
            task,
            b.BEGIN,
            b.END,
            Let(group, b.div(task, bands)),
            Let(low, b.mul(b.mod(task, bands), band)),
            Let(high, b.min64(b.add(low, band), height)),
            row_loop(nest, group, b.add(group, 1), build),
        ),
    )
    name = f"{ctx.prefix}_tiles"
    function = b.phase_function(
        name, b.block(ctx.operands.declare(body), Return(b.const(0, INT32)))
    )
    rows = b.mul(outer, height)
    return Lowered(
        title="pointwise, turned tiles",
        functions=(function,),
        phases=(
            Phase(name, b.mul(outer, b.ceil_div(height, planned)), cost(rows, width, point_ns)),
        ),
        plan=tuple(plan),
        thread_bytes=b.c64(0),
        shared_bytes=b.c64(0),
        params_used=len(plan),
    )
