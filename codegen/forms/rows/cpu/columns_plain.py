"""Columns side by side in the compiler's own vectors: where types of several widths meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tcdsl.codegen.forms.base.align import AlignedStatement
from tcdsl.codegen.forms.base.combine import combined
from tcdsl.codegen.forms.base.scalars import combine, identity
from tcdsl.codegen.forms.base.space import Access, combines
from tcdsl.codegen.forms.rows.cpu.columns import ColumnNest, Here
from tcdsl.codegen.forms.rows.point import RowPoint
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Assign, Expr, Load, Scalar, Simd, Stmt
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed


class PlainColumnNest(ColumnNest):
    """The statements of a block of columns, each loop along them scalar text under `omp simd`."""

    def kind(self, step: AlignedStatement) -> Scalar:
        """Return the type of a statement's values."""
        return Scalar(self.operands.buffer(step.statement.target).dtype.computed)

    def table(self, step: AlignedStatement, p: RowPoint) -> Load:
        """Return what a table holds at a point."""
        at = b.sub(p.counters[self.column.name], self.start)
        return b.load(self.tables[step.statement.target], at)

    def keep(self, step: AlignedStatement, p: RowPoint, value: Expr) -> Stmt:
        """Return the store into a table."""
        return Assign(self.table(step, p), value)

    def element(self, access: Access, counters: Mapping[str, Expr]) -> Expr:
        """Return an element in its computing type; values of rows come from their tables."""
        if access[0] in self.tables:
            step = next(s for s in self.space.aligned.steps if s.statement.target == access[0])
            return self.table(step, RowPoint(counters))
        return super().element(access, counters)

    def neutral(self, step: AlignedStatement) -> Expr:
        """Return the start of a fold."""
        return identity(step.statement.op, self.kind(step).dtype)

    def along(self, body: Callable[[RowPoint], list[Stmt]]) -> list[Stmt]:
        """Return the loop over the columns of the block."""
        var = b.i64(self.fresh("c"))
        point = RowPoint({self.column.name: var})
        return [b.loop(var, self.low, self.high, body(point), mark=Simd())]

    def here(self, point: RowPoint, hoist: list[Stmt], out: list[Stmt]) -> Here:
        """Return how statements are evaluated at a point of the columns: as scalars."""
        return _AsScalars(self, point, hoist, out)

    def added(self, op: str, held: Expr, new: Expr) -> Expr:
        """Return what a table holds and what is new of it, combined."""
        return combined(op, held, new)


@dataclass(frozen=True, slots=True)
class _AsScalars:
    nest: PlainColumnNest
    point: RowPoint
    hoist: list[Stmt]
    out: list[Stmt]

    def value(self, step: AlignedStatement) -> Expr:
        nest, p, e = self.nest, self.point, step.statement.value
        known: dict[typed.Expr, Expr] = {}
        nest.invariants(e, p, nest.column, self.hoist, known)
        nest.read_anyway(e, p, known, self.out)
        return nest.scalar(e, p.counters, self.out, p.local, known)

    def name(self, value: Expr) -> Expr:
        return self.nest.named(value, self.out)

    def settle(self, step: AlignedStatement, value: Expr) -> None:
        nest, p, s = self.nest, self.point, step.statement
        if combines(s) and s.base is not None:
            before = p.local.get((s.base, s.subs))
            held = nest.element((s.base, s.subs), p.counters) if before is None else before
            value = combine(s.op, held, value)
        value = self.name(nest.as_stored(s, value))
        p.local[s.target, s.subs] = value
        if nest.in_memory(s.target):
            self.out.append(nest.store((s.target, s.subs), p.counters, value))
