"""Ragged sums of products: what is empty is skipped, by blocks, by register tiles, by rows.

    O(i, e) +=! P(i, j) * V(j, e) where j in 0:i + 1

    task:  k from the least to the greatest bound of its rows
    tile:  rows x vectors, k where all its rows have terms; what single rows have besides, by tiles
           of one row

No term is formed outside of a range, so what lies there (NaN, infinity) is not seen; packing reads
whole blocks. Bounds are made of sizes, of batch indices and of the rows' index.
"""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.base.guarded import inside
from tcdsl.codegen.forms.contraction.blocking import Extents
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Assign, Expr, If, Let, Stmt, Var
from tcdsl.codegen.program.expressions import indices_of, reads_of
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.typed import Range

_TASKS = 4  # for each thread, where they are not equally long


def ragged_of(s: Statement) -> Range | None:
    """Return the ragged range of a statement that has one, of a reduction index."""
    found = [r for r in s.ranges if r.bounds is not None]
    return found[0] if len(found) == 1 and found[0].kind == "reduction" else None


def takes_ragged(ctx: Context, panel: Panel) -> bool:
    """Whether a contraction is not ragged, or in a way that blocks and tiles can skip."""
    p = panel.problem
    if not p.statement.is_ragged:
        return True
    r = ragged_of(p.statement)
    if r is None or r.is_guess or len(p.k) != 1:
        return False
    assert r.bounds is not None
    if any(reads_of(e) for e in r.bounds):
        return False
    ranges = {x.name: x for x in p.statement.ranges}
    if not all(inside(ctx, read, ranges) for read in p.statement.reads()):
        return False  # blocks are packed whole
    rows, outer = {i.name for i in p.m}, {i.name for i in p.outer}
    used = {n for e in r.bounds for n in indices_of(e)} & ranges.keys()
    if not used <= rows | outer or (used & rows and len(p.m) > 1):
        return False
    # sums wait in the output between the parts of a tile
    holds = panel.stored(p.c) == panel.dtype and not panel.finish.overwrites
    return holds and not panel.has_stage and panel.neighbours is None


def even_rows(x: Extents, threads: Expr, mr: Expr, mt: Expr, nt: Expr) -> Expr:
    """Return the number of tasks along rows: several for each thread, since some have more terms.

    As many as there are where one thread works, or batch and columns make enough.
    """
    wanted = b.ceil_div(b.mul(threads, _TASKS), b.max64(b.mul(x.groups, nt), 1))
    most = b.max64(b.div(x.m, b.mul(mr, 2)), 1)
    several = b.compare(">", b.mul(x.groups, mt, nt), 1)
    return b.select(several, b.max64(mt, b.min64(wanted, most)), mt)


@dataclass(frozen=True, slots=True)
class Depths:
    """The values of k that rows have, counted from the lowest that any has."""

    panel: Panel
    at: Mapping[str, Expr]  # the outer point

    @property
    def by_row(self) -> bool:
        """Whether rows differ in them."""
        return bool(self._used & {i.name for i in self.panel.problem.m})

    @property
    def _range(self) -> Range:
        found = ragged_of(self.panel.problem.statement)
        assert found is not None
        return found

    @property
    def _used(self) -> set[str]:
        return {n for e in self._range.bounds or () for n in indices_of(e)}

    def of(self, row: Expr) -> tuple[Expr, Expr]:
        """Return the first k of a row and the one behind the last, within those that k has."""
        panel, r = self.panel, self._range
        assert r.bounds is not None
        lows = {x.name: panel.size(x.low) for x in panel.problem.statement.ranges}
        points = {**self.at, **({panel.problem.m[0].name: row} if self.by_row else {})}
        index = {n: b.add(v, lows[n]) for n, v in points.items()}
        values = Values(panel.operands, index)
        low, high = (b.sub(values.subscript(e), lows[r.name]) for e in r.bounds)
        assert not values.take(), "bounds read nothing"
        return b.max64(low, 0), b.min64(high, panel.size(r.extent))

    def hull(self, first: Expr, rows: Expr) -> tuple[list[Stmt], Expr, Expr]:
        """Return the least and the greatest k that rows have, 0 and 0 where they have none."""
        panel = self.panel
        low, high = panel.var("k_low"), panel.var("k_high")
        row = panel.var("row")
        mine, end = panel.var("row_low"), panel.var("row_high")
        of_row = self.of(b.add(first, row) if self.by_row else b.c64(0))
        grow = b.block(
            Let(mine, of_row[0]),
            Let(end, of_row[1]),
            If(
                b.compare("<", mine, end),
                b.block(
                    Assign(low, b.min64(low, mine)),
                    Assign(high, b.max64(high, end)),
                ),
            ),
        )
        return (
            [
                Let(low, panel.size(self._range.extent), mutable=True),
                Let(high, b.c64(0), mutable=True),
                b.loop(row, 0, rows if self.by_row else 1, grow),
                If(b.compare("<", high, low), Assign(low, b.c64(0))),
            ],
            low,
            high,
        )

    def core(self, first: Expr, rows: Expr, k0: Expr, end: Expr) -> tuple[list[Stmt], Var, Var]:
        """Return where in [k0, end) all rows of a tile have terms: from one k to another."""
        panel = self.panel
        low, high, row = panel.var("core"), panel.var("core_end"), panel.var("row")
        mine, behind = self.of(b.add(first, row))
        return (
            [
                Let(low, k0, mutable=True),
                Let(high, end, mutable=True),
                b.loop(
                    row,
                    0,
                    rows,
                    Assign(low, b.max64(low, mine)),
                    Assign(high, b.min64(high, behind)),
                ),
                Assign(low, b.min64(low, end)),
                Assign(high, b.max64(high, low)),
            ],
            low,
            high,
        )
