"""Contractions on a GPU: `O(m, n) op= f(A(m, k), B(k, n))` and what happens to the sums.

This form computes by plain arithmetic, in any type; `contraction_mma` has tensor cores for halves.

    contraction_problem    what is contracted: the roles of indices
    contraction_address    where its elements lie
    contraction_schedule   how it is cut: tiles of blocks and threads, parts of the sum
    contraction_block      what a block of threads computes, and its stores
    contraction_tile       tiles of the factors in shared memory
    contraction_kernel     the kernel around them
    contraction_finish     the epilogue, and the kernel that adds parts of sums
"""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.kernel import LoweredKernels
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.contraction.cuda.finish import in_parts
from tcdsl.codegen.forms.contraction.cuda.kernel import main_kernel
from tcdsl.codegen.forms.contraction.cuda.problem import contraction, required
from tcdsl.codegen.forms.contraction.cuda.schedule import (
    DEPTHS,
    RASTERS,
    THREADS,
    TILES,
    check,
    choose,
    min_blocks,
    predicted_ns,
    shape_of,
    splits_of,
    tiling_of,
)
from tcdsl.codegen.machine.config import Knob, Value


def matches(ctx: GpuContext) -> bool:
    """Whether the group is one contraction and pointwise statements on its result."""
    return contraction(ctx) is not None


def knobs(ctx: GpuContext) -> tuple[Knob, ...]:
    """Return the choices; `lower` refuses combinations that no kernel can have."""
    x = shape_of(ctx, required(ctx))
    return (
        Knob("tile", TILES),
        Knob("depth", DEPTHS),
        Knob("thread", THREADS),
        Knob("stages", (2, 3, 4) if x.copies else (2,)),
        Knob("splits", splits_of(x)),
        Knob("raster", RASTERS),
    )


def default(ctx: GpuContext) -> dict[str, Value]:
    """Return the analytic schedule."""
    x = shape_of(ctx, required(ctx))
    return ctx.once("default", lambda: choose(x, ctx.machine)).values()


def cost_ns(ctx: GpuContext, values: Mapping[str, Value]) -> float:
    """Return the predicted time.

    Raises
    ------
    ScheduleError
        If no kernel can have these values together: a search passes over them.
    """
    shape, t = shape_of(ctx, required(ctx)), tiling_of(values)
    check(shape, t, ctx.machine)
    return predicted_ns(shape, t, ctx.machine)


def lower(ctx: GpuContext, values: Mapping[str, Value]) -> LoweredKernels:
    """Return one kernel, or two where the sum is split.

    Raises
    ------
    ScheduleError
        If no kernel can have these values together.
    """
    x, t = required(ctx), tiling_of(values)
    shape = shape_of(ctx, x)
    check(shape, t, ctx.machine)
    resident = min_blocks(shape, t, ctx.machine)
    form = f"simt {t.name}"
    return in_parts(
        ctx, x, t.splits, form, lambda partial: main_kernel(ctx, x, t, resident, partial)
    )


FORM = Form("contraction", matches, knobs, default, cost_ns, lower, has_tiles=True)
