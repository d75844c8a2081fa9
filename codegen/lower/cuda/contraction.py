"""Contractions on a GPU: `O(m, n) op= f(A(m, k), B(k, n))` and what happens to the sums.

contraction_problem    what is contracted: the roles of indices, addresses
contraction_schedule   how it is cut: tiles of blocks and threads, parts of the sum
contraction_tile       tiles of the factors in shared memory
contraction_kernel     the kernel around them
contraction_finish     the epilogue, and the kernel that adds parts of sums
"""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen import build as b
from tcdsl.codegen.config import Knob, Value
from tcdsl.codegen.loopir import Expr
from tcdsl.codegen.lower.context import GpuContext
from tcdsl.codegen.lower.contraction_epilogue import Unfused
from tcdsl.codegen.lower.contraction_problem import extent_of
from tcdsl.codegen.lower.cuda.contraction_finish import finish_kernel
from tcdsl.codegen.lower.cuda.contraction_kernel import main_kernel
from tcdsl.codegen.lower.cuda.contraction_problem import Contraction, contraction_of, role_extent
from tcdsl.codegen.lower.cuda.contraction_schedule import (
    ASYNC_COPIES,
    DEPTHS,
    RASTERS,
    SPLITS,
    THREADS,
    TILES,
    Shape,
    check,
    choose,
    min_blocks,
    predicted_ns,
    tiling_of,
)
from tcdsl.codegen.lower.cuda.kernel import LoweredKernels


def matches(ctx: GpuContext) -> bool:
    """Whether the group is one contraction and pointwise statements on its result."""
    return _contraction(ctx) is not None


def knobs(ctx: GpuContext) -> tuple[Knob, ...]:
    """Return the choices; `lower` refuses combinations that no kernel can have."""
    x = _shape(ctx, _required(ctx))
    splits = tuple(s for s in SPLITS if s == 1 or x.k >= 16 * s)
    chosen = default(ctx)
    return (
        Knob("tile", TILES),
        Knob("depth", DEPTHS),
        Knob("thread", THREADS),
        Knob("stages", (2, 3, 4) if x.copies else (2,)),
        Knob("splits", tuple(sorted({*splits, int(chosen["splits"])}))),
        Knob("raster", RASTERS),
    )


def default(ctx: GpuContext) -> dict[str, Value]:
    """Return the analytic schedule."""
    x = _shape(ctx, _required(ctx))
    return ctx.once("default", lambda: choose(x, ctx.machine)).values()


def cost_ns(ctx: GpuContext, values: Mapping[str, Value]) -> float:
    """Return the predicted time."""
    return predicted_ns(_shape(ctx, _required(ctx)), tiling_of(values), ctx.machine)


def lower(ctx: GpuContext, values: Mapping[str, Value]) -> LoweredKernels:
    """Return one kernel, or two where the sum is split.

    Raises
    ------
    ScheduleError
        If no kernel can have these values together.
    """
    x, t = _required(ctx), tiling_of(values)
    shape = _shape(ctx, x)
    check(shape, t, ctx.machine)
    resident = min_blocks(shape, t, ctx.machine)
    words = ["simt", t.name]
    flops = 2.0 * shape.outer * shape.m * shape.n * shape.k
    if t.splits == 1:
        parts = [main_kernel(ctx, x, t, resident, None)]
        scratch: tuple[Expr, ...] = ()
    else:
        words.append(f"in {t.splits} parts")
        partial = b.pointer(ctx.operands.local("partial"), x.dtype, restrict=True)
        parts = [
            main_kernel(ctx, x, t, resident, partial),
            finish_kernel(ctx, x, partial, t.splits),
        ]
        points = b.mul(*(role_extent(ctx, g) for g in (x.outer, x.m, x.n)))
        scratch = (b.mul(points, t.splits * x.dtype.size_bytes),)
    if not x.is_bare:
        words.append("+ epilogue")
    functions, launches = zip(*parts, strict=True)
    return LoweredKernels(" ".join(words), functions, launches, scratch, flops=flops)


def _contraction(ctx: GpuContext) -> Contraction | None:
    def make() -> Contraction | None:
        try:
            return contraction_of(ctx)
        except Unfused:
            return None

    return ctx.once("contraction", make)


def _required(ctx: GpuContext) -> Contraction:
    x = _contraction(ctx)
    assert x is not None, "the group was found to be a contraction"
    return x


def _shape(ctx: GpuContext, x: Contraction) -> Shape:
    outer, m, n, k = (max(0, ctx.extent(extent_of(g))) for g in x.roles())
    size = max(x.a.dtype.size_bytes, x.b.dtype.size_bytes)
    loads = max(x.a.stored.size_bytes, x.b.stored.size_bytes)
    copies = (
        ctx.machine.capability >= ASYNC_COPIES
        and x.a.is_copied
        and x.b.is_copied
        and {x.a.stored.size_bytes, x.b.stored.size_bytes} <= {4, 8}
    )
    return Shape(outer, m, n, k, size, x.dtype.size_bytes, loads, copies)
