"""The loops of a stencil: inside of all borders whole vectors and several rows, masks at borders.

for unit:                     one value of each outer index, some rows, some lanes
  for h:                      `rows` at a time where all of them are inside, else one
    for w:                    `vectors` at a time where all lanes are inside, else one
                              (of unknown sizes the last of both go back, so that they are whole)
      acc = identity; for taps: acc op= value; store
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.stencil.block import Block, Level, Names, Region, Spot, Walk
from tcdsl.codegen.forms.stencil.inside import (
    bounds_inside,
    has_no_rest,
    has_parts_of,
    is_repeatable,
    strictest,
)
from tcdsl.codegen.forms.stencil.kept import Kept
from tcdsl.codegen.forms.stencil.lanes import scope_at
from tcdsl.codegen.forms.stencil.order import in_order
from tcdsl.codegen.forms.stencil.problem import Stencil, asked_taps, reloads
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Assign,
    Expr,
    If,
    Let,
    Return,
    Stmt,
    Var,
)
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.program.bounds import Bound
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """How a stencil is cut: rows and vectors of a block; of a unit, rows and lanes."""

    rows: int
    vectors: int
    unit_rows: Expr
    unit_lanes: Expr


class StencilNest:
    """The nest of one stencil.

    Parameters
    ----------
    ctx, stencil
        The group.
    cut
        How it is cut.
    """

    def __init__(
        self, ctx: Context, stencil: Stencil, cut: Cut, names: Names | None = None
    ) -> None:
        self.ctx = ctx
        self.stencil = stencil
        self.cut = cut
        ranges = (stencil.lane, *stencil.outer, *((stencil.row,) if stencil.row else ()))
        index = {r.name: b.i64(safe_name(r.name)) for r in ranges}
        if names is not None:  # others have lanes and rows that may be called so
            for r in (stencil.lane, stencil.row):
                index |= {} if r is None else {r.name: b.i64(names.alone(safe_name(r.name)))}
        self.walk = Walk(ctx, stencil, index, names)
        self.local = self.walk.names.alone
        self.bounds = bounds_inside(ctx, stencil)
        self.lane, self.row = stencil.lane, stencil.row
        self.has_masks = ctx.machine.has_masks
        self.reloads = reloads(ctx, stencil)
        known = ctx.spec.sizes is not None and self.has_masks  # masks then cost no more
        self.goes_back = not known and is_repeatable(stencil)

    # ---- units

    def chunks(self) -> tuple[Expr, Expr]:
        """Return into how many parts rows and lanes are cut."""
        size = self.ctx.operands.size
        rows = (
            b.c64(1) if self.row is None else b.ceil_div(size(self.row.extent), self.cut.unit_rows)
        )
        return rows, b.ceil_div(size(self.lane.extent), self.cut.unit_lanes)

    def counts(self) -> list[Expr]:
        """Return how many values a unit's outer indices have, and into how many parts it is cut."""
        size = self.ctx.operands.size
        return [*(size(r.extent) for r in self.stencil.outer), *self.chunks()]

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
        if self.stencil.is_still:
            inner = self._still(top, bottom, low, high)
        else:
            inner = self.rows_of(
                top, bottom, lambda n, asks: self.lines_of(n, low, high, asks=asks)
            )
        return outer, b.block(first, self.walk.unit.stmts, inner)

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
        low, high, conds = self._inner(self.row.name, bounds)
        first = b.max64(top, low) if low is not None else top
        last = b.min64(bottom, high) if high is not None else bottom
        if conds:
            last = b.select(b.all_of(*conds), last, top)
        rows = self.cut.rows
        at = u
        if self.goes_back and rows > 1 and not has_no_rest(first, last, rows):
            at = b.i64(self.local(f"{u.name}_at"))
        back = b.sub(end, rows)
        among = (b.compare(">=", at, begin), b.compare("<", at, end), b.compare(">=", back, begin))
        moved = b.select(b.all_of(*among), b.min64(at, back), at)
        many = b.all_of(b.compare(">=", u, begin), b.compare("<=", b.add(u, rows), end))
        some = b.block(Assign(step, b.c64(1)), line(1, True))
        if at != u and bounds and not self.has_masks and self._are_rows_full():
            moved = b.min64(at, b.sub(bottom, rows))
            some = b.block(Assign(step, _to_behind(u, rows, at)), line(rows, True))
        return b.block(
            Let(begin, first),
            Let(end, last),
            Let(step, b.c64(1), mutable=True),
            b.loop(
                at,
                top,
                bottom,
                None if at == u else Let(u, moved),
                If(many, b.block(Assign(step, _to_behind(u, rows, at)), line(rows, False)), some),
                step=step,
            ),
        )

    def _are_rows_full(self) -> bool:
        """Whether all units are known to have as many rows as a block."""
        assert self.row is not None
        extent = b.value_of(self.ctx.operands.size(self.row.extent))
        return has_parts_of(extent, b.value_of(self.cut.unit_rows), self.cut.rows)

    def _inner(
        self, name: str, bounds: Iterable[Bound]
    ) -> tuple[Expr | None, Expr | None, list[Expr]]:
        """Return between which values of an index bounds hold, and whether the others do."""
        low: Expr | None = None
        high: Expr | None = None
        conds: list[Expr] = []
        for x in bounds:
            if not x.coefficient(name):
                conds.append(self.walk.holds(x))
                continue
            first, last = self.walk.ends(x, name)
            if first is not None:
                low = first if low is None else b.max64(low, first)
            if last is not None:
                high = last if high is None else b.min64(high, last)
        return low, high, conds

    # ---- lanes

    def lines(self, low: Expr, high: Expr) -> Callable[[int, bool], Stmt]:
        """Return what gives the loop over the lanes of some rows."""
        return lambda count, asks: self.lines_of(count, low, high, asks=asks)

    def lines_of(self, count: int, low: Expr, high: Expr, *, asks: bool = False) -> Stmt:
        """Return the loop over the lanes of some rows; asks: of which some may not be inside."""
        w = self.walk.index[self.lane.name]
        lanes = self.walk.lanes
        if asks and self.has_masks:
            edge = self.block_of(count, 1, is_whole=False, asks_rows=True)
            return b.loop(w, low, high, edge, step=lanes)
        across = [x for x in self.bounds if x.coefficient(self.lane.name)]
        alone = [x for x in self.bounds if not x.coefficient(self.lane.name)]
        # the strictest of all rows of the block
        if self.row is not None:
            across = [y for x in across for y in (x, x.moved({self.row.name: count - 1}, {}))]
        first, last, _ = self._inner(self.lane.name, strictest(across))
        conds: list[Expr] = []
        if self.row is None and alone:
            asks, conds = True, [self.walk.holds(x) for x in alone] if self.has_masks else []
        begin, end, step = (b.i64(self.local(n)) for n in ("left", "right", "stride"))
        wide = lanes * self.cut.vectors
        stop = b.min64(high, last) if last is not None else high
        if conds:
            stop = b.select(b.all_of(*conds), stop, low)
        at, edge_at = self._starts(high, wide)
        edge = self.block_of(count, 1, is_whole=False, asks_rows=asks, is_full=self._is_full())
        if self._never(first, last, wide):
            return b.loop(
                at, low, high, None if edge_at == w else Let(w, edge_at), edge, step=lanes
            )
        is_bounded = first is not None or at != w
        place = w if at == w else b.i64(self.local(f"{w.name}_back"))
        whole = b.all_of(
            b.compare(">=", place, begin) if is_bounded else b.all_of(),
            b.compare("<=", b.add(place, wide), end),
        )
        inside = self.block_of(
            count, self.cut.vectors, is_whole=True, asks_rows=asks and not self.has_masks
        )
        return b.block(
            Let(begin, low if first is None else b.max64(low, first)) if is_bounded else None,
            Let(end, stop),
            Let(step, b.c64(lanes), mutable=True),
            b.loop(
                at,
                low,
                high,
                None if at == w else Let(place, b.min64(at, b.sub(high, wide))),
                If(
                    whole,
                    b.block(
                        None if at == w else Let(w, place),
                        Assign(step, _to_behind(place, wide, at)),
                        inside,
                    ),
                    b.block(
                        None if at == w else Let(w, edge_at),
                        Assign(step, b.c64(lanes)),
                        edge,
                    ),
                ),
                step=step,
            ),
        )

    def _starts(self, high: Expr, wide: int) -> tuple[Var, Expr]:
        """Return the variable of the loop over a line, and where a block at a border begins.

        The variable is that of the lanes, where no block goes back.
        """
        w, lanes = self.walk.index[self.lane.name], self.walk.lanes
        size = self.ctx.operands.size
        ends = size(self.lane.low), size(self.lane.high)
        moves = self._is_full() and not has_no_rest(*ends, lanes)
        if not self.goes_back or (has_no_rest(*ends, wide) and not moves):
            return w, w
        at = b.i64(self.local(f"{w.name}_at"))
        return at, b.min64(at, b.sub(high, lanes)) if moves else at

    def _is_full(self) -> bool:
        """Whether all lines of units hold a vector, so that a block may go back to be one."""
        if self.has_masks or not self.goes_back:
            return False
        extent = b.value_of(self.ctx.operands.size(self.lane.extent))
        return has_parts_of(extent, b.value_of(self.cut.unit_lanes), self.walk.lanes)

    def _never(self, first: Expr | None, last: Expr | None, wide: int) -> bool:
        """Whether no block has all its lanes inside."""
        size = self.ctx.operands.size
        low = b.value_of(size(self.lane.low) if first is None else first)
        high = b.value_of(size(self.lane.high) if last is None else last)
        return low is not None and high is not None and high - low < wide

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
            whole = is_whole and not (asks and self.has_masks)
            vectors = self.cut.vectors
            return self.block_of(rows, vectors, is_whole=whole, asks_rows=asks, still=level)

        loops = self.rows_of(top, bottom, block)
        return b.block(level.stmts, loops)

    # ---- points

    def empty(
        self, *, is_whole: bool, asks_rows: bool, is_full: bool = False, still: Level | None = None
    ) -> Block:
        """Return a block without statements; is_full: none of its lanes lies behind the last."""
        end = Bound(((self.lane.name, -1),), self.ctx.bind(self.lane.high) - 1)
        base: Region | None = frozenset() if is_whole or is_full else frozenset({end})
        if is_whole and not asks_rows:
            base = None
        return Block(
            self.walk, base, still or Level(), asks_rows=asks_rows, asks_lanes=not is_whole
        )

    def shifts(self, rows: int, vectors: int) -> dict[tuple[int, int], dict[str, int]]:
        """Return the rows and vectors of a block, and how far their indices are from the first."""
        return {
            (r, v): ({self.row.name: r} if self.row is not None else {})
            | {self.lane.name: v * self.walk.lanes}
            for r in range(rows)
            for v in range(vectors)
        }

    def block_of(
        self,
        rows: int,
        vectors: int,
        *,
        is_whole: bool,
        asks_rows: bool,
        is_full: bool = False,
        still: Level | None = None,
    ) -> Stmt:
        """Return the points of some rows and vectors, in one straight run."""
        block = self.empty(is_whole=is_whole, asks_rows=asks_rows, is_full=is_full, still=still)
        shifts = self.shifts(rows, vectors)
        kept = {at: Kept(self.stencil, block, shift) for at, shift in shifts.items()}
        before: int | None = None
        for tap, at, far in in_order(self.stencil, [*shifts], by_taps=self.reloads):
            if self.reloads and before not in (None, far):
                block.forget()
            before = far
            kept[at].take(tap)
        for at, shift in shifts.items():
            spot, given = Spot({}, shift), kept[at].given()
            for s in self.stencil.windows:
                self._settle(block, s, spot, given[s.target])
            for later in self.stencil.later:
                scope = scope_at(block, spot, later, given)
                value = scope.name(scope.vector(later.value))
                given[later.target] = value
                self._settle(block, later, spot, value)
        return b.block(block.level.stmts)

    def _settle(self, block: Block, s: Statement, spot: Spot, value: Expr) -> None:
        if s.target not in self.ctx.group.local:
            block.store(s, spot, value)


def units_of(nests: Sequence[StencilNest]) -> tuple[Expr, Stmt]:
    """Return how many units nests have together, and the loop over them.

    In a unit each nest runs through its own part, so that what they write lies in the cache: the
    pieces of a tensor. They have the same outer indices, of which one may have fewer values.
    """
    every = [n.counts() for n in nests]
    counts = [reduce(b.max64, same) for same in zip(*every, strict=True)]
    unit = b.i64(nests[0].local("unit"))
    found = b.unravel(unit, counts)
    inner: list[Stmt] = []
    outer: list[Let] = []
    for nest, own in zip(nests, every, strict=True):
        outer, points = nest.of_unit(found)
        asked = [
            b.compare("<", at, n) for at, n, m in zip(found, own, counts, strict=True) if n != m
        ]
        inner.append(b.when(b.all_of(*asked), points) if asked else points)
    return b.mul(*counts), b.loop(unit, b.BEGIN, b.END, outer, inner)


def _to_behind(first: Var, count: int, at: Var) -> Expr:
    """Return how far it is to what lies behind a block, which may begin before a place."""
    return b.c64(count) if at == first else b.sub(b.add(first, count), at)
