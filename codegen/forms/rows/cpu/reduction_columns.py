"""Folds along columns in parts: the accumulators of a part are its partial results.

Where the plan counts the parts, and finds one, accumulators lie in the workspace, and what follows
from finished ones is the same task's: nothing is left to the phase that combines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.lowered import Lowered
from tcdsl.codegen.forms.base.space import IterationSpace, points
from tcdsl.codegen.forms.rows.cpu.columns_phase import block_loop, column_nest
from tcdsl.codegen.forms.rows.cpu.reduction_split import Partials, Split, plan_split, two_phases
from tcdsl.codegen.forms.rows.cpu.tasks import price, row_loop
from tcdsl.codegen.forms.rows.point import RowWalk
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr, Let, Stmt, Var


def lower_column_parts(
    ctx: Context, space: IterationSpace, walk: RowWalk, point_ns: float, block: int, split: Split
) -> Lowered:
    """Return tasks of (part, outer row, block of columns), and the phase that combines."""
    planned = plan_split(ctx, split)
    nest = column_nest(ctx, space, walk, block)
    own, workspace = ([], b.c64(0)) if ctx.is_exact() else nest.workspace()
    is_one = None if ctx.is_exact() else b.compare("==", planned.parts, 1)
    partials = Partials(ctx, space, nest, planned.parts)
    outer = ctx.operands.size(points(space.kept[:-1]))
    width = nest.size(nest.column.extent)
    blocks, group, head = block_loop(nest)
    part, index, base = (b.i64(nest.fresh(n)) for n in ("part", "index", "base"))
    first, last = b.i64(nest.fresh("first")), b.i64(nest.fresh("last"))
    lets: list[Stmt] = [
        Let(part, b.div(group, outer)),
        Let(index, b.mod(group, outer)),
        Let(base, b.add(b.mul(part, partials.rows), b.mul(index, width), nest.low)),
        Let(first, b.mul(part, planned.width)),
        Let(last, b.min64(b.add(first, planned.width), split.extent)),
    ]
    for target, p in partials.pointers.items():
        table, at = Var(nest.fresh("row_values"), p.type), b.offset(p, base)
        lets.append(Let(table, at if is_one is None else b.select(is_one, nest.tables[target], at)))
        nest.tables[target] = table

    def build(counters: Mapping[str, Expr], _: Expr) -> list[Stmt]:
        nest.enter(counters)
        body = nest.sweep(0, (first, last))
        done = [] if is_one is None else [b.when(is_one, nest.finished())]
        return [*nest.row, *body, *done]

    task = b.i64(nest.fresh("task"))
    inside = [*head(task), *lets, *row_loop(nest, index, b.add(index, 1), build)]
    body = b.block(own, partials.declarations, b.loop(task, b.BEGIN, b.END, inside))
    tasks = b.mul(planned.plan_parts, outer, blocks)
    rows = ctx.operands.size(points(space.kept))
    length = ctx.operands.size(space.row_length())
    cost_ns = price(ctx, space, rows, length, point_ns)
    found = two_phases(ctx, space, body, tasks, cost_ns, planned, "column reduction", walk)
    if is_one is None:
        return found
    are_several = b.compare(">", planned.plan_parts, 1)
    parts, whole = found.phases
    whole = replace(whole, tasks=b.select(are_several, whole.tasks, b.c64(0)))
    shared = b.select(are_several, found.shared_bytes, b.c64(0))
    return replace(found, phases=(parts, whole), thread_bytes=workspace, shared_bytes=shared)
