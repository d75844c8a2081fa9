"""Pointwise statements whose operands may have any strides: what they are is seen at run time.

    for row:
      a = A at the row; if (A_s1 != 0 && A_s1 != 1) a = its points, copied next to each other
      if (B_s1 == 0) for x: o[x] = f(a[x], b[0])
      else           for x: o[x] = f(a[x], b[x])

One text for all layouts. The loops over the points of a row know steps of 1 and 0 only: there is
one for each operand that may be repeated along the row, and one for several, whose loads of such an
operand have an empty mask, and the value where it is empty (halves and scalar text read a vector of
copies again and again, its counter masked to 0). Of an operand with other steps the points of
a part of the row are copied into the workspace before, and those of a result from there afterwards.
Where such an operand has step 1 from row to row, as a transposed one has, squares of it are turned
around in registers, a band of rows at once. (NumPy's iterator has these buffers too.)
"""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.space import IterationSpace, points
from tcdsl.codegen.forms.base.vexpr import walk as walk_value
from tcdsl.codegen.forms.rows.cpu.lines import LineNest
from tcdsl.codegen.forms.rows.cpu.tasks import plan_tasks, price, row_loop
from tcdsl.codegen.forms.rows.point import RowWalk
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Expr,
    Let,
    Return,
    Stmt,
)
from tcdsl.codegen.machine.spec import Layout
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT32


def takes(ctx: Context, space: IterationSpace) -> bool:
    """Whether strides are seen at run time only, and no value hangs on its place in a row."""
    if ctx.is_exact() or not space.kept or len(space.sweeps[0]) != 1:
        return False
    made = {s.target for s in ctx.group.statements}
    written = {ctx.operands.buffer(name).home for name in made}
    before = [n for n in ctx.group.wanted() - made if ctx.operands.buffer(n).home in written]
    if before and len(made) > 1:
        return False  # copies of a row would hold what a statement has overwritten
    layouts = [
        ctx.operands.layout(name)
        for name in {a[0] for a in space.linear}
        if ctx.operands.position(name) is not None
    ]
    if not layouts or any(x != Layout(x.rank, contiguous=False, unit=None) for x in layouts):
        return False
    steps = (s for w in space.aligned.sweeps for s in w.steps)
    values = (x for s in steps for x in walk_value(s.statement.value))
    return not any(isinstance(x, typed.IndexValue) for x in values)


def lower_lines(
    ctx: Context, space: IterationSpace, walk: RowWalk, point_ns: float, task_us: int
) -> Lowered:
    """Return the group as one phase over parts of its rows."""
    nest = LineNest(ctx, space, walk)
    plan, tasks, count, params = plan_tasks(ctx, space, walk, point_ns, task_us, cut=True)
    assert tasks.width is not None, "rows are cut"
    length, height = (nest.size(x) for x in (space.row_length(), nest.across.extent))
    rows = nest.size(points(space.kept))
    task, chunks, group = (b.i64(nest.fresh(n)) for n in ("task", "chunks", "group"))
    low, high = b.i64(nest.fresh("low")), b.i64(nest.fresh("high"))
    first, last = b.i64(nest.fresh("first")), b.i64(nest.fresh("last"))
    top, bottom = b.i64(nest.fresh("top")), b.i64(nest.fresh("bottom"))

    def build(counters: Mapping[str, Expr], stack: Expr) -> list[Stmt]:
        above = b.mul(stack, height)  # rows in front of those that differ in one counter only
        return [
            Let(top, b.max64(b.sub(first, above), 0)),
            Let(bottom, b.min64(b.sub(last, above), height)),
            *nest.part(counters, (top, bottom), (low, high)),
        ]

    body = b.block(
        nest.declarations(),
        Let(chunks, b.add(_quotient(b.max64(b.sub(length, 1), 0), tasks.width), 1)),
        b.loop(
            task,
            b.BEGIN,
            b.END,
            Let(group, _quotient(task, chunks)),
            Let(low, b.mul(b.sub(task, b.mul(group, chunks)), tasks.width)),
            Let(high, b.min64(b.add(low, tasks.width), length)),
            Let(first, b.mul(group, tasks.rows)),
            Let(last, b.min64(b.add(first, tasks.rows), rows)),
            row_loop(
                nest,
                _quotient(first, height),
                b.add(_quotient(b.sub(last, 1), height), 1),
                build,
            ),
        ),
        b.do("tc_stream_end") if walk.stream else None,
    )
    name = f"{ctx.prefix}_lines"
    function = b.phase_function(
        name, b.block(ctx.operands.declare(body), Return(b.const(0, INT32)))
    )
    kind = "vectors" if walk.lanes > 1 else "simd"
    return Lowered(
        title=f"pointwise of any strides, {kind}",
        functions=(function,),
        phases=(Phase(name, count, price(ctx, space, rows, length, point_ns)),),
        plan=(*plan, *nest.plan(ctx.param_base)),
        thread_bytes=nest.workspace(),
        shared_bytes=b.c64(0),
        params_used=params,
    )


def _quotient(a: Expr, by: Expr) -> Expr:
    """Return a / by for a >= 0, by > 0, where a is often less: a row may take no longer."""
    return b.call("tc_quotient_i64", a, by, type=I64)
