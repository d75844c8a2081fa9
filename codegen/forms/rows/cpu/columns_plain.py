"""Columns side by side in the compiler's own vectors: where types of several widths meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tcdsl.codegen.forms.base.align import AlignedStatement
from tcdsl.codegen.forms.base.combine import combined, operator
from tcdsl.codegen.forms.base.scalars import combine, identity
from tcdsl.codegen.forms.base.space import Access, combines
from tcdsl.codegen.forms.rows.cpu.columns import ColumnNest
from tcdsl.codegen.forms.rows.fold import merged
from tcdsl.codegen.forms.rows.point import RowPoint
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Assign, Const, Expr, Let, Load, Scalar, Simd, Stmt, Var
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

    def once(self, ready: list[tuple[AlignedStatement, bool]]) -> list[Stmt]:
        """Return a pass along the columns that finishes values of rows."""
        if not ready:
            return []
        hoist: list[Stmt] = []
        self.hoisted = {}

        def at(p: RowPoint) -> list[Stmt]:
            out: list[Stmt] = []
            for step, folded in ready:
                value = self.table(step, p) if folded else self.value(step, p, hoist, out)
                self.finish(step, value, p, out)
                out.append(self.keep(step, p, p.local[step.statement.target, step.statement.subs]))
            return out

        body = self.along(at)
        return [*hoist, *body]

    def points(
        self, steps: tuple[AlignedStatement, ...], counters: Mapping[str, Expr], row: str, rows: int
    ) -> list[Stmt]:
        """Return what happens at some points of each row, along the columns."""
        hoist: list[Stmt] = []
        hoisted: list[dict[typed.Expr, Expr]] = [{} for _ in range(rows)]

        def at(p: RowPoint) -> list[Stmt]:
            out: list[Stmt] = []
            terms: dict[str, list[Expr]] = {}
            for u in range(rows):
                point = RowPoint({**counters, row: b.add(counters[row], u), **p.counters})
                self.hoisted = hoisted[u]
                for step in steps:
                    value = self.value(step, point, hoist, out)
                    if step.folds:
                        folded = terms.setdefault(step.statement.target, [])
                        folded.append(self.named(value, out))
                    else:
                        self.finish(step, value, point, out)
            for step in steps:
                if step.folds:
                    op = operator(step.statement.op)
                    new = merged(op, tuple(terms[step.statement.target]))
                    out.append(self.keep(step, p, combined(op, self.table(step, p), new)))
            return out

        body = self.along(at)
        return [*hoist, *body]

    def value(
        self, step: AlignedStatement, p: RowPoint, hoist: list[Stmt], out: list[Stmt]
    ) -> Expr:
        """Return the value of a statement at a point."""
        e = step.statement.value
        known: dict[typed.Expr, Expr] = {}
        self.invariants(e, p, self.column, hoist, known)
        self.read_anyway(e, p, known, out)
        return self.scalar(e, p.counters, out, p.local, known)

    def finish(self, step: AlignedStatement, value: Expr, p: RowPoint, out: list[Stmt]) -> None:
        """Combine the value of a statement with what was there, name it and store it."""
        s = step.statement
        if combines(s) and s.base is not None:
            before = p.local.get((s.base, s.subs))
            value = combine(
                s.op,
                self.element((s.base, s.subs), p.counters) if before is None else before,
                value,
            )
        value = self.named(self.as_stored(s, value), out)
        p.local[s.target, s.subs] = value
        if self.in_memory(s.target):
            out.append(self.store((s.target, s.subs), p.counters, value))

    def named(self, value: Expr, out: list[Stmt]) -> Expr:
        """Return a value under a name."""
        if isinstance(value, Var | Const):
            return value
        var = Var(self.fresh("v"), b.type_of(value))
        out.append(Let(var, value))
        return var
