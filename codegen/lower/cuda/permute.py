"""Pointwise statements that read something along another dimension than they write along.

    O(i, j) = A(j, i) + B(i, j)

A block has a square tile of points. What crosses it (`A`) is read along its own rows into shared
memory, and taken from there along the columns: all of global memory is walked side by side. A
row of the tile is one bank longer than the tile is wide, so that neither way two threads of a warp
meet in a bank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tcdsl.codegen import build as b
from tcdsl.codegen.config import Knob, Value
from tcdsl.codegen.loopir import I64, Array, Assign, Call, Elem, Expr, Let, Scalar, Stmt, Unroll
from tcdsl.codegen.lower import rows_form
from tcdsl.codegen.lower.context import GpuContext
from tcdsl.codegen.lower.cuda.kernel import LoweredKernels, kernel
from tcdsl.codegen.lower.cuda.pointwise_point import Point, PointText
from tcdsl.codegen.lower.cuda.pointwise_vectors import always_touched, inner_loop
from tcdsl.codegen.lower.cuda.traffic import Touch, Work, kernel_ns, operations
from tcdsl.codegen.lower.expr import widen
from tcdsl.codegen.lower.rows_access import ONE, ZERO, Loop
from tcdsl.codegen.lower.rows_space import Access, Space, points, space_of
from tcdsl.grammar.dtypes import INT32, DType
from tcdsl.grammar.errors import ScheduleError

TILE = 32  # points along a side: a row of it is what a warp reads at once
_LEAST = 8  # points along a side below which most of a tile would be empty
_BANK = 4  # bytes
_SHARED = 48 << 10  # bytes that a kernel may declare


def matches(ctx: GpuContext) -> bool:
    """Whether the group is pointwise, writes along its rows and reads across them."""
    try:
        space = _space(ctx)
    except ScheduleError:
        return False
    across = across_loop(ctx, space)
    if across is None:
        return False
    sides = (ctx.extent(across.extent), ctx.extent(inner_loop(space).extent))
    return min(sides) >= _LEAST and 0 < _shared_bytes(ctx, space, across) <= _SHARED


def knobs(ctx: GpuContext) -> tuple[Knob, ...]:
    """Return the threads of a block, each with some rows of the tile."""
    del ctx
    return (Knob("threads", (128, 256, 512)),)


def default(ctx: GpuContext) -> dict[str, Value]:
    """Return threads with four points each."""
    del ctx
    return {"threads": 256}


def cost_ns(ctx: GpuContext, values: Mapping[str, Value]) -> float:
    """Return the time of the kernel, in which empty parts of tiles count as well."""
    space, threads = _space(ctx), int(values["threads"])
    across, inner = across_loop(ctx, space), inner_loop(space)
    assert across is not None, "matches found it"
    sizes = {a: ctx.operands.memory_dtype(a[0]).size_bytes for a in space.linear}
    total = float(max(0, ctx.extent(points((*space.kept, inner)))))
    wasted = 1.0
    for loop in (across, inner):
        extent = max(1, ctx.extent(loop.extent))
        wasted *= -(-extent // TILE) * TILE / extent
    turned = crossing(ctx, space, across)
    touches = []
    for access, form in space.linear.items():
        step = 1 if access in turned else abs(form.step(inner.name).evaluate(space.sizes))
        walked = tuple(x for x in (*space.kept, inner) if form.step(x.name) != ZERO)
        footprint = float(max(0, ctx.extent(points(walked)))) * sizes[access]
        touches.append(Touch(total * wasted, sizes[access], step * sizes[access], footprint))
    each = sum(operations(s.statement.value) for s in space.aligned.steps) + 4 * len(turned)
    rows = TILE * TILE // threads
    in_flight = rows * sum(sizes[a] for a in turned)
    work = Work(total * wasted, each, total * wasted / rows, 1, in_flight)
    return kernel_ns(ctx.machine, work, touches)


def lower(ctx: GpuContext, values: Mapping[str, Value]) -> LoweredKernels:
    """Return one kernel with a block for each tile."""
    space, threads = _space(ctx), int(values["threads"])
    across = across_loop(ctx, space)
    assert across is not None, "matches found it"
    text = _TileText(ctx, space, across, threads)
    blocks = b.mul(text.batch, text.rows, text.columns)
    if b.value_of(blocks) == 0:
        return LoweredKernels("permute", (), ())
    function, launch = kernel(ctx, "permute", text.body(), blocks=blocks, threads=threads)
    flops = rows_form.flops(ctx, space.aligned)
    return LoweredKernels(f"permute {TILE}x{TILE}", (function,), (launch,), flops=flops)


def across_loop(ctx: GpuContext, space: Space) -> Loop | None:
    """Return the loop over rows along which most reads that cross them have unit steps."""
    inner = inner_loop(space).name
    stored = [form for (name, _), form in space.linear.items() if name in space.written]
    if any(form.step(inner) != ONE for form in stored):
        return None
    best = max(space.kept, key=lambda x: len(crossing(ctx, space, x)), default=None)
    return best if best is not None and crossing(ctx, space, best) else None


def crossing(ctx: GpuContext, space: Space, across: Loop) -> list[Access]:
    """Return the reads with unit steps along a loop over rows, and larger ones within a row."""
    inner = inner_loop(space).name
    always = always_touched(ctx, space)
    return [
        access
        for access, form in space.linear.items()
        if access[0] not in space.written
        and access in always
        and form.step(inner) not in (ZERO, ONE)
        and form.step(across.name) == ONE
    ]


def _space(ctx: GpuContext) -> Space:
    return space_of(ctx, pointwise=True)


def _shared_bytes(ctx: GpuContext, space: Space, across: Loop) -> int:
    turned = crossing(ctx, space, across)
    types = (ctx.operands.memory_dtype(name) for name, _ in turned)
    return sum(t.size_bytes * TILE * _pitch(t) for t in types)


def _pitch(dtype: DType) -> int:
    """Return the elements from a row of the shared tile to the next: a bank more than the tile."""
    return TILE + max(1, _BANK // dtype.size_bytes)


class _TileText(PointText):
    """Text of one tile.

    Parameters
    ----------
    ctx, space, across
        The group, its loops, and which of them lies across the rows.
    threads
        Of a block: each has a column of the tile and every (threads / TILE)-th row.
    """

    def __init__(self, ctx: GpuContext, space: Space, across: Loop, threads: int) -> None:
        super().__init__(ctx, space)
        self.across = across
        self.inner = inner_loop(space)
        self.outer = tuple(x for x in space.kept if x != across)
        self.stride = threads // TILE
        self.turned = crossing(ctx, space, across)
        self.batch = self.size(points(self.outer))
        self.rows = b.ceil_div(self.size(across.extent), TILE)
        self.columns = b.ceil_div(self.size(self.inner.extent), TILE)
        self.lane, self.warp = b.i64(self.fresh("lane")), b.i64(self.fresh("warp"))

    def body(self) -> Stmt:
        """Return what a thread does."""
        tile, row, column = (b.i64(self.fresh(n)) for n in ("tile", "row", "column"))
        down = b.div(tile, self.columns)
        known = b.value_of(self.rows) is not None and not self.outer  # else % bounds it, for int32
        lets: list[Stmt] = [
            Let(tile, _index("tc_block")),
            Let(self.lane, _index("tc_lane")),
            Let(self.warp, _index("tc_warp")),
            Let(row, b.mul(down if known else b.mod(down, self.rows), TILE)),
            Let(column, b.mul(b.mod(tile, self.columns), TILE)),
        ]
        outer, counters = self.decode(b.div(down, self.rows), self.outer)
        squares = {a: self.square(a) for a in self.turned}
        return b.block(
            lets,
            outer,
            list(squares.values()),
            self.turns(lambda k: self.fill(k, row, column, counters, squares)),
            b.do("tc_barrier"),
            self.turns(lambda k: self.take(k, row, column, counters, squares)),
        )

    def square(self, access: Access) -> Array:
        """Return the shared memory of what crosses the rows."""
        name = self.fresh(f"{self.operands.pointer(access[0]).name}_tile")
        stored = self.stored(access[0])
        return Array(name, Scalar(stored), (TILE, _pitch(stored)), space="shared")

    def turns(self, body: Callable[[Expr], Stmt]) -> Stmt:
        """Return the rows of a tile that a thread has."""
        k = b.i64(self.operands.local("k"))
        return b.loop(k, 0, TILE, body(k), step=self.stride, mark=Unroll())

    def fill(
        self,
        k: Expr,
        row: Expr,
        column: Expr,
        counters: Mapping[str, Expr],
        squares: Mapping[Access, Array],
    ) -> Stmt:
        """Return the loads of a row of the squares: their rows are columns of the tile."""
        at = b.add(self.warp, k)
        lets, inside = self.place(b.add(row, self.lane), b.add(column, self.warp, k))
        here = {**counters, **self.own}
        loads = [
            Assign(Elem(x.name, (at, self.lane), x.type), b.load(*self.address(a, here)))
            for a, x in squares.items()
        ]
        return b.block(lets, b.when(inside, loads))

    def take(
        self,
        k: Expr,
        row: Expr,
        column: Expr,
        counters: Mapping[str, Expr],
        squares: Mapping[Access, Array],
    ) -> Stmt:
        """Return the statements at the points of a row of the tile."""
        at = b.add(self.warp, k)
        lets, inside = self.place(b.add(row, self.warp, k), b.add(column, self.lane))
        point = Point({**counters, **self.own})
        for access, x in squares.items():
            element = Elem(x.name, (self.lane, at), x.type)
            point.local[access] = widen(element, self.stored(access[0]))
        return b.block(lets, b.when(inside, self.point(point)))

    @property
    def own(self) -> dict[str, Expr]:
        """The counters of a point within its tile."""
        return {x.name: self.counter(x) for x in (self.across, self.inner)}

    def place(self, row: Expr, column: Expr) -> tuple[list[Stmt], Expr]:
        """Declare the counters of a point; return whether it exists."""
        lets: list[Stmt] = []
        inside: list[Expr] = []
        for loop, at in ((self.across, row), (self.inner, column)):
            lets.append(Let(self.counter(loop), at))
            extent = loop.extent.constant
            if extent is None or extent % TILE:
                inside.append(b.compare("<", self.counter(loop), self.size(loop.extent)))
        return lets, b.all_of(*inside)


def _index(function: str) -> Expr:
    return b.cast(Call(function, (), Scalar(INT32)), I64)
