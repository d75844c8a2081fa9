"""A chain of any sizes: the plan cuts it, register tiles and packers are the library's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.planned import Plan, Planned
from tcdsl.codegen.forms.chain.nest import SHARE, TASKS, ChainNest, Tile, row_bytes
from tcdsl.codegen.forms.chain.parts import Parts
from tcdsl.codegen.forms.contraction.blocking import PANEL, Blocking
from tcdsl.codegen.forms.contraction.called import Kernels, strides_of
from tcdsl.codegen.forms.contraction.choice import ContractionChoice, choose, predicted
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.schedule import kernel_set, packs_b, pass_depth
from tcdsl.codegen.forms.contraction.sides import numbers
from tcdsl.codegen.forms.rows.point import RowWalk
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import I64, Expr, Field, Scalar
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import FLOAT64


def planned_chain(ctx: Context, parts: Parts, walk: RowWalk, ns: float) -> Lowered:
    """Return one phase, whose tasks are some rows of a matrix, as many as the plan says.

    ns: the predicted time of a call at the representative sizes.
    """
    parts = replace(
        parts,
        scores=replace(parts.scores, shares=True, fuses=False),
        product=replace(parts.product, shares=True, fuses=False),
    )
    plan = Plan(ctx)
    cuts = _cuts(ctx, parts, plan)
    scores, product = _products(ctx, parts, cuts, plan)

    def nest(pick: Callable[[Planned], Expr]) -> ChainNest:
        first, second = (
            Blocking(**{name: pick(value) for name, value in g.items()}) for g in (scores, product)
        )
        return ChainNest(
            parts,
            first,
            _kernels(ctx, parts.scores, first),
            second,
            _kernels(ctx, parts.product, second),
            walk,
            Tile.of(parts, pick(cuts.block)),
            ctx.prefix,
        )

    functions, arena = nest(lambda v: v.in_phase).functions()
    thread_bytes = b.add(nest(lambda v: v.in_plan).places()[-1], arena)
    matrices = parts.scores.extent(parts.scores.problem.outer)
    tasks = b.mul(matrices, scores["mt"].in_plan)
    words = "chain of any tiles, rows, any tiles"
    if parts.chain.limit is not None:
        words += ", what is empty skipped"
    return Lowered(
        title=words,
        functions=tuple(functions),
        phases=(Phase(functions[-1].name, tasks, _cost(ctx, parts, ns)),),
        plan=tuple(plan.stmts),
        thread_bytes=thread_bytes,
        shared_bytes=b.c64(0),
        params_used=plan.count,
    )


def products_ns(ctx: Context, panel: Panel) -> float:
    """Return the predicted time of a product on one thread, at the representative sizes."""
    return predicted(numbers(ctx, panel), ctx.machine, 1, _chosen(ctx, panel))


def _kernels(ctx: Context, panel: Panel, g: Blocking) -> Kernels:
    """Return the register tiles of the library."""
    tiles = kernel_set(ctx.machine.registers)
    return Kernels(panel, ctx.machine, tiles, strides_of(panel, g, ctx.machine), in_parts=True)


def _chosen(ctx: Context, panel: Panel) -> ContractionChoice:
    return choose(numbers(ctx, panel), ctx.machine, 1, kernel_set(ctx.machine.registers))


@dataclass(frozen=True, slots=True)
class _Cuts:
    """Rows of a register tile and its vectors, rows of a block and of a task, tasks a matrix."""

    scores: tuple[int, int]
    product: tuple[int, int]
    block: Planned
    each: Planned
    count: Planned


def _cuts(ctx: Context, parts: Parts, plan: Plan) -> _Cuts:
    """Return blocks that leave the caches to the factors, tasks enough for the threads."""
    first, second = (
        (c.mr, c.nv)
        for c in (
            _chosen(parts.scores_ctx, parts.scores),
            _chosen(parts.product_ctx, parts.product),
        )
    )
    p, panel = parts.scores.problem, parts.scores
    mr, rows = first[0], panel.extent(p.m)
    room = ctx.machine.l2_bytes // SHARE
    fit = b.div(b.c64(room), b.max64(row_bytes(parts, panel.extent(p.n)), 1))
    most = b.max64(b.mul(b.div(fit, mr), mr), 2 * mr)
    whole = b.mul(b.max64(b.ceil_div(rows, mr), 1), mr)
    block = plan.keep("block", b.min64(most, whole))
    threads = Field(b.ARGS, "threads", I64)
    wanted = b.ceil_div(b.mul(threads, TASKS), b.max64(panel.extent(p.outer), 1))
    alone = b.compare("<=", threads, 1)
    blocks = b.max64(b.ceil_div(rows, block.in_plan), 1)
    parted = b.select(alone, b.c64(1), b.min64(b.max64(wanted, 1), blocks))
    each = plan.keep("each", b.mul(b.ceil_div(blocks, parted), block.in_plan))
    count = plan.keep("count", b.ceil_div(rows, each.in_plan))
    return _Cuts(first, second, block, each, count)


def _products(
    ctx: Context, parts: Parts, cuts: _Cuts, plan: Plan
) -> tuple[dict[str, Planned], dict[str, Planned]]:
    """Return the blocking of both products, by the names of its fields.

    The first one's b is packed once a task, the second one's for each block and only if it has to.
    """
    x, y = parts.scores.extents(), parts.product.extents()
    one = Planned.of(1)
    depth = plan.keep("depth", b.max64(x.k, 1))
    columns = plan.keep("columns", x.n)
    first = {
        "mr": Planned.of(cuts.scores[0]),
        "nv": Planned.of(cuts.scores[1]),
        "pack_a": Planned.of(int(x.packs_a)),
        "pack_b": plan.keep("pack_b", packs_b(x, ctx.machine, b.c64(cuts.scores[0]))),
        "kc": depth,
        "mb": cuts.block,
        "mc": cuts.each,
        "nc": columns,
        "mt": cuts.count,
        "nt": one,
        "method": Planned.of(PANEL),
        "strip": depth,
    }
    deep = plan.keep("pass", pass_depth(y))
    second = {
        "mr": Planned.of(cuts.product[0]),
        "nv": Planned.of(cuts.product[1]),
        "pack_a": Planned.of(int(y.packs_a)),
        "pack_b": Planned.of(int(y.packs_b)),
        "kc": deep,
        "mb": cuts.block,
        "mc": cuts.block,
        "nc": plan.keep("width", y.n),
        "mt": one,
        "nt": one,
        "method": Planned.of(PANEL),
        "strip": deep,
    }
    return first, second


def _cost(ctx: Context, parts: Parts, ns: float) -> Expr:
    """Return the predicted time of a call: that of the representative sizes, for each element."""
    problems = (parts.scores, parts.scores_ctx), (parts.product, parts.product_ctx)
    terms, usual = b.expr(0), 0
    for panel, part in problems:
        p = panel.problem
        extents = [panel.extent(fused) for fused in (p.outer, p.m, p.n, p.k)]
        terms = b.add(terms, b.mul(*extents))
        count = 1
        for e in (i.extent for fused in (p.outer, p.m, p.n, p.k) for i in fused):
            count *= part.extent(e)
        usual += count
    each = ns * ctx.spec.threads / max(1, usual)
    return b.arith("*", b.cast(terms, Scalar(FLOAT64)), b.const(each, FLOAT64))
