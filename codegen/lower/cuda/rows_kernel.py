"""The kernel of a row program: teams of threads walk rows, sweep after sweep.

    row, lane = of the thread
    for sweeps: acc = identity; for points of the row from lane on, a team apart: acc op value, ...
                acc = fold over the team
    lane 0 stores what there is once a row

A row whose values fit into registers is kept there from sweep to sweep (`RowProgram.kept`), each
thread in arrays of known length; other rows are read again, from caches as a rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcdsl.codegen import build as b
from tcdsl.codegen.loopir import (
    I64,
    Array,
    Assign,
    Const,
    Elem,
    Expr,
    Function,
    Let,
    Scalar,
    Stmt,
    Unroll,
    Var,
)
from tcdsl.codegen.lower.context import GpuContext
from tcdsl.codegen.lower.cuda.fold import Accumulator, Gather, Team
from tcdsl.codegen.lower.cuda.rows_program import RowProgram
from tcdsl.codegen.lower.expr import combine, convert
from tcdsl.codegen.lower.operands import compute_dtype, safe_name
from tcdsl.codegen.lower.rows_access import Loop
from tcdsl.codegen.lower.rows_align import Step
from tcdsl.codegen.lower.rows_space import Access, combines, points
from tcdsl.codegen.lower.rows_values import RowValues
from tcdsl.codegen.lower.vexpr import walk
from tcdsl.grammar import typed
from tcdsl.grammar.dtypes import FLOAT32

_REGISTERS_SM = 65536
_OTHER_REGISTERS = 32  # of a thread, beside the values of its row
_MOST_HELD = 96  # words of a thread: more leave too few threads to hide latency


def held_points(program: RowProgram, team: Team, n: int) -> int | None:
    """Return the points of sweep n that each thread keeps in registers, None if it keeps none."""
    loops = program.space.sweeps[n]
    alike = [m for m, other in enumerate(program.space.sweeps) if other == loops]
    length = points(loops).constant
    if not length or not any(program.kept[m] for m in alike):
        return None
    count = -(-length // team.lanes)
    budget = min(_REGISTERS_SM // team.threads - _OTHER_REGISTERS, _MOST_HELD)
    return count if program.live() * count <= budget else None


class RowKernel(RowValues):
    """Builds the body of a kernel over rows.

    Parameters
    ----------
    ctx, program
        The group and what it computes.
    team
        How threads are given to rows.
    unroll
        Points of a row that a thread has under way where it loops over them.
    """

    def __init__(self, ctx: GpuContext, program: RowProgram, team: Team, unroll: int) -> None:
        super().__init__(ctx, program.space)
        self.program = program
        self.team = team
        self.unroll = unroll
        self.rows = self.size(points(program.space.kept))
        self.slot: Expr = b.c64(0)  # of the row in its block
        self.lane: Expr = b.c64(0)  # of the thread in its row
        self.row_position: Expr = b.c64(0)  # of the thread's row among all rows
        self.position: list[Stmt] = []  # finds row and lane
        self.exists: Expr = b.all_of()  # without it a thread has nothing to do
        self.stores: Expr = b.all_of()  # without it a thread works along, but stores nothing
        self.held: dict[typed.Expr, Array] = {}
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
            thread = self.let("thread", thread)
            by, within = (b.div, b.mod) if team.walk == "rows" else (b.mod, b.div)
            apart = team.lanes if team.walk == "rows" else team.rows
            self.slot, self.lane = by(thread, apart), self.let("lane", within(thread, apart))
        elif team.lanes > 1:
            self.lane = self.let("lane", thread)
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
        self.enter(self.decoded(kept, row, self.row))

    def let(self, name: str, value: Expr) -> Var:
        """Declare a variable of the thread's position."""
        v = b.i64(name)
        self.position.append(Let(v, value))
        return v

    def decoded(self, loops: Sequence[Loop], position: Expr, out: list[Stmt]) -> dict[str, Expr]:
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
        form = self.space.linear[access]
        if form.without(tuple(self.kept)).terms:
            return super().address(access, counters)
        return self.base(access[0]), self.row_offset(form)

    # ---- sweeps

    def sweep(self, n: int, span: tuple[Expr, Expr] | None = None) -> list[Accumulator]:
        """Add a pass over the points of the row, or over [low, high) of them; return its folds.

        They are those of a lane, until `gather` makes them those of the row.
        """
        folds = [self.accumulator(s) for s in self.space.aligned.sweeps[n].steps if s.folds]
        held = held_points(self.program, self.team, n) if span is None else None
        body = self.looped(n, folds, span) if held is None else self.unrolled(n, folds, held)
        self.row += [a.start() for a in folds]
        self.row += body
        return folds

    def accumulator(self, step: Step) -> Accumulator:
        """Return the variable that a statement folds into."""
        s = step.statement
        name = self.operands.local(s.target.replace(".", "_") + "_acc")
        return Accumulator(b.var(name, compute_dtype(self.operands.buffer(s.target).dtype)), s.op)

    def gather(self, folds: Sequence[Accumulator]) -> None:
        """Fold accumulators over the lanes of a row."""
        self.row += self.gathering.fold(folds, self.slot, self.lane)

    def looped(
        self, n: int, folds: Sequence[Accumulator], span: tuple[Expr, Expr] | None
    ) -> list[Stmt]:
        """Return a loop over the points of the row, `lanes` apart."""
        loops = self.space.sweeps[n]
        low, high = span or (b.c64(0), self.size(points(loops)))
        at = self.point_variable(loops)
        body: list[Stmt] = []
        body += self.point(n, folds, self.decoded(loops, at, body), {})
        mark = Unroll(self.unroll)
        return [b.loop(at, b.add(low, self.lane), high, body, step=self.team.lanes, mark=mark)]

    def unrolled(self, n: int, folds: Sequence[Accumulator], count: int) -> list[Stmt]:
        """Return a pass over the points that a thread keeps in registers."""
        loops = self.space.sweeps[n]
        length = points(loops).constant
        assert length is not None, "rows in registers have a known length"
        arrays = []
        for e in self.program.kept[n]:
            array = Array(self.fresh("held"), Scalar(compute_dtype(e.dtype)), (count,))
            arrays.append(array)
            self.held[e] = array
        i, at = b.i64(self.operands.local("i")), self.point_variable(loops)
        body: list[Stmt] = [Let(at, b.add(b.mul(i, self.team.lanes), self.lane))]
        held = {e: Elem(x.name, (i,), x.type) for e, x in self.held.items()}
        body += self.point(n, folds, self.decoded(loops, at, body), held)
        full, rest = divmod(length, self.team.lanes)
        inside = b.any_of(b.compare("<", i, full), b.compare("<", self.lane, rest))
        nest = b.when(inside, body) if rest else b.block(body)
        return [*arrays, b.loop(i, 0, count, nest, mark=Unroll())]

    def invariants(self, n: int) -> dict[typed.Expr, Expr]:
        """Compute what is alike at all points of a sweep ahead of it."""
        known: dict[typed.Expr, Expr] = {}
        for e in self.program.invariants(n):
            value = self.scalar(e, {}, self.row, known=known)
            v = Var(self.fresh("t"), b.type_of(value))
            self.row.append(Let(v, value))
            known[e] = v
        return known

    def point_variable(self, loops: Sequence[Loop]) -> Var:
        """Return the variable of a loop over all points of a row."""
        return self.counter(loops[-1]) if len(loops) == 1 else b.i64(self.operands.local("at"))

    def point(
        self,
        n: int,
        folds: Sequence[Accumulator],
        counters: Mapping[str, Expr],
        held: Mapping[typed.Expr, Elem],
    ) -> list[Stmt]:
        """Return what a sweep does at a point.

        held: where the values of this and earlier sweeps are that stay in registers.
        """
        out: list[Stmt] = []
        new = [e for e in self.program.kept[n] if e in held]
        known = self.invariants(n) | {e: x for e, x in held.items() if e not in new}
        for e in sorted(new, key=lambda e: sum(1 for _ in walk(e))):  # parts before wholes
            out.append(Assign(held[e], self.scalar(e, counters, out, known=known)))
            known[e] = held[e]
        left = iter(folds)
        for step in self.space.aligned.sweeps[n].steps:
            target, subs = step.statement.target, step.statement.subs
            if not step.folds and not self.in_memory(target):
                continue
            value = self.scalar(self.program.values[target], counters, out, known=known)
            if step.folds:
                out.append(next(left).add(value))
            else:
                out.append(b.when(self.stores, self.store((target, subs), counters, value)))
        return out

    # ---- values of the row

    def finish(self, steps: Sequence[tuple[Step, Expr | None]], *, last: bool) -> None:
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


def whole_rows(ctx: GpuContext, program: RowProgram, team: Team, unroll: int) -> RowKernel:
    """Return the kernel in which each team walks rows from end to end."""
    nest = RowKernel(ctx, program, team, unroll)
    nest.open(b.cast(b.call("tc_block", type=b.INT), I64))
    aligned = program.space.aligned
    for n, sweep in enumerate(aligned.sweeps):
        nest.finish([(s, None) for s in sweep.before], last=False)
        folds = nest.sweep(n)
        nest.gather(folds)
        folded = [s for s in sweep.steps if s.folds]
        results: list[tuple[Step, Expr | None]] = [
            (s, a.var) for s, a in zip(folded, folds, strict=True)
        ]
        is_last = n == len(aligned.sweeps) - 1
        if is_last:
            results += [(s, None) for s in aligned.after]
        if results:
            nest.finish(results, last=is_last)
    return nest
