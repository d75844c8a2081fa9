"""Row groups: softmax, norms, reductions along rows with what precedes and follows them."""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.config import Knob, Value
from tcdsl.codegen.lower import rows_form
from tcdsl.codegen.lower.context import Context
from tcdsl.codegen.lower.lowered import Lowered
from tcdsl.codegen.lower.rows_space import Space, points, space_of
from tcdsl.codegen.lower.rows_tasks import lower_rows
from tcdsl.grammar.errors import ScheduleError


def matches(ctx: Context) -> bool:
    """Whether the statements share rows, with at least one pass along them."""
    try:
        return bool(_space(ctx).sweeps)
    except ScheduleError:
        return False


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return vector form, unrolling and task size."""
    return rows_form.knobs(ctx, _space(ctx))


def default(ctx: Context) -> dict[str, Value]:
    """Return the analytic choice."""
    return rows_form.default(ctx, _space(ctx))


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted serial time."""
    space = _space(ctx)
    per_point = rows_form.point_ns(ctx, space, rows_form.form_of(ctx, space, values))
    return ctx.extent(points(space.kept)) * (ctx.extent(space.row_length()) * per_point + 15.0)


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase over rows."""
    space = _space(ctx)
    form = rows_form.form_of(ctx, space, values)
    sweeps = len(space.sweeps)
    return lower_rows(
        ctx,
        space,
        form,
        rows_form.point_ns(ctx, space, form),
        int(values.get("task_us", 8)),
        f"rows of {sweeps} sweep{'s' if sweeps > 1 else ''}",
        rows_form.flops(ctx, space.aligned),
    )


def _space(ctx: Context) -> Space:
    return space_of(ctx)
