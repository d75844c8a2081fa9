"""Rows side by side as a phase, whose tasks are blocks of columns: which nest a block has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.space import IterationSpace, points
from tcdsl.codegen.forms.rows.cpu.columns import ColumnNest
from tcdsl.codegen.forms.rows.cpu.columns_plain import PlainColumnNest
from tcdsl.codegen.forms.rows.cpu.tasks import price, row_loop
from tcdsl.codegen.forms.rows.point import RowWalk
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr, Let, Return, Stmt, Var
from tcdsl.grammar.types.dtypes import INT32


def column_nest(ctx: Context, space: IterationSpace, walk: RowWalk, block: int) -> ColumnNest:
    """Return the nest of a block, in explicit vectors where its types allow them."""
    kind = ColumnNest if walk.lanes > 1 else PlainColumnNest
    return kind(ctx, space, walk, block)


def lower_columns(
    ctx: Context, space: IterationSpace, walk: RowWalk, point_ns: float, block: int, title: str
) -> Lowered:
    """Return the group as one phase of (outer row, block of columns) tasks."""
    nest = column_nest(ctx, space, walk, block)
    declarations, workspace = nest.workspace()

    def build(counters: Mapping[str, Expr], _: Expr) -> list[Stmt]:
        nest.enter(counters)
        body = nest.build()
        return [*nest.row, *body]

    blocks, group, head = block_loop(nest)
    task = b.i64(nest.fresh("task"))
    inside = [*head(task), *row_loop(nest, group, b.add(group, 1), build)]
    name = f"{ctx.prefix}_columns"
    body = b.block(declarations, b.loop(task, b.BEGIN, b.END, inside))
    function = b.phase_function(
        name, b.block(ctx.operands.declare(body), Return(b.const(0, INT32)))
    )
    outer = ctx.operands.size(points(space.kept[:-1]))
    rows = ctx.operands.size(points(space.kept))
    length = ctx.operands.size(space.row_length())
    return Lowered(
        title=f"{title} along columns, {'vectors' if walk.lanes > 1 else 'simd'}",
        functions=(function,),
        phases=(Phase(name, b.mul(outer, blocks), price(ctx, space, rows, length, point_ns)),),
        plan=(),
        thread_bytes=workspace,
        shared_bytes=b.c64(0),
    )


def block_loop(nest: ColumnNest) -> tuple[Expr, Var, Callable[[Var], list[Stmt]]]:
    """Return the number of blocks, the variable of a task's group, and a task's declarations.

    Task number = group * blocks + block.
    """
    width = nest.size(nest.column.extent)
    blocks = b.ceil_div(width, nest.block)
    group = b.i64(nest.fresh("group"))

    def head(task: Var) -> list[Stmt]:
        return [
            Let(group, b.div(task, blocks)),
            Let(nest.low, b.mul(b.mod(task, blocks), nest.block)),
            Let(nest.high, b.min64(b.add(nest.low, nest.block), width)),
        ]

    return blocks, group, head
