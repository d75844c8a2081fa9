"""Reductions: one pass that folds values, and pointwise statements on what it gives.

Two ways to walk: along the rows that are folded, or along columns, where neighbours in memory
belong to different results and whole vectors are folded at once. Where results are few and folds
long, the pass is split into parts by sizes alone, so that a sum is the same at any number of
threads: every part leaves partial results, a second phase combines them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from tcdsl.codegen.forms.base.access import ONE
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered
from tcdsl.codegen.forms.base.space import IterationSpace, points, space_of
from tcdsl.codegen.forms.rows import schedule
from tcdsl.codegen.forms.rows.cpu import tasks
from tcdsl.codegen.forms.rows.cpu.columns import (
    block_knob,
    block_of,
    pieces_of,
    usual_block,
)
from tcdsl.codegen.forms.rows.cpu.columns_phase import lower_columns
from tcdsl.codegen.forms.rows.cpu.reduction_columns import lower_column_parts
from tcdsl.codegen.forms.rows.cpu.reduction_split import Split, lower_split
from tcdsl.codegen.forms.rows.cpu.tasks import lower_rows
from tcdsl.codegen.forms.rows.crossing import PART_POINTS
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.grammar.proofs.signs import maximum
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.errors import ScheduleError

MOST_PARTS = 64
# Of products of floats: those of many numbers below 1 go through the denormal ones on their way to
# 0, which costs some 9 us a part.
_PART_FACTORS = 1 << 18
_ENOUGH_RESULTS = 8  # independent pieces, from which on nothing is split
_COLUMNS = 1024  # that are such a piece
_SPLIT_FROM = 2 * PART_POINTS + 1  # points, from which on there are parts


def matches(ctx: Context) -> bool:
    """Whether the group is one pass of folds and what follows from them."""
    try:
        return _is_reduction(space_of(ctx))
    except ScheduleError:
        return False


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return the direction, whether the fold is split, columns of a block, the knobs of rows."""
    space = space_of(ctx)
    walk, split = schedule.walk_knob(ctx, space), Knob("split", (False, True))
    return (walk, split, *block_knob(ctx, space), *schedule.knobs(ctx, space))


def default(ctx: Context) -> dict[str, Value]:
    """Return columns where they are nearer in memory than rows; split long folds of few results."""
    space = space_of(ctx)
    along = "columns" if schedule.columns_are_near(ctx, space) else "rows"
    split = _counts_parts(ctx, space, along) or is_split(ctx)
    block: dict[str, Value] = {k.name: usual_block(ctx, space) for k in block_knob(ctx, space)}
    return {**schedule.default(ctx, space, along), **block, "walk": along, "split": split}


def is_split(ctx: Context) -> bool:
    """Whether a fold has parts at all sizes of a regime: long ones of few results have."""
    space = space_of(ctx)
    if not (ctx.is_exact() or space.kept):
        return True  # one result of any size: the plan finds the parts
    pieces = points(space.kept)
    if schedule.columns_are_near(ctx, space):
        pieces = _blocks_of_columns(space)
    work = points(space.kept) * space.row_length()
    return ctx.at_least(work, _SPLIT_FROM) and not ctx.at_least(pieces, _ENOUGH_RESULTS)


def _blocks_of_columns(space: IterationSpace) -> Size:
    return points(space.kept[:-1]) * maximum(ONE, space.kept[-1].extent // _COLUMNS)


def _counts_parts(ctx: Context, space: IterationSpace, walk: Value) -> bool:
    """Whether the plan tells how many parts there are, be it one, which stores its results itself.

    Along columns that is the same text but for a pass along finished ones. Along rows it is
    another: many short rows are a task, and stay in registers.
    """
    if ctx.is_exact():
        return False
    return not space.kept or (walk == "columns" and schedule.column_walk(ctx, space) is not None)


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call with the spec's threads (`wall.py`)."""
    space = space_of(ctx)
    walk = schedule.walk_of(ctx, space, values)
    each = schedule.point_ns(ctx, space, walk)
    near = schedule.columns_are_near(ctx, space)
    against = 1.0 if (values.get("walk") == "columns") == near else 4.0
    idle = 1.0 if values.get("split") == default(ctx)["split"] else 1.3
    pieces = pieces_of(ctx, space, values)
    work = ctx.extent(points(space.kept) * space.row_length())
    counted = _counts_parts(ctx, space, values.get("walk", "rows"))
    if values.get("split") and (not counted or work >= _SPLIT_FROM):  # into parts of rows
        pieces = max(pieces, min(MOST_PARTS, work // PART_POINTS))
    return schedule.rows_ns(ctx, space, each * against, pieces) * idle


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase, two where the fold is split."""
    space = space_of(ctx)
    split = split_of(ctx, space, values.get("walk", "rows")) if values.get("split") else None
    column = schedule.column_walk(ctx, space)
    if values.get("walk") == "columns" and column is not None:
        each, block = schedule.point_ns(ctx, space, column), block_of(ctx, space, values)
        if split is not None:
            return lower_column_parts(ctx, space, column, each, block, split)
        return lower_columns(ctx, space, column, each, block, "reduction")
    walk = schedule.walk_of(ctx, space, values)
    each = schedule.point_ns(ctx, space, walk)
    if split is not None:
        return lower_split(ctx, space, walk, each, split)
    task_us = int(values.get("task_us", 8))
    return lower_rows(ctx, space, walk, each, task_us, "row reduction")


def meaning(ctx: Context, values: Mapping[str, Value]) -> Hashable:
    """Return what of the values decides the nest: side by side there is one way to walk."""
    space, split = space_of(ctx), bool(values.get("split"))
    if values.get("walk") == "columns" and schedule.column_walk(ctx, space) is not None:
        return "columns", split, block_of(ctx, space, values)
    walk = schedule.walk_of(ctx, space, values)
    if split:
        return "split", walk
    each = schedule.point_ns(ctx, space, walk)
    return tasks.meaning(ctx, space, walk, each, int(values.get("task_us", 8)))


def _is_reduction(space: IterationSpace) -> bool:
    sweeps = space.aligned.sweeps
    if len(sweeps) != 1 or sweeps[0].before or sweeps[0].segment:
        return False
    return all(s.folds for s in sweeps[0].steps)


def _multiplies_floats(ctx: Context, space: IterationSpace) -> bool:
    folds = (s.statement for s in space.aligned.steps if s.folds)
    return any(s.op.startswith("*") and ctx.operands.buffer(s.target).dtype.is_float for s in folds)


def split_of(ctx: Context, space: IterationSpace, walk: Value) -> Split:
    """Return the parts of a fold: their number depends on sizes only."""
    outermost = space.sweeps[0][0]
    length = ctx.operands.size(space.row_length())
    rows = ctx.operands.size(points(space.kept))
    work = b.mul(b.max64(rows, 1), length)
    count = b.div(work, PART_POINTS)
    if _multiplies_floats(ctx, space):
        count = b.ceil_div(work, _PART_FACTORS)
    wanted = b.max64(1, b.min64(MOST_PARTS, count))
    if space.kept and _counts_parts(ctx, space, walk):
        pieces = ctx.operands.size(_blocks_of_columns(space))
        is_few = b.compare("<", pieces, _ENOUGH_RESULTS)
        is_long = b.compare(">=", work, _SPLIT_FROM)
        wanted = b.select(b.all_of(is_long, is_few), wanted, b.c64(1))
    extent = ctx.operands.size(outermost.extent)
    return Split(extent, wanted)


FORM = Form("reduction", matches, knobs, default, cost_ns, lower, meaning, leaves_kept_open=True)
