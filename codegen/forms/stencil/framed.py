"""An image with what surrounds it in the workspace: where masks are dear and windows large.

    for unit:
      frame[y][x] = image[y - 3][x - 3], or the fill outside of it
      for h, w: whole blocks, the last ones going back; acc += frame[h + i][w + j] * K[i][j]

A pass over the image is little beside the taps of a large window. No block has a mask or a branch,
and there is one of them in the text, where borders have three more.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.stencil.inside import has_parts_of, is_repeatable
from tcdsl.codegen.forms.stencil.lines import Cut
from tcdsl.codegen.forms.stencil.nest import StencilNest
from tcdsl.codegen.forms.stencil.problem import (
    Place,
    Stencil,
    borders_of,
    guard_of,
    place_of,
    reloads,
)
from tcdsl.codegen.forms.stencil.walk import Framing
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Call, Cast, Const, Expr, If, Let, Stmt, Unroll, Vector
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import walk_typed
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed

_PARTS = 8  # of a line's copy that follow each other without a jump
_MOVES = 2  # taps that take as long as the copy of a point


@dataclass(frozen=True, slots=True)
class _Side:
    """A dimension of an image: its subscript, where taps are in it, its extent and its stride.

    The subscript is terms + const; step: of the row or lane in it. low: what taps add at least,
    low + spread at most.
    """

    terms: tuple[tuple[str, int], ...]
    const: int
    step: int
    low: int
    spread: int
    extent: int
    stride: int


@dataclass(frozen=True, slots=True)
class Frame:
    """What is framed: a read and its fill, the image's sides; the rows and columns of a frame."""

    read: typed.Read
    fill: typed.Lit
    rows: _Side
    lanes: _Side
    height: int
    pitch: int
    begin: int  # the column of the image that the first of a frame is

    @property
    def seen(self) -> tuple[int, int]:
        """The first column of a frame that the image has, and the one behind the last."""
        return max(0, -self.begin), min(self.pitch, self.lanes.extent - self.begin)

    @property
    def count(self) -> int:
        """How many elements it has."""
        return self.height * self.pitch


def frame_of(ctx: Context, s: Stencil, cut: Cut) -> Frame | None:
    """Return the frame that a stencil of known sizes runs in, if it does.

    It has weights, more than there are registers; all but its window stays inside; many of its
    blocks are at borders, and the frame lies in the first level.
    """
    if ctx.spec.sizes is None or not reloads(ctx, s) or not is_repeatable(s) or s.row is None:
        return None
    found = _padded_read(ctx, s)
    if len(s.windows) > 1 or found is None:
        return None
    read, fill = found
    rows, along = b.value_of(cut.unit_rows), b.value_of(cut.unit_lanes)
    extent, width = ctx.extent(s.row.extent), ctx.extent(s.lane.extent)
    lanes = vexpr.lanes_of(s.bits, ctx.machine)
    if rows is None or along is None or not lanes <= width <= along:
        return None
    place, stored = place_of(ctx, read.tensor, read.subs), ctx.operands.memory_dtype(read.tensor)
    is_as_computed = stored == read.dtype and stored.bits == s.bits and not stored.is_half
    if place is None or not is_as_computed or not has_parts_of(extent, rows, cut.rows):
        return None
    sides = _sides(ctx, s, read, place)
    if sides is None or sides[1].extent < lanes or sides[1].step != 1 or sides[1].stride != 1:
        return None
    height = sides[0].step * (min(rows, extent) - 1) + sides[0].spread + 1
    first = ctx.bind(s.lane.low).constant
    assert first is not None, "sizes are known"
    begin = sides[1].const + first + sides[1].low
    frame = Frame(read, fill, *sides, height, width + sides[1].spread, begin)
    left, right = frame.seen
    if right - left < lanes:  # its lines are copied by whole vectors
        return None
    copied = frame.count / (min(rows, extent) * width)  # times that a point of the image is
    inside = max(0, ceil(extent / cut.rows) - 2) * max(0, ceil(width / lanes) - 2)
    at_borders = 1 - inside / (ceil(extent / cut.rows) * ceil(width / lanes))
    if s.tap_count * at_borders < _MOVES * copied:
        return None
    return frame if frame.count * stored.size_bytes <= ctx.machine.l1_bytes // 2 else None


def _padded_read(ctx: Context, s: Stencil) -> tuple[typed.Read, typed.Lit] | None:
    """Return the read with the only condition of a stencil, that its element exists, and its fill.

    Else None.
    """
    guards = [
        (e, bounds)
        for x in s.statements
        for e in walk_typed(x.value)
        if isinstance(e, typed.Select) and (bounds := guard_of(ctx, x, e)) is not None
    ]
    if len(guards) != 1:
        return None
    ((e, bounds),) = guards
    kept, left = (e.then, e.other) if bounds.keeps_then else (e.other, e.then)
    if not isinstance(kept, typed.Read) or not isinstance(left, typed.Lit):
        return None
    borders = [*borders_of(ctx, s.statement, kept)]
    needed = {x for x, is_proven in borders if not is_proven}
    return (kept, left) if needed <= {*bounds.all} <= {x for x, _ in borders} else None


def _sides(ctx: Context, s: Stencil, read: typed.Read, place: Place) -> tuple[_Side, _Side] | None:
    """Return the dimensions along rows and lanes, if no other has taps and all steps are known."""
    assert s.row is not None
    taps, found = dict(s.taps), dict[str, _Side]()
    shape = ctx.operands.buffer(read.tensor).shape
    for sub, extent in zip(read.subs, shape, strict=True):
        a = affine_of(sub)
        if a is None:
            return None
        own = [n for n in (s.row.name, s.lane.name) if a.coefficient(n)]
        slid = [(n, k) for n, k in a.terms if n in taps]
        if not own and not slid:
            continue
        if len(own) != 1 or own[0] in found or len(a.terms) > len(slid) + 1:
            return None
        step, const = a.coefficient(own[0]), ctx.bind(a.const).constant
        apart = ctx.bind(place.step(own[0])).constant
        if const is None or apart is None or step < 1:
            return None
        ends = [sorted((k * taps[n][0], k * taps[n][-1])) for n, k in slid]
        low, high = (sum(x[i] for x in ends) for i in (0, 1))
        of = a.terms, const, step, low, high - low
        found[own[0]] = _Side(*of, ctx.extent(extent), apart // step)
    if {*found} != {s.row.name, s.lane.name}:
        return None
    return found[s.row.name], found[s.lane.name]


class FramedNest(StencilNest):
    """The nest of a stencil in a frame."""

    hangs_on_cut_alone = False

    def __init__(self, ctx: Context, stencil: Stencil, cut: Cut, frame: Frame) -> None:
        super().__init__(ctx, stencil, cut)
        self.frame = frame
        steps: dict[str, int] = {}
        for side, far in ((frame.rows, frame.pitch), (frame.lanes, 1)):
            for name, k in side.terms:
                steps[name] = steps.get(name, 0) + k * far
        name = self.local("frame")
        terms = tuple((n, Size.const(k)) for n, k in sorted(steps.items()))
        dtype = ctx.operands.memory_dtype(frame.read.tensor)
        place = Place(name, terms, Size.const(0))
        self.walk.framing = Framing(frame.read, place, b.pointer(name, dtype), dtype)

    def workspace(self) -> Expr:
        """Return the bytes of the frame."""
        return b.c64(self.frame.count * self.stencil.bits // 8)

    # ---- blocks, all of them whole

    def rows_of(self, top: Expr, bottom: Expr, line: Callable[[int, bool], Stmt]) -> Stmt:
        """Return the copy, and the loop over rows."""
        assert self.row is not None
        u, rows = self.walk.index[self.row.name], self.cut.rows
        at = b.i64(self.local(f"{u.name}_at"))
        back = Let(u, b.min64(at, b.sub(bottom, rows)))
        loop = b.loop(at, top, bottom, back, line(rows, False), step=rows)
        return b.block(self._copied(top, bottom), loop)

    def lines_of(self, count: int, low: Expr, high: Expr, *, asks: bool = False) -> Stmt:
        """Return the loop over the lanes of some rows."""
        w, lanes = self.walk.index[self.lane.name], self.walk.lanes
        fits = self.ctx.extent(self.lane.extent) >= lanes * self.cut.vectors
        vectors = self.cut.vectors if fits else 1
        at, wide = b.i64(self.local(f"{w.name}_at")), lanes * vectors
        back = Let(w, b.min64(at, b.sub(high, wide)))
        inside = self.block_of(count, vectors, is_whole=True, asks_rows=asks)
        return b.loop(at, low, high, back, inside, step=wide)

    # ---- the copy

    def _copied(self, top: Expr, bottom: Expr) -> Stmt:
        """Return what copies the rows that a unit reads, and declares where windows see them."""
        frame, framing = self.frame, self.walk.framing
        assert framing is not None
        rows, lanes, pitch = frame.rows, frame.lanes, frame.pitch
        vector = Vector(framing.dtype, self.walk.lanes)
        kind = vexpr.kind_of(vector, framing.dtype)
        y, x = b.i64(self.local("y")), b.i64(self.local("x"))
        row, start = b.i64(self.local("image_row")), b.i64(self.local("first_row"))
        line, base = (b.pointer(self.local(n), framing.dtype) for n in ("line", "framed"))
        source = b.pointer(self.local("source"), framing.dtype, const=True)
        place = place_of(self.ctx, frame.read.tensor, frame.read.subs)
        assert place is not None, "its steps are known"
        begin, (left, right) = frame.begin, frame.seen
        fixed = place.const - rows.const * rows.stride - lanes.const
        size = self.ctx.operands.size

        def filled(low: int, high: int) -> Stmt | None:
            """Return the stores of fills by whole vectors, before what lies around them."""
            to = b.offset(line, b.min64(x, pitch - vector.lanes))
            fill = Const(frame.fill.value, vector)
            store = b.do(f"tc_store_{kind}", to, fill)
            return b.loop(x, low, high, store, step=vector.lanes) if low < high else None

        at = b.min64(x, right - left - vector.lanes)
        value = Call(f"tc_load_{kind}", (b.offset(source, at),), vector)
        store = b.do(f"tc_store_{kind}", b.offset(line, b.add(at, left)), value)
        there = b.add(b.mul(row, rows.stride), size(fixed), begin + left)
        copy = b.block(
            Let(source, b.offset(self.walk.pointer(place), there)),
            filled(0, left),
            filled(right, pitch),
            b.loop(x, 0, right - left, store, step=vector.lanes, mark=Unroll(_PARTS)),
        )
        is_inside = b.all_of(b.compare(">=", row, 0), b.compare("<", row, rows.extent))
        height = b.add(b.mul(b.sub(b.sub(bottom, top), 1), rows.step), rows.spread + 1)
        seen = b.add(b.mul(b.add(b.mul(top, rows.step), rows.low), pitch), begin - lanes.const)
        return b.block(
            Let(base, Cast(b.WORKSPACE, base.type)),
            Let(start, b.add(b.mul(top, rows.step), rows.low + rows.const)),
            b.loop(
                y,
                0,
                height,
                Let(row, b.add(y, start)),
                Let(line, b.offset(base, b.mul(y, pitch))),
                If(is_inside, copy, b.block(filled(0, pitch))),
            ),
            Let(framing.pointer, b.offset(base, b.sub(0, seen))),
        )
