"""Contractions on a GPU: `O(m, n) op= f(A(m, k), B(k, n))` and what happens to the sums.

This form computes by plain arithmetic, in any type; `mma.py` has tensor cores for halves.

    problem     what is contracted: the roles of indices
    address     where its elements lie
    tiling      how it is cut: tiles of blocks, parts of the sum, and the form around them
    schedule    tiles of threads: what is legal, what it costs
    block       what a block of threads computes, and its stores
    tile        tiles of the factors in shared memory
    kernel      the kernel around them
    finish      the epilogue, and the kernel that adds parts of sums
"""

from __future__ import annotations

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.contraction.cuda.kernel import main_kernel
from tcdsl.codegen.forms.contraction.cuda.problem import Contraction, contraction
from tcdsl.codegen.forms.contraction.cuda.schedule import (
    DEPTHS,
    GOOD,
    THREADS,
    TILES,
    ThreadTiling,
    check,
    min_blocks,
    predicted_ns,
)
from tcdsl.codegen.forms.contraction.cuda.tiling import Method, shape_of
from tcdsl.codegen.loops.loopir import Function, Launch, Var


def matches(ctx: GpuContext) -> bool:
    """Whether the group is one contraction and pointwise statements on its result."""
    return contraction(ctx) is not None


def _main(
    ctx: GpuContext, x: Contraction, t: ThreadTiling, partial: Var | None
) -> tuple[Function, Launch]:
    return main_kernel(ctx, x, t, min_blocks(shape_of(ctx, x), t, ctx.machine), partial)


_METHOD = Method(
    name="simt",
    tiling=ThreadTiling,
    tiles=TILES,
    depths=DEPTHS,
    units=THREADS,
    stages=lambda x: (2, 3, 4) if x.copies else (2,),
    good=GOOD,
    check=check,
    predicted_ns=predicted_ns,
    kernel=_main,
)
FORM = _METHOD.form("contraction", matches)
