"""Panels of a factor that are packed once, ahead.

Before a loop of which no turn writes it; or before the tasks of a product, where several blocks of
rows ask for them, by all threads together.
"""

from __future__ import annotations

from dataclasses import replace

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.guarded import inside
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.phase import float_product
from tcdsl.codegen.forms.contraction.blocking import AHEAD, PANEL, Blocking, Extents
from tcdsl.codegen.forms.contraction.choice import (
    MOST_BYTES,
    ContractionChoice,
    choose,
    number,
    predicted,
)
from tcdsl.codegen.forms.contraction.lets import Lets
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.phase import packing_ahead
from tcdsl.codegen.forms.contraction.problem import extent_of
from tcdsl.codegen.forms.contraction.schedule import register_tiles
from tcdsl.codegen.forms.contraction.sides import numbers
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import I64, Expr, Field, Function, Let, Stmt
from tcdsl.codegen.program.expressions import reads_of
from tcdsl.grammar.types.dtypes import FLOAT64

_PACK_NS = 0.5  # an element
_EACH = 2  # tasks of a thread, since another process may have its core


def loop_ahead(ctx: Context, panel: Panel) -> int | None:
    """Return the outermost loop around a contraction before which its b can be packed.

    Nothing in it writes b, and all turns read the same elements. None where there is no such loop;
    where b is known to be large, is a batch of matrices, is packed as words or has other extents in
    each turn; where rows have sums of their own.
    """
    p, program, at = panel.problem, ctx.program, max(ctx.group.members)
    around = [(k, x) for k, x in enumerate(program.loops) if x.first <= at < x.last]
    if not around or p.statement.is_ragged or panel.neighbours is not None:
        return None
    if panel.words is not None:
        return None
    if any(p.b.uses(i.name) for i in p.outer):
        return None
    if any(program.depends(extent_of(fused)) for fused in (p.n, p.k)):
        return None
    if not _exists_anyway(ctx, panel):
        return None
    known = b.value_of(_bytes(panel.extents()))
    if known is not None and known > MOST_BYTES:
        return None
    symbols = {*p.b.offset.symbols()}.union(*(s.symbols() for _, s in p.b.strides))
    home, found = program.buffer(p.b.buffer).home, None
    for k, loop in reversed(around):
        inside = program.statements[loop.first : loop.last]
        if loop.var in symbols or any(program.buffer(s.target).home == home for s in inside):
            break
        found = k
    return found


def _exists_anyway(ctx: Context, panel: Panel) -> bool:
    """Whether what is packed of b is inside by its own indices: a loop may have no turns."""
    s = panel.problem.statement
    ranges = {r.name: r for r in s.ranges}
    reads = [r for r in reads_of(s.value) if r.tensor == panel.problem.b.buffer]
    return all(inside(ctx, r, ranges) for r in reads)


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
        kept_bytes=_kept_bytes(panel, panel.extents()),
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
        shared_bytes=_kept_bytes(panel, panel.extents()),
    )


def _packing(ctx: Context, panel: Panel, g: Blocking) -> tuple[Function, Phase]:
    """Return the phase that packs all of b, of known sizes."""
    parts, x = _parts(panel, g, b.c64(ctx.spec.threads), Lets(panel.var)), panel.extents()
    function = packing_ahead(panel, g, parts, [])
    cost = b.const(number(x.n) * number(x.k) * _PACK_NS, FLOAT64)
    return function, Phase(function.name, b.mul(g.nt, parts), cost)


def _parts(panel: Panel, g: Blocking, threads: Expr, where: Lets) -> Expr:
    """Return into how many parts a block of columns is cut to be packed: a few tasks a thread."""
    panels = where.let("panels", b.ceil_div(g.nc, b.mul(g.nv, panel.lanes)))
    wanted = b.min64(panels, b.ceil_div(b.mul(threads, _EACH), b.max64(g.nt, 1)))
    each = where.let("panels_of_part", b.ceil_div(panels, where.let("wanted", wanted)))
    return where.let("parts", b.ceil_div(panels, each))  # none of them is empty


def _bytes(x: Extents) -> Expr:
    return b.mul(x.n, x.k, x.bytes)


def _kept_bytes(panel: Panel, x: Extents) -> Expr:
    return b.add(_bytes(x), panel.slack_bytes)


# ---- of sizes that a plan knows


def kept_where_planned(
    ctx: Context, panel: Panel, x: Extents, g: Blocking
) -> tuple[list[Stmt], Blocking]:
    """Return a plan's blocking that packs b before a loop, where panels are walked.

    Unless the copy were too large.
    """
    is_kept = b.all_of(b.compare("==", g.method, PANEL), b.compare("<=", _bytes(x), MOST_BYTES))
    pack_b = b.i64(ctx.operands.local("keep_b"))
    return [Let(pack_b, b.select(is_kept, b.c64(AHEAD), g.pack_b))], replace(g, pack_b=pack_b)


def planned_packing(
    ctx: Context,
    panel: Panel,
    x: Extents,
    planned: Blocking,
    g: Blocking,
    prologue: list[Stmt],
    lowered: Lowered,
    loop: int,
) -> Lowered:
    """Return what a group is lowered to, with the phase before a loop that packs its b, if any.

    planned: the blocking where the plan has it; g: where the phases have it, by their prologue.
    """
    where, own = Lets(panel.var), Lets(panel.var)
    parts = _parts(panel, planned, threads_of_call(), where)
    param = ctx.param_base + lowered.params_used
    read = own.let("parts", b.plan_param(param))
    function = packing_ahead(panel, g, read, [*prologue, *own.stmts])
    is_kept = b.compare("==", planned.pack_b, AHEAD)
    count = b.select(is_kept, _kept_bytes(panel, x), b.c64(0))
    plan = (
        *where.stmts,
        b.set_param(param, parts),
        b.set_param(ctx.param_base, count),
    )
    tasks = b.select(is_kept, b.mul(planned.nt, parts), b.c64(0))
    return replace(
        lowered,
        title=f"{lowered.title}, b ahead of the loop",
        functions=(*lowered.functions, function),
        plan=(*lowered.plan, *plan),
        ahead=(Phase(function.name, tasks, float_product([x.n, x.k], _PACK_NS)),),
        ahead_of=loop,
        kept_bytes=Field(b.PLAN, f"param[{ctx.param_base}]", I64),
        kept_param=ctx.param_base,
        params_used=lowered.params_used + 1,
    )


def threads_of_call() -> Expr:
    """Return how many threads a call has, as its plan is told."""
    return Field(b.ARGS, "threads", I64)
