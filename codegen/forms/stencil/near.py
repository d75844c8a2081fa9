"""Blocks at borders whose loads are whole vectors, of which a mask keeps the lanes that exist.

    const float *near = from < 0 || to > total ? tc_near_4(room, I, from, to, total) : I;
    x = tc_masked_v8f32(tc_load_v8f32(near + ..), mask)

Where masks have no registers of their own a load under one takes up to ten times as long as one of
a whole vector, whose other lanes are neighbours in memory: those of the line before or behind. Only
at both ends of a tensor there are none. A block that would look there reads a copy of what is its.
"""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.stencil.problem import Place, Stencil, place_of
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass

LINE = 64  # bytes: where what lies in the workspace begins


@dataclass(frozen=True, slots=True)
class Reach:
    """What a block may read, in elements from where the outer indices have it begin.

    first, behind: the least element and the one behind the last, at the variables of row and lane.
    begin, end: of the tensor. span: how many elements lie between first and behind at most.
    """

    first: Expr
    behind: Expr
    begin: Expr
    end: Expr
    span: Expr


def is_near(ctx: Context, stencil: Stencil, place: Place) -> bool:
    """Whether all that a stencil reads of a tensor is one window in memory without gaps."""
    if ctx.machine.has_masks or ctx.operands.position(place.tensor) is None:
        return False
    buffer = ctx.operands.buffer(place.tensor)
    if place.step(stencil.lane.name).constant not in (1, 2):
        return False
    if not ctx.operands.layout(place.tensor).contiguous or any(x.terms for x in buffer.low):
        return False
    if buffer.dtype.is_half or ctx.operands.memory_dtype(place.tensor).bits != stencil.bits:
        return False
    homes = {ctx.operands.buffer(s.target).home for s in stencil.statements}
    reads = [
        r for s in stencil.statements for r in s.reads() if r.subs and r.tensor == place.tensor
    ]
    places = {place_of(ctx, r.tensor, r.subs) for r in reads}
    return buffer.home not in homes and places == {place}


def reach_of(
    ctx: Context,
    stencil: Stencil,
    place: Place,
    index: Mapping[str, Expr],
    shift: Mapping[str, int],
    lanes: int,
) -> Reach:
    """Return what a block reads of a place.

    index: the variables of the output indices. shift: the furthest points of the block from them.
    """
    size = ctx.operands.size
    taps = {name: (values[0], values[-1]) for name, values in stencil.taps}
    lane = stencil.lane.name
    inner = {lane, *taps, *((stencil.row.name,) if stencil.row is not None else ())}
    least: list[Expr] = [size(place.const)]
    most: list[Expr] = [size(place.const)]
    span: list[Expr] = [b.c64(lanes * (place.step(lane).constant or 1))]
    before: Expr = b.c64(0)
    for name, step in place.terms:
        if name not in inner:
            before = b.add(before, b.mul(index[name], size(step)))
            continue
        low, high = taps.get(name, (0, shift.get(name, 0)))
        ends = _ends(ctx, step, low, high)
        span.append(b.sub(ends[1], ends[0]))
        if name in index and name not in taps:
            at = b.mul(index[name], size(step))
            least.append(at)
            most.append(at)
        least.append(ends[0])
        most.append(ends[1])
    total = b.mul(*(size(x) for x in ctx.operands.buffer(place.tensor).shape))
    return Reach(
        b.add(*least), b.add(*most, span[0]), b.sub(0, before), b.sub(total, before), b.add(*span)
    )


def _ends(ctx: Context, step: Size, low: int, high: int) -> tuple[Expr, Expr]:
    """Return the least and the largest of low and high steps."""
    size = ctx.operands.size
    a, z = size(step * low), size(step * high)
    if low == high or is_nonnegative(ctx.bind(step)):
        return a, z
    return b.min64(a, z), b.max64(a, z)
