"""A convolution of unknown sizes with its choices: its workspace, its micro-kernels, its phase.

    task: a block of columns, some lines     pack the weights of the block
                                             for lines, for tiles of about equal rows:
                                               sums of a register tile, from there to the output

A line of pixels is cut into as few tiles as can be, whose numbers of rows differ by one at most.
There is a micro-kernel for each number of rows and of vectors.
"""

from __future__ import annotations

from collections.abc import Iterator

from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.forms.contraction.finish import Finish
from tcdsl.codegen.forms.contraction.lets import Lets, pick
from tcdsl.codegen.forms.contraction.pack import fill_table, packer
from tcdsl.codegen.forms.contraction.packer import Packer, Unit
from tcdsl.codegen.forms.contraction.problem import ONE, Operand, Problem, extent_of
from tcdsl.codegen.forms.contraction.register_tile import RegisterTile, intrinsic
from tcdsl.codegen.forms.contraction.window.kernel import Level, TapKernel
from tcdsl.codegen.forms.contraction.window.reach import Point, place_of, reach, row_of, stores
from tcdsl.codegen.forms.contraction.window.sliding import Sliding
from tcdsl.codegen.forms.contraction.window.store import TileStore
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Call,
    Cast,
    Const,
    Eval,
    Expr,
    Function,
    Let,
    Pointer,
    Return,
    Stmt,
    Var,
    Vector,
)
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT32, INT64, DType

LINE = 64  # bytes: what lies in the workspace starts at a cache line


@dataclass(frozen=True, slots=True)
class SlidingNest:
    """A convolution of unknown sizes with its choices.

    taps: of a row of the window, each written out. rows: the most pixels of a register tile of one
    vector, of two. param: of the plan, which has the number of chunks that lines are cut into.
    """

    conv: Sliding
    finish: Finish
    operands: Operands
    prefix: str
    lanes: int
    taps: int
    rows: tuple[int, ...]
    param: int

    @property
    def problem(self) -> Problem:
        """The same as a contraction of pixels and columns."""
        return self.conv.problem

    @property
    def is_turned(self) -> bool:
        """Whether tiles are turned around before they are stored."""
        return self.conv.is_turned

    @property
    def dtype(self) -> DType:
        """The type of all elements."""
        return self.problem.dtype

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

    def size(self, size: Size) -> Expr:
        """Return a size as an expression."""
        return self.operands.size(size)

    def var(self, name: str) -> Var:
        """Return a local int64 of the phase."""
        return b.i64(self.operands.local(name))

    def pointer(self, name: str) -> Var:
        """Return a pointer into the workspace."""
        return b.pointer(self.operands.local(name), self.dtype)

    def name(self, what: str) -> str:
        """Return the name of a function."""
        return f"{self.prefix}_{what}"

    def uniform(self, v: Var) -> Var:
        """Return the local that holds a parameter of the epilogue."""
        return Var(self.operands.local(v.name), v.type)

    def origin(self, name: str, x: Operand) -> Var:
        """Return the pointer to where an operand begins for a task or a line."""
        kind = self.operands.pointer(x.buffer).type
        assert isinstance(kind, Pointer)
        return b.pointer(self.operands.local(name), kind.dtype, const=kind.const)

    # ---- workspace

    def areas(self) -> dict[str, Expr]:
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

    def area(self, v: Var, name: str) -> Stmt:
        """Return the declaration of a pointer into the workspace."""
        return Let(v, Cast(b.offset(b.WORKSPACE, self.areas()[name]), v.type))

    # ---- packing

    @property
    def has_table(self) -> bool:
        """Whether offsets along the sums come from a table."""
        return self.problem.b.linear(self.conv.sums) is None

    @property
    def table(self) -> Var:
        """The table of offsets along the sums."""
        return Var(self.operands.local("depth_at"), Pointer(INT64))

    @property
    def packer(self) -> Packer:
        """The packer of a block of the weights."""
        x = self.problem.b
        unit: Unit = "none"
        if x.stride(self.conv.column.name) == ONE:
            unit = "x"
        elif x.linear(self.conv.sums) == ONE:
            unit = "k"
        return Packer(self.dtype, self.dtype, self.lanes, unit, k_table=self.has_table)

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

    @property
    def store(self) -> TileStore:
        """What takes a tile to the output."""
        p = self.problem
        step = p.c.stride(p.n[0].name).constant
        rows = self.lanes if self.is_turned else max(self.rows)
        return TileStore(self.dtype, self.lanes, rows, self.is_turned, step, self.finish)


@dataclass(frozen=True, slots=True)
class Cut:
    """A line of pixels as register tiles, the first `larger` of which have one more than least."""

    tiles: Expr
    least: Expr
    larger: Expr


def phase(nest: SlidingNest) -> list[Function]:
    """Return the functions, the phase last."""
    body = b.block(_head(nest), b.loop(nest.var("task"), b.BEGIN, b.END, _task(nest)))
    whole = nest.operands.declare(b.block(body, Return(b.const(0, INT32))))
    return [
        packer(nest.name("pack"), nest.packer),
        *nest.tiles(),
        nest.store.function(nest.name("store")),
        b.phase_function(nest.name("convolution"), whole),
    ]


def _head(nest: SlidingNest) -> list[Stmt]:
    """Return what is the same for all tasks: the workspace, the table."""
    c = nest.conv
    out: list[Stmt] = [
        Let(nest.var("chunks"), b.plan_param(nest.param)),
        nest.area(nest.pointer("packed"), "packed"),
        nest.area(nest.pointer("sums"), "sums"),
    ]
    if nest.has_table:
        strides = tuple(nest.size(nest.problem.b.stride(i.name)) for i in c.sums)
        extents = tuple(nest.size(i.extent) for i in c.sums)
        out += [nest.area(nest.table, "depth_at"), fill_table(nest.table, extents, strides)]
    for var, e in nest.finish.uniforms:
        values = Values(nest.operands, {})
        value = values.value(e)
        out += [*values.take(), Let(nest.uniform(var), value)]
    return [*out, Let(nest.var("depth"), nest.depth)]


def _task(nest: SlidingNest) -> Stmt:
    """Return what a task does: pack its block, then walk the lines."""
    c = nest.conv
    where = Lets(nest.var)
    around = [(f"at_{i.name}", nest.size(i.extent)) for i in reversed(c.panels)]
    counts = [("chunk", nest.var("chunks")), ("block", nest.blocks), *around]
    chunk, block, *outer = _digits(where, nest.var("task"), counts)
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
    at = _digits(inner, nest.var("line"), named)
    point = dict(zip((i.name for i in reversed(c.lines)), at, strict=True))
    line = _line(nest, {**panel, **point}, (first, columns, vectors), cut)
    walk = b.loop(nest.var("line"), begin, end, inner.stmts, line)
    return b.block(where.stmts, _pack(nest, panel, first, columns), walk)


def _digits(where: Lets, number: Expr, counts: list[tuple[str, Expr]]) -> list[Expr]:
    return where.digits(number, counts, lambda n: f"above_{n}{counts[n][0]}")


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
    # The last vector of a block that is not whole reads on: denormal numbers would slow it down.
    vector = Vector(nest.dtype, nest.lanes)
    end = b.offset(nest.pointer("packed"), b.mul(depth, columns))
    zero = Eval(intrinsic("tc_store", vector, end, Const(0.0, vector)))
    return b.block(Eval(Call(nest.name("pack"), args, None)), zero)


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
