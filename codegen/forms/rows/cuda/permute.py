"""Pointwise statements that read something along another dimension than they write along.

    O(i, j) = A(j, i) + B(i, j)

A block has a square tile of points. What crosses it (`A`) is read along its own rows into shared
memory, and taken from there along the columns: all of global memory is walked side by side. A
row of the tile is one bank longer than the tile is wide, so that neither way two threads of a warp
meet in a bank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tcdsl.codegen.forms.base.access import ONE, ZERO, DimLoop
from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.kernel import LoweredKernels, kernel
from tcdsl.codegen.forms.base.cuda.traffic import Touch, Workload, kernel_ns, operations
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.scalars import widen
from tcdsl.codegen.forms.base.space import Access, IterationSpace, points, space_of
from tcdsl.codegen.forms.rows.cuda.pointwise_point import KernelPoint, PointText
from tcdsl.codegen.forms.rows.cuda.pointwise_vectors import always_touched, inner_loop
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Array,
    Assign,
    Call,
    Elem,
    Expr,
    Let,
    Scalar,
    Stmt,
    Unroll,
)
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.machine.gpu import WARP
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.types.dtypes import INT32, DType

_Sum = tuple[Expr, ...]  # its terms
TILES = (32, 64)  # points along a side: a warp reads a row of it at once, or in two parts
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
    return min(sides) >= _LEAST and bool(_tiles(ctx, space, across))


def knobs(ctx: GpuContext) -> tuple[Knob, ...]:
    """Return the side of a tile, and the threads of a block, each with some rows of the tile."""
    space = _space(ctx)
    across = across_loop(ctx, space)
    assert across is not None, "matches found it"
    return (Knob("tile", _tiles(ctx, space, across)), Knob("threads", (128, 256, 512)))


def default(ctx: GpuContext) -> dict[str, Value]:
    """Return the tile that the model likes best, the smaller one of equals."""
    tiles, _ = knobs(ctx)
    return min(({"tile": n, "threads": 256} for n in tiles.values), key=lambda v: cost_ns(ctx, v))


def cost_ns(ctx: GpuContext, values: Mapping[str, Value]) -> float:
    """Return the time of the kernel, in which empty parts of tiles count as well."""
    space, tile, threads = _space(ctx), int(values["tile"]), int(values["threads"])
    across, inner = across_loop(ctx, space), inner_loop(space)
    assert across is not None, "matches found it"
    sizes = {a: ctx.operands.memory_dtype(a[0]).size_bytes for a in space.linear}
    total = float(max(0, ctx.extent(points((*space.kept, inner)))))
    wasted = 1.0
    for loop in (across, inner):
        extent = max(1, ctx.extent(loop.extent))
        wasted *= -(-extent // tile) * tile / extent
    turned = crossing(ctx, space, across)
    touches = []
    for access, linear in space.linear.items():
        step = 1 if access in turned else abs(linear.step(inner.name).evaluate(space.sizes))
        walked = tuple(x for x in (*space.kept, inner) if linear.step(x.name) != ZERO)
        footprint = float(max(0, ctx.extent(points(walked)))) * sizes[access]
        touches.append(Touch(total * wasted, sizes[access], step * sizes[access], footprint))
    each = sum(operations(s.statement.value) for s in space.aligned.steps) + 4 * len(turned)
    mine = tile * tile // threads
    in_flight = mine * sum(sizes[a] for a in turned)
    work = Workload(total * wasted, each, total / mine, 1, in_flight)
    return kernel_ns(ctx.machine, work, touches)


def lower(ctx: GpuContext, values: Mapping[str, Value]) -> LoweredKernels:
    """Return one kernel with a block for each tile."""
    space, tile, threads = _space(ctx), int(values["tile"]), int(values["threads"])
    across = across_loop(ctx, space)
    assert across is not None, "matches found it"
    text = _TileText(ctx, space, across, tile, threads)
    blocks = b.mul(text.batch, text.rows, text.columns)
    if b.value_of(blocks) == 0:
        return LoweredKernels("permute", (), ())
    function, launch = kernel(ctx, "permute", text.body(), blocks=blocks, threads=threads)
    return LoweredKernels(f"permute {tile}x{tile}", (function,), (launch,))


def across_loop(ctx: GpuContext, space: IterationSpace) -> DimLoop | None:
    """Return the loop over rows along which most reads that cross them have unit steps."""
    inner = inner_loop(space).name
    stored = [linear for (name, _), linear in space.linear.items() if name in space.written]
    if any(linear.step(inner) != ONE for linear in stored):
        return None
    best = max(space.kept, key=lambda x: len(crossing(ctx, space, x)), default=None)
    return best if best is not None and crossing(ctx, space, best) else None


def crossing(ctx: GpuContext, space: IterationSpace, across: DimLoop) -> list[Access]:
    """Return the reads with unit steps along a loop over rows, and larger ones within a row."""
    inner = inner_loop(space).name
    always = always_touched(ctx, space)
    return [
        access
        for access, linear in space.linear.items()
        if access[0] not in space.written
        and access in always
        and linear.step(inner) not in (ZERO, ONE)
        and linear.step(across.name) == ONE
    ]


def _space(ctx: GpuContext) -> IterationSpace:
    return space_of(ctx, pointwise=True)


def _tiles(ctx: GpuContext, space: IterationSpace, across: DimLoop) -> tuple[int, ...]:
    """Return the sides of tiles for whose squares there is shared memory."""
    types = [ctx.operands.memory_dtype(name) for name, _ in crossing(ctx, space, across)]
    return tuple(n for n in TILES if sum(t.size_bytes * n * _pitch(n, t) for t in types) <= _SHARED)


def _pitch(tile: int, dtype: DType) -> int:
    """Return the elements from a row of the shared tile to the next: a bank more than the tile."""
    return tile + max(1, _BANK // dtype.size_bytes)


class _TileText(PointText):
    """Text of one tile.

    Parameters
    ----------
    ctx, space, across
        The group, its loops, and which of them lies across the rows.
    tile, threads
        Points along a side; threads of a block, whose warps take the rows in turn.
    """

    def __init__(
        self, ctx: GpuContext, space: IterationSpace, across: DimLoop, tile: int, threads: int
    ) -> None:
        super().__init__(ctx, space)
        self.tile = tile
        self.across = across
        self.inner = inner_loop(space)
        self.outer = tuple(x for x in space.kept if x != across)
        self.stride = threads // WARP
        self.turned = crossing(ctx, space, across)
        self.batch = self.size(points(self.outer))
        self.rows = b.ceil_div(self.size(across.extent), tile)
        self.columns = b.ceil_div(self.size(self.inner.extent), tile)
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
            Let(row, b.mul(down if known else b.mod(down, self.rows), self.tile)),
            Let(column, b.mul(b.mod(tile, self.columns), self.tile)),
        ]
        outer, counters = self.decode(b.div(down, self.rows), self.outer)
        squares = {a: self.square(a) for a in self.turned}
        return b.block(
            lets,
            outer,
            list(squares.values()),
            self.turns(lambda k, c: self.fill(k, c, row, column, counters, squares)),
            b.do("tc_barrier"),
            self.turns(lambda k, c: self.take(k, c, row, column, counters, squares)),
        )

    def square(self, access: Access) -> Array:
        """Return the shared memory of what crosses the rows."""
        name = self.fresh(f"{self.operands.pointer(access[0]).name}_tile")
        stored = self.stored(access[0])
        return Array(name, Scalar(stored), (self.tile, _pitch(self.tile, stored)), space="shared")

    def turns(self, body: Callable[[_Sum, _Sum], Stmt]) -> Stmt:
        """Return body at the points of a tile that a thread has, given their row and column."""
        k, part = b.i64(self.operands.local("k")), b.i64(self.operands.local("part"))
        here = body((self.warp, k), (self.lane,))
        if self.tile > WARP:
            row = body((self.warp, k), (self.lane, part))
            here = b.loop(part, 0, self.tile, row, step=WARP, mark=Unroll())
        return b.loop(k, 0, self.tile, here, step=self.stride, mark=Unroll())

    def fill(
        self,
        k: _Sum,
        c: _Sum,
        row: Expr,
        column: Expr,
        counters: Mapping[str, Expr],
        squares: Mapping[Access, Array],
    ) -> Stmt:
        """Return the loads of a row of the squares: their rows are columns of the tile."""
        lets, inside = self.place(b.add(row, *c), b.add(column, *k))
        here = {**counters, **self.own}
        loads = [
            Assign(Elem(x.name, (b.add(*k), b.add(*c)), x.type), b.load(*self.address(a, here)))
            for a, x in squares.items()
        ]
        return b.block(lets, b.when(inside, loads))

    def take(
        self,
        k: _Sum,
        c: _Sum,
        row: Expr,
        column: Expr,
        counters: Mapping[str, Expr],
        squares: Mapping[Access, Array],
    ) -> Stmt:
        """Return the statements at the points of a row of the tile."""
        lets, inside = self.place(b.add(row, *k), b.add(column, *c))
        point = KernelPoint({**counters, **self.own})
        for access, x in squares.items():
            element = Elem(x.name, (b.add(*c), b.add(*k)), x.type)
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
            if extent is None or extent % self.tile:
                inside.append(b.compare("<", self.counter(loop), self.size(loop.extent)))
        return lets, b.all_of(*inside)


def _index(function: str) -> Expr:
    return b.cast(Call(function, (), Scalar(INT32)), I64)


FORM = Form("permute", matches, knobs, default, cost_ns, lower)
