"""Row groups on a GPU: softmax, norms, reductions with what precedes and follows them.

One kernel. Threads of a row fold by shuffles, and through shared memory where they are in several
warps; values that several sweeps need stay in registers where a row fits into them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.kernel import LoweredKernels, kernel
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.rows.cuda import shape as rows_shape
from tcdsl.codegen.forms.rows.cuda.kernel import held_points, whole_rows
from tcdsl.codegen.forms.rows.cuda.program import program_of
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.grammar.text.errors import ScheduleError


def matches(ctx: GpuContext) -> bool:
    """Whether the statements share rows, with at least one pass along them."""
    try:
        return bool(program_of(ctx).space.sweeps)
    except ScheduleError:
        return False


def knobs(ctx: GpuContext) -> tuple[Knob, ...]:
    """Return the direction, the threads of a row and of a block, and loads under way."""
    return rows_shape.knobs(ctx, program_of(ctx))


def default(ctx: GpuContext) -> dict[str, Value]:
    """Return a warp to a short row, a block to a long one; columns where neighbours are rows."""
    return rows_shape.default(ctx, program_of(ctx))


def cost_ns(ctx: GpuContext, values: Mapping[str, Value]) -> float:
    """Return the predicted time."""
    return rows_shape.predicted_ns(ctx, program_of(ctx), values)


def lower(ctx: GpuContext, values: Mapping[str, Value]) -> LoweredKernels:
    """Return one kernel over rows."""
    program, walk = program_of(ctx), rows_shape.walk_of(values)
    nest, team = whole_rows(ctx, program, walk), walk.team
    sweeps = len(program.space.sweeps)
    held = any(held_points(program, walk, n) for n in range(sweeps))
    title = f"{team.along} of {sweeps} sweep{'s' if sweeps > 1 else ''}, {rows_shape.spoken(walk)}"
    title += ", in registers" if held else ""
    if rows_shape.is_empty(nest.blocks()):
        return LoweredKernels(title, (), ())
    function, launch = kernel(ctx, "rows", nest.body(), blocks=nest.blocks(), threads=team.threads)
    functions = (*nest.functions, function)
    return LoweredKernels(title, functions, (launch,))


FORM = Form("rows", matches, knobs, default, cost_ns, lower)
