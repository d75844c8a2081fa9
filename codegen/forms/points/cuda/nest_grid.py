"""Points handed to threads: the grid of a nest, indices of a point, loops within a thread."""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.kernel import kernel
from tcdsl.codegen.forms.base.phase import decode
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Call,
    For,
    Function,
    If,
    Launch,
    Let,
    Scalar,
    Stmt,
    Var,
)
from tcdsl.codegen.loops.names import safe_name
from tcdsl.grammar.types.dtypes import INT32
from tcdsl.grammar.types.typed import Range

MAX_BLOCKS = 2**31 - 1  # of a grid


class Grid:
    """How points are handed to threads.

    A thread has one point, or walks on by as many as the grid has threads: then neighbours in a
    warp stay neighbours in memory, and a grid that would be too large may be cut.
    """

    def __init__(self, ctx: GpuContext, threads: int, points: int) -> None:
        self.ctx = ctx
        self.threads = threads
        self.points = points
        self.point = b.i64(ctx.operands.local("point"))

    def over(
        self, name: str, ranges: Sequence[Range], body: Stmt, scratch: Sequence[Var] = ()
    ) -> tuple[Function, Launch]:
        """Return a kernel over the points of ranges, the last running fastest."""
        ops = self.ctx.operands
        extents = [ops.size(r.extent) for r in ranges]
        count = b.mul(*extents)
        blocks = b.ceil_div(count, self.threads * self.points)
        known = b.value_of(blocks)
        fits = known <= MAX_BLOCKS if known is not None else self.ctx.spec.is_small
        point = self.point
        here = b.block(decode(ops, ranges, point), body)
        first = Call("tc_point", (), I64)
        if self.points == 1 and fits:
            nest = b.block(Let(point, first), If(b.compare("<", point, count), here))
        else:
            step = b.mul(b.cast(Call("tc_blocks", (), Scalar(INT32)), I64), self.threads)
            nest = b.loop(point, first, count, here, step=step)
            blocks = blocks if fits else b.min64(blocks, MAX_BLOCKS)
        return kernel(self.ctx, name, nest, blocks=blocks, threads=self.threads, scratch=scratch)


def loops(ctx: GpuContext, ranges: Sequence[Range], body: Stmt) -> Stmt:
    """Return body in loops over ranges, the first outermost."""
    for r in reversed(ranges):
        v = b.i64(safe_name(r.name))
        body = For(v, ctx.operands.size(r.low), ctx.operands.size(r.high), body)
    return body
