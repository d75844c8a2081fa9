"""A scatter of many points into few elements: parts of the points have copies of the target.

    task (part of x):  copy[part] = 0;  for x of the part: copy[part][X(x)] += 1
    task (elements):   for parts, in order: copy[0] += copy[part];  H (+)= copy[0]

How many parts there are follows from sizes alone, and copies are added in the order of the parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.phase import float_product
from tcdsl.codegen.forms.base.scalars import combine, identity
from tcdsl.codegen.forms.points.scatter_points import Scatter, ScatterPoints
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Assign,
    Cast,
    Expr,
    Field,
    Let,
    Load,
    Opaque,
    Pointer,
    Return,
    Simd,
    Stmt,
    Var,
)
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT32

_MOST_PARTS = 64
_POINTS_PER_ELEMENT = 4  # of a part: a copy is started and added up in a tenth of its time
_LEAST_POINTS = 8192  # of a part
_BLOCK = 2048  # elements that a task adds up


@dataclass(frozen=True, slots=True)
class Parts:
    """How the first meeting index is cut: values of it in a part, and parts; in numbers, parts."""

    width: Expr
    count: Expr
    representative: int


def parts_of(ctx: Context, scatter: Scatter) -> Parts:
    """Return parts worth a copy each, which depend on sizes only."""
    ops = ctx.operands
    elements, points, first = _extents(ctx, scatter)
    enough = b.max64(b.mul(ops.size(elements), _POINTS_PER_ELEMENT), _LEAST_POINTS)
    wanted = b.max64(1, b.min64(_MOST_PARTS, b.div(ops.size(points), enough)))
    width = b.max64(1, b.ceil_div(ops.size(first), wanted))
    least = max(ctx.extent(elements) * _POINTS_PER_ELEMENT, _LEAST_POINTS)
    guess = max(1, min(_MOST_PARTS, ctx.extent(points) // least, ctx.extent(first)))
    return Parts(width, b.max64(1, b.ceil_div(ops.size(first), width)), guess)


def has_parts(ctx: Context, scatter: Scatter) -> bool:
    """Whether there are points enough for more parts than one."""
    elements, points, first = _extents(ctx, scatter)
    return (
        ctx.at_least(first, 2)
        and ctx.at_least(points, 2 * _LEAST_POINTS)
        and ctx.at_least(points - elements * (2 * _POINTS_PER_ELEMENT), 0)
    )


def _extents(ctx: Context, scatter: Scatter) -> tuple[Size, Size, Size]:
    """Return the elements of the target, the points that may meet, and how many parts at most."""
    elements, points = Size.const(1), Size.const(1)
    for x in ctx.operands.buffer(scatter.statement.target).shape:
        elements = elements * x
    for r in scatter.meeting:
        points = points * r.extent
    return elements, points, scatter.meeting[0].extent


def lower_copies(ctx: Context, scatter: Scatter, work_ns: float) -> Lowered:
    """Return the phase of parts and the phase that adds them up."""
    s, ops = scatter.statement, ctx.operands
    plan: list[Stmt] = []
    parts = parts_of(ctx, scatter)
    planned = parts.count
    if not ctx.is_exact():
        base = ctx.param_base
        width, planned = (Field(b.PLAN, f"param[{base + i}]", I64) for i in (0, 1))
        count = b.max64(1, b.ceil_div(ops.size(scatter.meeting[0].extent), width))
        plan = [b.set_param(base, parts.width), b.set_param(base + 1, count)]
        parts = Parts(b.plan_param(base), b.plan_param(base + 1), parts.representative)
    copies = _Copies(ctx, scatter)
    names = f"{ctx.prefix}_scatter", f"{ctx.prefix}_sum"
    functions = tuple(
        b.phase_function(name, b.block(ops.declare(body), Return(b.const(0, INT32))))
        for name, body in zip(names, (copies.apart(parts), copies.together(parts)), strict=True)
    )
    points = [ops.size(r.extent) for r in s.outputs]
    number = 1.0
    for r in s.outputs:
        number *= max(1, ctx.extent(r.extent))
    tasks = b.ceil_div(copies.elements, _BLOCK)
    return Lowered(
        title="scatter to copies",
        functions=functions,
        phases=(
            Phase(names[0], planned, float_product(points, max(0.001, work_ns / number))),
            Phase(names[1], tasks, float_product([copies.elements, planned], 0.1)),
        ),
        plan=tuple(plan),
        thread_bytes=b.c64(0),
        shared_bytes=b.mul(copies.pitch, planned, copies.size_bytes),
        params_used=len(plan),
    )


class _Copies:
    """The copies `copy[part][element]`, and the text of both phases."""

    def __init__(self, ctx: Context, scatter: Scatter) -> None:
        self.ctx, self.scatter, self.ops = ctx, scatter, ctx.operands
        target = scatter.statement.target
        self.dtype = self.ops.memory_dtype(target)
        self.size_bytes = self.dtype.size_bytes
        self.shape = [self.ops.extent(target, d) for d in range(len(scatter.statement.subs))]
        self.elements = b.mul(*self.shape)
        line = LINE // self.size_bytes
        self.pitch = b.round_up(self.elements, line)
        self.first = Var(self.ops.local("copies"), Pointer(self.dtype, restrict=True))

    def apart(self, parts: Parts) -> Stmt:
        """Return the phase in which every part goes to its copy."""
        ops = self.ops
        task, e = b.i64("task"), b.i64(ops.local("e"))
        cut, *others = self.scatter.meeting
        own = Var(ops.local("own"), self.first.type)
        low, high = b.i64(ops.local("low")), b.i64(ops.local("high"))

        def place(subs: Sequence[Expr]) -> Load:
            steps = [b.mul(*self.shape[d + 1 :]) for d in range(len(subs))]
            return b.load(own, b.add(*(b.mul(x, y) for x, y in zip(subs, steps, strict=True))))

        points = ScatterPoints(self.ctx, self.scatter, is_flat=True)
        body = b.block(
            Let(own, b.offset(self.first, b.mul(task, self.pitch))),
            Let(low, b.add(ops.size(cut.low), b.mul(task, parts.width))),
            Let(high, b.min64(b.add(low, parts.width), ops.size(cut.high))),
            b.loop(e, 0, self.elements, Assign(b.load(own, e), self._identity()), mark=Simd()),
            b.loop(b.i64(safe_name(cut.name)), low, high, points.in_order(others, place)),
        )
        columns = b.mul(*(ops.size(r.extent) for r in self.scatter.columns))
        # without columns there are no points, and nothing to check
        work = b.when(b.compare(">", columns, 0), b.loop(task, b.BEGIN, b.END, body))
        return b.block(self._declared(), work)

    def together(self, parts: Parts) -> Stmt:
        """Return the phase that adds up the copies, block by block."""
        s, ops = self.scatter.statement, self.ops
        part, e = b.i64(ops.local("part")), b.i64(ops.local("e"))
        low, high = b.i64(ops.local("low")), b.i64(ops.local("high"))
        total = b.load(self.first, e)
        more = b.load(self.first, b.add(b.mul(part, self.pitch), e))
        step = Assign(total, combine(s.op, total, more))
        place = self._target(e)
        value = total if s.base is None else combine(s.op, place, total)
        return b.block(
            self._declared(),
            Let(low, b.mul(b.BEGIN, _BLOCK)),
            Let(high, b.min64(b.mul(b.END, _BLOCK), self.elements)),
            b.loop(part, 1, parts.count, b.loop(e, low, high, step, mark=Simd())),
            b.loop(e, low, high, Assign(place, value), mark=Simd()),
        )

    def _declared(self) -> Stmt:
        shared = b.offset(Field(b.ARGS, "shared", Opaque("char *")), self.ctx.shared_base)
        return Let(self.first, Cast(shared, self.first.type))

    def _identity(self) -> Expr:
        s = self.scatter.statement
        return identity(s.op, self.ops.buffer(s.target).dtype)

    def _target(self, e: Expr) -> Load:
        """Return the element of the target whose row-major number is e."""
        target = self.scatter.statement.target
        if self.ops.layout(target).contiguous:
            return b.load(self.ops.pointer(target), e)
        return self.ops.element(target, b.unravel(e, self.shape))
