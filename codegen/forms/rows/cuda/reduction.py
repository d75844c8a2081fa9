"""Reductions on a GPU: one pass that folds values, and statements on what it gives.

Either the threads of a row walk it together and fold by shuffles and shared memory, or, where
neighbours in memory belong to different results, threads walk columns side by side. Where results
are few and folds long, several blocks share a row: each leaves its part, a second kernel folds
the parts in their order. How many parts there are follows from the config, so that a sum is the
same in every run.
"""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.kernel import LoweredKernels, kernel
from tcdsl.codegen.forms.base.cuda.traffic import LAUNCH_NS
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.rows.cuda import shape as rows_shape
from tcdsl.codegen.forms.rows.cuda.cost import facts
from tcdsl.codegen.forms.rows.cuda.kernel import whole_rows
from tcdsl.codegen.forms.rows.cuda.program import program_of
from tcdsl.codegen.forms.rows.cuda.reduction_split import split_rows
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.grammar.text.errors import ScheduleError

PARTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_LEAST = 16  # points of a thread that are worth a part of a row


def matches(ctx: GpuContext) -> bool:
    """Whether the group is one pass of folds and what follows from them."""
    try:
        sweeps = program_of(ctx).space.aligned.sweeps
    except ScheduleError:
        return False
    return len(sweeps) == 1 and not sweeps[0].before and all(s.folds for s in sweeps[0].steps)


def knobs(ctx: GpuContext) -> tuple[Knob, ...]:
    """Return the knobs of rows, and the blocks that share one."""
    program = program_of(ctx)
    length = facts(ctx, program).length
    parts = tuple(n for n in PARTS if n == 1 or n <= length // 64 or not ctx.is_exact())
    return (*rows_shape.knobs(ctx, program), Knob("parts", parts))


def default(ctx: GpuContext) -> dict[str, Value]:
    """Return what rows have; parts where whole rows leave multiprocessors without work."""
    program = program_of(ctx)
    values = rows_shape.default(ctx, program)
    team = rows_shape.walk_of(values).team
    length, rows = facts(ctx, program).length, facts(ctx, program).rows
    if team.along == "rows" and -(-rows // team.rows) * team.lanes < ctx.machine.sms * 256:
        values |= {"lanes": 256, "threads": 256} if length > 256 * _LEAST else {}
        team = rows_shape.walk_of(values).team
    parts = 1
    while (
        2 * parts <= PARTS[-1]
        and rows * team.lanes * parts < ctx.machine.sms * 512
        and length >= 2 * parts * team.lanes * _LEAST
    ):
        parts *= 2
    values["unroll"] = 8 // min(4, int(values["width"]))
    return {**values, "parts": parts}


def cost_ns(ctx: GpuContext, values: Mapping[str, Value]) -> float:
    """Return the predicted time of all kernels."""
    parts = int(values["parts"])
    second = LAUNCH_NS if parts > 1 else 0.0
    return rows_shape.predicted_ns(ctx, program_of(ctx), values, parts) + second


def lower(ctx: GpuContext, values: Mapping[str, Value]) -> LoweredKernels:
    """Return one kernel, two where blocks share rows."""
    program, walk = program_of(ctx), rows_shape.walk_of(values)
    nest, parts = whole_rows(ctx, program, walk), int(values["parts"])
    title = f"reduction along {walk.team.along}, {rows_shape.spoken(walk)}"
    if rows_shape.is_empty(nest.blocks()):
        return LoweredKernels(title, (), ())
    if parts > 1:
        title += f", {parts} blocks to a row"
        return split_rows(ctx, program, walk, parts, title)
    blocks, body = nest.blocks(), nest.body()
    function, launch = kernel(ctx, "reduce", body, blocks=blocks, threads=walk.team.threads)
    return LoweredKernels(title, (*nest.functions, function), (launch,))


FORM = Form("reduction", matches, knobs, default, cost_ns, lower)
