"""The micro-kernel of a convolution: a register tile of pixels x columns under a row of taps.

    for channels, for taps of the other sides: for j in taps:  acc[r][v] += a[r, j] * b[j][v]

The loop over j, and in it the one over the rows r whose element exists, are written out, with
constant offsets: what is outside of the image costs nothing, not even a test. The sums go to a
small area of memory, since most outputs want them turned around (`store.py`).
"""

from __future__ import annotations

from dataclasses import replace

from tcdsl.codegen.forms.contraction.register_tile import (
    RegisterTile,
    accumulator,
    load_vector,
    store_vector,
)
from tcdsl.codegen.forms.contraction.window.border import PARAMS, Edges
from tcdsl.codegen.loops.build import (
    add,
    all_of,
    assign,
    block,
    c64,
    compare,
    do,
    either,
    i64,
    load,
    loop,
    mul,
    offset,
    pointer,
    select,
    sub,
    when,
)
from tcdsl.codegen.loops.loopir import (
    Array,
    Assign,
    Bin,
    Expr,
    Function,
    Let,
    Scalar,
    Stmt,
    Unroll,
    Var,
)
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.grammar.text.dataclass import dataclass

MOST_AT_ONCE = 4  # lines of the output that are prefetched together

Taps = tuple[tuple[int, tuple[int, ...]], ...]  # of a row of the window: tap, rows that have it


@dataclass(frozen=True, slots=True)
class Level:
    """A loop around the row of taps; the image moves by a parameter, the weights by `weights`.

    turns: how often it runs. None: a parameter, as that by which weights move may be. slides: it
    goes along the taps of another side, not from channel to channel.
    """

    turns: int | None
    weights: int | None
    slides: bool = False


@dataclass(frozen=True, slots=True)
class TapKernel:
    """What a micro-kernel is made for.

    taps: those that exist. pixel, tap: distances in the image. columns: the distance between
    packed vectors of neighbouring taps; None: a parameter. lines, span: how many lines of the
    output the tile goes to, and how many elements of each it covers. apart: of how many pixels the
    sums of a vector are, which those of the next one follow; None: of the tile's. edges: which
    products only a call knows to exist.
    """

    tile: RegisterTile
    taps: Taps
    pixel: int
    tap: int
    columns: int | None
    lines: int
    span: int
    levels: tuple[Level, ...]
    apart: int | None = None
    edges: Edges | None = None

    @property
    def params(self) -> tuple[Var, ...]:
        """Image, weights, sums; output and its rows; the next line; steps and turns; columns."""
        dtype = self.tile.dtype
        steps = [i64(f"step{n}") for n in range(len(self.levels))]
        turns = [i64(f"turns{n}") for n, x in enumerate(self.levels) if x.turns is None]
        moves = [i64(f"weights{n}") for n, x in enumerate(self.levels) if x.weights is None]
        columns = [i64("columns")] if self.columns is None else []
        return (
            pointer("a", dtype, const=True, restrict=True),
            pointer("b", dtype, const=True, restrict=True),
            pointer("sums", dtype, restrict=True),
            pointer("out", dtype, const=True),
            i64("out_row"),
            i64("ahead"),
            *steps,
            *turns,
            *moves,
            *columns,
            *(PARAMS if self.edges is not None else ()),
        )

    def function(self, name: str) -> Function:
        """Return the micro-kernel."""
        tile = self.tile
        apart = tile.rows if self.apart is None else self.apart
        body = block(
            Array("acc", tile.vector, (tile.rows, tile.vectors), zero=True),
            Let(self._next, self.params[3], mutable=True) if self.levels else None,
            self._loops(0, "a", "b"),
            [
                store_vector(
                    tile,
                    offset(self.params[2], (v * apart + r) * tile.lanes),
                    accumulator(tile, c64(r), c64(v)),
                    masked=False,
                )
                for v in range(tile.vectors)
                for r in range(tile.rows)
            ],
        )
        return Function(name, self.params, body, "micro", is_spelled_out=True)

    def _loops(self, depth: int, a: str, b: str) -> Stmt:
        """Return the loops from a level on; a and b name where they begin."""
        dtype = self.tile.dtype
        if depth == len(self.levels):
            asked = block(*(self._tap(t, rows, a, b) for t, rows in self.taps))
            if self.edges is not None and self.edges.pieces > 1:  # most pieces have no end
                plain = replace(self, edges=None)
                inside = block(*(plain._tap(t, rows, a, b) for t, rows in self.taps))
                asked = either(self.edges.whole(self.tile.rows, self._ends), inside, asked)
            return block(self._fetch(a), asked)
        level = self.levels[depth]
        at, weights = f"a{depth}", f"b{depth}"

        def pair(now: str, start: str, step: Expr) -> tuple[Var, Var, Expr]:
            return pointer(now, dtype, const=True), pointer(start, dtype, const=True), step

        move = i64(f"weights{depth}") if level.weights is None else c64(level.weights)
        moved = [pair(at, a, i64(f"step{depth}")), pair(weights, b, move)]
        ends = list(zip(self._ends, PARAMS, strict=True)) if self._moves_ends(depth) else []
        turns = i64(f"turns{depth}") if level.turns is None else c64(level.turns)
        return block(
            [Let(p, start, mutable=True) for p, start, _ in moved],
            [Let(here, start, mutable=True) for here, start in ends],
            loop(
                i64(f"t{depth}"),
                0,
                turns,
                self._fetch_output() if depth == 0 else None,
                self._loops(depth + 1, at, weights),
                [assign(p, offset(p, step)) for p, _, step in moved],
                [assign(here, sub(here, self.edges.piece)) for here, _ in ends if self.edges],
                mark=Unroll(1),
            ),
        )

    def _moves_ends(self, depth: int) -> bool:
        """Whether a level goes along the pieces of a row of the window, whose ends are to know."""
        is_last = depth == len(self.levels) - 1
        return is_last and self.edges is not None and self.edges.pieces > 1

    @property
    def _ends(self) -> tuple[Var, Var]:
        """The ends of the image as a piece of a row of the window sees them."""
        before, behind = PARAMS
        if self.edges is None or self.edges.pieces == 1:
            return before, behind
        return i64(f"{before.name}_here"), i64(f"{behind.name}_here")

    @property
    def _next(self) -> Var:
        return pointer("next", self.tile.dtype, const=True)

    def _fetch_output(self) -> list[Stmt]:
        """Return prefetches of some lines of the output; the last one again, once all are done.

        They are far apart, and a store that waits for its line holds up the tile after it.
        """
        turns = self.levels[0].turns or 1
        at_once = min(MOST_AT_ONCE, -(-self.lines // turns))
        is_last = compare("<", mul(i64("t0"), at_once), self.lines - at_once)
        out: list[Stmt] = []
        for n in range(at_once):
            at = offset(self._next, mul(n, i64("out_row")))
            out += [do("tc_prefetch", at), do("tc_prefetch", offset(at, self.span - 1))]
        step = select(is_last, mul(at_once, i64("out_row")), c64(0))
        return [*out, assign(self._next, offset(self._next, step))]

    def _fetch(self, a: str) -> list[Stmt]:
        """Return prefetches of the same pixels in the next channel, and for the next line.

        No hardware foresees steps that are so long.
        """
        size = self.tile.dtype.size_bytes
        image = pointer(a, self.tile.dtype, const=True)
        if abs(self.pixel) * size >= LINE or not self.levels:
            return []
        ways = [i64("ahead")] if self.levels[0].slides else [i64("step0"), i64("ahead")]
        lines = range(0, self.tile.rows * abs(self.pixel), LINE // size)
        return [do("tc_prefetch", offset(image, add(way, n))) for way in ways for n in lines]

    def _tap(self, tap: int, rows: tuple[int, ...], a: str, b: str) -> Stmt:
        """Return the products of one tap."""
        tile = self.tile
        image = pointer(a, tile.dtype, const=True)
        weights = pointer(b, tile.dtype, const=True)
        out: list[Stmt] = []
        columns: list[Var] = []
        apart = i64("columns") if self.columns is None else c64(self.columns)
        for v in range(tile.vectors):
            column = Var(f"column{tap}_{v}", tile.vector)
            at = offset(weights, add(mul(apart, tap), v * tile.lanes))
            out += [Let(column, load_vector(tile, at, masked=False), mutable=True)]
            # Pinned: folded into several FMAs as a memory operand, the load would run once per row.
            out += [do("tc_pin", column)]
            columns.append(column)
        for r in rows:
            x = Var(f"x{tap}_{r}", Scalar(tile.dtype))
            row: list[Stmt] = [Let(x, load(image, r * self.pixel + tap * self.tap))]
            for v, column in enumerate(columns):
                product = Bin("*", column, x, tile.vector)
                row.append(Assign(accumulator(tile, c64(r), c64(v)), product, "+="))
            out += self._where(tap, r, row)
        # Otherwise the compiler moves the loads of later taps up, and runs out of registers.
        return block(out, do("tc_fence"))

    def _where(self, tap: int, row: int, products: list[Stmt]) -> list[Stmt]:
        """Return the products of a row and a tap, asked for where they may not exist."""
        if self.edges is None:
            return products
        known = self.edges.conditions(row, tap, self.tile.rows, self._ends)
        return [when(all_of(*known), products)] if known else products
