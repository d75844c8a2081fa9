"""The kernel of a row program: teams of threads walk rows, sweep after sweep.

    row, lane = of the thread
    for sweeps: acc = identity; for points of the row from lane on, a team apart: acc op value, ...
                acc = fold over the team
    lane 0 stores what there is once a row

A row whose values fit into registers is kept there from sweep to sweep (`RowProgram.kept`), each
thread in arrays of known length; other rows are read again, from caches as a rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.access import DimLoop
from tcdsl.codegen.forms.base.align import AlignedStatement
from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.scalars import narrow, widen
from tcdsl.codegen.forms.base.space import Access, points
from tcdsl.codegen.forms.rows.cuda.fold import Accumulator, Team
from tcdsl.codegen.forms.rows.cuda.pieces import array_of, copy
from tcdsl.codegen.forms.rows.cuda.program import RowProgram
from tcdsl.codegen.forms.rows.cuda.team import RowTeam
from tcdsl.codegen.forms.rows.cuda.vectors import aligned, copied, read_nodes
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    TRUTH,
    Array,
    Assign,
    Const,
    Elem,
    Expr,
    If,
    Let,
    Scalar,
    Stmt,
    Unroll,
    Var,
)
from tcdsl.codegen.loops.walk import all_exprs, variables
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed

_Place = tuple[Array, Expr]  # an array and a position in it

_REGISTERS_SM = 65536
_OTHER_REGISTERS = 32  # of a thread, beside the values of its row
_MOST_HELD = 96  # words of a thread: more leave too few threads to hide latency


@dataclass(frozen=True, slots=True)
class TeamWalk:
    """How rows are walked.

    width: neighbours that a lane takes at once. unroll: pieces of that many that a thread has
    under way where it loops over them.
    """

    team: Team
    width: int
    unroll: int


def held_points(program: RowProgram, walk: TeamWalk, n: int) -> int | None:
    """Return the points of sweep n that each thread keeps in registers, None if it keeps none."""
    length, loops = program.lengths[n], program.space.sweeps[n]
    alike = (m for m, other in enumerate(program.space.sweeps) if other == loops)
    if not length or not any(program.kept[m] for m in alike):
        return None
    count = -(-length // (walk.team.lanes * walk.width)) * walk.width
    budget = min(_REGISTERS_SM // walk.team.threads - _OTHER_REGISTERS, _MOST_HELD)
    return count if program.live * count <= budget else None


@dataclass(frozen=True, slots=True)
class _SweepLoop:
    """A sweep as one loop walks it: its folds, what is known ahead, what is copied in pieces."""

    n: int
    folds: Sequence[Accumulator]
    known: Mapping[typed.Expr, Expr]
    copied: frozenset[Access]


class RowKernel(RowTeam):
    """Builds the body of a kernel over rows.

    Parameters
    ----------
    ctx, program
        The group and what it computes.
    walk
        How rows are walked.
    """

    def __init__(self, ctx: GpuContext, program: RowProgram, walk: TeamWalk) -> None:
        super().__init__(ctx, program, walk.team)
        self.gpu = ctx
        self.walk = walk
        self.held: dict[typed.Expr, Array] = {}
        self.is_aligned = aligned(ctx, program, walk.width)
        if not isinstance(self.is_aligned, Const):
            v = Var(self.operands.local("aligned"), TRUTH)
            self.position.append(Let(v, self.is_aligned))
            self.is_aligned = v

    def sweep(self, n: int, span: tuple[Expr, Expr] | None = None) -> list[Accumulator]:
        """Add a pass over the points of the row, or over [low, high) of them; return its folds.

        They are those of a lane, until `gather` makes them those of the row.
        """
        folds = [self.accumulator(s) for s in self.space.aligned.sweeps[n].steps if s.folds]
        count = held_points(self.program, self.walk, n) if span is None else None
        arrays = [] if count is None else self.hold(n, count)
        known = self.invariants(n)
        wide = copied(self.gpu, self.program, n, self.walk.width) & self.touched(n, known)

        def pieces(wide: frozenset[Access]) -> Stmt:
            this = _SweepLoop(n, folds, known, wide)
            return self.looped(this, span) if count is None else self.unrolled(this, count)

        body = pieces(wide)
        if wide and not isinstance(self.is_aligned, Const):
            body = If(self.is_aligned, body, pieces(frozenset()))
        self.row += [*(a.start() for a in folds), *arrays, body]
        return folds

    def touched(self, n: int, known: Iterable[typed.Expr]) -> frozenset[Access]:
        """Return what a sweep reads and writes at each point where some values are known."""
        earlier = [e for e in self.held if e not in self.program.kept[n]]
        reads = read_nodes(self.program.sweep_values(n), (*known, *earlier))
        steps = self.space.aligned.sweeps[n].steps
        stored = ((s.statement.target, s.statement.subs) for s in steps)
        return frozenset((*((r.tensor, r.subs) for r in reads), *stored))

    def hold(self, n: int, count: int) -> list[Stmt]:
        """Return the declarations of arrays for the values that a sweep is the first to keep."""
        for e in self.program.kept[n]:
            kind = Scalar(e.dtype.computed)
            self.held[e] = Array(self.fresh("held"), kind, (count,))
        return [self.held[e] for e in self.program.kept[n]]

    def looped(self, sweep: _SweepLoop, span: tuple[Expr, Expr] | None) -> Stmt:
        """Return a loop over pieces of the row, `lanes` apart."""
        width, loops = self.walk.width, self.space.sweeps[sweep.n]
        mark = Unroll(self.walk.unroll)
        if span is None and self.team.lanes * width == 1:  # a nest needs no divisions
            nest = b.block(self.piece(sweep, {x.name: self.counter(x) for x in loops}, {}))
            for x in reversed(loops):
                nest = b.loop(self.counter(x), 0, self.size(x.extent), nest, mark=mark)
                mark = Unroll(1)
            return nest
        low, high = span or (b.c64(0), b.div(self.size(points(loops)), width))
        at = self.point_variable(loops)
        piece = at if width == 1 else b.i64(self.operands.local("piece"))
        lets: list[Let] = [] if width == 1 else [Let(at, b.mul(piece, width))]
        body = self.piece(sweep, self.decoded(loops, at, lets), {})
        body = [*_used(lets, body), *body]
        return b.loop(piece, b.add(low, self.lane), high, body, step=self.team.lanes, mark=mark)

    def unrolled(self, sweep: _SweepLoop, count: int) -> Stmt:
        """Return a pass over the points that a thread keeps in registers."""
        width, loops = self.walk.width, self.space.sweeps[sweep.n]
        length = self.program.lengths[sweep.n]
        assert length is not None, "rows in registers have a known length"
        i, at = b.i64(self.operands.local("i")), self.point_variable(loops)
        piece = b.add(b.mul(i, self.team.lanes), self.lane)
        lets = [Let(at, b.mul(piece, width))]
        held = {e: (x, b.mul(i, width)) for e, x in self.held.items()}
        body = self.piece(sweep, self.decoded(loops, at, lets), held)
        body = [*_used(lets, body), *body]
        full, rest = divmod(length // width, self.team.lanes)
        inside = b.any_of(b.compare("<", i, full), b.compare("<", self.lane, rest))
        nest = b.when(inside, body) if rest else b.block(body)
        return b.loop(i, 0, count // width, nest, mark=Unroll())

    def point_variable(self, loops: Sequence[DimLoop]) -> Var:
        """Return the variable of a loop over all points of a row."""
        return self.counter(loops[-1]) if len(loops) == 1 else b.i64(self.operands.local("at"))

    def piece(
        self, sweep: _SweepLoop, counters: Mapping[str, Expr], held: Mapping[typed.Expr, _Place]
    ) -> list[Stmt]:
        """Return what a sweep does at a piece of the row: a point, or `width` neighbours.

        held: the arrays, and the first place of the piece in them, of the values of this and
        earlier sweeps that stay in registers.
        """
        width, n = self.walk.width, sweep.n
        if width == 1:
            return self.point(sweep, counters, _elements(held, b.c64(0)), {})
        inner = self.space.sweeps[n][-1].name
        k = b.i64(self.operands.local("k"))
        first: list[Stmt] = []
        last: list[Stmt] = []
        local: dict[Access, Elem] = {}

        def take(access: Access, *, load: bool) -> None:
            array = array_of(self, access, width)
            move = copy(self, access, array, counters, load=load)
            first.extend([array, move] if load else [array])
            last.extend([] if load else [b.when(self.stores, move)])
            local[access] = Elem(array.name, (k,), array.type)

        known = {*sweep.known, *(e for e in held if e not in self.program.kept[n])}
        for r in read_nodes(self.program.sweep_values(n), known):
            if (r.tensor, r.subs) in sweep.copied.difference(local):
                take((r.tensor, r.subs), load=True)
        for step in self.space.aligned.sweeps[n].steps:
            access = (step.statement.target, step.statement.subs)
            if not step.folds and self.in_memory(access[0]) and access in sweep.copied:
                take(access, load=False)
        neighbour = {**counters, inner: b.add(counters[inner], k)}
        body = self.point(sweep, neighbour, _elements(held, k), local)
        return [*first, b.loop(k, 0, width, body, mark=Unroll()), *last]

    def point(
        self,
        sweep: _SweepLoop,
        counters: Mapping[str, Expr],
        held: Mapping[typed.Expr, Elem],
        local: Mapping[Access, Elem],
    ) -> list[Stmt]:
        """Return what a sweep does at a point.

        held: values that stay in registers; local: elements that are copied from memory before,
        or to memory after.
        """
        out: list[Stmt] = []
        kept = self.program.kept[sweep.n]
        new = [e for e in kept if e in held]
        known = dict(sweep.known) | {e: x for e, x in held.items() if e not in new}
        for r in read_nodes(self.program.sweep_values(sweep.n), known):
            if (r.tensor, r.subs) in local:
                known[r] = widen(local[r.tensor, r.subs], self.stored(r.tensor))
        for e in sorted(new, key=lambda e: sum(1 for _ in vexpr.walk(e))):  # parts before wholes
            out.append(Assign(held[e], self.scalar(e, counters, out, known=known)))
            known[e] = held[e]
        left = iter(sweep.folds)
        for step in self.space.aligned.sweeps[sweep.n].steps:
            target, subs = step.statement.target, step.statement.subs
            if not step.folds and not self.in_memory(target):
                continue
            value = self.scalar(self.program.values[target], counters, out, known=known)
            if step.folds:
                out.append(next(left).add(value))
            elif (target, subs) in local:
                out.append(Assign(local[target, subs], narrow(value, self.stored(target))))
            else:
                out.append(b.when(self.stores, self.store((target, subs), counters, value)))
        return out

    def invariants(self, n: int) -> dict[typed.Expr, Expr]:
        """Compute what is alike at all points of a sweep ahead of it."""
        known: dict[typed.Expr, Expr] = {}
        for e in self.program.invariants(n):
            alike = self.where_points(e, self.space.sweeps[n])
            value = self.scalar(alike, {}, self.row, known=known)
            v = Var(self.fresh("t"), b.type_of(value))
            self.row.append(Let(v, value))
            known[e] = v
        return known


def whole_rows(ctx: GpuContext, program: RowProgram, walk: TeamWalk) -> RowKernel:
    """Return the kernel in which each team walks rows from end to end."""
    nest = RowKernel(ctx, program, walk)
    nest.open(b.cast(b.call("tc_block", type=b.INT), I64))
    aligned = program.space.aligned
    for n, sweep in enumerate(aligned.sweeps):
        nest.finish([(s, None) for s in sweep.before], last=False)
        folds = nest.sweep(n)
        nest.gather(folds)
        folded = [s for s in sweep.steps if s.folds]
        results: list[tuple[AlignedStatement, Expr | None]] = [
            (s, a.var) for s, a in zip(folded, folds, strict=True)
        ]
        is_last = n == len(aligned.sweeps) - 1
        if is_last:
            results += [(s, None) for s in aligned.after]
        if results:
            nest.finish(results, last=is_last)
    return nest


def _elements(held: Mapping[typed.Expr, _Place], k: Expr) -> dict[typed.Expr, Elem]:
    return {e: Elem(x.name, (b.add(first, k),), x.type) for e, (x, first) in held.items()}


def _used(lets: Sequence[Let], body: Sequence[Stmt]) -> list[Let]:
    """Return the declarations that body needs."""
    names = {v for s in body for e in all_exprs(s) for v in variables(e)}
    found: list[Let] = []
    for let in reversed(lets):
        if let.var.name in names:
            names |= variables(let.value)
            found.insert(0, let)
    return found
