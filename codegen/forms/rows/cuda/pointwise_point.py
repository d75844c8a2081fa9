"""What happens at one point of a pointwise group, or at several neighbours at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from tcdsl.codegen.forms.base.access import ONE, ZERO, DimLoop, Linear
from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.scalars import combine, narrow, widen
from tcdsl.codegen.forms.base.space import Access, IterationSpace, combines
from tcdsl.codegen.forms.rows.cuda.pieces import array_of, copy
from tcdsl.codegen.forms.rows.cuda.pointwise_vectors import copied, inner_loop, steady
from tcdsl.codegen.forms.rows.values import RowValues
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Assign,
    Elem,
    Expr,
    Let,
    Stmt,
    Unroll,
    Var,
)
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.program.expressions import reads_of
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.text.dataclass import dataclass


@dataclass
class KernelPoint:
    """Counters of the loops, values known there, and the local arrays that stores go to."""

    counters: Mapping[str, Expr]
    local: dict[Access, Expr] = field(default_factory=dict)
    stores: dict[Access, Elem] = field(default_factory=dict)


class PointText(RowValues):
    """Text of the statements of a group at a point that is given by counters.

    Parameters
    ----------
    ctx, space
        The group and its loops.
    """

    def __init__(self, ctx: GpuContext, space: IterationSpace) -> None:
        super().__init__(ctx, space)
        self.gpu = ctx
        self.loops = (*space.kept, inner_loop(space))
        self.run: Expr | None = None  # the position of the point among all
        self.enter({})

    def fresh(self, stem: str) -> str:
        """Return an unused name: stem if it is one."""
        if stem in self.taken:
            return super().fresh(stem)
        self.taken.add(stem)
        return stem

    def address(self, access: Access, counters: Mapping[str, Expr]) -> tuple[Var, Expr]:
        """Return the operand's pointer and the position behind it."""
        linear = self.space.linear.get(access, Linear((), ZERO))
        if self.run is not None and self.is_run(linear):
            terms = [self.run]
        else:
            steps = ((x.name, linear.step(x.name)) for x in self.loops)
            terms = [b.mul(counters[n], self.size(s)) for n, s in steps if s != ZERO]
        return self.operands.pointer(access[0]), b.add(*terms, self.size(linear.const))

    def is_run(self, linear: Linear) -> bool:
        """Whether all points in their order are neighbours in memory."""
        step = ONE
        for loop in reversed(self.loops):
            if linear.step(loop.name) != step:
                return False
            step = step * loop.extent
        return True

    def decode(self, point: Expr, loops: Sequence[DimLoop]) -> tuple[list[Stmt], dict[str, Expr]]:
        """Declare the counters of a point among all, the last loop running fastest."""
        lets: list[Stmt] = []
        counters: dict[str, Expr] = {}
        found = b.unravel(point, [self.size(x.extent) for x in loops])
        for loop, at in zip(loops, found, strict=True):
            if not isinstance(at, Var):
                lets.append(Let(self.counter(loop), at))
                at = self.counter(loop)
            counters[loop.name] = at
        return lets, counters

    def points(self, point: Expr, width: int = 1) -> list[Stmt]:
        """Return all statements at a point among all, or at width neighbours from it on."""
        self.run, self.taken = point, set(self.operands.taken)
        lets, counters = self.decode(point, self.loops)
        here = self.vector(counters, width) if width > 1 else self.point(KernelPoint(counters))
        return [*lets, *here]

    # ---- one point

    def point(self, point: KernelPoint) -> list[Stmt]:
        """Return all statements at one point."""
        out: list[Stmt] = []
        steps = self.space.aligned.steps
        for k, step in enumerate(steps):
            s, stored = step.statement, self.stored(step.statement.target)
            value = self.scalar(s.value, point.counters, out, point.local)
            if combines(s) and s.base is not None:
                before = point.local.get((s.base, s.subs))
                if before is None:
                    before = self.element((s.base, s.subs), point.counters)
                value = combine(s.op, before, value)
            value = narrow(value, stored)
            access = (s.target, s.subs)
            if any(access in _read(later.statement) for later in steps[k + 1 :]):
                var = Var(self.fresh(safe_name(s.target.replace(".", "_"))), b.type_of(value))
                out.append(Let(var, value))
                value = var
                point.local[access] = widen(value, stored)
            if self.in_memory(s.target):
                out.append(self.put(access, point, value))
        return out

    def put(self, access: Access, point: KernelPoint, value: Expr) -> Stmt:
        """Return the store of a value as it lies in memory."""
        if access in point.stores:
            return Assign(point.stores[access], value)
        pointer, index = self.address(access, point.counters)
        return Assign(b.load(pointer, index), value)

    # ---- several neighbours

    def vector(self, counters: Mapping[str, Expr], width: int) -> list[Stmt]:
        """Return all statements at width neighbours from counters on, in copies and a loop.

        `copy in; for (lane) statements; copy out`: the loop is over registers. What does not
        depend on the lane is read before it.
        """
        inner = inner_loop(self.space).name
        lane = b.i64(self.fresh("lane"))
        first, last = list[Stmt](), list[Stmt]()
        point = KernelPoint({**counters, inner: b.add(counters[inner], lane)})
        made: set[str] = set()
        pieces = copied(self.gpu, self.space, width)
        for step in self.space.aligned.steps:
            s = step.statement
            always = _always_read(s)
            for access in _read(s):
                if access[0] in made or access in point.local:
                    continue
                if access in pieces:
                    array = array_of(self, access, width)
                    first += [array, copy(self, access, array, counters, load=True)]
                    element = Elem(array.name, (lane,), array.type)
                    point.local[access] = widen(element, self.stored(access[0]))
                elif self.is_uniform(access) and access in always:
                    value = self.element(access, counters)
                    var = Var(self.fresh(safe_name(access[0].replace(".", "_"))), b.type_of(value))
                    first.append(Let(var, value))
                    point.local[access] = var
            made.add(s.target)
            access = (s.target, s.subs)
            if self.in_memory(s.target):
                array = array_of(self, access, width)
                first.append(array)
                point.stores[access] = Elem(array.name, (lane,), array.type)
                last.append(copy(self, access, array, counters, load=False))
        assert self.run is not None, "neighbours of a point"
        self.run = b.add(self.run, lane)
        loop = b.loop(lane, 0, width, self.point(point), mark=Unroll())
        return [*first, loop, *last]

    def is_uniform(self, access: Access) -> bool:
        """Whether all neighbours read the same element of memory."""
        name, subs = access
        if self.operands.is_scalar(name) or not self.in_memory(name):
            return False
        inner = inner_loop(self.space).name
        return not subs or self.space.linear[access].step(inner) == ZERO


def _read(s: Statement) -> Iterator[Access]:
    """Yield what a statement needs: its reads, the version it combines with."""
    for r in reads_of(s.value):
        yield r.tensor, r.subs
    if combines(s) and s.base is not None:
        yield s.base, s.subs


def _always_read(s: Statement) -> frozenset[Access]:
    """Return what a statement reads whatever the values are."""
    always = {(r.tensor, r.subs) for r in steady(s.value)}
    return frozenset(a for a in _read(s) if a in always or a[0] == s.base)
