"""Micro-kernel of weight gradients: `acc[channel, tap][v] += image[...] * b[pixel][v]` per pixel.

A register tile is some channels by some taps of one row of the window; the sum runs over the pixels
of a strip. Along the innermost axis the pixels fall into runs at which the same taps exist: inside
the image all of them, at its borders fewer. Runs and taps are known here, so that borders cost
neither masks nor branches; which rows of pixels exist is a matter of loop ends.

Image elements are broadcast from where they lie. The tile is added to sums, which hold the tile of
the strips before; a flag says whether this is the first strip.

Refused: to fetch the rows of the next channels ahead (-2 to +8 % time); longer strips where images
lie whole pages apart (14x14 by twos: 10 % more): they share sets of the first level.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tcdsl.codegen.forms.contraction.register_tile import (
    FIRST,
    ROW_GROUP,
    RegisterTile,
    accumulator,
    load_vector,
    store_vector,
    tail_mask,
)
from tcdsl.codegen.forms.contraction.weights.problem import Axis
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.build import IntLike
from tcdsl.codegen.loops.loopir import (
    I64,
    Array,
    Assign,
    Bin,
    Elem,
    Expr,
    Function,
    Let,
    Scalar,
    Stmt,
    Unroll,
    Var,
)
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import DType


@dataclass(frozen=True, slots=True)
class PixelRun:
    """Neighbouring pixels of the innermost axis at which the same taps exist."""

    pixels: range
    taps: tuple[int, ...]


def runs_of(axis: Axis, taps: range) -> tuple[PixelRun, ...]:
    """Return the runs of an axis for some of its taps, without those at which none exists."""
    spans = {t: axis.pixels(t) for t in taps}
    ends = {0, axis.extent, *(end for s in spans.values() if s for end in (s.start, s.stop))}
    runs = (
        PixelRun(range(low, high), tuple(t for t in taps if low in spans[t]))
        for low, high in pairwise(sorted(ends))
    )
    return tuple(r for r in runs if r.taps)


@dataclass(frozen=True, slots=True)
class Steps:
    """Element strides of a micro-kernel: constants, or None for a parameter.

    Of the image: from channel to channel, tap to tap, and along each axis; of b: along each axis.
    """

    channel: int | None
    tap: int | None
    axes: tuple[int | None, ...]
    b_axes: tuple[int | None, ...]

    def named(self) -> list[tuple[str, int | None]]:
        """Return the strides by name, in the order of parameters."""
        return [
            ("a_channel", self.channel),
            ("a_tap", self.tap),
            *((f"a_axis{n}", x) for n, x in enumerate(self.axes)),
            *((f"b_axis{n}", x) for n, x in enumerate(self.b_axes)),
        ]


@dataclass(frozen=True, slots=True)
class WeightTile:
    """What a micro-kernel is made for.

    channels by taps are the rows of the tile; columns are those of the panel, of which the last
    vector may be part. channel_rows, tap_rows: distances between rows of sums; a row of sums has
    width elements. is_cut: whether a strip has part of the innermost axis.
    """

    channels: int
    taps: range
    columns: int
    lanes: int
    dtype: DType
    axis: Axis
    steps: Steps
    channel_rows: int
    tap_rows: int
    width: int
    is_cut: bool

    @property
    def tile(self) -> RegisterTile:
        """The register tile."""
        rows, vectors = self.channels * len(self.taps), -(-self.columns // self.lanes)
        return RegisterTile(rows, vectors, self.lanes, self.dtype)

    @property
    def is_masked(self) -> bool:
        """Whether the last vector of a panel is not full."""
        return self.columns % self.lanes != 0

    @property
    def pixel(self) -> Expr:
        """The distance of neighbouring pixels in the image."""
        return self.step(f"a_axis{len(self.steps.axes) - 1}")

    @property
    def b_pixel(self) -> Expr:
        """The distance of neighbouring pixels in b."""
        return self.step(f"b_axis{len(self.steps.axes) - 1}")

    def step(self, name: str) -> Expr:
        """Return a stride."""
        value = dict(self.steps.named())[name]
        return b.i64(name) if value is None else b.c64(value)


def weight_kernel_params(t: WeightTile) -> tuple[Var, ...]:
    """Return the parameters: image, b and sums at the tile's first element, pixels, flags.

    Pixels are counts along outer axes, and first and end of the innermost one where it is cut.
    """
    cut = (b.i64("low"), b.i64("high")) if t.is_cut else ()
    return (
        b.pointer("a", t.dtype, const=True, restrict=True),
        b.pointer("b", t.dtype, const=True, restrict=True),
        *(b.i64(name) for name, value in t.steps.named() if value is None),
        b.pointer("sums", t.dtype, restrict=True),
        *(b.i64(f"count{n}") for n in range(len(t.steps.axes) - 1)),
        *cut,
        b.i64("flags"),
    )


def weight_kernel(name: str, t: WeightTile) -> Function:
    """Return the micro-kernel of a tile."""
    tile = t.tile
    sums = b.pointer("sums", t.dtype, restrict=True)
    c, v = b.i64("c"), b.i64("v")
    taps = list(enumerate(range(t.taps.start, t.taps.stop)))

    def rows(body: list[tuple[Expr, Expr]], is_resumed: bool) -> Stmt:
        """Return the way of all accumulators to sums, or of sums to them."""
        out: list[Stmt] = []
        for row, at in body:
            place = b.offset(sums, b.add(at, b.mul(v, t.lanes)))
            acc = accumulator(tile, row, v)
            out.append(
                Assign(acc, load_vector(tile, place, masked=False), "+=")
                if is_resumed
                else store_vector(tile, place, acc, masked=False)
            )
        inner = b.loop(v, 0, tile.vectors, out, mark=Unroll())
        return b.loop(c, 0, t.channels, inner, mark=Unroll())

    places = [
        (
            b.add(b.mul(c, len(taps)), n),
            b.mul(b.add(b.mul(c, t.channel_rows), n * t.tap_rows), t.width),
        )
        for n, _ in taps
    ]
    is_later = b.compare("==", Bin("&", b.i64("flags"), b.c64(FIRST), I64), 0)
    body = b.block(
        tail_mask(tile, b.c64(t.columns)) if t.is_masked else None,
        Array("acc", tile.vector, (tile.rows, tile.vectors), zero=True),
        _axes_loop(t, 0, b.pointer("a", t.dtype, const=True), b.pointer("b", t.dtype, const=True)),
        b.when(is_later, rows(places, is_resumed=True)),
        rows(places, is_resumed=False),
    )
    return Function(name, weight_kernel_params(t), body, "micro", is_spelled_out=True)


def _axes_loop(t: WeightTile, depth: int, a: Var, values: Var) -> Stmt:
    """Return the loops over outer axes, from the one at depth on, around those over pixels."""
    if depth == len(t.steps.axes) - 1:
        runs = enumerate(runs_of(t.axis, t.taps))
        return b.block([_run(t, n, run, a, values) for n, run in runs])
    i = b.i64(f"i{depth}")
    a_now = b.pointer(f"a_at{depth}", t.dtype, const=True)
    b_now = b.pointer(f"b_at{depth}", t.dtype, const=True)
    return b.loop(
        i,
        0,
        b.i64(f"count{depth}"),
        Let(a_now, b.offset(a, b.mul(i, t.step(f"a_axis{depth}")))),
        Let(b_now, b.offset(values, b.mul(i, t.step(f"b_axis{depth}")))),
        _axes_loop(t, depth + 1, a_now, b_now),
        mark=Unroll(1),
    )


def _run(t: WeightTile, n: int, run: PixelRun, a: Var, values: Var) -> Stmt:
    """Return the products of a run of pixels."""
    known = t.steps.channel is not None
    groups = [0] if known else list(range(0, t.channels, ROW_GROUP))
    lines = [b.pointer(f"a{n}_{g}", t.dtype, const=True) for g in groups]
    q = b.pointer(f"b{n}", t.dtype, const=True)
    start: Expr = b.c64(run.pixels.start)
    stop: Expr = b.c64(run.pixels.stop)
    x = b.i64("x")
    named: list[Stmt] = []
    if t.is_cut:
        low = b.i64(f"low{n}")
        named = [Let(low, b.max64(start, b.i64("low")))]
        start, stop = low, b.min64(stop, b.i64("high"))
    named += [
        Let(
            p,
            b.offset(a, b.add(b.mul(start, t.pixel), b.mul(g, t.step("a_channel")))),
            mutable=True,
        )
        for g, p in zip(groups, lines, strict=True)
    ]
    named.append(Let(q, b.offset(values, b.mul(start, t.b_pixel)), mutable=True))
    pixel = _pixel(t, run.taps, groups, lines, q)
    if len(run.pixels) == 1 and not t.is_cut:
        return b.block(named, pixel)
    moves = [b.assign(p, b.offset(p, t.pixel)) for p in lines]
    moves.append(b.assign(q, b.offset(q, t.b_pixel)))
    return b.block(named, b.loop(x, start, stop, pixel, moves, mark=Unroll(1)))


def _pixel(t: WeightTile, taps: Sequence[int], groups: list[int], lines: list[Var], q: Var) -> Stmt:
    """Return the products of one pixel: its vectors, then every channel and tap that exists."""
    tile = t.tile
    name, v, c = q.name.replace("b", "column"), b.i64("v"), b.i64("c")

    def column(at: IntLike) -> Elem:
        return Elem(name, (b.expr(at),), tile.vector)

    out: list[Stmt] = [Array(name, tile.vector, (tile.vectors,))]
    for u in range(tile.vectors):
        masked = t.is_masked and u == tile.vectors - 1
        out.append(b.assign(column(u), load_vector(tile, b.offset(q, u * t.lanes), masked=masked)))
        # Pinned: folded into several FMAs as a memory operand, the load would run once per row.
        out.append(b.do("tc_pin", column(u)))
    bounds = [*groups[1:], t.channels]
    for low, high, line in zip(groups, bounds, lines, strict=True):
        products: list[Stmt] = []
        for tap in taps:
            n = tap - t.taps.start
            x = Var(f"x{n}", Scalar(t.dtype))
            at = b.add(b.mul(b.sub(c, low), t.step("a_channel")), b.mul(tap, t.step("a_tap")))
            acc = accumulator(tile, b.add(b.mul(c, len(t.taps)), n), v)
            fma = Assign(acc, Bin("*", column(v), x, tile.vector), "+=")
            products.append(Let(x, b.load(line, at)))
            products.append(b.loop(v, 0, tile.vectors, fma, mark=Unroll()))
        out.append(b.loop(c, low, high, products, mark=Unroll()))
    # Otherwise elements that the next pixel reads again stay in registers, which the sums need.
    return b.block(out, b.do("tc_fence"))
