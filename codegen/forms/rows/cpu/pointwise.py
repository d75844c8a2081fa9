"""Pointwise statements over one box, in one nest: no value is reduced, none leaves its point."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered
from tcdsl.codegen.forms.base.space import IterationSpace, points, space_of
from tcdsl.codegen.forms.rows import schedule
from tcdsl.codegen.forms.rows.cpu import tasks
from tcdsl.codegen.forms.rows.cpu.copied import copied
from tcdsl.codegen.forms.rows.cpu.lines import next_to_each_other
from tcdsl.codegen.forms.rows.cpu.pointwise_lines import lower_lines, takes
from tcdsl.codegen.forms.rows.cpu.pointwise_tile import lower_tiles, turned_loop
from tcdsl.codegen.forms.rows.cpu.tasks import lower_rows
from tcdsl.codegen.forms.rows.point import RowWalk
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.grammar.text.errors import ScheduleError


def matches(ctx: Context) -> bool:
    """Whether all statements are pointwise over one box."""
    try:
        return bool(_space(ctx).sweeps)
    except ScheduleError:
        return False


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return vectors or not, unrolling, stores past the cache, tiles, and task size."""
    space = _space(ctx)
    found = schedule.knobs(ctx, _walked(ctx))
    if _can_turn(ctx, space):
        found = (Knob("tiles", (True, False)), *found)
    if _copies_any(ctx, space) and all(k.name != "stream" for k in found):
        found = (Knob("stream", (False, True)), *found)
    return found


def default(ctx: Context) -> dict[str, Value]:
    """Return the analytic choice: tiles wherever a read crosses the rows."""
    space = _space(ctx)
    tiles: dict[str, Value] = {"tiles": True} if _can_turn(ctx, space) else {}
    past = {"stream": schedule.is_past(ctx, space)} if _copies_any(ctx, space) else {}
    return tiles | past | schedule.default(ctx, _walked(ctx))


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call with the spec's threads (`wall.py`)."""
    space = _space(ctx)
    per_point = schedule.point_ns(ctx, space, schedule.walk_of(ctx, _walked(ctx), values))
    if _can_turn(ctx, space) and not values.get("tiles"):
        per_point *= 5  # a cache line for every element
    pieces = ctx.extent(points(space.kept) * space.row_length())  # rows may be cut
    return schedule.rows_ns(ctx, space, per_point, pieces)


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase over the box."""
    space = _space(ctx)
    walk = _walk(ctx, values)
    each = schedule.point_ns(ctx, space, walk)
    if takes(ctx, space):
        return lower_lines(ctx, space, walk, each, int(values.get("task_us", 8)))
    across = turned_loop(ctx, space)
    if values.get("tiles") and walk.lanes > 1 and across is not None:
        return lower_tiles(ctx, space, walk, across, each)
    return lower_rows(ctx, space, walk, each, int(values.get("task_us", 8)), "pointwise")


def meaning(ctx: Context, values: Mapping[str, Value]) -> Hashable:
    """Return what of the values decides the nest: tiles are walked one way."""
    space = _space(ctx)
    walk = _walk(ctx, values)
    if values.get("tiles") and walk.lanes > 1 and _can_turn(ctx, space):
        return FORM.name, "tiles", walk.stream
    each = schedule.point_ns(ctx, space, walk)
    return (
        FORM.name,
        walk.stream,
        tasks.meaning(ctx, space, walk, each, int(values.get("task_us", 8))),
    )


def _walk(ctx: Context, values: Mapping[str, Value]) -> RowWalk:
    """Return what the knobs say: copies of any strides pass the caches in bytes of any type."""
    walk = schedule.walk_of(ctx, _walked(ctx), values)
    past = bool(values.get("stream")) and _copies_any(ctx, _space(ctx))
    return replace(walk, stream=walk.stream or past)


def _copies_any(ctx: Context, space: IterationSpace) -> bool:
    """Whether points of any strides are copied as they are."""
    return takes(ctx, space) and copied(ctx, space) is not None


def _can_turn(ctx: Context, space: IterationSpace) -> bool:
    return schedule.vector_bits(ctx, space) is not None and turned_loop(ctx, space) is not None


def _space(ctx: Context) -> IterationSpace:
    return space_of(ctx, pointwise=True)


def _walked(ctx: Context) -> IterationSpace:
    """Return the space with the steps that the loop over points knows."""
    space = _space(ctx)
    return next_to_each_other(space) if takes(ctx, space) else space


FORM = Form("pointwise", matches, knobs, default, cost_ns, lower, meaning)
