"""Rows and folds across them, some rows at a time: the folds find in cache what the rows read.

    task: a part of the rows    its sums = 0
                                some rows at a time   every row: sweeps along it
                                                      columns side by side: its sums += these rows
    second phase                the sums of all parts, part by part

The parts are those of the folds by themselves (`reduction_split.py`): sizes alone cut them, and
sums are the same bits, in one group or two.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered
from tcdsl.codegen.forms.base.space import IterationSpace, points, space_of
from tcdsl.codegen.forms.rows import schedule
from tcdsl.codegen.forms.rows.cpu import reduction, rows
from tcdsl.codegen.forms.rows.cpu.columns import ColumnNest
from tcdsl.codegen.forms.rows.cpu.nest import HELD_VECTORS, RowNest
from tcdsl.codegen.forms.rows.cpu.reduction_split import Partials, plan_split, two_phases
from tcdsl.codegen.forms.rows.cpu.tasks import cost, row_loop
from tcdsl.codegen.forms.rows.crossing import PART_POINTS, crossing_of
from tcdsl.codegen.forms.rows.point import RowWalk
from tcdsl.codegen.forms.rows.waiting import waiting
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Let, Stmt, Var
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import InternalError

_ROWS = (8, 16, 32)  # rows at a time: folds take eight at once
_SHARE = 4  # of the second level, that the rows at a time lie in
_EACH = 2  # parts of a thread, at least


@dataclass(frozen=True, slots=True)
class Crossing:
    """Statements along rows, and folds across them, each as the form that it is by itself."""

    along_ctx: Context
    along: IterationSpace
    across_ctx: Context
    across: IterationSpace


def crossing(ctx: Context) -> Crossing | None:
    """Return both parts of a group, or None where it has them not, or no form takes one."""
    stop = ctx.once("crossing", lambda: crossing_of(ctx.group.statements))
    if stop is None:
        return None
    parts = ctx.group.part(0, stop), ctx.group.part(stop, len(ctx.group.statements))
    along, across = (
        replace(ctx, group=group, known=ctx.once(name, dict))
        for name, group in zip(("along", "across"), parts, strict=True)
    )
    if not rows.matches(along) or not reduction.matches(across):
        return None
    return Crossing(along, space_of(along), across, space_of(across))


def _walks(x: Crossing) -> bool:
    """Whether rows are walked one after the other, and columns side by side, each in one loop."""
    loops = (x.along.kept, *x.along.sweeps, x.across.kept, *x.across.sweeps)
    if any(len(w) != 1 for w in loops) or any(w.segment for w in x.along.aligned.sweeps):
        return False
    if x.across.sweeps[0][0].extent != x.along.kept[0].extent or x.across.aligned.after:
        return False
    near = schedule.columns_are_near(x.across_ctx, x.across)
    column = schedule.column_walk(x.across_ctx, x.across)
    is_along = not schedule.columns_are_near(x.along_ctx, x.along)
    bits = schedule.vector_bits(x.along_ctx, x.along)
    return near and is_along and bits is not None and column is not None and column.lanes > 1


def _pays(x: Crossing) -> bool:
    """Whether the folds go in parts anyhow, enough for all threads, of rows that stay in cache.

    Threads decide only whether this is one group: as two it has the same parts, and the same sums.
    """
    if not reduction.is_split(x.across_ctx):
        return False
    ctx, length = x.across_ctx, x.along.row_length()
    per_point = max(1, int(schedule.memory_per_point(x.along_ctx, x.along)))
    most = 2 * ctx.machine.l2_bytes // _SHARE // (_ROWS[0] * per_point)
    least = HELD_VECTORS * (ctx.machine.vector_bytes // 4) + 1
    work, parts = points(x.across.kept) * x.across.row_length(), _EACH * ctx.spec.threads
    return (
        parts <= reduction.MOST_PARTS
        and ctx.at_least(length, least)
        and not ctx.at_least(length, most)
        and ctx.at_least(work, parts * PART_POINTS)
    )


def matches(ctx: Context) -> bool:
    """Whether the group is statements along rows, then folds across them."""
    x = crossing(ctx)
    return x is not None and _walks(x) and _pays(x)


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return how many rows are walked before they are folded, and the knobs of walks along rows."""
    x = _required(ctx)
    return (Knob("rows", _ROWS), *_along_knobs(x))


def _along_knobs(x: Crossing) -> tuple[Knob, ...]:
    found = schedule.knobs(x.along_ctx, x.along)
    names = ("unroll", "prefetch", *(["stream"] * _may_stream(x)))
    return tuple(k for k in found if k.name in names)


def _may_stream(x: Crossing) -> bool:
    """Whether the folds read nothing that is stored along rows."""
    return not x.along.written & {tensor for tensor, _ in x.across.linear}


def default(ctx: Context) -> dict[str, Value]:
    """Return the fewest rows, and the analytic choice of a walk along them."""
    x = _required(ctx)
    chosen = schedule.default(x.along_ctx, x.along, streams=_may_stream(x))
    return {"rows": _ROWS[0], **{k.name: chosen[k.name] for k in _along_knobs(x)}}


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call with the spec's threads (`wall.py`)."""
    x = _required(ctx)
    parts = min(reduction.MOST_PARTS, _work(x) // PART_POINTS)
    late = 1.0 + 0.01 * _ROWS.index(int(values["rows"]))
    return schedule.rows_ns(x.along_ctx, x.along, _point_ns(x, values), max(1, parts)) * late


def _work(x: Crossing) -> int:
    return x.across_ctx.extent(points(x.across.kept) * x.across.row_length())


def _walk(x: Crossing, values: Mapping[str, Value]) -> RowWalk:
    return schedule.walk_of(x.along_ctx, x.along, {"vectors": True, **values})


def _point_ns(x: Crossing, values: Mapping[str, Value]) -> float:
    """Return the time of a point: memory's along the row, and what lies in cache once more."""
    along = schedule.point_ns(x.along_ctx, x.along, _walk(x, values))
    return round(1.2 * along, 6)


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return the phase of parts, and the one that combines their sums."""
    x = _required(ctx)
    walk = _walk(x, values)
    nest = RowNest(x.along_ctx, waiting(x.along_ctx, x.along, walk), walk)
    column = schedule.column_walk(x.across_ctx, x.across)
    assert column is not None, "columns are walked side by side"
    columns = ColumnNest(x.across_ctx, x.across, column, 1)
    columns.taken |= nest.taken
    nest.taken = columns.taken  # one function
    split = reduction.split_of(x.across_ctx, x.across, "rows")  # it has parts at all sizes
    planned = plan_split(ctx, split)
    partials = Partials(x.across_ctx, x.across, columns, planned.parts)
    part, first, last = (b.i64(nest.fresh(n)) for n in ("part", "first", "last"))
    begin, end = b.i64(nest.fresh("begin")), b.i64(nest.fresh("end"))
    columns.start = b.c64(0)
    lets: list[Stmt] = [
        Let(first, b.mul(part, planned.width)),
        Let(last, b.min64(b.add(first, planned.width), split.extent)),
        Let(columns.low, b.c64(0)),
        Let(columns.high, partials.rows),
    ]
    for target, p in partials.pointers.items():
        table = Var(nest.fresh("row_values"), p.type)
        lets.append(Let(table, b.offset(p, b.mul(part, partials.rows))))
        columns.tables[target] = table
    columns.enter({})
    some = int(values["rows"])
    starts, folds = columns.starts(0), columns.walked(0, (begin, end))
    chunk = b.block(
        Let(end, b.min64(b.add(begin, some), last)),
        *row_loop(nest, begin, end, lambda at, _: nest.build(at, None)),
        b.block(*columns.row, *folds),
    )
    body = b.block(
        partials.declarations,
        nest.arena_pointers(),
        b.loop(part, b.BEGIN, b.END, *lets, *starts, b.loop(begin, first, last, chunk, step=some)),
        b.do("tc_stream_end") if walk.stream else None,
    )
    rows_count = ctx.operands.size(points(x.along.kept))
    length = ctx.operands.size(x.along.row_length())
    price = cost(rows_count, length, _point_ns(x, values))
    sweeps = len(x.along.sweeps)
    title = f"rows of {sweeps} sweep{'s' if sweeps > 1 else ''}, {some} at a time, and across them"
    found = two_phases(
        x.across_ctx, x.across, body, planned.plan_parts, price, planned, title, walk
    )
    _, arena = nest.arena_offsets()
    return replace(found, thread_bytes=arena)


def meaning(ctx: Context, values: Mapping[str, Value]) -> Hashable:
    """Return what of the values decides the nest."""
    return FORM.name, int(values["rows"]), _walk(_required(ctx), values)


def _required(ctx: Context) -> Crossing:
    found = crossing(ctx)
    if found is None:
        raise InternalError(f"{ctx.prefix} has no rows that something is folded across")
    return found


FORM = Form("crossed", matches, knobs, default, cost_ns, lower, meaning)
