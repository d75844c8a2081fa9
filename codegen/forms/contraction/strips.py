"""The walk of the stream method over a block: strips of b, read once by all rows.

Sums lie in the workspace from the first strip to the last, which stores them in the output; or
they are finished there, in a pass of its own.
"""

from __future__ import annotations

from tcdsl.codegen.forms.contraction.block import packing
from tcdsl.codegen.forms.contraction.blocking import Blocking, Extents
from tcdsl.codegen.forms.contraction.called import Kernels
from tcdsl.codegen.forms.contraction.lets import Lets
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.register_tile import FIRST
from tcdsl.codegen.forms.contraction.tiles import (
    DepthPass,
    TaskBlock,
    area,
    finish_call,
    origin,
    reach,
    rows_of_a,
    unstage,
)
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr, Stmt


def strips(panel: Panel, g: Blocking, kernels: Kernels, x: Extents, block: TaskBlock) -> Stmt:
    """Return the stream method of a block, and what happens to its sums."""
    k0, s, i = panel.var("k0"), panel.var("strip_k"), panel.var("i")
    outside, middle, inside = Lets(panel.var), Lets(panel.var), Lets(panel.var)
    depth = outside.let("depth", b.min64(g.kc, b.sub(x.k, k0)))
    deep = middle.let("strip_depth", b.min64(g.strip, b.sub(depth, s)))
    k = middle.let("k", b.add(k0, s))
    is_first = b.compare("==", k, 0)
    resumes = panel.finish.resumes and not panel.adds_late
    flags = b.c64(0) if resumes else middle.let("flags", b.select(is_first, b.c64(FIRST), b.c64(0)))
    rows = inside.let("rows", b.min64(g.mr, b.sub(block.rows, i)))
    sums, apart = area(panel, "sums"), panel.stretch(g)
    own = b.offset(sums, b.mul(i, apart)), apart
    held, to = own, own
    there = reach(panel, "c", panel.problem.c, True, b.add(block.m0, i), block.n0)
    if resumes:
        held = _either(is_first, there, own)
    if panel.streams_out:
        to = _either(b.compare(">=", b.add(k, deep), x.k), there, own)
    packed = b.offset(area(panel, "packed_a"), b.add(b.mul(i, depth), b.mul(s, rows)))
    a = rows_of_a(panel, g, x, packed, rows, (b.add(block.m0, i), k), depth)
    args = (*a, *_b(panel, block, k))
    run = kernels.run_stream(g, rows, (*args, *held, *to, deep, flags, block.columns))
    now = DepthPass(k0, depth, b.c64(0))
    return b.block(
        b.loop(
            k0,
            0,
            b.max64(x.k, 1),  # without any k the sums are zero, and are stored
            outside.stmts,
            packing(panel, "a", g, block, now),
            b.loop(
                s,
                0,
                b.max64(depth, 1),
                middle.stmts,
                b.loop(i, 0, block.rows, inside.stmts, run, step=g.mr),
                step=g.strip,
            ),
            step=g.kc,
        ),
        _finish(panel, (sums, apart), block),
    )


def _either(cond: Expr, then: tuple[Expr, Expr], other: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
    return b.select(cond, then[0], other[0]), b.select(cond, then[1], other[1])


def _b(panel: Panel, block: TaskBlock, k: Expr) -> tuple[Expr, Expr]:
    """Return where the strip of b begins, and the distance of its rows."""
    p = panel.problem
    step = panel.stride(p.b, p.k)
    assert step is not None, "checked by extents"
    return b.offset(origin(panel, "b", p.b), b.add(b.mul(k, step), block.n0)), step


def _finish(panel: Panel, sums: tuple[Expr, Expr], block: TaskBlock) -> Stmt | None:
    """Return the way of finished sums to the output, where the last strip did not store them."""
    if panel.streams_out:
        return None
    place = (block.m0, block.n0, block.rows, block.columns)
    return b.block(
        finish_call(panel, sums, place) if panel.has_work else None,
        unstage(panel, sums, place) if panel.has_stage else None,
    )
