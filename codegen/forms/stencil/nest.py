"""The loops of a stencil: units, several rows at a time inside of all borders, and their lines.

for unit:                     one value of each outer index, some rows, some lanes
  for h:                      `rows` at a time where all of them are inside, else one
                              (of unknown sizes the last go back, so that they are whole)
    for w: ..                 the lines (`lines.py`)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import ClassVar

from tcdsl.codegen.forms.base.planned import Plan, Planned
from tcdsl.codegen.forms.stencil.inside import has_no_rest, has_parts_of
from tcdsl.codegen.forms.stencil.lines import StencilLines, to_behind
from tcdsl.codegen.forms.stencil.problem import asked_taps
from tcdsl.codegen.forms.stencil.walk import Level, WalkState
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Assign, Expr, If, Let, Return, Stmt, Var


class StencilNest(StencilLines):
    """The nest of one stencil."""

    hangs_on_cut_alone: ClassVar[bool] = True  # what it is, beside its stencil

    # ---- units

    def chunks(self, unit_rows: Expr) -> tuple[Expr, Expr]:
        """Return into how many parts rows and lanes are cut; unit_rows: as the plan has them."""
        size = self.ctx.operands.size
        rows = b.c64(1) if self.row is None else b.ceil_div(size(self.row.extent), unit_rows)
        return rows, b.ceil_div(size(self.lane.extent), self.cut.unit_lanes)

    def counts(self, plan: Plan, unit_rows: Expr) -> list[Planned]:
        """Return how many values a unit's outer indices have, and into how many parts it is cut."""
        outer = (self.ctx.operands.size(r.extent) for r in self.stencil.outer)
        parts = zip(("rows", "lanes"), self.chunks(unit_rows), strict=True)
        return [*(Planned(n, n) for n in outer), *(plan.keep(name, n) for name, n in parts)]

    def of_unit(self, found: Sequence[Expr]) -> tuple[list[Let], Stmt]:
        """Return the outer indices of a unit, and its points; found: its place in `counts`."""
        size = self.ctx.operands.size
        outer = [
            Let(self.walk.index[r.name], b.add(at, size(r.low)))
            for r, at in zip(self.stencil.outer, found, strict=False)
        ]
        low, high = (b.i64(self.local(n)) for n in ("low", "high"))
        start = b.add(size(self.lane.low), b.mul(found[-1], self.cut.unit_lanes))
        end = b.min64(b.add(start, self.cut.unit_lanes), size(self.lane.high))
        first: list[Stmt] = [Let(low, start), Let(high, end)]
        if self.row is None:
            inner = self.lines_of(1, low, high)
            return outer, b.block(first, self.walk.unit.stmts, inner)
        top, bottom = (b.i64(self.local(n)) for n in ("top", "bottom"))
        start = b.add(size(self.row.low), b.mul(found[-2], self.cut.unit_rows))
        end = b.min64(b.add(start, self.cut.unit_rows), size(self.row.high))
        first += [Let(top, start), Let(bottom, end)]
        inner = self.once((top, bottom, low, high), lambda: self._rows(top, bottom, low, high))
        return outer, b.block(first, self.walk.unit.stmts, inner)

    def once(self, given: tuple[Expr, ...], make: Callable[[], Stmt]) -> Stmt:
        """Return what make returned for the same cut, but for how many rows a unit has.

        A tuner asks for it again and again: it is half of what it takes to lower a stencil.
        given : what the statements speak of beside the indices.
        """
        if not self.hangs_on_cut_alone:
            return make()
        walk = self.walk
        is_full = b.c64(self.row is not None and self._are_rows_full())
        cut = replace(self.cut, unit_rows=is_full)
        index = tuple(walk.index.items())
        key = "rows", self.stencil, cut, given, index, walk.names.taken, tuple(walk.unit.stmts)

        def made() -> tuple[Stmt, WalkState]:
            inner = make()
            return inner, walk.state

        inner, walk.state = self.ctx.once(key, made)
        return inner

    def _rows(self, top: Expr, bottom: Expr, low: Expr, high: Expr) -> Stmt:
        """Return the points of some rows between two lanes."""
        if self.stencil.is_still:
            return self._still(top, bottom, low, high)
        return self.rows_of(top, bottom, lambda n, asks: self.lines_of(n, low, high, asks=asks))

    def held(self) -> list[Stmt]:
        """Return the check of a window that a regime tells: one may come from a file."""
        out: list[Stmt] = []
        counts = dict(self.stencil.taps)
        for r in asked_taps(self.ctx, self.stencil):
            extent, count = self.ctx.operands.size(r.extent), len(counts[r.name])
            fault = b.call("tc_fault", b.ARGS, -1, 0, extent, count, type=b.INT)
            out.append(b.when(b.compare("!=", extent, count), Return(fault)))
        return out

    # ---- rows

    def rows_of(self, top: Expr, bottom: Expr, line: Callable[[int, bool], Stmt]) -> Stmt:
        """Return the loop over rows.

        line gives the statements of so many rows, or of those of which some may not be inside.
        """
        assert self.row is not None
        u = self.walk.index[self.row.name]
        begin, end, step = (b.i64(self.local(n)) for n in ("first", "last", "step"))
        bounds = [x for x in self.bounds if not x.coefficient(self.lane.name)]
        low, high, conds = self.inner(self.row.name, bounds)
        first = b.max64(top, low) if low is not None else top
        last = b.min64(bottom, high) if high is not None else bottom
        if conds:
            last = b.select(b.all_of(*conds), last, top)
        rows = self.cut.rows
        at = u
        if self.rows_go_back and rows > 1 and not has_no_rest(first, last, rows):
            at = b.i64(self.local(f"{u.name}_at"))
        back = b.sub(end, rows)
        among = (b.compare(">=", at, begin), b.compare("<", at, end), b.compare(">=", back, begin))
        moved = b.select(b.all_of(*among), b.min64(at, back), at)
        many = b.all_of(b.compare(">=", u, begin), b.compare("<=", b.add(u, rows), end))
        some = b.block(Assign(step, b.c64(1)), line(1, True))
        if at != u and bounds and self._are_rows_full():
            moved = b.min64(at, b.sub(bottom, rows))
            some = b.block(Assign(step, to_behind(u, rows, at)), line(rows, True))
        return b.block(
            Let(begin, first),
            Let(end, last),
            Let(step, b.c64(1), mutable=True),
            b.loop(
                at,
                top,
                bottom,
                None if at == u else Let(u, moved),
                If(many, b.block(Assign(step, to_behind(u, rows, at)), line(rows, False)), some),
                step=step,
            ),
        )

    def _are_rows_full(self) -> bool:
        """Whether all units are known to have as many rows as a block."""
        assert self.row is not None
        extent = b.value_of(self.ctx.operands.size(self.row.extent))
        return has_parts_of(extent, b.value_of(self.cut.unit_rows), self.cut.rows)

    def _still(self, top: Expr, bottom: Expr, low: Expr, high: Expr) -> Stmt:
        """Return rows under lanes that stay: what does not slide is loaded once."""
        w = self.walk.index[self.lane.name]
        whole = b.compare("==", b.sub(high, low), self.walk.lanes * self.cut.vectors)
        return b.block(
            Let(w, low),
            If(
                whole,
                self._still_rows(top, bottom, is_whole=True),
                self._still_rows(top, bottom, is_whole=False),
            ),
        )

    def _still_rows(self, top: Expr, bottom: Expr, *, is_whole: bool) -> Stmt:
        level = Level()

        def block(rows: int, asks: bool) -> Stmt:
            vectors = self.cut.vectors
            return self.block_of(rows, vectors, is_whole=is_whole, asks_rows=asks, still=level)

        loops = self.rows_of(top, bottom, block)
        return b.block(level.stmts, loops)


def units_of(nests: Sequence[StencilNest], plan: Plan, unit_rows: Expr) -> tuple[Expr, Stmt]:
    """Return how many units nests have together, as the plan counts them, and the loop over them.

    In a unit each nest runs through its own part, so that what they write lies in the cache: the
    pieces of a tensor. They have the same outer indices, of which one may have fewer values.
    unit_rows: as the plan has them.
    """
    every = [n.counts(plan, unit_rows) for n in nests]
    counts = [_most(plan, same) for same in zip(*every, strict=True)]
    unit = b.i64(nests[0].local("unit"))
    extents = [n.in_phase for n in counts]
    inner: list[Stmt] = []
    outer: list[Let] = []
    before, found, behind = _places(unit, extents, nests[0].local)
    for nest, own in zip(nests, every, strict=True):
        outer, points = nest.of_unit(found)
        asked = [
            b.compare("<", at, n.in_phase)
            for at, n, m in zip(found, own, counts, strict=True)
            if n != m
        ]
        inner.append(b.when(b.all_of(*asked), points) if asked else points)
    loop: Stmt = b.loop(unit, b.BEGIN, b.END, outer, inner, behind)
    if before:  # without units an extent may be 0
        loop = b.when(b.compare("<", b.BEGIN, b.END), before, loop)
    return b.mul(*(n.in_plan for n in counts)), loop


def _most(plan: Plan, same: Sequence[Planned]) -> Planned:
    """Return the largest of what several nests have of one index, or parts of it."""
    most = reduce(b.max64, (n.in_plan for n in same))
    found = next((n for n in same if n.in_plan == most), None)
    return found or plan.keep("most", most)


def _places(
    unit: Var, extents: Sequence[Expr], local: Callable[[str], str]
) -> tuple[list[Stmt], list[Expr], list[Stmt]]:
    """Return what the first unit needs, the place of a unit, and how it moves on to the next.

    Divisions by what is not known take longer than a unit of a small image: such places run like
    an odometer.
    """
    if all(b.value_of(n) is not None for n in extents[1:]):
        return [], b.unravel(unit, extents), []
    before: list[Stmt] = []
    places: list[Expr] = []
    behind: list[Stmt] = []
    for k, (extent, start) in enumerate(zip(extents, b.unravel(b.BEGIN, extents), strict=True)):
        if b.value_of(extent) == 1:
            places.append(b.c64(0))
            continue
        at = b.i64(local("at"))
        places.append(at)
        before.append(Let(at, start, mutable=True))
        carry = b.when(b.compare("==", at, extent), Assign(at, b.c64(0)), behind)
        behind = [Assign(at, b.c64(1), "+="), *([carry] if k else [])]
    return before, places, behind
