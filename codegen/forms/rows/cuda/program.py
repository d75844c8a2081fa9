"""What every point of a row program computes, in terms of memory and of values of its row.

Values per point that one statement leaves for another are written out where they are read, so
that none of them needs memory; what several sweeps compute alike is then found again as equal
expressions, and a row that lies in registers keeps it there:

    M(b) max=! X(b, n)          sweep 0: X(b,n), kept
    E(b, n) = exp(X(b,n)-M(b))  sweep 1: exp(X(b,n)-M(b)), kept, folded into S
    S(b) +=! E(b, n)
    Y(b, n) = E(b, n) / S(b)    sweep 2: exp(X(b,n)-M(b)) / S(b)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tcdsl.codegen.forms.base.align import AlignedStatement
from tcdsl.codegen.forms.base.context import GroupContext
from tcdsl.codegen.forms.base.space import IterationSpace, combines, points, space_of
from tcdsl.codegen.forms.base.vexpr import operands, walk
from tcdsl.codegen.program.expressions import map_typed, walk_typed
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, FLOAT32

_LARGEST_VALUE = 300  # nodes of an expression
_WORK = (typed.Binary, typed.Builtin, typed.Select)  # what is worth computing ahead


@dataclass(frozen=True, slots=True)
class RowProgram:
    """A row group whose values are written out.

    values: of each target, what its statement computes at a point. kept: of each sweep, the
    values that it is the first to compute and later sweeps compute again, with the last that does.
    live: the most 4-byte words a point that stay from one sweep to a later one. lengths: the points
    of each sweep, None where they are not known.
    """

    space: IterationSpace
    values: Mapping[str, typed.Expr]
    kept: tuple[Mapping[typed.Expr, int], ...] = ()
    live: int = 0
    lengths: tuple[int | None, ...] = ()

    def invariants(self, n: int) -> list[typed.Expr]:
        """Return the largest parts of a sweep's values that are alike at all its points.

        Not what a guard may leave out, nor what costs nothing.
        """
        dims = frozenset(self.space.aligned.sweeps[n].dims)
        found: dict[typed.Expr, None] = {}
        for value in self.sweep_values(n):
            for e in unguarded(value, lambda e: not _varies(e, dims)):
                if not _varies(e, dims) and any(isinstance(x, _WORK) for x in walk(e)):
                    found[e] = None
        return list(found)

    def sweep_values(self, n: int) -> list[typed.Expr]:
        """Return what the statements of a sweep compute at a point."""
        return [self.values[s.statement.target] for s in self.space.aligned.sweeps[n].steps]


def program_of(ctx: GroupContext[Any]) -> RowProgram:
    """Return a group as a row program.

    Raises
    ------
    ScheduleError
        With the reason why it is none.
    """
    return ctx.once("row program", lambda: _program_of(ctx))


def _program_of(ctx: GroupContext[Any]) -> RowProgram:
    space = space_of(ctx, uniform=True)
    values: dict[str, typed.Expr] = {}
    per_point: dict[str, AlignedStatement] = {}
    for step in space.aligned.steps:
        s = step.statement
        value = _written_out(ctx, step, per_point, values)
        if step.dims and not step.folds:
            if combines(s):
                value = _combined(ctx, step, value, per_point, values)
            per_point[s.target] = step
        elif combines(s) and s.base not in values and _is_read(space, s.target):
            raise ScheduleError(f"'{s.target}' goes on from memory and is read again")
        if sum(1 for _ in walk_typed(value)) > _LARGEST_VALUE:
            raise ScheduleError(f"the value of '{s.target}' is long when it is written out")
        values[s.target] = value
    kept = _kept(RowProgram(space, values))
    lives = [(n, last, _words(e)) for n, k in enumerate(kept) for e, last in k.items()]
    sweeps = range(len(kept))
    live = max((sum(w for n, last, w in lives if n <= m < last) for m in sweeps), default=0)
    lengths = tuple(points(loops).constant for loops in space.sweeps)
    return RowProgram(space, values, kept, live, lengths)


def _is_read(space: IterationSpace, target: str) -> bool:
    return any(r.tensor == target for s in space.aligned.steps for r in s.statement.reads())


def _written_out(
    ctx: GroupContext[Any],
    step: AlignedStatement,
    per_point: Mapping[str, AlignedStatement],
    values: Mapping[str, typed.Expr],
) -> typed.Expr:
    """Return the right side of a statement with values per point in place of what names them."""

    def one(e: typed.Expr) -> typed.Expr:
        if not isinstance(e, typed.Read) or e.tensor not in per_point:
            return e
        made = per_point[e.tensor]
        if made.statement.subs != e.subs or set(made.dims) != set(step.dims):
            raise ScheduleError(f"'{e.tensor}' is read at another point than it is written at")
        value, buffer = values[e.tensor], ctx.operands.buffer(e.tensor)
        if buffer.role != "temp" and buffer.dtype.is_half:  # as if it were stored
            return typed.Cast(typed.Cast(value, FLOAT32), buffer.dtype)
        return value

    return map_typed(step.statement.value, one)


def _combined(
    ctx: GroupContext[Any],
    step: AlignedStatement,
    value: typed.Expr,
    per_point: Mapping[str, AlignedStatement],
    values: Mapping[str, typed.Expr],
) -> typed.Expr:
    """Return a value combined with what its element held before."""
    s = step.statement
    assert s.base is not None, "an update has a base"
    dtype = ctx.operands.buffer(s.base).dtype
    if s.base in per_point:
        if per_point[s.base].statement.subs != s.subs:
            raise ScheduleError(f"'{s.base}' is updated at another point than it is written at")
        before = values[s.base]
    else:
        before = typed.Read(s.base, s.subs, dtype, (False,) * len(s.subs))
    match s.op.rstrip("!"):
        case "+=":
            return typed.Binary("+", before, value, dtype)
        case "*=":
            return typed.Binary("*", before, value, dtype)
        case extreme:
            return typed.Builtin(extreme.removesuffix("="), (before, value), dtype)


# ---- what later sweeps compute again


def _kept(program: RowProgram) -> tuple[Mapping[typed.Expr, int], ...]:
    """Return the values of each sweep that are worth keeping for later ones."""
    space = program.space
    kept: list[dict[typed.Expr, int]] = [{} for _ in space.sweeps]
    first: list[tuple[typed.Expr, int]] = []  # every value per point, with its first sweep
    for n, loops in enumerate(space.sweeps):
        dims = frozenset(space.aligned.sweeps[n].dims)
        known = {
            e: m
            for e, m in reversed(first)
            if space.sweeps[m] == loops and set(space.aligned.sweeps[m].dims) == dims
        }
        values = program.sweep_values(n)
        for value in values:
            for e in _largest(value, known):
                kept[known[e]][e] = n
        first += [(e, n) for value in values for e in unguarded(value) if _is_costly(e, dims)]
    return tuple(kept)


def _largest(e: typed.Expr, known: Mapping[typed.Expr, int]) -> Iterator[typed.Expr]:
    """Yield the largest parts of e that are known."""
    if e in known:
        yield e
        return
    for x in operands(e):
        yield from _largest(x, known)


def unguarded(
    e: typed.Expr, is_leaf: Callable[[typed.Expr], bool] = lambda _: False
) -> Iterator[typed.Expr]:
    """Yield the parts of e that are computed whatever the others give; none inside leaves."""
    yield e
    if is_leaf(e):
        return
    match e:
        case typed.Select(cond=c):
            parts: tuple[typed.Expr, ...] = (c,)
        case typed.Binary("&&" | "||", lhs, _):
            parts = (lhs,)
        case _:
            parts = operands(e)
    for x in parts:
        yield from unguarded(x, is_leaf)


def _varies(e: typed.Expr, dims: frozenset[str]) -> bool:
    """Whether a value may differ from point to point of a row."""
    return any(isinstance(x, typed.IndexValue) and x.name in dims for x in walk_typed(e))


def _is_costly(e: typed.Expr, dims: frozenset[str]) -> bool:
    """Whether a value differs from point to point of a row because of what it reads."""
    return any(isinstance(x, typed.Read) and _varies(x, dims) for x in walk(e))


def _words(e: typed.Expr) -> int:
    return 1 if e.dtype == BOOL else max(1, e.dtype.bits // 32)
