"""The lines of a stencil: whole vectors inside of all borders, masks at borders.

for w:                      `vectors` at a time where all lanes are inside, else one
                            (of unknown sizes the last goes back, so that it is whole)
  acc = identity; for taps: acc op= value; store
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.stencil.ahead import fetches
from tcdsl.codegen.forms.stencil.block import Block
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
from tcdsl.codegen.forms.stencil.problem import Stencil, asks_memory, reloads, takes_apart
from tcdsl.codegen.forms.stencil.walk import Level, Names, Region, Spot, Walk
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Assign, Expr, If, Let, Stmt, Var
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.program.bounds import Bound
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """How a stencil is cut: rows and vectors of a block; of a unit, rows and lanes.

    ahead: how many rows before they are read operands are fetched, or 0.
    """

    rows: int
    vectors: int
    unit_rows: Expr
    unit_lanes: Expr
    ahead: Expr = b.c64(0)


class StencilLines:
    """The lines of one stencil, and the blocks of points that they are made of.

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
        most = {stencil.lane.name: (cut.vectors - 1) * vexpr.lanes_of(stencil.bits, ctx.machine)}
        if stencil.row is not None:
            most[stencil.row.name] = cut.rows - 1
        self.walk = Walk(ctx, stencil, index, names, most)
        self.local = self.walk.names.alone
        self.bounds = bounds_inside(ctx, stencil)
        self.lane, self.row = stencil.lane, stencil.row
        self.has_masks = ctx.machine.has_masks
        self.reloads = reloads(ctx, stencil)
        self.asks_memory = asks_memory(ctx, stencil)
        known = ctx.spec.sizes is not None and self.has_masks  # masks then cost no more
        self.rows_go_back = is_repeatable(stencil)
        self.goes_back = self.rows_go_back and (not known or takes_apart(ctx, stencil))

    # ---- lines

    def lines(self, low: Expr, high: Expr) -> Callable[[int, bool], Stmt]:
        """Return what gives the loop over the lanes of some rows."""
        return lambda count, asks: self.lines_of(count, low, high, asks=asks)

    def lines_of(self, count: int, low: Expr, high: Expr, *, asks: bool = False) -> Stmt:
        """Return the loop over the lanes of some rows; asks: of which some may not be inside."""
        w = self.walk.index[self.lane.name]
        lanes = self.walk.lanes
        across = [x for x in self.bounds if x.coefficient(self.lane.name)]
        alone = [x for x in self.bounds if not x.coefficient(self.lane.name)]
        # the strictest of all rows of the block
        if self.row is not None:
            across = [y for x in across for y in (x, x.moved({self.row.name: count - 1}, {}))]
        first, last, _ = self.inner(self.lane.name, strictest(across))
        asks = asks or (self.row is None and bool(alone))
        begin, end, step = (b.i64(self.local(n)) for n in ("left", "right", "stride"))
        wide = lanes * self.cut.vectors
        stop = b.min64(high, last) if last is not None else high
        at, edge_at = self._starts(high, wide)
        edge = self.block_of(count, 1, is_whole=False, asks_rows=asks, is_full=self._is_full())
        if self._never(first, last, wide, is_fixed=at == w):
            return b.loop(
                at, low, high, None if edge_at == w else Let(w, edge_at), edge, step=lanes
            )
        is_bounded = first is not None or at != w
        place = w if at == w else b.i64(self.local(f"{w.name}_back"))
        whole = b.all_of(
            b.compare(">=", place, begin) if is_bounded else b.all_of(),
            b.compare("<=", b.add(place, wide), end),
        )
        inside = self.block_of(count, self.cut.vectors, is_whole=True, asks_rows=asks)
        return b.block(
            Let(begin, low if first is None else b.max64(low, first)) if is_bounded else None,
            Let(end, stop),
            Let(step, b.c64(lanes), mutable=True),
            b.loop(
                at,
                low,
                high,
                self._fetched(count, at, wide),
                None if at == w else Let(place, b.min64(at, b.sub(high, wide))),
                If(
                    whole,
                    b.block(
                        None if at == w else Let(w, place),
                        Assign(step, to_behind(place, wide, at)),
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

    def _fetched(self, count: int, at: Var, wide: int) -> Stmt | None:
        """Return what fetches what later rows read, where a block of lanes begins."""
        ahead = self.cut.ahead
        if b.value_of(ahead) == 0 or count != self.cut.rows:
            return None
        return b.when(b.compare("!=", ahead, 0), fetches(self.walk, count, ahead, at, wide))

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

    def _never(self, first: Expr | None, last: Expr | None, wide: int, *, is_fixed: bool) -> bool:
        """Whether no block has all its lanes inside; is_fixed: none of them goes back."""
        size = self.ctx.operands.size
        low = b.value_of(size(self.lane.low) if first is None else first)
        high = b.value_of(size(self.lane.high) if last is None else last)
        if low is None or high is None:
            return False
        return high - low < wide or (is_fixed and not self._starts_within(low, high - wide))

    def _starts_within(self, first: int, last: int) -> bool:
        """Whether a vector of some line may begin there: whole vectors behind where it begins."""
        size, lanes = self.ctx.operands.size, self.walk.lanes
        ends = b.value_of(size(self.lane.low)), b.value_of(size(self.lane.high))
        unit = b.value_of(self.cut.unit_lanes)
        if ends[0] is None or ends[1] is None or unit is None or unit % lanes:
            return True
        return any(first <= at <= last for at in range(ends[0], ends[1], lanes))

    def inner(
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

    def workspace(self) -> Expr:
        """Return the bytes of the workspace that blocks need."""
        return self.walk.workspace()

    # ---- points

    def empty(
        self,
        *,
        is_whole: bool,
        asks_rows: bool,
        is_full: bool = False,
        still: Level | None = None,
        far: Mapping[str, int] | None = None,
    ) -> Block:
        """Return a block without statements; is_full: none of its lanes lies behind the last.

        far: how far its furthest point is from the variables of the indices.
        """
        end = Bound(((self.lane.name, -1),), self.ctx.bind(self.lane.high) - 1)
        base: Region | None = frozenset() if is_whole or is_full else frozenset({end})
        if is_whole and not asks_rows:
            base = None
        kept = still or Level()
        asks_lanes = not is_whole
        return Block(self.walk, base, kept, asks_rows=asks_rows, asks_lanes=asks_lanes, far=far)

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
        shifts = self.shifts(rows, vectors)
        furthest = shifts[rows - 1, vectors - 1]
        block = self.empty(
            is_whole=is_whole, asks_rows=asks_rows, is_full=is_full, still=still, far=furthest
        )
        kept = {at: Kept(self.stencil, block, shift) for at, shift in shifts.items()}
        before: int | None = None
        for tap, at, far in in_order(
            self.stencil, [*shifts], by_taps=self.reloads, by_reads=self.asks_memory
        ):
            if self.reloads and before not in (None, far):
                block.forget()
            if self.asks_memory and before not in (None, far):  # nothing is read ahead and spilled
                block.level.stmts.append(b.do("tc_fence"))
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


def to_behind(first: Var, count: int, at: Var) -> Expr:
    """Return how far it is to what lies behind a block, which may begin before a place."""
    return b.c64(count) if at == first else b.sub(b.add(first, count), at)
