"""The nest of one row: sweeps over its points, folds, and what is computed between them.

With lanes > 1 the innermost loop (`loops.py`) runs in explicit vectors, and folds are kept in
several of them. A row of a few vectors of known length is not looped over at all: its values stay
in registers from sweep to sweep. So is one of any length where a branch around the rows has seen
that it is so short.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.access import DimLoop
from tcdsl.codegen.forms.base.align import AlignedStatement
from tcdsl.codegen.forms.base.combine import operator
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.scalars import combine
from tcdsl.codegen.forms.base.space import IterationSpace, accesses, combines
from tcdsl.codegen.forms.rows.cpu.loops import RowLoops, SweepBody
from tcdsl.codegen.forms.rows.fold import Fold
from tcdsl.codegen.forms.rows.point import RowPoint, RowWalk
from tcdsl.codegen.forms.rows.schedule import is_light
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Const,
    Expr,
    Let,
    Mask,
    Scalar,
    Stmt,
    Var,
    Vector,
)
from tcdsl.grammar.text.fresh import fresh
from tcdsl.grammar.types.dtypes import INT32

BLOCK = 4096  # elements whose sum is formed before it is added to the others: rounding
HELD_VECTORS = 8  # longest row that stays in registers
# Of rows of any length, the vectors of short ones that do; those of long bodies, which are copied
# for each vector, do so up to 4.
_SHORT = (0, 1, 2, 4, 6, HELD_VECTORS)
_MOST_LONG = 4


def shorts(space: IterationSpace, walk: RowWalk) -> tuple[tuple[int, int], ...]:
    """Return the vectors of rows of any length that stay in registers: more than, and up to."""
    found = pairwise(_SHORT)
    light = is_light(space)
    return tuple(
        pair for pair in found if may_be_short(space, walk) and (light or pair[1] <= _MOST_LONG)
    )


def may_be_short(space: IterationSpace, walk: RowWalk) -> bool:
    """Whether rows of any length may stay in registers where they are short."""
    lengths = {w[0].extent for w in space.sweeps}
    is_one = len(lengths) == 1 and all(len(w) == 1 for w in space.sweeps)
    return walk.lanes > 1 and is_one and lengths.pop().constant is None


class RowNest(RowLoops):
    """Builds the statements of a row.

    Parameters
    ----------
    short
        The vectors that a row of any length has more than, and at most, where it is known to be
        short. 0 where it may be longer.
    """

    def __init__(
        self, ctx: Context, space: IterationSpace, walk: RowWalk, short: tuple[int, int] = (0, 0)
    ) -> None:
        super().__init__(ctx, space, walk)
        self.whole_vectors, self.short = short
        self.held: dict[tuple[str, int], tuple[RowPoint, vexpr.LaneScope]] = {}
        self.whole = True  # rows are walked from end to end

    def build(self, counters: Mapping[str, Expr], span: tuple[Expr, Expr] | None) -> list[Stmt]:
        """Return the statements of the row at these counters.

        span: the part [low, high) of each sweep's outermost loop to walk; None for all of it.
        """
        self.enter(counters)
        self.whole = span is None
        for n in range(len(self.space.sweeps)):
            self.sweep(n, span)
        for step in self.space.aligned.after:
            self.scalar_step(step)
        return self.row

    def scalar_step(self, step: AlignedStatement) -> None:
        """Compute a statement that has one value a row."""
        self.finish(step, self.scalar(step.statement.value, {}, self.row))

    def finish(self, step: AlignedStatement, value: Expr) -> None:
        """Name a value of the row and store it where somebody else reads it."""
        s = step.statement
        if combines(s) and s.base is not None:
            held = self.values.get(s.base)
            before = held if held is not None else self.element((s.base, s.subs), {})
            value = combine(s.op, before, value)
        value = self.as_stored(s, value)
        if not isinstance(value, Var | Const):
            name = fresh(s.target.replace(".", "_") + "_value", self.taken)
            self.taken.add(name)
            var = Var(name, b.type_of(value))
            self.row.append(Let(var, value))
            value = var
        self.values[s.target] = value
        if self.in_memory(s.target):
            self.row.append(self.store((s.target, s.subs), {}, value))

    # ---- a sweep

    def sweep(self, n: int, span: tuple[Expr, Expr] | None) -> None:
        """Add a pass over the points of the row."""
        sweep, loops = self.space.aligned.sweeps[n], self.space.sweeps[n]
        for step in sweep.before:
            self.scalar_step(step)
        self.hoisted = {}
        made = {s.statement.target: self.fold(s, loops) for s in sweep.steps if s.folds}
        folds = {t: f for t, f in made.items() if not f.step.segment}
        parts = {t: f for t, f in made.items() if f.step.segment}
        outer: dict[str, Expr] = {x.name: self.counter(x) for x in loops[:-1]}
        hoist: list[Stmt] = [] if outer else self.row
        this = SweepBody(sweep.steps, folds, parts, loops[-1], outer, hoist)
        held = self.held_count()
        body = self.looped(this, loops, span) if held is None else self.unrolled(this, held)
        for f in folds.values():
            self.row.extend(f.begin())
        self.row.extend(body)
        self.prefetched |= {a for s in sweep.steps for a in accesses(s)}
        for f in folds.values():
            self.finish(f.step, f.result())

    def fold(self, step: AlignedStatement, loops: tuple[DimLoop, ...]) -> Fold:
        """Return the accumulators of a fold."""
        s = step.statement
        dtype = self.operands.buffer(s.target).dtype.computed
        if self.walk.lanes > 1:
            kind: Scalar | Vector = Vector(dtype, self.walk.lanes)
            count = min(self.held_count() or self.walk.unroll, 4)
        else:
            kind, count = Scalar(dtype), 1
        accumulators = tuple(Var(self.fresh("acc"), kind) for _ in range(count))
        length = loops[-1].extent.constant
        passes = [x for x in loops if x.name not in step.segment]
        long = not self.short and (length is None or length > BLOCK or len(passes) > 1)
        blocked = operator(s.op) == "+" and dtype.is_float and long
        fold = Fold(step, dtype, accumulators, Var(self.fresh("sum"), kind) if blocked else None)
        if self.walk.lanes == 1 and fold.op in ("min", "max") and dtype.is_float:
            fold.unordered = b.var(self.fresh("unordered"), INT32)
        return fold

    def held_count(self) -> int | None:
        """Return the vectors of a row if all its sweeps keep it in registers, else None."""
        if self.short:
            return self.short
        if not self.whole or self.walk.lanes == 1 or any(len(w) > 1 for w in self.space.sweeps):
            return None
        lengths = {w[0].extent for w in self.space.sweeps}
        length = lengths.pop().constant if len(lengths) == 1 else None
        if length is None or length > HELD_VECTORS * self.walk.lanes or length == 0:
            return None
        return -(-length // self.walk.lanes)

    def looped(
        self, this: SweepBody, loops: tuple[DimLoop, ...], span: tuple[Expr, Expr] | None
    ) -> list[Stmt]:
        """Return the loops of a sweep; folds with a total start and end within a block."""
        low: Expr = b.c64(0)
        high = self.size(this.inner.extent)
        if span is not None and not this.outer:
            low, high = span
        blocked = [f for f in (*this.folds.values(), *this.parts.values()) if f.total]
        starts = [s for f in blocked for s in f.start()]
        flushes = [s for f in blocked for s in f.flush()]
        length = this.inner.extent.constant
        if blocked and (length is None or length > BLOCK):
            at, end = b.i64(self.fresh("block")), b.i64(self.fresh("end"))
            body = [
                Let(end, b.min64(b.add(at, BLOCK), high)),
                *starts,
                *self.innermost(this, at, end),
                *flushes,
            ]
            nest: list[Stmt] = [b.loop(at, low, high, body, step=BLOCK)]
        else:
            nest = [*starts, *self.innermost(this, low, high), *flushes]
        if this.outer:
            nest = [*this.hoist, *nest]
        segment = next((f.step.segment for f in this.parts.values()), ())
        is_segment = False
        for x in reversed(loops[:-1]):
            if x.name in segment and not is_segment:
                is_segment = True
                nest = self.segment(this, nest)
            part = span if span is not None and x is loops[0] else (b.c64(0), self.size(x.extent))
            nest = [b.loop(self.counter(x), *part, nest)]
        return nest

    def segment(self, this: SweepBody, nest: list[Stmt]) -> list[Stmt]:
        """Return the loops over a part of a row, and what is folded there stored behind them."""
        parts = this.parts.values()
        out = [*(s for f in parts for s in f.begin()), *nest]
        for f in parts:
            s, value = f.step.statement, f.result()
            if combines(s) and s.base is not None:
                value = combine(s.op, self.element((s.base, s.subs), this.outer), value)
            out.append(self.store((s.target, s.subs), this.outer, value))
        return out

    def unrolled(self, this: SweepBody, vectors: int) -> list[Stmt]:
        """Return a sweep over a short row, vector by vector, on values that are in registers."""
        out: list[Stmt] = []
        inner, lanes = this.inner, self.walk.lanes
        length = self.size(inner.extent)
        for u in range(vectors):
            left = b.sub(length, u * lanes)
            key = (inner.name, u)
            if key not in self.held:
                point = RowPoint({inner.name: b.c64(u * lanes)})
                known = b.value_of(left)
                is_part = known < lanes if known is not None else u >= self.whole_vectors
                if is_part:
                    point.mask = Var(self.fresh("tail"), Mask(self.mask_dtype, lanes))
                    point.count = left
                    self.row.append(Let(point.mask, self.tail(point.count)))
                self.held[key] = point, self.scope(point, inner, self.row, [])
            point, scope = self.held[key]
            scope.statements = out
            self.vector_steps(this, point, scope, out, u)
        return out
