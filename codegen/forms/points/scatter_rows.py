"""A scatter whose tasks own ranges of rows: every element is one task's, in the order of the text.

    task: dE[range, :] = 0
          for blocks of b: hits, rows = those b with I(b), checked, in range, and their I(b)
                           for hits: for d: dE[rows, d] += dO(b, d)

Slabs that are neighbours in memory (`O(I(i, j), j) += X(i, j)`: each j) are 64 to a task, which
goes through each point of all of them: one after the other they read a line for each element.
scatter_add of 1000x1000 along rows took 18.5 ms and takes 4.6 (1 thread, loaded machine).

Every task looks at all points, which is little beside a row of columns, and needs neither a sort
nor memory. Hits are gathered without a branch, which would be guessed wrong half the time. Their
rows are kept with them: what was checked is what is written to, whoever writes I meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.outputs import innermost
from tcdsl.codegen.forms.base.phase import decode, fill, float_product, nested, parallel_mark
from tcdsl.codegen.forms.base.scalars import identity, narrow
from tcdsl.codegen.forms.points.scatter_points import Scatter, ScatterPoints
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Array,
    Assign,
    Const,
    Elem,
    Expr,
    Function,
    Let,
    Load,
    Return,
    Serial,
    Simd,
    Stmt,
)
from tcdsl.codegen.loops.names import safe_name
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT32
from tcdsl.grammar.types.typed import Range

FILL_NS = 0.15  # to start an element
_SIDE = 64  # neighbours in memory whose rows are walked together: their lines stay in a cache
_BLOCK = 256  # points that are looked at before those of a range are combined


def lower_rows(ctx: Context, scatter: Scatter, ranges: int, work_ns: float) -> Lowered:
    """Return a phase over (slab, range), before it the fill where tasks cannot do it."""
    s, ops = scatter.statement, ctx.operands
    functions: list[Function] = []
    phases: list[Phase] = []
    if s.base is None and not scatter.own:
        function, phase = fill(ctx, s)
        functions.append(function)
        phases.append(phase)
    side = _side(ctx, scatter) if ranges == 1 else None
    others = [r for r in scatter.slabs if r is not side]
    parts = b.c64(ranges) if side is None else b.ceil_div(ops.size(side.extent), _SIDE)
    task, part = b.i64("task"), b.i64(ops.local("part"))
    low, high = b.i64(ops.local("low")), b.i64(ops.local("high"))
    extent = ops.extent(s.target, scatter.keys[0])
    width = b.ceil_div(extent, ranges)
    slab = b.i64(ops.local("slab"))
    near = None if side is None else _near(ctx, side, part)
    body = b.block(
        Let(slab, b.div(task, parts)),
        decode(ctx.operands, others, slab),
        Let(part, b.mod(task, parts)),
        Let(low, b.min64(b.mul(part if near is None else 0, width), extent)),
        Let(high, b.min64(b.add(low, width), extent)),
        None if near is None else near.ends,
        _start(ctx, scatter, low, high, near) if s.base is None and scatter.own else None,
        _points(ctx, scatter, None if ranges == 1 else (low, high), near),
    )
    columns = b.mul(*(ops.size(r.extent) for r in scatter.columns))
    slabs = b.mul(*(ops.size(r.extent) for r in others))
    loops = b.loop(task, b.BEGIN, b.END, body)
    name = f"{ctx.prefix}_scatter"
    functions.append(b.phase_function(name, b.block(ops.declare(loops), Return(b.const(0, INT32)))))
    # without columns there are no points, and nothing to check
    tasks = b.mul(slabs, parts, b.min64(columns, 1))
    phases.append(Phase(name, tasks, _cost(ctx, scatter, work_ns)))
    return Lowered(
        title="scatter by rows" if ranges > 1 or scatter.slabs else "scatter in order",
        functions=tuple(functions),
        phases=tuple(phases),
        plan=(),
        thread_bytes=b.c64(0),
        shared_bytes=b.c64(0),
    )


@dataclass(frozen=True, slots=True)
class _Near:
    """Slabs that are neighbours in memory, which go side by side: each point of all of them.

    ends: declares the first of a part, and the one behind the last.
    """

    slabs: Range
    start: Expr
    stop: Expr
    ends: list[Stmt]

    def loop(self, body: Stmt) -> Stmt:
        """Return the loop over the slabs of a part."""
        index = b.i64(safe_name(self.slabs.name))
        return b.loop(index, self.start, self.stop, body, mark=parallel_mark(body))


def _side(ctx: Context, scatter: Scatter) -> Range | None:
    """Return the slabs that are neighbours in memory; their rows are walked together."""
    name = innermost(ctx.operands, scatter.statement)
    return next((r for r in scatter.slabs if r.name == name), None)


def _near(ctx: Context, side: Range, part: Expr) -> _Near:
    """Return the slabs of one part."""
    ops = ctx.operands
    start, stop = b.i64(ops.local("start")), b.i64(ops.local("stop"))
    first = b.add(ops.size(side.low), b.mul(part, _SIDE))
    ends: list[Stmt] = [
        Let(start, first),
        Let(stop, b.min64(b.add(start, _SIDE), ops.size(side.high))),
    ]
    return _Near(side, start, stop, ends)


def _start(
    ctx: Context, scatter: Scatter, low: Expr, high: Expr, near: _Near | None = None
) -> Stmt:
    """Return the loops that start the elements of a slab's rows [low, high).

    What lies behind each other in memory is one loop: compilers know it by its name, memset.
    """
    s, ops = scatter.statement, ctx.operands
    names = [b.i64(ops.local(f"i{d}")) for d in range(len(s.subs))]
    at: list[Expr] = []
    for d, r in enumerate(scatter.own):
        at.append(b.i64(safe_name(r.name)) if r in scatter.slabs and r is not None else names[d])
    empty = identity(s.op, ops.buffer(s.target).dtype)
    value = narrow(empty, ops.memory_dtype(s.target))
    key, dims = scatter.keys[0], len(s.subs)
    if near is None and ops.layout(s.target).contiguous and at[key:] == names[key:]:
        start = ops.element(s.target, [*at[:key], low, *([b.c64(0)] * (dims - key - 1))])
        e, row = b.i64(ops.local("e")), [ops.extent(s.target, d) for d in range(key + 1, dims)]
        element = b.load(start.pointer, b.add(start.index, e))
        count = b.mul(b.sub(high, low), *row)
        body: Stmt = b.loop(e, 0, count, Assign(element, value), mark=Simd())
        dims = key  # outside
    else:
        body = Assign(ops.element(s.target, at), value)
    if near is not None:
        body = near.loop(body)
    mark = parallel_mark(body)
    for d in reversed(range(dims)):
        if at[d] is names[d]:
            first, stop = (low, high) if d == scatter.keys[0] else (0, ops.extent(s.target, d))
            body = b.loop(names[d], first, stop, body, mark=mark)
            mark = parallel_mark(body)
    return body


def _points(
    ctx: Context, scatter: Scatter, span: tuple[Expr, Expr] | None, near: _Near | None
) -> Stmt:
    """Return the points whose row is in a span, of all points."""
    s, ops = scatter.statement, ctx.operands
    points = ScatterPoints(ctx, scatter, is_flat=span is None)

    def place(subs: Sequence[Expr]) -> Load:
        return ops.element(s.target, subs)

    if near is not None:
        return nested(ctx, scatter.meeting, near.loop(points.in_order((), place)), Serial())
    if span is None:
        return points.in_order(scatter.meeting, place)
    *outer, last = scatter.meeting
    index = b.i64(safe_name(last.name))
    start, stop = b.i64(ops.local("start")), b.i64(ops.local("stop"))
    found, hit = b.i64(ops.local("found")), b.i64(ops.local("hit"))
    hits = ops.local("hits")
    rows, first = points.rows()
    row = rows[scatter.keys[0]]
    is_mine = b.all_of(b.compare(">=", row, span[0]), b.compare("<", row, span[1]))
    kept = {d: ops.local(f"rows{d}" if len(rows) > 1 else "rows") for d in rows}
    again = {d: b.i64(ops.local(f"row{d}" if len(rows) > 1 else "row")) for d in rows}
    block = b.block(
        Let(stop, b.min64(b.add(start, _BLOCK), ops.size(last.high))),
        Let(found, b.c64(0), mutable=True),
        b.loop(
            index,
            start,
            stop,
            first,
            Assign(Elem(hits, (found,), I64), index),
            [Assign(Elem(kept[d], (found,), I64), e) for d, e in rows.items()],
            Assign(found, b.cast(is_mine, I64), "+="),
        ),
        b.loop(
            hit,
            0,
            found,
            Let(index, Elem(hits, (hit,), I64)),
            [Let(v, Elem(kept[d], (hit,), I64)) for d, v in again.items()],
            points.update(again, place),
        ),
    )
    blocks = b.loop(start, ops.size(last.low), ops.size(last.high), block, step=_BLOCK)
    arrays = [Array(name, I64, (_BLOCK,)) for name in (hits, *kept.values())]
    return b.block(arrays, nested(ctx, outer, blocks, parallel_mark(blocks)))


def _cost(ctx: Context, scatter: Scatter, work_ns: float) -> Expr:
    """Return the predicted time of a call's own sizes: of its points, and of the box it starts."""
    s, ops = scatter.statement, ctx.operands
    points = 1.0
    for r in s.outputs:
        points *= max(1, ctx.extent(r.extent))
    cost = float_product([ops.size(r.extent) for r in s.outputs], max(work_ns / points, 0.001))
    if s.base is not None or not scatter.own:
        return cost
    fill = float_product([ops.extent(s.target, d) for d in range(len(s.subs))], FILL_NS)
    if isinstance(cost, Const) and isinstance(fill, Const):
        return Const(cost.value + fill.value, cost.type)
    return b.arith("+", cost, fill)
