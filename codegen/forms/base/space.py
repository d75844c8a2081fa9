"""The loops of a row group and the addresses of its accesses, under a specialisation.

Dimensions are ordered by the strides of what they walk over and joined where all accesses allow
it; what is left are the loops over rows and, per sweep, the loops within a row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import field
from typing import Any, TypeVar

from tcdsl.codegen.forms.base.access import ONE, ZERO, DimLoop, Linear, by_step, join, linear_of
from tcdsl.codegen.forms.base.align import Aligned, AlignedStatement, align, open_rows
from tcdsl.codegen.forms.base.context import GroupContext
from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.forms.base.outputs import is_injective
from tcdsl.codegen.forms.base.vexpr import walk
from tcdsl.codegen.loops.loopir import Var
from tcdsl.codegen.program.expressions import reads_of
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.types import typed

T = TypeVar("T")
Access = tuple[str, tuple[typed.Expr, ...]]  # a buffer and subscripts


@dataclass(frozen=True, slots=True)
class IterationSpace:
    """The loops of a row group, and where its accesses lie at their counters.

    arena: elements that each local kept for a later sweep takes. sizes: representative values of
    all symbols, run-time strides among them. known holds what `once` was asked for, of this space
    alone: the tuner asks the same of it for hundreds of configs.
    """

    aligned: Aligned
    kept: tuple[DimLoop, ...]
    sweeps: tuple[tuple[DimLoop, ...], ...]
    linear: Mapping[Access, Linear]
    arena: Mapping[str, Size]
    sizes: Mapping[str, int]
    known: dict[Hashable, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return what make returned when first asked by this name: of the space and its context."""
        if name not in self.known:
            self.known[name] = make()
        value: T = self.known[name]
        return value

    @property
    def written(self) -> frozenset[str]:
        """The buffers that the group writes."""
        return frozenset(s.statement.target for s in self.aligned.steps)

    def row_length(self) -> Size:
        """Return the points of the longest sweep, in symbols."""
        lengths = [points(loops) for loops in self.sweeps]
        return max(lengths, key=lambda s: len(s.terms), default=ONE)


def points(loops: tuple[DimLoop, ...]) -> Size:
    """Return the product of the extents."""
    total = ONE
    for x in loops:
        total = total * x.extent
    return total


def strides_of(operands: Operands, name: str) -> tuple[Size, ...]:
    """Return the strides of a buffer as sizes; a run-time stride is a symbol, its variable's name.

    Neighbours that the layout class joins have one symbol.
    """
    buffer, layout = operands.buffer(name), operands.layout(name)
    strides: list[Size] = []
    for d in reversed(range(len(buffer.shape))):
        if layout.contiguous:
            stride = strides[-1] * buffer.shape[d + 1] if strides else ONE
        elif d == layout.unit:
            stride = ONE
        elif d in layout.zeros:
            stride = ZERO
        elif d < len(layout.joined) and layout.joined[d] and strides:
            stride = strides[-1] * buffer.shape[d + 1]
        else:
            var = operands.stride(name, d)
            assert isinstance(var, Var), f"stride {d} of {name} is neither known nor a variable"
            stride = Size.symbol(var.name, signed=True)
        strides.append(stride)
    return tuple(reversed(strides))


def accesses(step: AlignedStatement) -> Iterator[Access]:
    """Yield what a statement touches: its reads, its target, the version it combines with."""
    s = step.statement
    for r in reads_of(s.value):
        if r.subs:
            yield r.tensor, r.subs
    yield s.target, s.subs
    if combines(s) and s.base is not None:
        yield s.base, s.subs


def combines(s: Statement) -> bool:
    """Whether a statement needs what its base holds."""
    return s.resumes


def space_of(
    ctx: GroupContext[Any], *, pointwise: bool = False, uniform: bool = False
) -> IterationSpace:
    """Return loops and addresses of a group.

    pointwise: its rows are the innermost loop. uniform: sweeps over the same dimensions have the
    same loops, and locals have no memory: a value may stay where it was computed.

    Raises
    ------
    ScheduleError
        With the reason why the group is not made of rows.
    """
    return ctx.once(
        ("space", pointwise, uniform), lambda: _space_of(ctx, pointwise, uniform=uniform)
    )


def columns_are_nearer(space: IterationSpace) -> bool:
    """Whether the innermost loop over rows takes smaller steps than those within rows."""
    column, inner = space.kept[-1].name, {w[-1].name for w in space.sweeps}
    touched = [linear for (buffer, _), linear in space.linear.items() if buffer not in space.arena]
    near = sum(abs(x.step(column).evaluate(space.sizes)) for x in touched)
    far = sum(abs(x.step(n).evaluate(space.sizes)) for x in touched for n in inner)
    return near < far


def _space_of(ctx: GroupContext[Any], pointwise: bool, *, uniform: bool) -> IterationSpace:
    alone = len(ctx.group.statements) == 1  # then nobody asks which of its points an element is
    for s in ctx.group.statements:
        _check(s, ctx.group.local, alone=alone)
    aligned = align(ctx.group.statements)
    if aligned is None:
        raise ScheduleError("the statements share no rows")
    if uniform and any(w.segment for w in aligned.sweeps):
        raise ScheduleError("a statement folds some loops of a row and keeps others")
    strides = {name: strides_of(ctx.operands, name) for name in _touched(ctx)}
    sizes = _with_strides(ctx)
    if pointwise:
        if aligned.sweeps:
            raise ScheduleError("a statement folds")
        linears = _linears(ctx, aligned, strides, frozenset(ctx.group.local))
        # stores decide: a read that crosses them can be turned around in registers
        written = {s.target for s in ctx.group.statements}
        stored = [linear for (name, _), linear in linears.items() if name in written]
        order = by_step(aligned.kept, stored, sizes)
        joined = _join(ctx, aligned, order, list(linears.values()))
        inner = order[order.index(joined[-2].name) + 1 :] if len(joined) > 1 else order
        opened = open_rows(aligned, inner)
        if len(opened.sweeps) != 1 or not inner:
            raise ScheduleError("there is no dimension to walk along")
        return _finish(ctx, opened, joined[:-1], (joined[-1:],), linears, {})
    arena = {} if uniform else _arena(ctx, aligned)
    memory = _linears(ctx, aligned, strides, frozenset(ctx.group.local))
    alike = [_alike(aligned, n) if uniform else w.steps for n, w in enumerate(aligned.sweeps)]
    orders = []
    for sweep, steps in zip(aligned.sweeps, alike, strict=True):
        touched = [memory[a] for s in steps for a in accesses(s) if a in memory]
        dims = sorted(sweep.dims, key=aligned.names.index) if uniform else sweep.dims
        order = by_step(dims, touched, sizes)
        if not set(sweep.segment).issuperset(order[: len(sweep.segment)]):
            raise ScheduleError("what a statement folds lies outside of what it keeps")
        orders.append(order)
    for name in arena:
        strides[name] = _arena_strides(aligned, name, orders)
    linears = _linears(ctx, aligned, strides, frozenset(ctx.group.local) - set(arena))
    everything = list(linears.values())
    kept = _join(ctx, aligned, by_step(aligned.kept, list(memory.values()), sizes), everything)
    sweeps = []
    for sweep, steps, order in zip(aligned.sweeps, alike, orders, strict=True):
        touched = [linears[a] for s in steps for a in accesses(s) if a in linears]
        outer = order[: len(sweep.segment)]
        segments = _join(ctx, aligned, outer, touched) if outer else ()
        sweeps.append((*segments, *_join(ctx, aligned, order[len(outer) :], touched)))
    return _finish(ctx, aligned, kept, tuple(sweeps), linears, arena)


def _alike(aligned: Aligned, n: int) -> tuple[AlignedStatement, ...]:
    """Return the statements of all sweeps over the dimensions of sweep n."""
    dims = set(aligned.sweeps[n].dims)
    return tuple(s for w in aligned.sweeps if set(w.dims) == dims for s in w.steps)


def _check(s: Statement, local: Collection[str], *, alone: bool) -> None:
    if s.is_arg:
        raise ScheduleError(f"{s.op} folds pairs")
    is_apart = alone and s.base is not None and is_injective(s)
    is_whole = s.covers or ((s.is_whole or is_apart) and s.target not in local)
    if not is_whole or any(s.subs_checked):
        raise ScheduleError(f"'{s.target}' is not written wholly")
    if any(any(r.checked) for r in s.reads()):
        raise ScheduleError("a subscript is checked")


def _touched(ctx: GroupContext[Any]) -> list[str]:
    """Return the versions whose memory a group may touch; a program may have hundreds."""
    names = {s.target for s in ctx.group.statements} | ctx.group.wanted()
    return sorted(n for n in names if not ctx.operands.is_scalar(n))


def _with_strides(ctx: GroupContext[Any]) -> Mapping[str, int]:
    """Return representative sizes; run-time strides as if operands were dense, the unit first."""
    sizes = dict(ctx.sizes)
    for buffer in map(ctx.operands.buffer, _touched(ctx)):
        unit = ctx.operands.layout(buffer.name).unit
        step = 1
        inward = [d for d in reversed(range(len(buffer.shape))) if d != unit]
        for d in inward if unit is None else (unit, *inward):
            stride = ctx.operands.stride(buffer.name, d)
            if isinstance(stride, Var):
                sizes[stride.name] = step
            step *= max(1, ctx.extent(buffer.shape[d]))
    return sizes


def _linears(
    ctx: GroupContext[Any],
    aligned: Aligned,
    strides: Mapping[str, tuple[Size, ...]],
    skip: frozenset[str],
) -> dict[Access, Linear]:
    """Return the addresses of all accesses to memory."""
    dims = {d.name: d for d in aligned.dims}
    found: dict[Access, Linear] = {}
    for step in aligned.steps:
        for buffer, subs in accesses(step):
            if buffer in skip:
                continue
            linear = linear_of(subs, strides[buffer], dims)
            if linear is None:
                raise ScheduleError(f"a subscript of '{buffer}' is not affine")
            found[buffer, subs] = linear if ctx.spec.sizes is None else _exact(ctx, linear)
    return found


def _exact(ctx: GroupContext[Any], linear: Linear) -> Linear:
    terms = ((n, ctx.bind(s)) for n, s in linear.terms)
    return Linear(tuple(t for t in terms if t[1] != ZERO), ctx.bind(linear.const))


def _join(
    ctx: GroupContext[Any], aligned: Aligned, order: tuple[str, ...], touched: list[Linear]
) -> tuple[DimLoop, ...]:
    loops = [DimLoop(n, ctx.bind(aligned.dim(n).extent)) for n in order]
    loops = [x for x in loops[:-1] if x.extent != ONE] + loops[-1:]  # a counter that stays 0
    values = frozenset(
        x.name
        for s in aligned.steps
        for x in walk(s.statement.value)
        if isinstance(x, typed.IndexValue)
    )
    return join(loops, touched, values)


def _arena(ctx: GroupContext[Any], aligned: Aligned) -> dict[str, Size]:
    """Return the locals that another sweep than their own reads, with their elements a row."""
    where = {
        s.statement.target: n for n, w in enumerate(aligned.sweeps) for s in w.steps if s.per_point
    }
    dims = {s.statement.target: s.segment or s.dims for s in aligned.steps}
    readers = [(n, s) for n, w in enumerate(aligned.sweeps) for s in w.steps]
    readers += [(-1, s) for w in aligned.sweeps for s in w.before]
    readers += [(-1, s) for s in aligned.after]
    found: dict[str, Size] = {}
    for n, step in readers:
        for tensor, _ in accesses(step):
            if tensor in ctx.group.local and where.get(tensor, n) != n:
                total = ONE
                for d in dims[tensor]:
                    total = total * aligned.dim(d).extent
                found[tensor] = total
    return found


def _arena_strides(aligned: Aligned, name: str, orders: list[tuple[str, ...]]) -> tuple[Size, ...]:
    """Return strides of a local that lies densely in the order in which its sweep runs."""
    n, step = next(
        (n, s) for n, w in enumerate(aligned.sweeps) for s in w.steps if s.statement.target == name
    )
    per_dim: dict[str, Size] = {}
    total = ONE
    for d in reversed([d for d in orders[n] if d in (step.segment or step.dims)]):
        per_dim[d], total = total, total * aligned.dim(d).extent
    strides = []
    for sub in step.statement.subs:
        names = [x.name for x in walk(sub) if isinstance(x, typed.IndexValue)]
        strides.append(per_dim.get(names[0], ZERO) if names else ZERO)
    return tuple(strides)


def _finish(
    ctx: GroupContext[Any],
    aligned: Aligned,
    kept: tuple[DimLoop, ...],
    sweeps: tuple[tuple[DimLoop, ...], ...],
    linears: Mapping[Access, Linear],
    arena: Mapping[str, Size],
) -> IterationSpace:
    """Drop the counters of loops that were joined into others."""
    left = {x.name for x in (*kept, *(x for w in sweeps for x in w))}
    gone = [d.name for d in aligned.dims if d.name not in left]
    linears = {a: linear.without(gone) for a, linear in linears.items()}
    return IterationSpace(aligned, kept, sweeps, linears, arena, _with_strides(ctx))
