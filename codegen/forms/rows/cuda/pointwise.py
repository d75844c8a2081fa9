"""Pointwise statements over one box on a GPU: no value is reduced, none leaves its thread.

    a block has [first, first + threads * width * vectors) of the points, innermost loop fastest
    if (aligned, and all of them exist)
      a thread has `vectors` times width neighbours, copied 4, 8 or 16 bytes at once
    else
      a thread has one point at a time, neighbours of it are in the neighbouring threads

Loops that all operands walk as one are one (`join` of `forms/base/access.py`), so that contiguous
operands are a single run of points whatever their rank.
"""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.forms.base.access import ZERO
from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.kernel import LoweredKernels, kernel
from tcdsl.codegen.forms.base.cuda.traffic import Touch, Workload, kernel_ns, operations
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.space import Access, IterationSpace, points, space_of
from tcdsl.codegen.forms.rows.cuda.pointwise_point import PointText
from tcdsl.codegen.forms.rows.cuda.pointwise_vectors import (
    aligned,
    best_width,
    copied,
    inner_loop,
    widths,
)
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import I64, TRUTH, Call, Const, Expr, If, Let, Scalar, Stmt, Unroll
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.types.dtypes import INT32

_NEVER = Const(False, TRUTH)
_THREADS = 256
_RESIDENT = 2048  # threads of a multiprocessor that a large problem should have work for


def matches(ctx: GpuContext) -> bool:
    """Whether all statements are pointwise over one box."""
    try:
        return bool(space(ctx).sweeps)
    except ScheduleError:
        return False


def knobs(ctx: GpuContext) -> tuple[Knob, ...]:
    """Return elements copied at once, how often a thread does so, and threads of a block."""
    return (
        Knob("width", widths(ctx, space(ctx))),
        Knob("vectors", (1, 2, 4, 8)),
        Knob("threads", (128, 256, 512)),
    )


def default(ctx: GpuContext) -> dict[str, Value]:
    """Return the widest copies, and as many vectors as leave work for all threads of the GPU."""
    found = space(ctx)
    width = best_width(ctx, found)
    turns = ctx.extent(_count(found)) // (width * _RESIDENT * ctx.machine.sms)
    vectors = 4 if turns >= 4 else 2 if turns >= 2 else 1
    return {"width": width, "vectors": vectors, "threads": _THREADS}


def cost_ns(ctx: GpuContext, values: Mapping[str, Value]) -> float:
    """Return the time of the kernel: traffic, arithmetic, or too few threads for either."""
    found = space(ctx)
    width, vectors = int(values["width"]), int(values["vectors"])
    total = float(max(0, ctx.extent(_count(found))))
    pieces = copied(ctx, found, width)
    touches = [touch(ctx, found, a, width, copied=a in pieces) for a in found.linear]
    sizes = (ctx.operands.memory_dtype(n).size_bytes for n, _ in found.linear)
    in_flight = width * vectors * sum(sizes)
    each = sum(operations(s.statement.value) for s in found.aligned.steps)
    work = Workload(total, each, total / (width * vectors), 1, in_flight)
    return kernel_ns(ctx.machine, work, touches)


def lower(ctx: GpuContext, values: Mapping[str, Value]) -> LoweredKernels:
    """Return one kernel over the box."""
    found = space(ctx)
    width, vectors, threads = (int(values[n]) for n in ("width", "vectors", "threads"))
    text = PointText(ctx, found)
    count = text.size(_count(found))
    share = threads * width * vectors
    if b.value_of(count) == 0:
        return LoweredKernels("pointwise", (), ())
    body = _body(text, count, width, vectors, threads)
    function, launch = kernel(
        ctx, "pointwise", body, blocks=b.ceil_div(count, share), threads=threads
    )
    title = f"pointwise, {width} x {vectors}" if width * vectors > 1 else "pointwise"
    return LoweredKernels(title, (function,), (launch,))


def space(ctx: GpuContext) -> IterationSpace:
    """Return the loops of the group.

    Raises
    ------
    ScheduleError
        With the reason why the group is not pointwise over one box.
    """
    return space_of(ctx, pointwise=True)


def _count(found: IterationSpace) -> Size:
    return points((*found.kept, inner_loop(found)))


def _body(text: PointText, count: Expr, width: int, vectors: int, threads: int) -> Stmt:
    """Return what a thread does."""
    ctx, local = text.gpu, text.operands.local
    point = b.i64(local("point"))
    if width * vectors == 1:
        here = text.points(point)
        return b.block(
            Let(point, Call("tc_point", (), I64)), b.when(b.compare("<", point, count), here)
        )
    share = threads * width * vectors
    first, stop, turn = (b.i64(local(n)) for n in ("first", "stop", "turn"))
    end, thread = b.add(first, share), _index("tc_thread")
    known = b.value_of(count)
    whole = list(aligned(ctx, text.space, width))
    if known is None or known % share:
        whole.append(b.compare("<=", end, count) if known is None or known >= share else _NEVER)
    mine = b.mul(thread, width)
    copies = b.block(Let(point, b.add(first, mine)), text.points(point, width))
    if vectors > 1:
        at = b.add(first, b.mul(turn, threads * width), mine)
        body = b.block(Let(point, at), text.points(point, width))
        copies = b.loop(turn, 0, vectors, body, mark=Unroll())
    single = b.block(
        Let(stop, b.min64(end, count)),
        b.loop(point, b.add(first, thread), stop, text.points(point), step=threads),
    )
    return b.block(
        Let(first, b.mul(_index("tc_block"), share)),
        _either(b.all_of(*whole), copies, single),
    )


def _either(condition: Expr, then: Stmt, other: Stmt) -> Stmt:
    """Return if (condition) then else other, of which a known condition leaves one."""
    if isinstance(condition, Const):
        return then if condition.value else other
    return If(condition, b.block(then), b.block(other))


def _index(function: str) -> Expr:
    return b.cast(Call(function, (), Scalar(INT32)), I64)


def touch(
    ctx: GpuContext, found: IterationSpace, access: Access, width: int, *, copied: bool
) -> Touch:
    """Return how a kernel touches an operand whose threads have width neighbours each."""
    inner = inner_loop(found)
    linear = found.linear[access]
    size = ctx.operands.memory_dtype(access[0]).size_bytes
    step = linear.step(inner.name).evaluate(found.sizes)
    total = float(max(0, ctx.extent(_count(found))))
    walked = [x for x in (*found.kept, inner) if linear.step(x.name) != ZERO]
    footprint = size * float(max(0, ctx.extent(points(tuple(walked)))))
    if copied:
        return Touch(total / width, size * width, size * width, footprint)
    requests = total / width if step == 0 else total
    return Touch(requests, size, step * size * width, footprint)


FORM = Form("pointwise", matches, knobs, default, cost_ns, lower)
