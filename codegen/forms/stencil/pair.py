"""Two pieces of a tensor whose elements alternate along lines: both leave as whole vectors.

    D(2*x)     +=! P(x) == 1 ? G(x) : 0               a
    D(2*x + 1) +=! P(x + i) == 2*i ? G(x + i) : 0     c      tc_zip2_v16f32(D + 2 * x, 16, a, c, ..)

Where all lanes are inside of the borders of both. Elsewhere each stores its own elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcdsl.codegen.forms.base.access import ONE
from tcdsl.codegen.forms.stencil.inside import strictest
from tcdsl.codegen.forms.stencil.kept import Kept
from tcdsl.codegen.forms.stencil.lines import Cut
from tcdsl.codegen.forms.stencil.nest import StencilNest
from tcdsl.codegen.forms.stencil.order import in_order
from tcdsl.codegen.forms.stencil.pieces import Piece
from tcdsl.codegen.forms.stencil.problem import asks_memory, is_woven, place_of, reloads
from tcdsl.codegen.forms.stencil.walk import Level, Names, Spot
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr, Stmt
from tcdsl.codegen.program.bounds import Bound


def paired(pieces: Sequence[Piece]) -> Iterator[tuple[Piece, ...]]:
    """Yield the pieces in order: two together where they are such a pair, else one."""
    at = 0
    while at < len(pieces):
        two = pieces[at : at + 2]
        count = 2 if len(two) == 2 and _alternate(*two) else 1
        yield tuple(pieces[at : at + count])
        at += count


def _alternate(one: Piece, other: Piece) -> bool:
    s, r = one.stencil, other.stencil
    if (s.outer, s.row, s.lane.name, s.lane.low) != (r.outer, r.row, r.lane.name, r.lane.low):
        return False
    if s.bits != r.bits or not (_is_simple(one) and _is_simple(other)):
        return False
    ctx = one.ctx
    at, then = (place_of(ctx, x.statement.target, x.statement.subs) for x in (s, r))
    if at is None or then is None or at.terms != then.terms or then.const - at.const != ONE:
        return False
    stored = ctx.operands.memory_dtype(s.statement.target)
    is_float = stored.is_float and not stored.is_half and stored.computed.bits == s.bits
    return is_float and at.step(s.lane.name).constant == 2


def _is_simple(p: Piece) -> bool:
    """Whether a piece is one window whose factors, if it has any, lie in registers."""
    s = p.stencil
    is_one = len(s.statements) == 1 and not s.statement.is_arg and not s.is_still
    return is_one and not any(f(p.ctx, s) for f in (asks_memory, is_woven, reloads))


class PairNest(StencilNest):
    """The nest of two pieces that alternate.

    other: the one whose elements lie behind those of the first.
    """

    hangs_on_cut_alone = False

    def __init__(self, first: Piece, other: Piece, cut: Cut, names: Names | None = None) -> None:
        super().__init__(first.ctx, first.stencil, cut, names)
        self.other = StencilNest(other.ctx, other.stencil, cut, self.walk.names)
        self.other.walk.index, self.other.walk.unit = self.walk.index, self.walk.unit
        end = Bound(((self.lane.name, -1),), other.ctx.bind(other.stencil.lane.high) - 1)
        self.bounds = strictest((*self.bounds, *self.other.bounds, end))
        self.rows_go_back = self.rows_go_back and self.other.rows_go_back
        self.goes_back = self.rows_go_back

    def workspace(self) -> Expr:
        """Return the bytes of the workspace that blocks of either need."""
        return b.max64(super().workspace(), self.other.workspace())

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
        if not is_whole:
            own = super().block_of(
                rows, vectors, is_whole=False, asks_rows=asks_rows, is_full=is_full, still=still
            )
            rest = self.other.block_of(rows, vectors, is_whole=False, asks_rows=asks_rows)
            return b.block(own, rest)
        block, shifts = self.empty(is_whole=True, asks_rows=asks_rows), self.shifts(rows, vectors)
        found = []
        for s in (self.stencil, self.other.stencil):
            kept = {at: Kept(s, block, shift) for at, shift in shifts.items()}
            for tap, at, _ in in_order(s, [*shifts]):
                kept[at].take(tap)
            found.append({at: kept[at].given()[s.statement.target] for at in shifts})
        for at, shift in shifts.items():
            block.store_by_turns(self.stencil.statement, Spot({}, shift), *(x[at] for x in found))
        return b.block(block.level.stmts)
