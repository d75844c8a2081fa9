"""Row groups: softmax, norms, reductions along rows with what precedes and follows them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered
from tcdsl.codegen.forms.base.space import points, space_of
from tcdsl.codegen.forms.rows import schedule
from tcdsl.codegen.forms.rows.cpu import tasks
from tcdsl.codegen.forms.rows.cpu.columns import (
    block_knob,
    block_of,
    pieces_of,
    usual_block,
)
from tcdsl.codegen.forms.rows.cpu.columns_phase import lower_columns
from tcdsl.codegen.forms.rows.cpu.tasks import lower_rows
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.grammar.text.errors import ScheduleError

_ENOUGH_ROWS = 8  # tasks: by sizes alone, never by threads, which change no sum


def matches(ctx: Context) -> bool:
    """Whether the statements share rows, with at least one pass along them.

    Of few rows, parts of a row are rows in groups of their own, so that there are tasks enough.
    """
    try:
        space = space_of(ctx)
    except ScheduleError:
        return False
    parted = any(w.segment for w in space.aligned.sweeps)
    return bool(space.sweeps) and (not parted or ctx.at_least(points(space.kept), _ENOUGH_ROWS))


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return the direction, columns of a block, vectors or not, unrolling, prefetch, task size."""
    space = space_of(ctx)
    walk = schedule.walk_knob(ctx, space)
    return (walk, *block_knob(ctx, space), *schedule.knobs(ctx, space))


def default(ctx: Context) -> dict[str, Value]:
    """Return the direction in which memory is nearer."""
    space = space_of(ctx)
    along = "columns" if schedule.columns_are_near(ctx, space) else "rows"
    block: dict[str, Value] = {k.name: usual_block(ctx, space) for k in block_knob(ctx, space)}
    return {"walk": along, **block, **schedule.default(ctx, space, along)}


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call with the spec's threads (`wall.py`)."""
    space = space_of(ctx)
    per_point = schedule.point_ns(ctx, space, schedule.walk_of(ctx, space, values))
    if (values.get("walk") == "columns") != schedule.columns_are_near(ctx, space):
        per_point *= 4
    return schedule.rows_ns(ctx, space, per_point, pieces_of(ctx, space, values))


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase over rows."""
    space = space_of(ctx)
    sweeps = len(space.sweeps)
    title = f"rows of {sweeps} sweep{'s' if sweeps > 1 else ''}"
    column = schedule.column_walk(ctx, space)
    if values.get("walk") == "columns" and column is not None:
        each = schedule.point_ns(ctx, space, column)
        block = block_of(ctx, space, values)
        return lower_columns(ctx, space, column, each, block, title)
    walk = schedule.walk_of(ctx, space, values)
    each = schedule.point_ns(ctx, space, walk)
    return lower_rows(ctx, space, walk, each, int(values.get("task_us", 8)), title)


def meaning(ctx: Context, values: Mapping[str, Value]) -> Hashable:
    """Return what of the values decides the nest: side by side there is one way to walk."""
    space = space_of(ctx)
    if values.get("walk") == "columns" and schedule.column_walk(ctx, space) is not None:
        return "columns", block_of(ctx, space, values)
    walk = schedule.walk_of(ctx, space, values)
    each = schedule.point_ns(ctx, space, walk)
    return tasks.meaning(ctx, space, walk, each, int(values.get("task_us", 8)))


FORM = Form("rows", matches, knobs, default, cost_ns, lower, meaning, leaves_kept_open=True)
