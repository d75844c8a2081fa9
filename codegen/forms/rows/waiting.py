"""Values that two sweeps over a row need wait in the place of an output, where that is quicker.

    S(b) +=! exp(X(b, n) - M(b))             Y(b, n) = exp(X(b, n) - M(b))
    Y(b, n) = exp(X(b, n) - M(b)) / S(b) ->  S(b) +=! Y(b, n)             in the same sweep
                                             Y(b, n) = Y(b, n) / S(b)

Halide: store_root of a Func whose storage is that of its consumer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.access import ONE
from tcdsl.codegen.forms.base.align import AlignedStatement
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.space import IterationSpace, combines
from tcdsl.codegen.forms.rows.point import RowWalk
from tcdsl.codegen.forms.rows.schedule import memory_per_point
from tcdsl.codegen.program.expressions import map_typed
from tcdsl.grammar.types import typed

# With vectors of 64 bytes a function is two instructions and a table shorter, and was not measured.
_VECTOR_BYTES = 32


def waiting(ctx: Context, space: IterationSpace, walk: RowWalk) -> IterationSpace:
    """Return the space with heavy values computed in the first sweep that needs them alone."""
    sweeps = list(space.aligned.sweeps)
    if walk.lanes == 1 or ctx.machine.vector_bytes > _VECTOR_BYTES or len(set(space.sweeps)) > 1:
        return space
    row_bytes = ctx.extent(space.row_length()) * memory_per_point(ctx, space)
    if len(space.sweeps[0]) > 1 or row_bytes > ctx.machine.l2_bytes:
        return space
    for last in range(1, len(sweeps)):
        for step in sweeps[last].steps:
            if not _may_hold(ctx, space, step):
                continue
            s = step.statement
            place = typed.Read(s.target, s.subs, ctx.operands.buffer(s.target).dtype)
            for value in _heavy(s.value):
                first = next(n for n in range(last + 1) if _computes(sweeps[n].steps, value))
                if first < last and value.dtype == place.dtype:
                    held = replace(step, statement=replace(s, value=value))
                    for n in range(first, last + 1):
                        steps = tuple(_instead(x, value, place) for x in sweeps[n].steps)
                        sweeps[n] = replace(sweeps[n], steps=steps)
                    sweeps[first] = replace(sweeps[first], steps=(held, *sweeps[first].steps))
                    break
    return replace(space, aligned=replace(space.aligned, sweeps=tuple(sweeps)))


def _may_hold(ctx: Context, space: IterationSpace, step: AlignedStatement) -> bool:
    """Whether an output can hold another value until the statement that writes it."""
    s = step.statement
    if step.folds or s.op != "=" or not s.covers or combines(s) or s.target in ctx.group.local:
        return False
    if ctx.operands.memory_dtype(s.target) != ctx.operands.buffer(s.target).dtype.computed:
        return False
    home = ctx.operands.buffer(s.target).home
    others = {x for (x, _) in space.linear if x != s.target}
    if any(ctx.operands.buffer(x).home == home for x in others):
        return False
    inner = space.sweeps[0][-1].name
    reads_it = any(s.target in {r.tensor for r in x.statement.reads()} for x in space.aligned.steps)
    return space.linear[s.target, s.subs].step(inner) == ONE and not reads_it


def _heavy(e: typed.Expr) -> Iterator[typed.Expr]:
    """Yield the calls of heavy functions in e, the outer ones first."""
    return (x for x in vexpr.walk(e) if isinstance(x, typed.Builtin) and x.name in vexpr.HEAVY)


def _computes(steps: tuple[AlignedStatement, ...], value: typed.Expr) -> bool:
    return any(x == value for s in steps for x in vexpr.walk(s.statement.value))


def _instead(step: AlignedStatement, value: typed.Expr, place: typed.Read) -> AlignedStatement:
    """Return a step that reads a value in place of computing it."""

    def one(e: typed.Expr) -> typed.Expr:
        return place if e == value else e

    s = step.statement
    return replace(step, statement=replace(s, value=map_typed(s.value, one)))
