"""A phase over ranges of a statement: its loops, how they become tasks, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, prod

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.ends import LoopEnds
from tcdsl.codegen.forms.base.lowered import Phase
from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.forms.base.scalars import identity, narrow
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Assign,
    Expr,
    For,
    Function,
    Let,
    Return,
    Scalar,
    Serial,
    Simd,
    Stmt,
    Var,
)
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.loops.walk import all_exprs, variables, walk_stmt
from tcdsl.codegen.machine.wall import TASK_NS
from tcdsl.codegen.program.expressions import indices_of, walk_typed
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import FLOAT64, INT32
from tcdsl.grammar.types.typed import Range

_NS_PER_NODE = 0.3  # of the value expression, per point, not vectorised


@dataclass(frozen=True, slots=True)
class PointNest:
    """A point and the loops around it.

    tasked ranges are divided among tasks; meeting ones, whose points may write one element, are
    run through in order by every task, by loops that ends makes where they are ragged. locate finds
    the element of a point before body works on it.
    """

    tasked: Sequence[Range]
    meeting: Sequence[Range]
    locate: Sequence[Stmt]
    body: Stmt
    ends: LoopEnds | None = None

    def met(self, ctx: Context, body: Stmt) -> Stmt:
        """Return the loops over the meeting ranges around a statement."""
        if self.ends is not None:
            return self.ends.nested(self.meeting, body)
        return nested(ctx, self.meeting, body, Serial())

    def under(self, ctx: Context, inner: Callable[[Stmt, Simd | Serial], Stmt], last: str) -> Stmt:
        """Return the loops over the meeting ranges around the innermost one, which inner makes.

        What locates an element is done once where it does not depend on the innermost index. Loops
        whose bounds do stand inside.
        """
        if self.ends is not None and self.ends.depend_on(self.meeting, last):
            return inner(self.met(ctx, b.block(self.locate, self.body)), Serial())
        used = {name for t in self.locate for e in all_exprs(t) for name in variables(e)}
        if self.meeting and last not in used:
            nest = b.block(self.locate, inner(self.body, parallel_mark(self.body)))
        else:
            point = b.block(self.locate, self.body)
            nest = inner(point, parallel_mark(point))
        return self.met(ctx, nest)


def phase_over(
    ctx: Context, name: str, nest: PointNest, s: Statement | None
) -> tuple[Function, Phase]:
    """Return a phase over the ranges of a nest; one task where none can be divided."""
    ops = ctx.operands
    task = b.i64("task")
    per_point_ns = _NS_PER_NODE if s is None else point_ns(s)
    total = [
        _planned(ctx, r) if s is None or r.bounds is None else b.c64(typical(ctx, s, r))
        for r in (nest.tasked if s is None else s.ranges)
    ]
    cost = float_product([*total], per_point_ns)
    if not nest.tasked:
        loops = nest.met(ctx, b.block(nest.locate, nest.body))
        # also a statement without points is one task, which then does nothing
        loops = b.when(b.compare(">", b.END, b.BEGIN), loops)
        tasks: Expr = b.c64(1)
    else:
        *outer, last = nest.tasked
        v, low, high = b.i64(safe_name(last.name)), ops.size(last.low), ops.size(last.high)
        if outer:
            tasks = b.mul(*(_extent(ctx, r) for r in outer))
            row = nest.under(ctx, lambda x, mark: b.loop(v, low, high, x, mark=mark), v.name)
            loops = b.loop(task, b.BEGIN, b.END, decode(ctx.operands, outer, task), row)
        else:
            block = _block(ctx, last, s)
            tasks = b.ceil_div(_extent(ctx, last), block)
            start = b.add(low, b.mul(b.BEGIN, block))
            stop = b.i64(ops.local("stop"))
            loops = b.block(
                Let(stop, b.min64(high, b.add(low, b.mul(b.END, block)))),
                nest.under(ctx, lambda x, mark: b.loop(v, start, stop, x, mark=mark), v.name),
            )
    function = b.phase_function(name, b.block(ops.declare(loops), Return(b.const(0, INT32))))
    return function, Phase(name, tasks, cost)


def fill(ctx: Context, s: Statement) -> tuple[Function, Phase]:
    """Fill the box with what elements that no point reaches hold; one that is contiguous as a line.

    Compilers know a loop over a line by its name, memset, which goes past the caches.
    """
    ops = ctx.operands
    buffer = ops.buffer(s.target)
    is_line = bool(buffer.shape) and ops.layout(s.target).contiguous
    shape = [prod(buffer.shape, start=Size.const(1))] if is_line else buffer.shape
    ranges = [
        Range(ops.local(f"i{d}"), Size.const(0), extent, "output") for d, extent in enumerate(shape)
    ]
    at = [b.i64(r.name) for r in ranges]
    value = narrow(identity(s.op, buffer.dtype), ops.memory_dtype(s.target))
    element = b.load(ops.pointer(s.target), at[0]) if is_line else ops.element(s.target, at)
    body = Assign(element, value)
    return phase_over(ctx, f"{ctx.prefix}_fill", PointNest(ranges, (), (), body), None)


def decode(ops: Operands, ranges: Sequence[Range], point: Expr) -> list[Stmt]:
    """Declare the indices of a point among all those of ranges, the last one running fastest."""
    found = b.unravel(point, [ops.size(r.extent) for r in ranges])
    return [
        Let(b.i64(safe_name(r.name)), b.add(at, ops.size(r.low)))
        for r, at in zip(ranges, found, strict=True)
    ]


def nested(ctx: Context, ranges: Sequence[Range], body: Stmt, mark: Simd | Serial) -> Stmt:
    """Return loops over ranges, the first outermost; mark is the innermost one's."""
    for k, r in enumerate(reversed(ranges)):
        body = For(
            b.i64(safe_name(r.name)),
            ctx.operands.size(r.low),
            ctx.operands.size(r.high),
            body,
            mark=mark if k == 0 else Serial(),
        )
    return body


def parallel_mark(body: Stmt) -> Simd | Serial:
    """Return how independent iterations run: one that may leave or holds a loop, in order."""
    plain = all(not isinstance(t, For | Return) for t in walk_stmt(body))
    return Simd() if plain else Serial()


def reduction_mark(s: Statement, acc: Var) -> Simd | Serial:
    """Return how reductions run whose body is step: sums and products may be reassociated."""
    checked = any(any(r.checked) for r in s.reads())
    op = s.op[0]
    if not s.reductions or checked or op not in "+*":
        return Serial()
    return Simd(((op, acc.name),))  # type: ignore[arg-type]


# ---- sizes and costs


def _extent(ctx: Context, r: Range) -> Expr:
    return ctx.operands.size(r.extent)


def _planned(ctx: Context, r: Range) -> Expr:
    """Return an extent as plan sees it: of a middle turn where it changes from turn to turn."""
    if any(map(ctx.program.depends, (r.low, r.high))):
        return b.c64(max(0, ctx.extent(r.extent)))
    return _extent(ctx, r)


def typical(ctx: Context, s: Statement, r: Range) -> int:
    """Return how many values an index has at a point: of a ragged one, on average."""
    extent = max(0, ctx.extent(r.extent))
    if r.bounds is None:
        return extent
    if not r.is_guess:
        return ceil(extent / 2)
    names = indices_of(r.bounds[0]) | indices_of(r.bounds[1])
    shared = prod(max(1, ctx.extent(x.extent)) for x in s.ranges if x.name in names)
    return ceil(extent / shared)  # segments of what is there


def _block(ctx: Context, r: Range, s: Statement | None) -> int:
    """Return how many values of a single parallel index make a task."""
    work_ns = _NS_PER_NODE
    if s is not None:
        work_ns = point_ns(s)
        for q in s.ranges:
            work_ns *= 1 if q.name == r.name else max(1, typical(ctx, s, q))
    block = 1
    while block < 4096 and block * work_ns < TASK_NS:
        block *= 2
    return block


def float_product(
    factors: Sequence[Expr], scale: float, beyond: tuple[int, float] | None = None
) -> Expr:
    """Return scale * product as float64; beyond: a product, and the scale of larger ones."""
    product = b.mul(*factors)
    if (known := b.value_of(product)) is not None:
        if beyond and known > beyond[0]:
            scale = beyond[1]
        return b.const(round(scale * known, 3), FLOAT64)
    each: Expr = b.const(round(scale, 3), FLOAT64)
    if beyond and beyond[1] > scale:
        larger = b.const(round(beyond[1], 3), FLOAT64)
        each = b.select(b.compare(">", product, beyond[0]), larger, each)
    return b.arith("*", b.cast(product, Scalar(FLOAT64)), each)


def point_ns(s: Statement) -> float:
    """Return a rough time of a point of a statement."""
    return _NS_PER_NODE * sum(1 for _ in walk_typed(s.value))
