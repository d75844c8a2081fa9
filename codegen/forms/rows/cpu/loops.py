"""The innermost loop of a sweep over a row: whole turns of vectors, a masked tail, and its points.

With lanes == 1 it is scalar text under `omp simd`. What nobody reads again may be stored past the
cache.
"""

from __future__ import annotations

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.access import ONE, DimLoop
from tcdsl.codegen.forms.base.align import AlignedStatement
from tcdsl.codegen.forms.base.combine import combined
from tcdsl.codegen.forms.base.scalars import combine
from tcdsl.codegen.forms.base.space import Access, combines
from tcdsl.codegen.forms.rows.fold import Fold
from tcdsl.codegen.forms.rows.point import RowPoint, RowPoints
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Assign,
    Bin,
    Cast,
    Expr,
    If,
    Let,
    Mask,
    Simd,
    Stmt,
    Un,
    Var,
)
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed


@dataclass
class SweepBody:
    """A sweep in the making: its statements, its loops, and what is computed before the inner one.

    folds: those that leave one value a row; parts: those that leave one for each segment.
    outer: counters of all loops but the innermost.
    """

    steps: tuple[AlignedStatement, ...]
    folds: dict[str, Fold]  # by target
    parts: dict[str, Fold]
    inner: DimLoop
    outer: dict[str, Expr]
    hoist: list[Stmt]

    def fold_of(self, step: AlignedStatement) -> Fold:
        """Return the accumulators of a statement that folds."""
        return (self.parts if step.segment else self.folds)[step.statement.target]


class RowLoops(RowPoints):
    """The innermost loops of sweeps."""

    def innermost(self, this: SweepBody, low: Expr, high: Expr) -> list[Stmt]:
        """Return the loop over [low, high) of the innermost counter."""
        if self.walk.lanes == 1:
            var = self.counter(this.inner)
            body = self.scalar_point(this, RowPoint({**this.outer, this.inner.name: var}))
            folds = (*this.folds.values(), *this.parts.values())
            clauses = [(f.op, f.accumulators[0].name) for f in folds]
            clauses += [("|", f.unordered.name) for f in folds if f.unordered]
            mark = Simd(tuple(clauses))  # type: ignore[arg-type]
            return [b.loop(var, low, high, body, mark=mark)]
        stored = self.streamed(this)
        if not stored:
            return self.vector_loops(this, low, high)
        return [self.past_the_cache(this, low, high, stored)]

    def vector_loops(
        self, this: SweepBody, low: Expr, high: Expr, *, stream: bool = False
    ) -> list[Stmt]:
        """Return whole turns of unrolled vectors, then masked ones."""
        var = self.counter(this.inner)
        lanes, unroll = self.walk.lanes, self.walk.unroll
        turn = lanes * unroll
        count = b.sub(high, low)
        known = b.value_of(count)
        main = b.add(low, b.mul(b.div(count, turn), turn))
        out: list[Stmt] = []
        if known is None:
            name = b.i64(self.fresh("main"))
            out.append(Let(name, main))
            main = name
        if known is None or known >= turn:
            stmts: list[Stmt] = []
            for u in range(unroll):
                at = b.add(var, u * lanes)
                point = RowPoint({**this.outer, this.inner.name: at}, stream=stream)
                stmts += self.vector_point(this, point, u)
            out.append(b.loop(var, low, main, stmts, step=turn))
        if known is None and unroll > 1 and self.masks_one:
            left = b.sub(high, main)
            whole = b.i64(self.fresh("whole"))
            out.append(Let(whole, b.add(main, b.mul(b.div(left, lanes), lanes))))
            one = self.vector_point(this, RowPoint({**this.outer, this.inner.name: var}), 0)
            out.append(b.loop(var, main, whole, one, step=lanes))
            stmts = self.part_of_vector(this, whole, b.sub(high, whole))
            out.append(b.when(b.compare("<", whole, high), stmts))
        elif known is None or known % turn:
            masked = known is None or known % lanes != 0
            stmts = self.part_of_vector(this, var, b.sub(high, var) if masked else None)
            out.append(b.loop(var, main, high, stmts, step=lanes))
        return out

    @property
    def masks_one(self) -> bool:
        """Whether no vector that is whole is masked: a mask is some instructions.

        They count in rows of a few turns, which are walked whole.
        """
        is_whole = len(self.space.sweeps) > 1 or any(s.folds for s in self.space.aligned.steps)
        return is_whole and not self.ctx.machine.has_masks

    def part_of_vector(self, this: SweepBody, at: Expr, count: Expr | None) -> list[Stmt]:
        """Return a point of the first count lanes; None: all of them."""
        point = RowPoint({**this.outer, this.inner.name: at})
        if count is None:
            return self.vector_point(this, point, 0)
        point.mask = Var(self.fresh("tail"), Mask(self.mask_dtype, self.walk.lanes))
        point.count = count
        return [Let(point.mask, self.tail(count)), *self.vector_point(this, point, 0)]

    def streamed(self, this: SweepBody) -> list[Access]:
        """Return what the pass may store past the cache: whole rows that nobody reads again."""
        last = self.space.aligned.sweeps[-1].steps
        if not self.walk.stream or this.folds or this.parts or this.steps != last:
            return []
        stored = [(s.statement.target, s.statement.subs) for s in this.steps]
        stored = [a for a in stored if self.in_memory(a[0])]
        plain = all(
            self.space.linear[a].step(this.inner.name) == ONE and not self.stored(a[0]).is_half
            for a in stored
        )
        return stored if plain else []

    def past_the_cache(self, this: SweepBody, low: Expr, high: Expr, stored: list[Access]) -> Stmt:
        """Return the loops with aligned stores past the cache, where all rows can be aligned.

        A masked vector goes first, up to the first aligned element.
        """
        counters = {**this.outer, this.inner.name: low}
        size = self.walk.bits // 8
        line = self.walk.lanes * size
        at = []
        for access in stored:
            pointer, index = self.address(access, counters)
            at.append(Bin("&", Cast(b.offset(pointer, index), I64), b.c64(line - 1), I64))
        first = b.i64(self.fresh("misaligned"))
        low_var, head = b.i64(self.fresh("low")), b.i64(self.fresh("head"))
        ahead = Bin("&", Un("-", first, I64), b.c64(line - 1), I64)
        alike = b.all_of(
            *self.may_stream(stored),
            *(b.compare("==", x, first) for x in at[1:]),
            b.compare("==", b.mod(first, size), 0),
        )
        streaming = [
            Let(head, b.min64(b.div(ahead, size), b.sub(high, low))),
            *self.part_of_vector(this, low, head),
            Let(low_var, b.add(low, head)),
            *self.vector_loops(this, low_var, high, stream=True),
        ]
        plain = self.vector_loops(this, low, high)
        return b.block(Let(first, at[0]), If(alike, b.block(streaming), b.block(plain)))

    def may_stream(self, stored: list[Access]) -> tuple[Expr, ...]:
        """Return what has to hold for stores past the cache, beside their places being alike."""
        return ()

    # ---- points

    def scalar_point(self, this: SweepBody, point: RowPoint) -> list[Stmt]:
        """Return what happens at one point, in scalars."""
        out: list[Stmt] = []
        for step in this.steps:
            s = step.statement
            known: dict[typed.Expr, Expr] = {}
            self.invariants(s.value, point, this.inner, this.hoist, known)
            self.read_anyway(s.value, point, known, out)
            value = self.scalar(s.value, point.counters, out, point.local, known)
            if step.folds:
                x = Var(self.fresh("v"), b.type_of(value))
                out += this.fold_of(step).add(value, x)
                continue
            if combines(s) and s.base is not None:
                before = point.local.get((s.base, s.subs))
                if before is None:
                    before = self.element((s.base, s.subs), point.counters)
                value = combine(s.op, before, value)
            value = self.named(self.as_stored(s, value), out)
            point.local[s.target, s.subs] = value
            if self.in_memory(s.target):
                out.append(self.store((s.target, s.subs), point.counters, value))
        return out

    def vector_point(self, this: SweepBody, point: RowPoint, turn: int) -> list[Stmt]:
        """Return what happens at lanes points."""
        out: list[Stmt] = []
        scope = self.scope(point, this.inner, this.hoist, out)
        self.vector_steps(this, point, scope, out, turn)
        return out

    def vector_steps(
        self, this: SweepBody, point: RowPoint, scope: vexpr.LaneScope, out: list[Stmt], turn: int
    ) -> None:
        """Add what happens at lanes points to out."""
        for step in this.steps:
            s = step.statement
            value = scope.vector(s.value)
            if step.folds:
                f = this.fold_of(step)
                acc = f.accumulators[turn % len(f.accumulators)]
                out.append(Assign(acc, self.masked(point, combined(f.op, value, acc), acc)))
                continue
            self.settle(s, value, point, scope, out)
