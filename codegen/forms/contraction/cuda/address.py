"""Addresses of a contraction's operands: fused indices taken apart where their strides differ.

An address is the sum of what each role contributes; constant extents make the divisions cheap.
"""

from __future__ import annotations

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.contraction.cuda.problem import Fused
from tcdsl.codegen.forms.contraction.problem import ONE, ZERO, Operand, extent_of
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class IndexRun:
    """Neighbouring indices of a role that one stride reaches."""

    extent: Size
    stride: Size


def runs_of(operand: Operand, group: Fused) -> tuple[IndexRun, ...]:
    """Return a role as an operand sees it, outer to inner."""
    runs: list[IndexRun] = []
    for index in reversed(group):
        stride = operand.stride(index.name)
        if index.extent == ONE:
            continue
        if runs and runs[-1].stride * runs[-1].extent == stride:
            runs[-1] = IndexRun(runs[-1].extent * index.extent, runs[-1].stride)
        else:
            runs.append(IndexRun(index.extent, stride))
    return tuple(reversed(runs))


def inner_stride(operand: Operand, group: Fused) -> Size:
    """Return the stride of the fastest index of a role; 0 for none."""
    runs = runs_of(operand, group)
    return runs[-1].stride if runs else ZERO


def role_extent(ctx: GpuContext, group: Fused) -> Expr:
    """Return the number of points of a role."""
    return ctx.operands.size(extent_of(group))


def place_of(ctx: GpuContext, operand: Operand, group: Fused, fused: Expr) -> Expr:
    """Return the part of an element's address that a fused index decides."""
    runs = runs_of(operand, group)
    total: Expr = b.c64(0)
    places = b.unravel(fused, [ctx.operands.size(run.extent) for run in runs])
    for run, at in zip(runs, places, strict=True):
        total = b.add(total, b.mul(at, ctx.operands.size(run.stride)))
    return total
