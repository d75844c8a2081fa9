"""Blocks at borders whose loads are whole vectors, of which a mask keeps the lanes that exist.

    const float *near = from >= 0 && to <= total ? I : tc_near_4(room, I, from, to, total, ..);
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
from tcdsl.codegen.program.affine import affine_of
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed


@dataclass(frozen=True, slots=True)
class Reach:
    """What a block may read, in elements from where the outer indices have it begin.

    first, behind: the least element and the one behind the last, at the variables of row and lane.
    begin, end: of the tensor. span: how many elements lie between first and behind at most. Of each
    line of so many elements as pitch says it may read width, from first on.
    """

    first: Expr
    behind: Expr
    begin: Expr
    end: Expr
    span: Expr
    pitch: Expr
    width: int

    @property
    def params(self) -> tuple[Expr, ...]:
        """What a copy is told beside first and behind."""
        return self.begin, self.end, self.pitch, b.c64(self.width)


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
    places = {place_of(ctx, r.tensor, r.subs) for r in _reads(stencil, place)}
    return buffer.home not in homes and places == {place}


def _reads(stencil: Stencil, place: Place) -> list[typed.Read]:
    reads = (r for s in stencil.statements for r in s.reads())
    return [r for r in reads if r.subs and r.tensor == place.tensor]


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
    along = affine_of(_reads(stencil, place)[0].subs[-1])  # the tensor's lines
    assert along is not None, "subscripts are affine"
    vector = width = lanes * (place.step(lane).constant or 1)
    least: list[Expr] = [size(place.const)]
    most: list[Expr] = [size(place.const)]
    spans: list[Expr] = []
    before: Expr = b.c64(0)
    for name, step in place.terms:
        if name not in inner:
            before = b.add(before, b.mul(index[name], size(step)))
            continue
        low, high = taps.get(name, (0, shift.get(name, 0)))
        k = along.coefficient(name)
        left, right = min(k * low, k * high), max(k * low, k * high)
        up, down = _ends(ctx, step - k, low, high)
        width += right - left
        spans.append(b.sub(down, up))
        if name in index and name not in taps:
            at = b.mul(index[name], size(step))
            least.append(at)
            most.append(at)
        least += [b.c64(left), up]
        most += [b.c64(right), down]
    shape = [size(x) for x in ctx.operands.buffer(place.tensor).shape]
    return Reach(
        b.add(*least),
        b.add(*most, vector),
        b.sub(0, before),
        b.sub(b.mul(*shape), before),
        b.add(*spans, width),
        shape[-1],
        width,
    )


def _ends(ctx: Context, step: Size, low: int, high: int) -> tuple[Expr, Expr]:
    """Return the least and the largest of low and high steps."""
    size = ctx.operands.size
    a, z = size(step * low), size(step * high)
    if low == high or is_nonnegative(ctx.bind(step)):
        return a, z
    return b.min64(a, z), b.max64(a, z)
