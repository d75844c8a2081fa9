"""The micro-kernel of a convolution: a register tile of pixels x columns under a row of taps.

    for channels, for taps of the other sides: for j in taps:  acc[r][v] += a[r, j] * b[j][v]

The loop over j, and in it the one over the rows r whose element exists, are written out, with
constant offsets: what is outside of the image costs nothing, not even a test. The sums go to a
small area of memory, since most outputs want them turned around (`convolution_store`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tcdsl.codegen.build import assign, block, c64, do, i64, load, loop, offset, pointer
from tcdsl.codegen.loopir import (
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
from tcdsl.codegen.lower.contraction_kernel import (
    Tile,
    accumulator,
    load_vector,
    store_vector,
)

Taps = tuple[tuple[int, tuple[int, ...]], ...]  # of a row of the window: tap, rows that have it


@dataclass(frozen=True, slots=True)
class Level:
    """A loop around the row of taps; the image moves by a parameter, the weights by `weights`.

    turns: how often it runs, None where that is a parameter as well.
    """

    turns: int | None
    weights: int


@dataclass(frozen=True, slots=True)
class TapKernel:
    """What a micro-kernel is made for.

    taps: those that exist. pixel, tap: distances in the image. columns: the distance between
    packed vectors of neighbouring taps.
    """

    tile: Tile
    taps: Taps
    pixel: int
    tap: int
    columns: int
    levels: tuple[Level, ...]

    @property
    def params(self) -> tuple[Var, ...]:
        """Image, weights and sums, then of each level the step of the image, and its turns."""
        dtype = self.tile.dtype
        steps = [i64(f"step{n}") for n in range(len(self.levels))]
        turns = [i64(f"turns{n}") for n, x in enumerate(self.levels) if x.turns is None]
        return (
            pointer("a", dtype, const=True, restrict=True),
            pointer("b", dtype, const=True, restrict=True),
            pointer("sums", dtype, restrict=True),
            *steps,
            *turns,
        )

    def function(self, name: str) -> Function:
        """Return the micro-kernel."""
        tile = self.tile
        body = block(
            Array("acc", tile.vector, (tile.rows, tile.vectors), zero=True),
            self._loops(0, "a", "b"),
            [
                store_vector(
                    tile,
                    offset(self.params[2], (v * tile.rows + r) * tile.lanes),
                    accumulator(tile, c64(r), c64(v)),
                    masked=False,
                )
                for v in range(tile.vectors)
                for r in range(tile.rows)
            ],
        )
        return Function(name, self.params, body, "micro")

    def _loops(self, depth: int, a: str, b: str) -> Stmt:
        """Return the loops from a level on; a and b name where they begin."""
        dtype = self.tile.dtype
        if depth == len(self.levels):
            return block(*(self._tap(t, rows, a, b) for t, rows in self.taps))
        level = self.levels[depth]
        at, weights = f"a{depth}", f"b{depth}"

        def pair(now: str, start: str, step: Expr) -> tuple[Var, Var, Expr]:
            return pointer(now, dtype, const=True), pointer(start, dtype, const=True), step

        moved = [pair(at, a, i64(f"step{depth}")), pair(weights, b, c64(level.weights))]
        turns = i64(f"turns{depth}") if level.turns is None else c64(level.turns)
        return block(
            [Let(p, start, mutable=True) for p, start, _ in moved],
            loop(
                i64(f"t{depth}"),
                0,
                turns,
                self._loops(depth + 1, at, weights),
                [assign(p, offset(p, step)) for p, _, step in moved],
                mark=Unroll(1),
            ),
        )

    def _tap(self, tap: int, rows: tuple[int, ...], a: str, b: str) -> Stmt:
        """Return the products of one tap."""
        tile = self.tile
        image = pointer(a, tile.dtype, const=True)
        weights = pointer(b, tile.dtype, const=True)
        out: list[Stmt] = []
        columns: list[Var] = []
        for v in range(tile.vectors):
            column = Var(f"column{tap}_{v}", tile.vector)
            at = offset(weights, tap * self.columns + v * tile.lanes)
            out += [Let(column, load_vector(tile, at, masked=False), mutable=True)]
            # Pinned: folded into several FMAs as a memory operand, the load would run once per row.
            out += [do("tc_pin", column)]
            columns.append(column)
        for r in rows:
            x = Var(f"x{tap}_{r}", Scalar(tile.dtype))
            out.append(Let(x, load(image, r * self.pixel + tap * self.tap)))
            for v, column in enumerate(columns):
                product = Bin("*", column, x, tile.vector)
                out.append(Assign(accumulator(tile, c64(r), c64(v)), product, "+="))
        # Otherwise the compiler moves the loads of later taps up, and runs out of registers.
        return block(out, do("tc_fence"))
