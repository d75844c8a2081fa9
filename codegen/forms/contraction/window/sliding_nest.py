"""A convolution of unknown sizes with its choices: its workspace, its micro-kernels, its phase.

    task: a block of columns, some lines     pack the weights of the block
                                             for lines, for tiles of about equal rows:
                                               sums of a register tile, from there to the output

A line of pixels is cut into as few tiles as can be, whose numbers of rows differ by one at most.
There is a micro-kernel for each number of rows and of vectors. Sums that are turned around on their
way wait for those of some more tiles, so that there are whole squares of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from tcdsl.codegen.forms.contraction.lets import Lets, pick
from tcdsl.codegen.forms.contraction.problem import Index, extent_of
from tcdsl.codegen.forms.contraction.register_tile import RegisterTile
from tcdsl.codegen.forms.contraction.window.base import Nest
from tcdsl.codegen.forms.contraction.window.border import Edges
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
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT32, INT64


@dataclass(frozen=True, slots=True)
class SlidingNest(Nest):
    """A convolution of unknown sizes with its choices.

    taps: of a row of the window, or of a piece of it, each written out. rows: the most pixels of a
    register tile of one vector, of two. param: of the plan, which has the number of chunks that
    lines are cut into. at_once: so many tiles go to the output together. edges: at the ends of
    lines, where missing elements at the end of the image are `missing`.
    """

    conv: Sliding
    taps: int
    rows: tuple[int, ...]
    param: int
    at_once: int
    edges: Edges | None
    missing: Size

    @property
    def tallest(self) -> int:
        """The most pixels of a register tile."""
        return max(self.rows)

    @property
    def pieces(self) -> int:
        """How many pieces a row of the window has, one loop more around the taps of one."""
        return (self.conv.tap.extent.constant or self.taps) // self.taps

    @property
    def waiting(self) -> int:
        """The most pixels of tiles that go to the output together."""
        return self.at_once * self.tallest

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
            "sums": b.c64((len(self.rows) * self.waiting + self.lanes) * self.lanes * size),
        }
        out: dict[str, Expr] = {}
        at: Expr = b.c64(0)
        for name, count in bytes_of.items():
            out[name] = at
            at = b.add(at, b.round_up(count, LINE))
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
        levels = (Level(None, None),) * (len(c.around) + (self.pieces > 1))
        steps = c.step(c.pixel), c.step(c.tap)
        return TapKernel(tile, taps, *steps, None, *places, levels, self.waiting, self.edges)

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

    def rows(self, tile: Expr) -> Expr:
        """Return the pixels of a tile."""
        more = b.select(b.compare("<", tile, self.larger), b.c64(1), b.c64(0))
        return b.add(self.least, more)

    def first(self, tile: Expr) -> Expr:
        """Return its first pixel."""
        return b.add(b.mul(tile, self.least), b.min64(tile, self.larger))


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
    if nest.edges is not None and not nest.edges.is_held:
        is_far = b.compare(">", nest.size(nest.missing), nest.edges.behind)
        most = b.select(is_far, b.c64(1), most)
    pixels = nest.size(c.pixel.extent)
    tiles = where.let("tiles", b.max64(b.ceil_div(pixels, most), 1))
    cut = Cut(tiles, where.let("least", b.div(pixels, tiles)), b.mod(pixels, tiles))
    begin = where.let("first_line", b.div(b.mul(chunk, nest.lines), nest.var("chunks")))
    end = where.let("last_line", b.div(b.mul(b.add(chunk, 1), nest.lines), nest.var("chunks")))
    panel = dict(zip((i.name for i in reversed(c.panels)), outer, strict=True))
    inner = Lets(nest.var)
    named = [(f"at_{i.name}", nest.size(i.extent)) for i in reversed(c.lines)]
    at = digits(inner, nest.var("line"), named)
    point = {**panel, **dict(zip((i.name for i in reversed(c.lines)), at, strict=True))}
    line = _line(nest, point, (first, columns, vectors), cut)
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


def _line(
    nest: SlidingNest,
    point: Point,
    block: tuple[Expr, Expr, Expr],
    cut: Cut,
) -> Stmt:
    """Return the tiles of a line, under a block: its first column, columns and vectors."""
    c, p = nest.conv, nest.problem
    first, columns, vectors = block
    known = Lets(nest.var)
    around = c.around
    steps = [nest.size(p.a.stride(i.name)) for i in around]
    counts = [nest.size(i.extent) for i in around]
    moves = [b.mul(nest.size(extent_of(c.sums[n + 1 :])), columns) for n in range(len(around))]
    if nest.pieces > 1:
        steps.append(b.c64(nest.taps * c.step(c.tap)))
        counts.append(b.c64(nest.pieces))
        moves.append(b.mul(nest.taps, columns))
    image: list[Expr] = []  # where the first tap that exists is
    weights: list[Expr] = []
    for side, border in enumerate(sorted(c.borders, key=lambda x: x.tap is None)):
        start, exist = border.taps(nest.size, point)
        count = known.let(f"taps{side}", exist)
        if border.tap is None:
            counts[0] = b.mul(counts[0], count)
            continue
        n = around.index(border.tap)
        first_tap = known.let(f"first_tap{side}", start)
        counts[n] = count
        image.append(b.mul(first_tap, nest.size(p.a.stride(border.tap.name))))
        weights.append(b.mul(first_tap, moves[n]))
    heads: list[Stmt] = known.stmts
    named = (("a", p.a), ("c", p.c), *((x.param, x.operand) for x in nest.finish.accesses))
    for name, x in named:
        begins = place_of(nest, x, point)
        begins = b.add(begins, *image) if name == "a" else begins
        at = b.offset(nest.operands.pointer(x.buffer), begins)
        heads.append(Let(nest.origin(f"{name}_at", x), at))
    tile, rows, pixel = nest.var("tile"), nest.var("rows"), nest.var("pixel")
    place = (first, pixel) if nest.is_turned else (pixel, first)
    done, begin, group = nest.var("waiting"), nest.var("first_pixel"), nest.var("group")
    ends: tuple[Expr, ...] = ()
    if nest.edges is not None and c.across is not None:
        ends = c.across.missing(nest.size, {c.pixel.name: pixel})
    args = (
        rows,
        vectors,
        b.offset(nest.origin("a_at", p.a), b.mul(pixel, c.step(c.pixel))),
        b.offset(nest.pointer("packed"), b.add(*weights)),
        b.offset(nest.pointer("sums"), b.mul(done, nest.lanes)),
        reach(nest, "c_at", p.c, True, place),
        nest.size(row_of(nest, p.c)),
        nest.size(p.a.stride(c.lines[-1].name)) if c.lines else b.c64(0),
        *steps,
        *counts,
        *moves,
        columns,
        *ends,
    )
    compute = b.block(
        Let(rows, cut.rows(tile)),
        Let(pixel, b.add(begin, done)),
        Eval(Call(nest.name("tile"), args, None)),
        b.assign(done, b.add(done, rows)),
    )
    last = b.min64(b.add(group, nest.at_once), cut.tiles)
    body = b.block(
        Let(done, b.c64(0), mutable=True),
        Let(begin, cut.first(group)),
        b.loop(tile, group, last, compute),
        stores(nest, done, columns, begin, first, b.c64(nest.waiting)),
    )
    has_pixels = b.compare(">", nest.size(c.pixel.extent), 0)
    walk = b.loop(group, 0, cut.tiles, body, step=nest.at_once)
    return b.block(heads, b.when(has_pixels, walk))
