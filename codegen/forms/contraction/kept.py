"""Panels of a factor that are packed once, ahead.

Before a loop of which no turn writes it; or before the tasks of a product, where several blocks of
rows ask for them, by all threads together.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.contraction.blocking import PANEL, Blocking
from tcdsl.codegen.forms.contraction.choice import (
    MOST_BYTES,
    ContractionChoice,
    choose,
    number,
    predicted,
)
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.phase import packing_ahead
from tcdsl.codegen.forms.contraction.schedule import register_tiles
from tcdsl.codegen.forms.contraction.sides import numbers
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr, Function
from tcdsl.grammar.types.dtypes import FLOAT64

_PACK_NS = 0.5  # an element
_EACH = 2  # tasks of a thread, since another process may have its core


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
    if len(known) < len(extents) or prod(known) * x.bytes > MOST_BYTES:
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
    function, phase = _packing(ctx, panel, g)
    return replace(
        lowered,
        title=lowered.title.replace("packed", "ahead of the loop packed"),
        functions=(*lowered.functions, function),
        ahead=(phase,),
        ahead_of=loop,
        kept_bytes=_bytes(panel),
        kept_param=ctx.param_base,
        params_used=1,
    )


def packed_together(ctx: Context, panel: Panel, g: Blocking, lowered: Lowered) -> Lowered:
    """Return what a group is lowered to, with a first phase in which all threads pack its b."""
    function, phase = _packing(ctx, panel, g)
    return replace(
        lowered,
        title=lowered.title.replace("packed", "together packed"),
        functions=(*lowered.functions, function),
        phases=(phase, *lowered.phases),
        shared_bytes=_bytes(panel),
    )


def _packing(ctx: Context, panel: Panel, g: Blocking) -> tuple[Function, Phase]:
    """Return the phase that packs all of b, in a few tasks for each thread."""
    panels, blocks = number(b.ceil_div(g.nc, b.mul(g.nv, panel.lanes))), number(g.nt)
    wanted = min(panels, -(-_EACH * ctx.spec.threads // max(blocks, 1)))
    parts = -(-panels // -(-panels // wanted))  # none of them is empty
    function = packing_ahead(panel, g, b.c64(parts))
    x = panel.extents()
    cost = b.const(number(x.n) * number(x.k) * _PACK_NS, FLOAT64)
    return function, Phase(function.name, b.c64(blocks * parts), cost)


def _bytes(panel: Panel) -> Expr:
    x = panel.extents()
    return b.c64(number(x.n) * number(x.k) * x.bytes)
