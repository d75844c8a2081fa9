"""What tiles of one factor in shared memory are made of, however their elements lie there."""

from __future__ import annotations

from typing import Any, Self

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.contraction.cuda.block import BlockPlace, source_var
from tcdsl.codegen.forms.contraction.cuda.finish import role_var
from tcdsl.codegen.forms.contraction.cuda.problem import Contraction, Fused, Side
from tcdsl.codegen.forms.contraction.cuda.tiling import BlockTiling
from tcdsl.codegen.loops.loopir import Expr, Var
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SideTile:
    """The tile of one side: width rows of `a` or columns of `b`, bk steps deep.

    x: the fused index along it, first its value at the tile's first element.
    """

    ctx: GpuContext
    side: Side
    name: str
    is_a: bool
    group: Fused
    x: Var
    first: Expr
    k: Var
    k_group: Fused
    k_high: Expr
    source: Expr
    thread: Var
    width: int
    bk: int
    stages: int
    threads: int

    @classmethod
    def of(
        cls,
        ctx: GpuContext,
        c: Contraction,
        t: BlockTiling,
        at: BlockPlace,
        *,
        is_a: bool,
        **own: Any,
    ) -> Self:
        """Return the tile of a side in the block at a place; own: the fields of a subclass."""
        side, group, name = (c.a, c.m, "a") if is_a else (c.b, c.n, "b")
        return cls(
            ctx=ctx,
            side=side,
            name=name,
            is_a=is_a,
            group=group,
            x=role_var(ctx, group, "m" if is_a else "n"),
            first=at.m0 if is_a else at.n0,
            k=role_var(ctx, c.k, "k"),
            k_group=c.k,
            k_high=at.k_high,
            source=source_var(ctx, c, side, name),
            thread=at.thread,
            width=t.bm if is_a else t.bn,
            bk=t.bk,
            stages=t.stages,
            threads=t.threads,
            **own,
        )
