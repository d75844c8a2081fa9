"""A convolution of unknown sizes with its choices: its workspace, its micro-kernels, its phase.

    task: a block of columns, some lines     pack the weights of the block
                                             for lines, for tiles of about equal rows:
                                               sums of a register tile, from there to the output

A line of pixels is cut into as few tiles as can be, whose numbers of rows differ by one at most.
There is a micro-kernel for each number of rows and of vectors.
"""

from __future__ import annotations

from collections.abc import Iterator

from tcdsl.codegen.forms.contraction.lets import Lets, pick
from tcdsl.codegen.forms.contraction.problem import Index, extent_of
from tcdsl.codegen.forms.contraction.register_tile import RegisterTile
from tcdsl.codegen.forms.contraction.window.base import LINE, Nest
from tcdsl.codegen.forms.contraction.window.kernel import Level, TapKernel
from tcdsl.codegen.forms.contraction.window.reach import (
    Point,
    digits,
    place_of,
    reach,
    row_of,
    stores,
)
from tcdsl.codegen.forms.contraction.window.sliding import Sliding
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Call,
    Eval,
    Expr,
    Function,
    Let,
    Return,
    Stmt,
)
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT32, INT64


@dataclass(frozen=True, slots=True)
class SlidingNest(Nest):
    """A convolution of unknown sizes with its choices.

    taps: of a row of the window, each written out. rows: the most pixels of a register tile of one
    vector, of two. param: of the plan, which has the number of chunks that lines are cut into.
    """

    conv: Sliding
    taps: int
    rows: tuple[int, ...]
    param: int

    @property
    def tallest(self) -> int:
        """The most pixels of a register tile."""
        return max(self.rows)

    @property
    def width(self) -> int:
        """Columns of a whole block."""
        return len(self.rows) * self.lanes

    @property
    def sizes(self) -> Iterator[tuple[int, int]]:
        """Yield the register tiles, pixels x vectors."""
        for v, most in enumerate(self.rows, 1):
            yield from ((r, v) for r in range(1, most + 1))

    @property
    def depth(self) -> Expr:
        """The number of taps and channels: the elements of a packed column."""
        return self.size(extent_of(self.conv.sums))

    @property
    def blocks(self) -> Expr:
        """The number of blocks of columns."""
        return b.ceil_div(self.size(self.conv.column.extent), self.width)

    @property
    def lines(self) -> Expr:
        """The number of lines of pixels under a block."""
        return self.size(extent_of(self.conv.lines))

    # ---- workspace

    def offsets(self) -> dict[str, Expr]:
        """Return the byte offsets of what lies in the workspace, and where it ends."""
        size, deep = self.dtype.size_bytes, self.depth
        # vectors of the last block are read whole, and squares of the last pixels
        bytes_of: dict[str, Expr] = {
            "depth_at": b.mul(deep, INT64.size_bytes) if self.has_table else b.c64(0),
            "packed": b.mul(b.add(b.mul(deep, self.width), self.lanes), size),
            "sums": b.c64((max(r * v for r, v in self.sizes) + self.lanes) * self.lanes * size),
        }
        out: dict[str, Expr] = {}
        at: Expr = b.c64(0)
        for name, count in bytes_of.items():
            out[name] = at
            at = b.add(at, b.mul(b.ceil_div(count, LINE), LINE))
        return {**out, "end": at}

    # ---- packing

    @property
    def run(self) -> tuple[Index, ...]:
        """The inner sums that are packed at once: all."""
        return self.conv.sums

    # ---- kernels

    def kernel(self, rows: int, vectors: int) -> TapKernel:
        """Return the micro-kernel of so many pixels and vectors."""
        c = self.conv
        tile = RegisterTile(rows, vectors, self.lanes, self.dtype)
        taps = tuple((t, tuple(range(rows))) for t in range(self.taps))
        places = (tile.columns, rows) if self.is_turned else (rows, tile.columns)
        levels = (Level(None, None),) * len(c.sums[:-1])
        return TapKernel(tile, taps, c.step(c.pixel), c.step(c.tap), None, *places, levels)

    def tiles(self) -> Iterator[Function]:
        """Yield the micro-kernels, and what picks one by rows and vectors."""
        params = self.kernel(1, 1).params
        choice = b.i64("rows"), b.i64("vectors")

        def call(rows: int, vectors: int) -> Stmt:
            return Eval(Call(self.name(f"tile_{rows}x{vectors}"), params, None))

        for r, v in self.sizes:
            yield self.kernel(r, v).function(self.name(f"tile_{r}x{v}"))
        by_vectors = [
            (v, pick(choice[0], [(r, call(r, v)) for r in range(1, most + 1)]))
            for v, most in enumerate(self.rows, 1)
        ]
        yield Function(self.name("tile"), (*choice, *params), pick(choice[1], by_vectors), "helper")


@dataclass(frozen=True, slots=True)
class Cut:
    """A line of pixels as register tiles, the first `larger` of which have one more than least."""

    tiles: Expr
    least: Expr
    larger: Expr


def phase(nest: SlidingNest) -> list[Function]:
    """Return the functions, the phase last."""
    chunks = Let(nest.var("chunks"), b.plan_param(nest.param))
    head = [chunks, *nest.head(), Let(nest.var("depth"), nest.depth)]
    body = b.block(head, b.loop(nest.var("task"), b.BEGIN, b.END, _task(nest)))
    whole = nest.operands.declare(b.block(body, Return(b.const(0, INT32))))
    return [
        nest.pack,
        *nest.tiles(),
        nest.store.function(nest.name("store")),
        b.phase_function(nest.name("convolution"), whole),
    ]


def _task(nest: SlidingNest) -> Stmt:
    """Return what a task does: pack its block, then walk the lines."""
    c = nest.conv
    where = Lets(nest.var)
    around = [(f"at_{i.name}", nest.size(i.extent)) for i in reversed(c.panels)]
    counts = [("chunk", nest.var("chunks")), ("block", nest.blocks), *around]
    chunk, block, *outer = digits(where, nest.var("task"), counts)
    first = where.let("first_column", b.mul(block, nest.width))
    left = b.sub(nest.size(c.column.extent), first)
    columns = where.let("columns", b.min64(nest.width, left))
    vectors = where.let("vectors", b.ceil_div(columns, nest.lanes))
    most: Expr = b.c64(nest.rows[0])
    for v, rows in enumerate(nest.rows[1:], 2):
        most = b.select(b.compare("<", vectors, v), most, b.c64(rows))
    pixels = nest.size(c.pixel.extent)
    tiles = where.let("tiles", b.max64(b.ceil_div(pixels, most), 1))
    cut = Cut(tiles, where.let("least", b.div(pixels, tiles)), b.mod(pixels, tiles))
    begin = where.let("first_line", b.div(b.mul(chunk, nest.lines), nest.var("chunks")))
    end = where.let("last_line", b.div(b.mul(b.add(chunk, 1), nest.lines), nest.var("chunks")))
    panel = dict(zip((i.name for i in reversed(c.panels)), outer, strict=True))
    inner = Lets(nest.var)
    named = [(f"at_{i.name}", nest.size(i.extent)) for i in reversed(c.lines)]
    at = digits(inner, nest.var("line"), named)
    point = dict(zip((i.name for i in reversed(c.lines)), at, strict=True))
    line = _line(nest, {**panel, **point}, (first, columns, vectors), cut)
    walk = b.loop(nest.var("line"), begin, end, inner.stmts, line)
    return b.block(where.stmts, _pack(nest, panel, first, columns), walk)


def _pack(nest: SlidingNest, panel: Point, first: Expr, columns: Expr) -> Stmt:
    """Return the packing of a block."""
    x, depth = nest.problem.b, nest.var("depth")
    stride, step = nest.size(x.stride(nest.conv.column.name)), x.linear(nest.conv.sums)
    source = b.add(place_of(nest, x, panel), b.mul(first, stride))
    args = (
        b.offset(nest.operands.pointer(x.buffer), source),
        stride,
        nest.table if step is None else nest.size(step),
        nest.pointer("packed"),
        depth,
        columns,
        b.c64(nest.width),
    )
    return b.block(Eval(Call(nest.pack.name, args, None)), nest.end_of_packed(depth, columns))


def _line(nest: SlidingNest, point: Point, block: tuple[Expr, Expr, Expr], cut: Cut) -> Stmt:
    """Return the tiles of a line, under a block: its first column, columns and vectors."""
    c, p = nest.conv, nest.problem
    first, columns, vectors = block
    heads: list[Stmt] = []
    named = (("a", p.a), ("c", p.c), *((x.param, x.operand) for x in nest.finish.accesses))
    for name, x in named:
        at = b.offset(nest.operands.pointer(x.buffer), place_of(nest, x, point))
        heads.append(Let(nest.origin(f"{name}_at", x), at))
    one, none = b.c64(1), b.c64(0)
    tile, rows, pixel = nest.var("tile"), nest.var("rows"), nest.var("pixel")
    place = (first, pixel) if nest.is_turned else (pixel, first)
    around = c.sums[:-1]
    inner = (extent_of(c.sums[n + 1 :]) for n in range(len(around)))
    args = (
        rows,
        vectors,
        b.offset(nest.origin("a_at", p.a), b.mul(pixel, c.step(c.pixel))),
        nest.pointer("packed"),
        nest.pointer("sums"),
        reach(nest, "c_at", p.c, True, place),
        nest.size(row_of(nest, p.c)),
        nest.size(p.a.stride(c.lines[-1].name)) if c.lines else b.c64(0),
        *(nest.size(p.a.stride(i.name)) for i in around),
        *(nest.size(i.extent) for i in around),
        *(b.mul(nest.size(count), columns) for count in inner),
        columns,
    )
    body = b.block(
        Let(rows, b.add(cut.least, b.select(b.compare("<", tile, cut.larger), one, none))),
        Let(pixel, b.add(b.mul(tile, cut.least), b.min64(tile, cut.larger))),
        Eval(Call(nest.name("tile"), args, None)),
        stores(nest, rows, columns, pixel, first),
    )
    has_pixels = b.compare(">", nest.size(c.pixel.extent), 0)
    return b.block(heads, b.when(has_pixels, b.loop(tile, 0, cut.tiles, body)))
