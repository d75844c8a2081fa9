"""Threads of a block on their rows: which row and lane a thread has, what there is once a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcdsl.codegen.forms.base.access import DimLoop
from tcdsl.codegen.forms.base.align import AlignedStatement
from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.scalars import combine, convert
from tcdsl.codegen.forms.base.space import Access, combines, points
from tcdsl.codegen.forms.rows.cuda.fold import Accumulator, Gather, Team
from tcdsl.codegen.forms.rows.cuda.program import RowProgram
from tcdsl.codegen.forms.rows.values import RowValues
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import I64, Const, Expr, Function, Let, Stmt, Var
from tcdsl.codegen.loops.names import safe_name
from tcdsl.grammar.types.dtypes import FLOAT32


class RowTeam(RowValues):
    """Builds what a thread of a team does ahead of a row's points and behind them.

    Parameters
    ----------
    ctx, program
        The group and what it computes.
    team
        How the threads of a block are given to rows.
    """

    def __init__(self, ctx: GpuContext, program: RowProgram, team: Team) -> None:
        super().__init__(ctx, program.space)
        self.program = program
        self.team = team
        self.rows = self.size(points(program.space.kept))
        self.slot: Expr = b.c64(0)  # of the row in its block
        self.lane: Expr = b.c64(0)  # of the thread in its row
        self.row_position: Expr = b.c64(0)  # of the thread's row among all rows
        self.position: list[Stmt] = []  # finds row and lane
        self.exists: Expr = b.all_of()  # without it a thread has nothing to do
        self.stores: Expr = b.all_of()  # without it a thread works along, but stores nothing
        self.gathering = Gather(team, ctx.prefix, ctx.operands.local)

    @property
    def functions(self) -> tuple[Function, ...]:
        """The functions that the body calls."""
        return tuple(self.gathering.functions.values())

    def body(self) -> Stmt:
        """Return the kernel's body."""
        return b.block(self.position, b.when(self.exists, self.row))

    # ---- which row

    def blocks(self) -> Expr:
        """Return how many blocks there are for all rows."""
        return b.ceil_div(self.rows, self.team.rows)

    def open(self, block: Expr) -> None:
        """Find the row and the lane of a thread in a block of `blocks()`."""
        team, kept = self.team, self.space.kept
        thread: Expr = b.cast(b.call("tc_thread", type=b.INT), I64)
        if team.lanes > 1 and team.rows > 1:
            thread = self.let(self.operands.local("thread"), thread)
            by, within = (b.div, b.mod) if team.along == "rows" else (b.mod, b.div)
            apart = team.lanes if team.along == "rows" else team.rows
            self.slot, self.lane = by(thread, apart), within(thread, apart)
            self.lane = self.let(self.operands.local("lane"), self.lane)
        elif team.lanes > 1:
            self.lane = self.let(self.operands.local("lane"), thread)
        else:
            self.slot = thread
        if not kept:  # one row, of the first team
            self.stores = b.compare("==", self.slot, 0)
            self.enter({})
            return
        at = b.add(b.mul(block, team.rows), self.slot)
        name = safe_name(kept[-1].name) if len(kept) == 1 else self.operands.local("row")
        if b.value_of(b.mod(self.rows, team.rows)) == 0:
            row = self.let(name, at)
        elif team.lanes == 1 or (team.is_whole_warps and not team.meets_at_barriers):
            row = self.let(name, at)
            self.exists = b.compare("<", row, self.rows)
        else:  # all threads meet, so those without a row walk the last one
            wanted = self.let(self.operands.local("wanted"), at)
            row = self.let(name, b.min64(wanted, b.sub(self.rows, 1)))
            self.stores = b.compare("<", wanted, self.rows)
        self.row_position = row
        lets: list[Let] = []
        self.enter(self.decoded(kept, row, lets))
        self.row += lets

    def let(self, name: str, value: Expr) -> Var:
        """Declare a variable of the thread's position."""
        v = b.i64(name)
        self.position.append(Let(v, value))
        return v

    def decoded(self, loops: Sequence[DimLoop], position: Expr, out: list[Let]) -> dict[str, Expr]:
        """Return the counters of nested loops at a position in all their points."""
        counters: dict[str, Expr] = {}
        for k, loop in enumerate(loops):
            at = b.div(position, self.size(points(tuple(loops[k + 1 :]))))
            if k:
                at = b.mod(at, self.size(loop.extent))
            if not isinstance(at, Var | Const):
                out.append(Let(self.counter(loop), at))
                at = self.counter(loop)
            counters[loop.name] = at
        return counters

    def address(self, access: Access, counters: Mapping[str, Expr]) -> tuple[Var, Expr]:
        """Return a pointer and the position behind it: the row's where a row has several."""
        linear = self.space.linear[access]
        if linear.without(tuple(self.kept)).terms:
            return super().address(access, counters)
        return self.base(access[0]), self.row_offset(linear)

    # ---- folds

    def accumulator(self, step: AlignedStatement) -> Accumulator:
        """Return the variable that a statement folds into."""
        s = step.statement
        name = self.operands.local(s.target.replace(".", "_") + "_acc")
        return Accumulator(b.var(name, self.operands.buffer(s.target).dtype.computed), s.op)

    def gather(self, folds: Sequence[Accumulator]) -> None:
        """Fold accumulators over the lanes of a row."""
        self.row += self.gathering.fold(folds, self.slot, self.lane)

    # ---- values of the row

    def finish(self, steps: Sequence[tuple[AlignedStatement, Expr | None]], *, last: bool) -> None:
        """Compute statements with one value a row, or take the results of folds, and store them.

        last: nobody needs them after, so that the first lane alone does it.
        """
        out: list[Stmt] = []
        stores: list[Stmt] = []
        for step, result in steps:
            s = step.statement
            value = result
            if value is None:
                value = self.scalar(self.program.values[s.target], {}, out)
            where = out if last else stores
            if combines(s) and s.base is not None and s.base not in self.values:
                before = self.element((s.base, s.subs), {})
                where.append(self.store((s.target, s.subs), {}, combine(s.op, before, value)))
                continue
            if combines(s) and s.base is not None:
                value = combine(s.op, self.values[s.base], value)
            self.values[s.target] = value = self.named(s.target, value, out)
            if self.in_memory(s.target):
                where.append(self.store((s.target, s.subs), {}, value))
        if last:
            self.row.append(b.when(self.is_first(), out))
        else:
            self.row += [*out, *([b.when(self.is_first(), stores)] if stores else [])]

    def is_first(self) -> Expr:
        """Return whether a thread is the one that stores what there is once a row."""
        first = b.compare("==", self.lane, 0) if self.team.lanes > 1 else b.all_of()
        return b.all_of(self.stores, first)

    def named(self, target: str, value: Expr, out: list[Stmt]) -> Expr:
        """Return a value of the row as those who read the target see it."""
        buffer = self.operands.buffer(target)
        if buffer.role != "temp" and buffer.dtype.is_half:  # as if it were stored
            value = convert(value, FLOAT32, buffer.dtype)
        if isinstance(value, Var | Const):
            return value
        name = self.operands.local(target.replace(".", "_") + "_value")
        out.append(Let(Var(name, b.type_of(value)), value))
        return Var(name, b.type_of(value))
