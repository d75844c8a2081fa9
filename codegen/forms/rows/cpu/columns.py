"""Rows walked side by side: neighbours in memory belong to different rows, the lanes of vectors.

    softmax over the channels of X(n, c, h, w);   O(j) +=! A(i, j)

A block of columns, each of them a row of the group, is taken through all sweeps. What a row folds
or computes once is a vector of columns, kept in the workspace; so is what a later sweep reads
again. Sums are formed over several points of a row before they meet their accumulators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil
from typing import Protocol

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.access import ONE, DimLoop, Linear
from tcdsl.codegen.forms.base.align import AlignedStatement
from tcdsl.codegen.forms.base.combine import combined, operator
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.scalars import identity
from tcdsl.codegen.forms.base.space import Access, IterationSpace, points
from tcdsl.codegen.forms.rows import schedule
from tcdsl.codegen.forms.rows.fold import merged
from tcdsl.codegen.forms.rows.point import RowPoint, RowPoints, RowWalk
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Cast,
    Const,
    Expr,
    Let,
    Mask,
    Pointer,
    Scalar,
    Stmt,
    Var,
    Vector,
)
from tcdsl.codegen.loops.target import short_name
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed

LARGEST_BLOCK = 2048  # columns at most: accumulators of 8 KB
_BLOCKS = (64, 128, 256, 512, 1024, 2048)  # to choose from
_LEAST_BLOCK = 256  # runs of 1 KB of each point of a row
_TILE_POINTS = 1 << 16  # of the rows of a block: 256 KB stay in L2 from sweep to sweep
_USUAL_ROW = 256  # points of a row of any length
_ROWS = 8  # points of a row that are added up before they meet the accumulators
Span = tuple[Expr, Expr]


def pieces_of(ctx: Context, space: IterationSpace, values: Mapping[str, Value]) -> int:
    """Return how many pieces tasks are made of: rows, or blocks of columns."""
    if values.get("walk") != "columns" or not space.kept:
        return ctx.extent(points(space.kept))
    blocks = ceil(ctx.extent(space.kept[-1].extent) / block_of(ctx, space, values))
    return ctx.extent(points(space.kept[:-1])) * blocks


def block_knob(ctx: Context, space: IterationSpace) -> tuple[Knob, ...]:
    """Return how many columns may be taken through the sweeps together, where they are counted.

    Across rows that lie the other way there is no choice: a compiler takes a second for each.
    """
    if not _is_counted(ctx, space) or not schedule.columns_are_near(ctx, space):
        return ()
    usual = usual_block(ctx, space)
    fewer = (n for n in _BLOCKS if n < ctx.extent(space.kept[-1].extent))
    return (Knob("block", tuple(sorted({*fewer, usual}))),)


def _is_counted(ctx: Context, space: IterationSpace) -> bool:
    """Whether a row's points and the rows side by side are constants."""
    return all(map(ctx.knows, (space.row_length(), *(x.extent for x in space.kept[-1:]))))


def block_of(ctx: Context, space: IterationSpace, values: Mapping[str, Value]) -> int:
    """Return how many columns are taken through the sweeps together."""
    return int(values["block"]) if "block" in values else usual_block(ctx, space)


def usual_block(ctx: Context, space: IterationSpace) -> int:
    """Return the analytic choice of so many columns."""
    if len(space.sweeps) == 1 and not space.arena:
        return LARGEST_BLOCK
    length = max(1, ctx.extent(space.row_length())) if ctx.knows(space.row_length()) else _USUAL_ROW
    block = 1 << max(0, (_TILE_POINTS // length).bit_length() - 1)
    least = 16 if space.arena and length > _TILE_POINTS else _LEAST_BLOCK
    return min(max(block, least), LARGEST_BLOCK)


class Here(Protocol):
    """How statements are evaluated at a point of the columns."""

    def value(self, step: AlignedStatement) -> Expr:
        """Return the value of a statement."""

    def name(self, value: Expr) -> Expr:
        """Return a value under a name."""

    def settle(self, step: AlignedStatement, value: Expr) -> None:
        """Combine the value of a statement with what was there, name it and store it."""


class ColumnNest(RowPoints):
    """The statements of a block of columns.

    Parameters
    ----------
    block
        How many columns it has at most.

    Attributes
    ----------
    low, high
        The columns [low, high) of the block.
    """

    def __init__(self, ctx: Context, space: IterationSpace, walk: RowWalk, block: int) -> None:
        self.column = space.kept[-1]
        self.block = block
        # locals that outlive their sweep lie as [point of the row][column of the block]
        linears = {
            access: self._widened(linear) if access[0] in space.arena else linear
            for access, linear in space.linear.items()
        }
        super().__init__(ctx, replace(space, kept=space.kept[:-1], linear=linears), walk)
        self.low, self.high = b.i64(self.fresh("low")), b.i64(self.fresh("high"))
        self.tables: dict[str, Var] = {}  # per value of a row: one for each column
        self.start: Expr = self.low  # the column at which tables begin

    def _widened(self, linear: Linear) -> Linear:
        width = Size.const(self.block)
        terms = tuple((n, step * width) for n, step in linear.terms)
        return Linear((*terms, (self.column.name, ONE)), linear.const * width)

    # ---- workspace

    def workspace(self) -> tuple[list[Stmt], Expr]:
        """Return the declarations of all tables and arenas, and the bytes they take."""
        out: list[Stmt] = []
        at: Expr = b.c64(0)
        for step in self.space.aligned.steps:
            name = step.statement.target
            if not step.dims or step.folds:
                kind = self.kind(step)
                table = Var(self.fresh("row_values"), Pointer(kind.dtype))
                out.append(Let(table, Cast(b.offset(b.WORKSPACE, at), table.type)))
                self.tables[name] = table
                at = b.add(at, self.block * kind.dtype.size_bytes)
        for name, elements in self.space.arena.items():
            p = self.base(name)
            out.append(Let(p, Cast(b.offset(b.WORKSPACE, at), p.type)))
            size = self.stored(name).size_bytes
            at = b.add(at, b.mul(self.size(elements), self.block * size))
        return out, at

    def address(self, access: Access, counters: Mapping[str, Expr]) -> tuple[Var, Expr]:
        """Return the pointer and the position of an element; arenas begin at the block."""
        if access[0] in self.space.arena:
            column = self.column.name
            counters = {**counters, column: b.sub(counters[column], self.low)}
        return super().address(access, counters)

    def varies(self, e: typed.Expr, inner: DimLoop, point: RowPoint) -> bool:
        """Whether a leaf differs between neighbours: a table does, however many there are."""
        is_table = isinstance(e, typed.Read) and e.tensor in self.tables
        return is_table or super().varies(e, inner, point)

    def load(self, access: Access, point: RowPoint, inner: DimLoop) -> Expr:
        """Return lanes elements; values of rows come from their tables."""
        if access[0] in self.tables:
            step = next(s for s in self.space.aligned.steps if s.statement.target == access[0])
            return self.table(step, point)
        return super().load(access, point, inner)

    def kind(self, step: AlignedStatement) -> Vector | Scalar:
        """Return the type of a statement's values: vectors."""
        dtype = self.operands.buffer(step.statement.target).dtype.computed
        return Vector(dtype, self.walk.lanes)

    def place(self, step: AlignedStatement, p: RowPoint) -> Expr:
        """Return the address of a table at a point."""
        at = b.sub(p.counters[self.column.name], self.start)
        return b.offset(self.tables[step.statement.target], at)

    def table(self, step: AlignedStatement, p: RowPoint) -> Expr:
        """Return what a table holds at a point."""
        t = self.kind(step)
        assert isinstance(t, Vector)
        if p.mask is not None:
            return vexpr.vector_call("loadm", t, self.place(step, p), p.mask)
        return vexpr.vector_call("load", t, self.place(step, p))

    def keep(self, step: AlignedStatement, p: RowPoint, value: Expr) -> Stmt:
        """Return the store into a table."""
        t = self.kind(step)
        assert isinstance(t, Vector)
        name = f"v{t.lanes}{short_name(t.dtype)}"
        if p.mask is not None:
            return b.do(f"tc_storet_{name}", self.place(step, p), p.mask, value)
        return b.do(f"tc_store_{name}", self.place(step, p), value)

    # ---- a block

    def build(self) -> list[Stmt]:
        """Return all sweeps over the block, and what is computed once a row between them."""
        out: list[Stmt] = []
        ready: list[
            tuple[AlignedStatement, bool]
        ] = []  # to be finished; whether its table holds a fold
        for n, sweep in enumerate(self.space.aligned.sweeps):
            ready += [(s, False) for s in sweep.before]
            out += self.once(ready)
            out += self.sweep(n, None)
            ready = [(s, True) for s in sweep.steps if s.folds]
        return [*out, *self.finished()]

    def finished(self) -> list[Stmt]:
        """Return what follows the last sweep, whose folds are in their tables."""
        folds = [(s, True) for w in self.space.aligned.sweeps[-1:] for s in w.steps if s.folds]
        return self.once([*folds, *((s, False) for s in self.space.aligned.after)])

    def once(self, ready: list[tuple[AlignedStatement, bool]]) -> list[Stmt]:
        """Return a pass along the columns that finishes values of rows."""
        if not ready:
            return []
        hoist: list[Stmt] = []
        self.hoisted = {}

        def at(p: RowPoint) -> list[Stmt]:
            out: list[Stmt] = []
            here = self.here(p, hoist, out)
            for step, folded in ready:
                here.settle(step, self.table(step, p) if folded else here.value(step))
                s = step.statement
                out.append(self.keep(step, p, p.local[s.target, s.subs]))
            return out

        body = self.along(at)
        return [*hoist, *body]

    def sweep(self, n: int, span: Span | None) -> list[Stmt]:
        """Return a pass over the points of all rows of the block, from where its folds start.

        span: the part of its outermost loop to walk.
        """
        return [*self.starts(n), *self.walked(n, span)]

    def starts(self, n: int) -> list[Stmt]:
        """Return the tables of a pass's folds laid out, each with what its fold starts from."""
        folds = [s for s in self.space.aligned.sweeps[n].steps if s.folds]
        if not folds:
            return []
        return self.along(lambda p: [self.keep(s, p, self.neutral(s)) for s in folds])

    def walked(self, n: int, span: Span | None) -> list[Stmt]:
        """Return a pass that goes on with what the tables of its folds hold; span: see `sweep`."""
        steps, loops = self.space.aligned.sweeps[n].steps, self.space.sweeps[n]
        folds = [s for s in steps if s.folds]
        at_once = _ROWS if len(folds) == len(steps) else 2 if folds else 1
        inner, first, last = loops[-1], b.expr(0), self.size(loops[-1].extent)
        if span is not None and len(loops) == 1:
            first, last = span
        row, main = self.counter(inner), b.i64(self.fresh("main"))
        outer: dict[str, Expr] = {x.name: self.counter(x) for x in loops[:-1]}
        whole = b.mul(b.div(b.sub(last, first), at_once), at_once)
        nest: list[Stmt] = [Let(main, b.add(first, whole))]
        for begin, end, rows in ((first, main, at_once), (main, last, 1)):
            body = self.points(steps, {**outer, inner.name: row}, inner.name, rows)
            nest.append(b.loop(row, begin, end, body, step=rows))
        for x in reversed(loops[:-1]):
            part = span if span is not None and x is loops[0] else (b.c64(0), self.size(x.extent))
            nest = [b.loop(self.counter(x), *part, nest)]
        return nest

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
                at_row = {**counters, row: b.add(counters[row], u), **p.counters}
                self.hoisted = hoisted[u]
                here = self.here(replace(p, counters=at_row, local={}), hoist, out)
                for step in steps:
                    value = here.value(step)
                    if step.folds:
                        terms.setdefault(step.statement.target, []).append(here.name(value))
                    else:
                        here.settle(step, value)
            for step in steps:
                if step.folds:
                    op = operator(step.statement.op)
                    new = merged(op, tuple(terms[step.statement.target]))
                    out.append(self.keep(step, p, self.added(op, self.table(step, p), new)))
            return out

        body = self.along(at)
        return [*hoist, *body]

    def here(self, point: RowPoint, hoist: list[Stmt], out: list[Stmt]) -> Here:
        """Return how statements are evaluated at a point of the columns: in vectors."""
        return _InLanes(self, point, self.scope(point, self.column, hoist, out), out)

    def added(self, op: str, held: Expr, new: Expr) -> Expr:
        """Return what a table holds and what is new of it, combined."""
        return combined(op, new, held)

    def neutral(self, step: AlignedStatement) -> Expr:
        """Return the start of a fold in all lanes."""
        start = identity(step.statement.op, self.kind(step).dtype)
        assert isinstance(start, Const)
        return Const(start.value, self.kind(step))

    def along(self, body: Callable[[RowPoint], list[Stmt]]) -> list[Stmt]:
        """Return the loops over the columns of the block: whole vectors, then one masked."""
        lanes = self.walk.lanes
        var, main = b.i64(self.fresh("c")), b.i64(self.fresh("main"))
        whole = b.mul(b.div(b.sub(self.high, self.low), lanes), lanes)
        rest = Var(self.fresh("tail"), Mask(self.mask_dtype, lanes))
        left = b.sub(self.high, var)
        masked = RowPoint({self.column.name: var}, rest, left)
        return [
            Let(main, b.add(self.low, whole)),
            b.loop(var, self.low, main, body(RowPoint({self.column.name: var})), step=lanes),
            b.loop(var, main, self.high, Let(rest, self.tail(left)), body(masked), step=lanes),
        ]


@dataclass(frozen=True, slots=True)
class _InLanes:
    nest: ColumnNest
    point: RowPoint
    scope: vexpr.LaneScope
    out: list[Stmt]

    def value(self, step: AlignedStatement) -> Expr:
        return self.scope.vector(step.statement.value)

    def name(self, value: Expr) -> Expr:
        return self.scope.name(value)

    def settle(self, step: AlignedStatement, value: Expr) -> None:
        self.nest.settle(step.statement, value, self.point, self.scope, self.out)
