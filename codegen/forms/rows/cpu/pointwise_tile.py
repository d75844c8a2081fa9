"""Pointwise statements that read something along another dimension than they write along.

    O(i, j) = A(j, i) + B(i, j)

In the square tile of lanes x lanes points, `A` is read as vectors along `i` and turned around in
registers, so that all memory is walked in unit steps. Squares beside each other take a few lines of
`A` at once: those of other rows are pages apart.

    O(d, c, a) = X(a, c, d)        c and d of X are one run, cut into whole vectors

Where the dimension along which `A` has unit steps is short, known ones that go on where it ends are
walked with it; where elements of a run lie in what does not go on so, a table tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.access import ONE, ZERO, DimLoop, Linear
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.space import Access, IterationSpace, points
from tcdsl.codegen.forms.rows.cpu.pointwise_zip import ZipNest, is_zipped
from tcdsl.codegen.forms.rows.cpu.tasks import price, row_loop
from tcdsl.codegen.forms.rows.point import RowPoint, RowPoints, RowWalk
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Array,
    Bin,
    Call,
    Cast,
    Elem,
    Eval,
    Expr,
    Field,
    If,
    Let,
    Mask,
    Return,
    Serial,
    Stmt,
    Table,
    Unroll,
    Var,
    Vector,
)
from tcdsl.codegen.loops.target import short_name
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import FLOAT32, FLOAT64, INT32

_TASK_POINTS = 1 << 16
_STRETCH = 256  # bytes of what is turned, which are next to each other
_LONGEST_RUN = 2048  # points of a run, which are the entries of a table
_WASTE = 1.1  # of the lanes of squares along one dimension, from which on runs are worth it


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


def _run(
    space: IterationSpace, across: DimLoop, turned: list[Access], lanes: int
) -> tuple[DimLoop, ...]:
    """Return the loops whose points follow each other in all that is turned, the innermost first.

    That is the given one, and such that go on where it ends, if squares along it waste lanes.
    """
    values = {
        x.name
        for s in space.aligned.steps
        for x in vexpr.walk(s.statement.value)
        if isinstance(x, typed.IndexValue)
    }
    known = {
        x.name: x.extent.constant
        for x in space.kept
        if x.extent.constant
        and x.name not in values
        and all(a.step(x.name).constant is not None for a in space.linear.values())
    }
    length = known.get(across.name)
    if length is None or -(-length // lanes) * lanes < _WASTE * length:
        return (across,)
    run = [across]
    while length <= _LONGEST_RUN:
        more = [
            x
            for x in space.kept
            if x not in run
            and x.name in known
            and all(space.linear[a].step(x.name).constant == length for a in turned)
        ]
        if not more or length * known[more[0].name] > _LONGEST_RUN:
            break
        run.append(more[0])
        length *= known[more[0].name]
    return tuple(run)


class TileNest(RowPoints):
    """The statements of one square tile."""

    def __init__(self, ctx: Context, space: IterationSpace, walk: RowWalk, across: DimLoop) -> None:
        turned = _turned(ctx, space, across)
        run = _run(space, across, turned, walk.lanes)
        rows = tuple(x for x in space.kept if x not in run)
        self.tables: dict[tuple[int, ...], Table] = {}
        self.places: dict[Access, Table] = {}  # of points of the run
        if len(run) > 1:
            linear = dict(space.linear)
            for access, steps in linear.items():
                linear[access] = steps.without([x.name for x in run if x != across])
                if access not in turned and any(steps.step(x.name) != ZERO for x in run):
                    linear[access] = steps.without([x.name for x in run])
                    self.places[access] = self._table(ctx, run, steps)
            space = replace(space, linear=linear)
            across = DimLoop(across.name, points(run))
        super().__init__(ctx, replace(space, kept=rows), walk)
        self.across = across
        self.inner = space.sweeps[0][-1]
        self.turned = turned
        self.turned_bytes = min(self.stored(a[0]).size_bytes for a in self.turned)

    def _table(self, ctx: Context, run: tuple[DimLoop, ...], linear: Linear) -> Table:
        """Return the places of the points of a run, the same one for the same steps."""
        steps = tuple(linear.step(x.name).constant or 0 for x in run)
        if steps not in self.tables:
            places = [0]
            for x, step in zip(run, steps, strict=True):
                places = [at + i * step for i in range(x.extent.constant or 0) for at in places]
            name = f"{ctx.prefix}_run{len(self.tables)}"
            self.tables[steps] = Table(name, I64, tuple(places))
        return self.tables[steps]

    def address(self, access: Access, counters: Mapping[str, Expr]) -> tuple[Var, Expr]:
        """Return where an access lies; along a run a table tells."""
        pointer, index = super().address(access, counters)
        if access in self.places:
            at = counters[self.across.name]
            index = b.add(index, Elem(self.places[access].name, (at,), I64))
        return pointer, index

    def tile(self, t: Expr, v: Expr, rows: Expr | None, columns: Expr | None) -> list[Stmt]:
        """Return the tile at (t, v): whole, or its first rows and columns."""
        lanes = self.walk.lanes
        out: list[Stmt] = []
        row_mask = None if rows is None else self.mask(rows, out)
        column_mask = None if columns is None else self.mask(columns, out)
        squares: dict[Access, tuple[str, Vector]] = {}
        for access in self.turned:
            squares[access] = self.turn(access, t, v, row_mask, columns, out)
        u = b.i64(self.fresh("u"))
        count = b.c64(lanes) if rows is None else rows
        known = Serial() if b.value_of(count) is None else Unroll()

        def each_row(*, stream: bool) -> Stmt:
            at = {self.across.name: b.add(t, u), self.inner.name: v}
            point = RowPoint(at, column_mask, columns, stream=stream)
            for access, (name, kind) in squares.items():
                point.local[access] = Elem(name, (u,), kind)
            return b.loop(u, 0, count, self.points(point), mark=known)

        are_lines = self.stores_lines(t, v) if rows is None and columns is None else None
        plain = each_row(stream=False)
        out.append(plain if are_lines is None else If(are_lines, each_row(stream=True), plain))
        return out

    def stores_lines(self, t: Expr, v: Expr) -> Expr | None:
        """Return whether rows of the whole tile at (t, v) are lines, if they may pass the caches.

        A half of one waits for the other half too long.
        """
        stored = [(x.statement.target, x.statement.subs) for x in self.space.aligned.steps]
        stored = [a for a in stored if self.in_memory(a[0])]
        found: list[Expr] = []
        for access in stored if self.walk.stream else ():
            kind, linear = self.stored(access[0]), self.space.linear[access]
            size = kind.size_bytes
            is_line = size >= 4 and not kind.is_half and self.walk.lanes * size == LINE
            if not is_line or access in self.places or linear.step(self.inner.name) != ONE:
                return None
            at = {self.across.name: t, self.inner.name: v}
            place = Cast(b.offset(*self.address(access, at)), I64)
            apart = b.mul(self.size(linear.step(self.across.name)), size)
            ends = Bin("&", Bin("|", place, apart, I64), b.c64(LINE - 1), I64)
            found.append(b.compare("==", ends, 0))
        return b.all_of(*found) if found else None

    @property
    def is_known(self) -> bool:
        """Whether both sides of squares have known lengths."""
        return bool(self.across.extent.constant and self.inner.extent.constant)

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
        count = kind.lanes if columns is None else b.value_of(columns)
        # beyond the last column the last one is loaded again: nothing outside is touched
        column = c if count is not None else b.min64(c, b.sub(columns or 0, 1))
        pointer, index = self.address(
            access, {self.across.name: t, self.inner.name: b.add(v, column)}
        )
        at = b.offset(pointer, index)
        load = Call(f"tc_load_{short}", (at,), kind)
        if mask is not None:
            load = Call(f"tc_loadm_{short}", (at, mask), kind)
        out.append(Array(name, kind, (kind.lanes,)))
        row: list[Stmt] = [b.assign(Elem(name, (c,), kind), load)]
        length = self.inner.extent.constant
        if mask is None and columns is None and (length is None or length > kind.lanes):
            # rows of the source are pages apart: no hardware fetches the next tile
            ahead = b.mul(self.size(self.space.linear[access].step(self.inner.name)), kind.lanes)
            row.insert(0, b.do("tc_prefetch", b.offset(pointer, b.add(index, ahead))))
        out.append(b.loop(c, 0, count if count is not None else kind.lanes, row, mark=Unroll()))
        if count is not None and count < kind.lanes:
            last = Elem(name, (b.c64(count - 1),), kind)
            rest = b.assign(Elem(name, (c,), kind), last)
            out.append(b.loop(c, count, kind.lanes, rest, mark=Unroll()))
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
    nest: TileNest | ZipNest
    nest = (ZipNest if is_zipped(ctx, space, across) else TileNest)(ctx, space, walk, across)
    lanes = walk.lanes
    outer = ctx.operands.size(points(nest.space.kept))
    height = ctx.operands.size(nest.across.extent)
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
        # squares along a stretch of what is turned, one after the other
        u, stop = b.i64(nest.fresh("from")), b.i64(nest.fresh("to"))
        along: list[Stmt]
        if isinstance(nest, ZipNest):
            along = [b.loop(t, u, stop, nest.zipped(t, stop), step=lanes)]
        elif nest.is_known:
            along = _known_squares(nest, (t, u, stop), v)
        else:
            rows, columns = b.i64(nest.fresh("rows")), b.i64(nest.fresh("columns"))
            whole = b.all_of(b.compare("==", rows, lanes), b.compare("==", columns, lanes))
            tile = If(
                whole,
                b.block(nest.tile(t, v, None, None)),
                b.block(nest.tile(t, v, rows, columns)),
            )
            left = Let(rows, b.min64(lanes, b.sub(high, t)))
            squares = b.loop(t, u, stop, left, tile, step=lanes)
            left = Let(columns, b.min64(lanes, b.sub(width, v)))
            along = [b.loop(v, 0, width, left, squares, step=lanes)]
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
        b.do("tc_stream_end") if walk.stream else None,
    )
    name = f"{ctx.prefix}_tiles"
    function = b.phase_function(
        name, b.block(ctx.operands.declare(body), Return(b.const(0, INT32)))
    )
    rows = b.mul(outer, height)
    return Lowered(
        title="pointwise, turns of lanes"
        if isinstance(nest, ZipNest)
        else "pointwise, turned tiles",
        functions=(function,),
        phases=(
            Phase(
                name,
                b.mul(outer, b.ceil_div(height, planned)),
                price(ctx, space, rows, width, point_ns),
            ),
        ),
        plan=tuple(plan),
        thread_bytes=b.c64(0),
        shared_bytes=b.c64(0),
        tables=tuple(nest.tables.values()),
        params_used=len(plan),
    )


def _known_squares(nest: TileNest, along: tuple[Var, Var, Var], v: Var) -> list[Stmt]:
    """Return the squares of a stretch, those at the ends of known lengths as texts of their own.

    along: the counter along the stretch, where it begins, where it ends.
    """
    t, low, high = along
    lanes = nest.walk.lanes
    height, width = (x.extent.constant or 0 for x in (nest.across, nest.inner))

    def squares(columns: int) -> list[Stmt]:
        some = None if columns == lanes else b.c64(columns)
        out: list[Stmt] = []
        whole: Expr = high
        if height % lanes:
            whole = b.i64(nest.fresh("whole"))
            out.append(Let(whole, b.sub(high, b.mod(b.sub(high, low), lanes))))
        if height >= lanes:
            out.append(b.loop(t, low, whole, nest.tile(t, v, None, some), step=lanes))
        if height % lanes:
            rest = nest.tile(t, v, b.c64(height % lanes), some)
            out.append(b.loop(t, whole, high, rest, step=lanes))
        return out

    out: list[Stmt] = []
    whole = width - width % lanes
    if whole:
        out.append(b.loop(v, 0, whole, squares(lanes), step=lanes))
    if width % lanes:
        out.append(b.loop(v, whole, width, squares(width % lanes), step=lanes))
    return out
