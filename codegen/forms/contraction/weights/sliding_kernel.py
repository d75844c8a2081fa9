"""Micro-kernel of weight gradients of unknown sizes: channels x taps of a row x vectors of columns.

    for lines: for pixels: acc[channel, tap][v] += image[channel][pixel + tap] * b[pixel][v]

Of a line all taps exist but near its ends, where each is asked for: the loop there is another than
that between them, whose text has no test.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.codegen.forms.contraction.register_tile import (
    FIRST,
    ROW_GROUP,
    RegisterTile,
    accumulator,
    load_vector,
    store_vector,
)
from tcdsl.codegen.forms.contraction.weights.sliding import SlidingAxis
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Array,
    Assign,
    Bin,
    Elem,
    Expr,
    Function,
    If,
    Let,
    Scalar,
    Stmt,
    Unroll,
    Var,
)
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import DType

# Where a line begins for a tile, has all its taps, has no longer all, ends.
LOW, WHOLE, PARTLY, HIGH = (b.i64(name) for name in ("low", "whole", "partly", "high"))


@dataclass(frozen=True, slots=True)
class SlidingTile:
    """What a micro-kernel is made for.

    taps: of those of a row, neighbours. axis: the line. around: how many axes there are besides.
    width: elements of a row of sums. a_tap, a_pixel: what taps, pixels of the line are apart in the
    image, None for a parameter. A known distance is part of an address; what stands in parameters
    takes more registers than there are, and is loaded again for each pixel.
    """

    channels: int
    taps: range
    vectors: int
    lanes: int
    dtype: DType
    axis: SlidingAxis
    around: int
    width: int
    a_tap: int | None
    a_pixel: int | None

    @property
    def tile(self) -> RegisterTile:
        """The accumulators: channel by channel, tap by tap."""
        return RegisterTile(self.channels * len(self.taps), self.vectors, self.lanes, self.dtype)

    @property
    def params(self) -> tuple[Var, ...]:
        """Image, b and sums at the first pixel, channel and tap 0; distances; lines; the line.

        Of the image the distances are those of channels, of taps, of pixels along each axis, but
        for what is known; of b those along each axis; of sums those of channels and of taps, in
        rows. edge: the bound of the image's subscript less that of pixel 0 and tap 0, where it has
        one.
        """
        axes = range(self.around + 1)
        edge = () if self.axis.high is None else (b.i64("edge"),)
        return (
            b.pointer("a", self.dtype, const=True, restrict=True),
            b.pointer("b", self.dtype, const=True, restrict=True),
            b.pointer("sums", self.dtype, restrict=True),
            b.i64("a_channel"),
            *([b.i64("a_tap")] if self.a_tap is None else []),
            *(b.i64(f"a_axis{n}") for n in axes if n < self.around or self.a_pixel is None),
            *(b.i64(f"b_axis{n}") for n in axes),
            b.i64("channel_rows"),
            b.i64("tap_rows"),
            *(b.i64(f"count{n}") for n in axes[:-1]),
            LOW,
            HIGH,
            *edge,
            b.i64("flags"),
        )

    def function(self, name: str) -> Function:
        """Return the micro-kernel."""
        tile, c, v = self.tile, b.i64("c"), b.i64("v")
        sums = self.params[2]

        def rows(is_resumed: bool) -> Stmt:
            """Return the way of all accumulators to sums, or of sums to them."""
            out: list[Stmt] = []
            for n, tap in enumerate(self.taps):
                row = b.add(b.mul(c, b.i64("channel_rows")), b.mul(tap, b.i64("tap_rows")))
                place = b.offset(sums, b.add(b.mul(row, self.width), b.mul(v, self.lanes)))
                acc = accumulator(tile, b.add(b.mul(c, len(self.taps)), n), v)
                out.append(
                    Assign(acc, load_vector(tile, place, masked=False), "+=")
                    if is_resumed
                    else store_vector(tile, place, acc, masked=False)
                )
            inner = b.loop(v, 0, tile.vectors, out, mark=Unroll())
            return b.loop(c, 0, self.channels, inner, mark=Unroll())

        is_later = b.compare("==", Bin("&", b.i64("flags"), b.c64(FIRST), I64), 0)
        body = b.block(
            Array("acc", tile.vector, (tile.rows, tile.vectors), zero=True),
            self._ends(),
            self._lines(0, "a", "b"),
            b.when(is_later, rows(is_resumed=True)),
            rows(is_resumed=False),
        )
        return Function(name, self.params, body, "micro")

    # ---- lines

    def _ends(self) -> list[Stmt]:
        """Return the declarations of where taps end, and of where all exist."""
        x = self.axis
        starts = [x.start(t) for t in self.taps]
        whole: Expr = LOW
        if max(starts) > 0:
            whole = b.min64(b.max64(LOW, max(starts)), HIGH)
        out: list[Stmt] = []
        partly: Expr = HIGH
        if x.high is not None:
            for t in self.taps:  # of a bound below the subscript the quotient is no more than 0
                left = b.add(b.i64("edge"), x.step - 1 - x.spread * t)
                out.append(Let(_end(t), b.min64(HIGH, b.div(left, x.step))))
            last = max(self.taps, key=lambda t: x.spread * t)
            partly = b.max64(_end(last), WHOLE)
        return [*out, Let(WHOLE, whole), Let(PARTLY, partly)]

    def _lines(self, depth: int, a: str, values: str) -> Stmt:
        """Return the loops over axes from one on; a and values name where they begin."""
        if depth == self.around:
            return self._line(a, values)
        i = b.i64(f"i{depth}")
        pairs = ((f"a_at{depth}", a, f"a_axis{depth}"), (f"b_at{depth}", values, f"b_axis{depth}"))
        lets = [
            Let(
                self._pointer(now),
                b.offset(self._pointer(start), b.mul(i, b.i64(step))),
            )
            for now, start, step in pairs
        ]
        inner = self._lines(depth + 1, f"a_at{depth}", f"b_at{depth}")
        return b.loop(i, 0, b.i64(f"count{depth}"), lets, inner, mark=Unroll(1))

    def _line(self, a: str, values: str) -> Stmt:
        """Return the products of a line."""
        groups = list(range(0, self.channels, ROW_GROUP))
        lines = [self._pointer(f"line{g}") for g in groups]
        q, x = self._pointer("q"), b.i64("x")
        last = self.around
        pixel = b.i64(f"a_axis{last}") if self.a_pixel is None else b.c64(self.a_pixel)
        moves = [b.assign(p, b.offset(p, pixel)) for p in lines]
        moves.append(b.assign(q, b.offset(q, b.i64(f"b_axis{last}"))))
        named = [
            Let(p, b.offset(self._pointer(a), b.mul(g, b.i64("a_channel"))), mutable=True)
            for g, p in zip(groups, lines, strict=True)
        ]
        named.append(Let(q, self._pointer(values), mutable=True))
        inside = self._pixel("all", groups, lines, q)
        whole = b.loop(x, WHOLE, PARTLY, inside, moves, mark=Unroll(1))
        has_first = any(self.axis.start(t) > 0 for t in self.taps)
        if not has_first and self.axis.high is None:
            return b.block(named, whole)
        # both ends are one text: a compiler takes half as long again for two
        turn, low, high = (b.i64(name) for name in ("turn", "from", "to"))
        is_first = b.compare("==", turn, 0)
        ends = b.block(
            Let(low, b.select(is_first, LOW, PARTLY)),
            Let(high, b.select(is_first, WHOLE, HIGH)),
            b.loop(x, low, high, self._pixel("end", groups, lines, q), moves, mark=Unroll(1)),
        )
        body = If(b.compare("==", turn, 1), whole, ends)
        return b.block(named, b.loop(turn, 0, 3, body, mark=Unroll(1)))

    def _pixel(self, name: str, groups: Sequence[int], lines: Sequence[Var], q: Var) -> Stmt:
        """Return the products of a pixel: its vectors, then every channel and tap that exists."""
        tile, v = self.tile, b.i64("v")
        a_tap = b.i64("a_tap") if self.a_tap is None else b.c64(self.a_tap)

        def column(at: b.IntLike) -> Elem:
            return Elem(f"column_{name}", (b.expr(at),), tile.vector)

        out: list[Stmt] = [Array(f"column_{name}", tile.vector, (tile.vectors,))]
        for u in range(tile.vectors):
            at = b.offset(q, u * self.lanes)
            out.append(b.assign(column(u), load_vector(tile, at, masked=False)))
            # Pinned: folded into several FMAs as a memory operand, the load would run once per row.
            out.append(b.do("tc_pin", column(u)))

        def products(channel: int, n: int, tap: int, line: Var, first: int) -> list[Stmt]:
            value = Var(f"x{channel}_{n}", Scalar(self.dtype))
            at = b.add(b.mul(channel - first, b.i64("a_channel")), b.mul(tap, a_tap))
            acc = accumulator(tile, b.c64(channel * len(self.taps) + n), v)
            fma = Assign(acc, Bin("*", column(v), value, tile.vector), "+=")
            body = b.loop(v, 0, tile.vectors, fma, mark=Unroll())
            return [Let(value, b.load(line, at)), body]

        places = [
            (channel, line, first)
            for line, first in zip(lines, groups, strict=True)
            for channel in range(first, min(first + ROW_GROUP, self.channels))
        ]
        if name == "all":
            for channel, line, first in places:
                for n, tap in enumerate(self.taps):
                    out += products(channel, n, tap, line, first)
        else:
            for n, tap in enumerate(self.taps):
                those = [products(channel, n, tap, line, first) for channel, line, first in places]
                out.append(b.when(self._exists(tap), *those))
        # Otherwise elements that the next pixel reads again stay in registers, which the sums need.
        return b.block(out, b.do("tc_fence"))

    def _exists(self, tap: int) -> Expr:
        """Return whether a tap exists at a pixel."""
        x, start = b.i64("x"), self.axis.start(tap)
        conds = [b.compare(">=", x, start)] if start > 0 else []
        if self.axis.high is not None:
            conds.append(b.compare("<", x, _end(tap)))
        return b.all_of(*conds)

    def _pointer(self, name: str) -> Var:
        return b.pointer(name, self.dtype, const=True)


def _end(tap: int) -> Var:
    return b.i64(f"end{tap}")
