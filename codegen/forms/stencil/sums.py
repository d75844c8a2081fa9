"""Blocks whose taps have sums of their own: gradients of windows by their weights."""

from __future__ import annotations

from tcdsl.codegen.forms.stencil.lanes import scope_at
from tcdsl.codegen.forms.stencil.nest import StencilNest
from tcdsl.codegen.forms.stencil.order import in_order
from tcdsl.codegen.forms.stencil.walk import Level, Spot
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Assign, Bin, Stmt, Var


class SumsNest(StencilNest):
    """A nest whose blocks add what each tap has to a sum in a register."""

    def sum_of(self, tap: tuple[int, ...], vector: int) -> Var:
        """Return the sum of a tap for one vector of a block."""
        raise NotImplementedError

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
        s = self.stencil.statement
        shifts = self.shifts(rows, vectors)
        for tap, at, _ in in_order(self.stencil, [*shifts]):
            value = scope_at(block, Spot(tap, shifts[at]), s, {}).vector(s.value)
            acc = self.sum_of(tuple(tap.values()), at[1])
            block.level.stmts.append(Assign(acc, Bin("+", value, acc, acc.type)))
        return b.block(block.level.stmts)
