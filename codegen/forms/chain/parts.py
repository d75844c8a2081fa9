"""The parts of a chain as the forms that they are by themselves: products and rows."""

from __future__ import annotations

from dataclasses import replace

from tcdsl.codegen.forms.base.access import ZERO
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.space import IterationSpace, points, space_of
from tcdsl.codegen.forms.chain.find import Chain, chain_of
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.problem import ONE, Side
from tcdsl.codegen.forms.contraction.sides import panel_of
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import ScheduleError


@dataclass(frozen=True, slots=True)
class Parts:
    """A chain with the context of each part, the products as panels, the rows as a space."""

    chain: Chain
    scores: Panel
    scores_ctx: Context
    rows: IterationSpace
    rows_ctx: Context
    product: Panel
    product_ctx: Context


def parts_of(ctx: Context) -> Parts | None:
    """Return the parts of a group; None where it is no chain, or a form does not take its part.

    That is so whatever the values of sizes are that are not known.
    """
    sizes = ctx.spec.sizes or ()
    chain = ctx.once("chain", lambda: chain_of(ctx.program, ctx.group, sizes))
    if chain is None:
        return None
    scores_ctx, rows_ctx, product_ctx = (
        replace(ctx, group=group, prefix=f"{ctx.prefix}_{name}", known=ctx.once(name, dict))
        for name, group in zip(("scores", "rows", "product"), chain.parts(), strict=True)
    )
    scores, product = panel_of(scores_ctx, Side()), panel_of(product_ctx, Side())
    if scores is None or product is None or not _are_products(chain, scores, product):
        return None
    try:
        rows = space_of(rows_ctx)
    except ScheduleError:
        return None
    parts = Parts(chain, scores, scores_ctx, rows, rows_ctx, product, product_ctx)
    return parts if _are_rows(parts) else None


def _are_products(chain: Chain, scores: Panel, product: Panel) -> bool:
    """Whether the products walk the rows of the chain, and nothing turns their operands around."""
    p, q = scores.problem, product.problem
    *matrix, row, column = chain.scores_at
    *its_matrix, its_row = chain.rows_at
    plain = all(
        x.neighbours is None and not x.has_stage and not x.waits and not [*x.tables()]
        for x in (scores, product)
    )
    alone = not scores.finish.accesses and not scores.finish.resumes and not product.finish.resumes
    return (
        plain
        and alone
        and p.term == q.term == "product"
        and [[i.name for i in fused] for fused in (p.m, p.n)] == [[row], [column]]
        and [i.name for i in q.m] == [its_row]
        and {i.name for i in p.outer} == set(matrix)
        and {i.name for i in q.outer} == set(its_matrix)
        and len(p.k) == len(q.k) == 1
        and not {p.a.buffer, p.b.buffer, q.b.buffer} & chain.tiles.keys()
        and chain.tiles.get(q.a.buffer) is True
    )


def _are_rows(parts: Parts) -> bool:
    """Whether the rows part walks the rows of the first product in their order, each in one loop.

    They are numbered as they lie: row number times columns is where a row begins.
    """
    space, s = parts.rows, parts.chain.scores
    if not space.sweeps or any(len(w) != 1 for w in space.sweeps):
        return False
    columns = parts.scores.problem.n[0].extent
    bind = parts.rows_ctx.bind
    if any(w[0].extent != bind(columns) for w in space.sweeps):
        return False
    if any(w.segment for w in space.aligned.sweeps):
        return False
    reads = [x for (name, _), x in space.linear.items() if name == s.target]
    step = bind(columns)
    for loop in reversed(space.kept):
        if loop.extent != ONE and any(bind(x.step(loop.name)) != step for x in reads):
            return False
        step = bind(step * loop.extent)
    rows = ONE
    by_name = {r.name: r.high for r in s.ranges}
    for name in parts.chain.scores_at[:-1]:
        rows = rows * by_name[name]
    return bind(points(space.kept)) == bind(rows) and all(x.const == ZERO for x in reads)
