"""Contractions of halves on tensor cores: `mma.m16n8k16`, summed in float32.

The same problems as `contraction`, if both factors are float16 or both bfloat16 and the sum is one
of their products. Warps compute wm x wn sums from fragments that `ldmatrix` reads.
"""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.kernel import LoweredKernels, kernel
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.contraction.cuda.block import (
    Place,
    Sums,
    block_count,
    pipeline,
    place,
    source,
    source_var,
    stores,
)
from tcdsl.codegen.forms.contraction.cuda.finish import in_parts, role_var
from tcdsl.codegen.forms.contraction.cuda.mma_schedule import (
    DEPTHS,
    STAGES,
    TENSOR_CORES,
    TILES,
    WARPS,
    WarpTiling,
    blocks_per_sm,
    check,
    choose,
    predicted_ns,
    tiling_of,
)
from tcdsl.codegen.forms.contraction.cuda.mma_tile import ChunkTile
from tcdsl.codegen.forms.contraction.cuda.problem import Contraction, contraction, required
from tcdsl.codegen.forms.contraction.cuda.schedule import RASTERS, shape_of, splits_of
from tcdsl.codegen.forms.contraction.cuda.tile import WHOLE
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Address,
    Array,
    Elem,
    Expr,
    Function,
    Launch,
    Let,
    Pointer,
    Scalar,
    Stmt,
    Var,
)
from tcdsl.codegen.loops.target import short_name
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import FLOAT32


def matches(ctx: GpuContext) -> bool:
    """Whether the group is a contraction of halves, on a GPU with tensor cores for them."""
    x = contraction(ctx)
    if x is None or ctx.machine.capability < TENSOR_CORES or not x.is_product:
        return False
    halves = all(s.element == typed.Cast(s.read, FLOAT32) for s in (x.a, x.b))
    return halves and x.a.stored == x.b.stored and x.a.stored.is_half and x.dtype == FLOAT32


def knobs(ctx: GpuContext) -> tuple[Knob, ...]:
    """Return the choices; `lower` refuses combinations that no kernel can have."""
    x = shape_of(ctx, required(ctx))
    return (
        Knob("tile", TILES),
        Knob("depth", DEPTHS),
        Knob("warp", WARPS),
        Knob("stages", STAGES),
        Knob("splits", splits_of(x)),
        Knob("raster", RASTERS),
    )


def default(ctx: GpuContext) -> dict[str, Value]:
    """Return the analytic schedule."""
    x = shape_of(ctx, required(ctx))
    return ctx.once("default mma", lambda: choose(x, ctx.machine)).values()


def cost_ns(ctx: GpuContext, values: Mapping[str, Value]) -> float:
    """Return the predicted time.

    Raises
    ------
    ScheduleError
        If no kernel can have these values together: a search passes over them.
    """
    t = tiling_of(values)
    check(t, ctx.machine)
    return predicted_ns(shape_of(ctx, required(ctx)), t, ctx.machine)


def lower(ctx: GpuContext, values: Mapping[str, Value]) -> LoweredKernels:
    """Return one kernel, or two where the sum is split.

    Raises
    ------
    ScheduleError
        If no kernel can have these values together.
    """
    x, t = required(ctx), tiling_of(values)
    check(t, ctx.machine)
    return in_parts(ctx, x, t.splits, f"mma {t.name}", lambda partial: _main(ctx, x, t, partial))


def _main(
    ctx: GpuContext, x: Contraction, t: WarpTiling, partial: Var | None
) -> tuple[Function, Launch]:
    ops = ctx.operands
    at = place(ctx, x, t)
    stored = x.a.stored
    left = _tile(ctx, x, t, at, is_a=True)
    right = _tile(ctx, x, t, at, is_a=False)
    lane, warp_m, warp_n = (b.i64(ops.local(n)) for n in ("lane", "warp_m", "warp_n"))
    warp, across = b.div(at.thread, 32), t.bn // t.wn
    shared = b.call(f"tc_shared_{short_name(stored)}", type=left.tile.type)
    acc = Array(ops.local("acc"), Scalar(FLOAT32), (t.wm // 16, t.wn // 8, 4))
    i, j, q = (b.i64(ops.local(name)) for name in ("i", "j", "q"))
    zeros: Stmt = b.assign(Elem(acc.name, (i, j, q), acc.type), b.const(0, FLOAT32))
    for v, count in zip((q, j, i), reversed(acc.shape), strict=True):
        zeros = b.loop(v, 0, count, zeros, mark=WHOLE)

    def products(stage: Expr, k0: Expr) -> Stmt:
        step = b.i64(ops.local("step"))
        total = Address(Elem(acc.name, (i, j, b.c64(0)), acc.type), Pointer(FLOAT32, space="local"))
        own = right.own(b.div(j, 2), b.mul(b.mod(j, 2), 2))
        one = b.do(f"tc_mma_m16n8k16_{short_name(stored)}", total, left.own(i, 0), own)
        body = b.block(
            left.fetch(stage, step, warp_m, lane, t.wm),
            right.fetch(stage, step, warp_n, lane, t.wn),
            b.loop(i, 0, t.wm // 16, b.loop(j, 0, t.wn // 8, one, mark=WHOLE), mark=WHOLE),
        )
        return b.loop(step, 0, t.bk // 16, body, mark=WHOLE)

    sums = Sums(
        t.wm // 8,
        t.wn // 4,
        lambda r: b.add(warp_m, b.mul(r, 8), b.div(lane, 4)),
        lambda c: b.add(warp_n, b.mul(b.div(c, 2), 8), b.mul(b.mod(lane, 4), 2), b.mod(c, 2)),
        lambda r, c: Elem(
            acc.name,
            (b.div(r, 2), b.div(c, 2), b.add(b.mul(b.mod(r, 2), 2), b.mod(c, 2))),
            acc.type,
        ),
    )
    body = b.block(
        at.declarations,
        Let(lane, b.mod(at.thread, 32)),
        Let(warp_m, b.mul(b.div(warp, across), t.wm)),
        Let(warp_n, b.mul(b.mod(warp, across), t.wn)),
        source(ctx, x, at, x.a, "a"),
        source(ctx, x, at, x.b, "b"),
        left.declarations(),
        right.declarations(),
        Let(left.tile, shared),
        Let(right.tile, b.offset(left.tile, t.stages * t.bm * t.bk)),
        acc,
        zeros,
        left.fragments(t.wm),
        right.fragments(t.wn),
        pipeline(
            ctx,
            t,
            at,
            lambda stage, k0: [left.copies(stage, k0), right.copies(stage, k0)],
            products,
        ),
        stores(ctx, x, t, at, sums, partial),
    )
    return kernel(
        ctx,
        "contract",
        body,
        blocks=block_count(ctx, x, t),
        threads=t.threads,
        min_blocks=blocks_per_sm(t, ctx.machine) if t.registers > 128 else 0,
        shared_bytes=t.shared_bytes,
        scratch=[] if partial is None else [partial],
    )


def _tile(ctx: GpuContext, x: Contraction, t: WarpTiling, at: Place, *, is_a: bool) -> ChunkTile:
    side, group, name = (x.a, x.m, "a") if is_a else (x.b, x.n, "b")
    return ChunkTile(
        ctx=ctx,
        side=side,
        name=name,
        is_a=is_a,
        tile=Var(ctx.operands.local(f"{name}_tile"), Pointer(side.stored, space="shared")),
        group=group,
        outer=x.outer,
        x=role_var(ctx, group, "m" if is_a else "n"),
        first=at.m0 if is_a else at.n0,
        k=role_var(ctx, x.k, "k"),
        k_group=x.k,
        k_high=at.k_high,
        source=source_var(ctx, x, side, name),
        thread=at.thread,
        width=t.bm if is_a else t.bn,
        bk=t.bk,
        threads=t.threads,
    )


FORM = Form("contraction_mma", matches, knobs, default, cost_ns, lower, has_tiles=True)
