"""Contractions of halves on tensor cores: `mma.m16n8k16`, summed in float32.

The same problems as `contraction`, if both factors are float16 or both bfloat16 and the sum is one
of their products. Warps compute um x un sums from fragments that `ldmatrix` reads.
"""

from __future__ import annotations

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.kernel import kernel
from tcdsl.codegen.forms.contraction.cuda.block import (
    Sums,
    block_count,
    pipeline,
    place,
    source,
    stores,
)
from tcdsl.codegen.forms.contraction.cuda.mma_schedule import (
    DEPTHS,
    GOOD,
    STAGES,
    TENSOR_CORES,
    TILES,
    WARPS,
    WarpTiling,
    check,
    planned_blocks_per_sm,
    predicted_ns,
)
from tcdsl.codegen.forms.contraction.cuda.mma_tile import ChunkTile
from tcdsl.codegen.forms.contraction.cuda.problem import Contraction, contraction
from tcdsl.codegen.forms.contraction.cuda.tiling import WHOLE, Method
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
from tcdsl.codegen.machine.gpu import WARP
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import FLOAT32


def matches(ctx: GpuContext) -> bool:
    """Whether the group is a contraction of halves, on a GPU with tensor cores for them."""
    x = contraction(ctx)
    if x is None or ctx.machine.capability < TENSOR_CORES or not x.is_product:
        return False
    halves = all(s.element == typed.Cast(s.read, FLOAT32) for s in (x.a, x.b))
    return halves and x.a.stored == x.b.stored and x.a.stored.is_half and x.dtype == FLOAT32


def _main(
    ctx: GpuContext, x: Contraction, t: WarpTiling, partial: Var | None
) -> tuple[Function, Launch]:
    ops = ctx.operands
    at = place(ctx, x, t)
    stored = x.a.stored

    def tile(name: str) -> Var:
        return Var(ctx.operands.local(name), Pointer(stored, space="shared"))

    left, right = (
        ChunkTile.of(ctx, x, t, at, is_a=is_a, outer=x.outer, tile=tile(name))
        for is_a, name in ((True, "a_tile"), (False, "b_tile"))
    )
    lane, warp_m, warp_n = (b.i64(ops.local(n)) for n in ("lane", "warp_m", "warp_n"))
    warp, across = b.div(at.thread, WARP), t.bn // t.un
    shared = b.call(f"tc_shared_{short_name(stored)}", type=left.tile.type)
    acc = Array(ops.local("acc"), Scalar(FLOAT32), (t.um // 16, t.un // 8, 4))
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
            left.fetch(stage, step, warp_m, lane, t.um),
            right.fetch(stage, step, warp_n, lane, t.un),
            b.loop(i, 0, t.um // 16, b.loop(j, 0, t.un // 8, one, mark=WHOLE), mark=WHOLE),
        )
        return b.loop(step, 0, t.bk // 16, body, mark=WHOLE)

    sums = Sums(
        t.um // 8,
        t.un // 4,
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
        Let(lane, b.mod(at.thread, WARP)),
        Let(warp_m, b.mul(b.div(warp, across), t.um)),
        Let(warp_n, b.mul(b.mod(warp, across), t.un)),
        source(ctx, x, at, x.a, "a"),
        source(ctx, x, at, x.b, "b"),
        left.declarations(),
        right.declarations(),
        Let(left.tile, shared),
        Let(right.tile, b.offset(left.tile, t.stages * t.bm * t.bk)),
        acc,
        zeros,
        left.fragments(t.um),
        right.fragments(t.un),
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
        min_blocks=planned_blocks_per_sm(t, ctx.machine) if t.registers > 128 else 0,
        shared_bytes=t.shared_bytes,
        scratch=[] if partial is None else [partial],
    )


_METHOD = Method(
    name="mma",
    tiling=WarpTiling,
    tiles=TILES,
    depths=DEPTHS,
    units=WARPS,
    stages=lambda _: STAGES,
    good=GOOD,
    check=check,
    predicted_ns=predicted_ns,
    kernel=_main,
)
FORM = _METHOD.form("contraction_mma", matches)
