"""Where an image of unknown sizes ends, which is read where it lies.

    pad(I(n, c, 2*y + i - 1, 2*x + j - 1), 0)     taps i: from the first to the last that a line has
                                                  taps j: rows at the ends of a line ask for each

What lies outside is neither copied nor multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tcdsl.codegen.forms.contraction.problem import ONE, Index, Reach
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr
from tcdsl.codegen.program.padding import Guard
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass

# Of a micro-kernel: from which subscript on there are elements, and below which.
PARAMS = b.i64("before"), b.i64("behind")
_MOST_BEFORE = 16  # elements that a text is written for


@dataclass(frozen=True, slots=True)
class Border:
    """A dimension of the image, whose elements have subscripts in [low, high).

    first: the subscript at the first point of all. pixels: the output's indices in it, and by how
    much each moves it. tap, step: the sum that slides along it, if one does.
    """

    first: Size
    pixels: tuple[tuple[str, int], ...]
    tap: Index | None
    step: int
    low: Size | None
    high: Size | None

    def begin(self, size: Callable[[Size], Expr], at: Mapping[str, Expr]) -> Expr:
        """Return the subscript of the first tap at a point."""
        return b.add(size(self.first), *(b.mul(at[name], k) for name, k in self.pixels))

    def taps(self, size: Callable[[Size], Expr], at: Mapping[str, Expr]) -> tuple[Expr, Expr]:
        """Return the first tap that exists at a point, and how many do.

        Without a tap that is 1 where there is an element, else 0.
        """
        here, most = self.begin(size, at), size(ONE if self.tap is None else self.tap.extent)
        start: Expr = b.c64(0)
        end = most
        below = None if self.low is None else b.sub(size(self.low), here)
        above = None if self.high is None else b.sub(size(self.high), here)
        if self.step < 0:  # walked from the other end
            below, above = (None if x is None else b.sub(1, x) for x in (above, below))
        if below is not None:
            start = b.min64(b.ceil_div(b.max64(below, 0), abs(self.step)), most)
        if above is not None:
            end = b.min64(b.ceil_div(b.max64(above, 0), abs(self.step)), most)
        return start, b.max64(b.sub(end, start), 0)

    def missing(self, size: Callable[[Size], Expr], at: Mapping[str, Expr]) -> tuple[Expr, Expr]:
        """Return what `PARAMS` are for a tile whose first row is at a point."""
        here = self.begin(size, at)
        low = b.c64(0) if self.low is None else b.sub(size(self.low), here)
        high = b.c64(0) if self.high is None else b.sub(size(self.high), here)
        return low, high


def borders_of(
    reach: Reach, s: Statement, guards: Sequence[Guard], sums: Sequence[Index]
) -> tuple[Border, ...] | None:
    """Return guards as borders, or None where two share a tap or one has several."""
    lows = {r.name: r.low for r in s.ranges}
    of_name = {i.name: i for i in sums}
    out: list[Border] = []
    for g in guards:
        taps = [(of_name[n], k) for n, k in g.at.terms if n in of_name]
        if len(taps) > 1:
            return None
        tap, step = taps[0] if taps else (None, 1)
        pixels = tuple((n, k) for n, k in g.at.terms if n not in of_name)
        low, high = (None if e is None else reach.bind(e) for e in (g.low, g.high))
        out.append(Border(reach.bind(g.at.at(lows)), pixels, tap, step, low, high))
    slid = [x.tap.name for x in out if x.tap is not None]
    return tuple(out) if len({*slid}) == len(slid) else None


@dataclass(frozen=True, slots=True)
class Edges:
    """Which products of a register tile may lie outside of the image, at the ends of lines.

    pixel, tap: how far a row and a tap move the subscript, which counts from that of the tile's
    first. taps: of a row of the window, or of each of its pieces. before: the first tile of a line
    has nothing below that. behind: so many at most are missing at the end of the last one, where
    `is_held`; of unknown sizes there may be more, whose lines have tiles of one row, which asks
    for every tap.
    """

    pixel: int
    tap: int
    taps: int
    pieces: int
    before: int
    behind: int
    is_held: bool

    @property
    def piece(self) -> int:
        """How far a piece moves the subscript."""
        return self.tap * self.taps

    def whole(self, rows: int, ends: tuple[Expr, Expr]) -> Expr:
        """Return whether all products of a tile under a piece exist."""
        first = min(0, self.piece - self.tap)
        last = self.pixel * (rows - 1) + max(0, self.piece - self.tap)
        return b.all_of(b.compare(">=", first, ends[0]), b.compare("<", last, ends[1]))

    def conditions(self, row: int, tap: int, rows: int, ends: tuple[Expr, Expr]) -> list[Expr]:
        """Return what holds where a product of a tile exists, as far as that is not certain.

        ends: `PARAMS`, counted from the first tap of a piece.
        """
        at, pieces = self.pixel * row + self.tap * tap, self.piece * (self.pieces - 1)
        last = self.pixel * (rows - 1) + max(0, self.piece * self.pieces - self.tap)
        out: list[Expr] = []
        if at + min(0, pieces) < self.before:
            out.append(b.compare(">=", at, ends[0]))
        if last - at - max(0, pieces) < self.behind or (rows == 1 and not self.is_held):
            out.append(b.compare("<", at, ends[1]))
        return out


def edges_of(border: Border, pixel: Index, taps: int, pieces: int) -> tuple[Edges, Size] | None:
    """Return the edges of tiles along a line of pixels, under pieces of so many taps.

    And how many elements are missing at its end. None where it is not known how many are missing
    at its begin, or they are many.
    """
    (step,) = (k for _, k in border.pixels)
    moves = border.step if border.tap is not None else 0
    span = moves * (taps * pieces - 1)
    nothing = Size.const(min(0, span))
    before = (nothing if border.low is None else border.low - border.first).constant
    if before is None or before - min(0, span) > _MOST_BEFORE:
        return None
    if border.high is None:
        return Edges(step, moves, taps, pieces, before, 0, True), Size.const(0)
    last = border.first + (pixel.extent - 1) * step + max(0, span)
    missing = last + 1 - border.high
    held = (n for n in range(abs(span) + 1) if is_nonnegative(Size.const(n) - missing))
    behind = next(held, None)
    most = abs(span) if behind is None else behind
    return Edges(step, moves, taps, pieces, before, most, behind is not None), missing
