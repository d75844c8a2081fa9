"""Panels of a factor that no turn of a loop writes: packed once, before the loop."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.contraction.blocking import PANEL, Blocking
from tcdsl.codegen.forms.contraction.choice import ContractionChoice, choose, number, predicted
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.phase import packing_ahead
from tcdsl.codegen.forms.contraction.schedule import register_tiles
from tcdsl.codegen.forms.contraction.sides import numbers
from tcdsl.codegen.loops import build as b
from tcdsl.grammar.types.dtypes import FLOAT64

_MOST_BYTES = 1 << 26  # beyond, a copy of a factor is too much
_PACK_NS = 0.5  # an element


def loop_ahead(ctx: Context, panel: Panel) -> int | None:
    """Return the outermost loop around a contraction before which its b can be packed.

    Nothing in it writes b, and all turns read the same elements. None where there is no such loop,
    or sizes are not known; where b is a batch of matrices or packed as words; where rows have sums
    of their own.
    """
    p, program, at = panel.problem, ctx.program, max(ctx.group.members)
    around = [(k, x) for k, x in enumerate(program.loops) if x.first <= at < x.last]
    if not around or p.statement.is_ragged or panel.neighbours is not None:
        return None
    if panel.words is not None:
        return None
    if any(p.b.uses(i.name) for i in p.outer):
        return None
    x = panel.extents()
    extents = [b.value_of(x.n), b.value_of(x.k)]
    known = [e for e in extents if e is not None]
    if len(known) < len(extents) or prod(known) * x.bytes > _MOST_BYTES:
        return None
    symbols = {*p.b.offset.symbols()}.union(*(s.symbols() for _, s in p.b.strides))
    home, found = program.buffer(p.b.buffer).home, None
    for k, loop in reversed(around):
        inside = program.statements[loop.first : loop.last]
        if loop.var in symbols or any(program.buffer(s.target).home == home for s in inside):
            break
        found = k
    return found


def turn_ns(ctx: Context, panel: Panel, c: ContractionChoice, threads: int = 1) -> float:
    """Return the predicted time of a turn, without the packing that stands before the loop."""
    x = numbers(ctx, panel)
    is_ahead = c.method == PANEL and loop_ahead(ctx, panel) is not None
    timed = replace(c, pack_b=c.pack_b and not is_ahead)
    return predicted(x, ctx.machine, threads, timed, staged=panel.has_stage)


def packed_ahead(ctx: Context, panel: Panel, c: ContractionChoice) -> ContractionChoice:
    """Return a choice that packs b before the loop, where that can be and makes no turn longer.

    Packing is nobody's time then: no reason to go without, or to take dots.
    """
    x = numbers(ctx, panel)
    if x.keeps_b or loop_ahead(ctx, panel) is None:
        return c
    thick = replace(x, dots=False, streams=False)
    packed = choose(thick, ctx.machine, ctx.spec.threads, register_tiles(ctx.machine))
    if c.method != PANEL and turn_ns(ctx, panel, packed) > turn_ns(ctx, panel, c):
        return c
    return replace(packed, pack_b=True)


def with_packing(ctx: Context, panel: Panel, g: Blocking, lowered: Lowered, loop: int) -> Lowered:
    """Return what a group is lowered to, with the phase before a loop that packs its b."""
    packing = packing_ahead(panel, g)
    x = panel.extents()
    elements = number(x.n) * number(x.k)
    return replace(
        lowered,
        title=lowered.title.replace("packed", "ahead of the loop packed"),
        functions=(*lowered.functions, packing),
        ahead=(Phase(packing.name, g.nt, b.const(elements * _PACK_NS, FLOAT64)),),
        ahead_of=loop,
        kept_bytes=b.c64(elements * x.bytes),
        kept_param=ctx.param_base,
        params_used=1,
    )
