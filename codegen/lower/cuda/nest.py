"""The general leaf nest on a GPU: any one statement, one thread for each output point.

    for outputs (threads): acc = identity (or the base's element); for reductions: acc op value

The innermost output index runs along the threads of a warp. Points of a scatter may meet in an
element. Where the order in which they are combined does not show (integers, extremes), each still
has its thread and the combination is atomic. Else the output indices that the element does not
tell are loops in the thread, in the order of the text: points that meet are the same thread's.
A statement that initialises a box it does not cover fills the box by a kernel before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

from tcdsl.codegen import build as b
from tcdsl.codegen.config import Knob, Value
from tcdsl.codegen.loopir import (
    I64,
    Assign,
    Call,
    Expr,
    For,
    Function,
    If,
    Launch,
    Let,
    Load,
    Scalar,
    Stmt,
)
from tcdsl.codegen.lower.arg import arg_reduction, is_arg
from tcdsl.codegen.lower.context import GpuContext
from tcdsl.codegen.lower.cuda.kernel import KernelValues, LoweredKernels, kernel
from tcdsl.codegen.lower.cuda.traffic import SECTOR, Touch, Work, kernel_ns, operations
from tcdsl.codegen.lower.expr import combine, identity, narrow, widen
from tcdsl.codegen.lower.operands import compute_dtype, safe_name
from tcdsl.codegen.lower.outputs import all_told, innermost, told
from tcdsl.codegen.program import Statement, affine_of
from tcdsl.codegen.target import short_name
from tcdsl.grammar import typed
from tcdsl.grammar.dtypes import INT32
from tcdsl.grammar.sizes import Size
from tcdsl.grammar.typed import Range

MAX_BLOCKS = 2**31 - 1  # of a grid
_ATOMICS = {"+": "tc_atomic_add", "min": "tc_atomic_min", "max": "tc_atomic_max"}
_UNROLLED = 4  # turns of a reduction that the CUDA compiler loads for at once


def matches(ctx: GpuContext) -> bool:
    """Whether the group is one statement."""
    return len(ctx.group.statements) == 1


def knobs(ctx: GpuContext) -> tuple[Knob, ...]:
    """Return the innermost index, the threads of a block and the points of a thread."""
    names = tuple(r.name for r in _threaded(ctx, ctx.group.statements[0]))
    inner = (Knob("inner", names),) if len(names) > 1 else ()
    return (*inner, Knob("threads", (64, 128, 256, 512)), Knob("points", (1, 2, 4)))


def default(ctx: GpuContext) -> dict[str, Value]:
    """Return the index that walks memory in unit steps, and blocks that reach all of the GPU."""
    s = ctx.group.statements[0]
    ranges = _threaded(ctx, s)
    inner: dict[str, Value] = {}
    if len(ranges) > 1:
        names = [r.name for r in ranges]
        best = innermost(ctx.operands, s)
        inner["inner"] = best if best in names else names[-1]
    points = _points(ctx, ranges)
    return {**inner, "threads": 256 if points >= 256 * ctx.machine.sms else 64, "points": 1}


def cost_ns(ctx: GpuContext, values: Mapping[str, Value]) -> float:
    """Return the time of memory traffic, arithmetic or the turns of a thread, whichever is most."""
    s = ctx.group.statements[0]
    ranges = _threaded(ctx, s)
    each = int(values["points"])
    points = _points(ctx, s.ranges)
    threads = _points(ctx, ranges) / each
    inner = str(values.get("inner", ranges[-1].name if ranges else ""))
    touches = [_touch(ctx, s, s.target, s.subs, inner, _points(ctx, s.outputs))]
    touches += [_touch(ctx, s, r.tensor, r.subs, inner, points) for r in s.reads() if r.subs]
    in_flight = sum(x.bytes for x in touches[1:]) * (_UNROLLED if s.reductions else 1)
    work = Work(points, operations(s.value) + 1, threads, points / max(1.0, threads), in_flight)
    fill = 0.0
    if s.base is None and not s.covers:
        size = ctx.operands.memory_dtype(s.target).size_bytes
        elements = prod(max(0, ctx.extent(x)) for x in ctx.operands.buffer(s.target).shape)
        touch = Touch(elements, size, size, elements * size)
        fill = kernel_ns(ctx.machine, Work(elements, 0, elements / each, each, 0), [touch])
    return fill + kernel_ns(ctx.machine, work, touches)


def lower(ctx: GpuContext, values: Mapping[str, Value]) -> LoweredKernels:
    """Return one kernel, and one before it where the box has to be filled."""
    s = ctx.group.statements[0]
    grid = _Grid(ctx, int(values["threads"]), int(values["points"]))
    parts = [_fill(grid, s)] if s.base is None and not s.covers else []
    parts.append(_main(grid, s, str(values.get("inner", ""))))
    started = [p for p in parts if b.value_of(p[1].blocks) != 0]
    return LoweredKernels(
        _form(ctx, s),
        tuple(f for f, _ in started),
        tuple(x for _, x in started),
        flops=_points(ctx, s.ranges) * (operations(s.value) + (s.op != "=")),
    )


# ---- the two kernels


def _main(grid: _Grid, s: Statement, inner: str) -> tuple[Function, Launch]:
    ctx, ops = grid.ctx, grid.ctx.operands
    ranges = sorted(_threaded(ctx, s), key=lambda r: r.name == inner)  # stable: inner goes last
    meeting = [r for r in s.outputs if r not in ranges]
    values = KernelValues(ops, {r.name: b.i64(safe_name(r.name)) for r in s.ranges})
    stored = ops.memory_dtype(s.target)
    if s.op == "=":
        value = values.value(s.value)
        place = values.place(s.target, s.subs, s.subs_checked)
        assert isinstance(place, Load)
        body = b.block(values.take(), Assign(place, narrow(value, stored)))
    elif is_atomic(ctx, s):
        body = _atomically(ctx, s, values)
    elif is_arg(s):
        body = arg_reduction(values, s, lambda search: _loops(ctx, s.reductions, search))
    else:
        acc = b.var(ops.local("acc"), compute_dtype(ops.buffer(s.target).dtype))
        place = values.place(s.target, s.subs, s.subs_checked)
        assert isinstance(place, Load)
        locate = values.take()
        first = identity(s.op, ops.buffer(s.target).dtype)
        if s.base is not None or meeting:  # points that meet go on from what stands there
            first = widen(place, stored)
        step = combine(s.op, acc, values.value(s.value))
        update = b.block(values.take(), Assign(acc, step))
        body = b.block(
            locate,
            Let(acc, first, mutable=True),
            _loops(ctx, s.reductions, update),
            Assign(place, narrow(acc, stored)),
        )
    return grid.over("nest", ranges, _loops(ctx, meeting, body))


def _fill(grid: _Grid, s: Statement) -> tuple[Function, Launch]:
    """Fill the box with what elements that no point reaches hold."""
    ops = grid.ctx.operands
    buffer = ops.buffer(s.target)
    ranges = [
        Range(ops.local(f"i{d}"), Size.const(0), extent, "output")
        for d, extent in enumerate(buffer.shape)
    ]
    value = narrow(identity(s.op, buffer.dtype), ops.memory_dtype(s.target))
    body = Assign(ops.element(s.target, [b.i64(r.name) for r in ranges]), value)
    return grid.over("fill", ranges, body)


def _atomically(ctx: GpuContext, s: Statement, values: KernelValues) -> Stmt:
    """Combine what a point comes to with its element, which other threads may do as well."""
    place = values.place(s.target, s.subs, s.subs_checked)
    assert isinstance(place, Load)
    locate = values.take()
    dtype = ctx.operands.memory_dtype(s.target)
    value = values.value(s.value)
    first = values.take()
    if s.reductions:
        acc = b.var(ctx.operands.local("acc"), dtype)
        update = b.block(first, Assign(acc, combine(s.op, acc, value)))
        start = Let(acc, identity(s.op, dtype), mutable=True)
        first, value = [start, _loops(ctx, s.reductions, update)], acc
    at = b.offset(place.pointer, place.index)
    return b.block(
        locate, first, b.do(f"{_ATOMICS[s.op.rstrip('=!')]}_{short_name(dtype)}", at, value)
    )


def is_atomic(ctx: GpuContext, s: Statement) -> bool:
    """Whether points may meet, in any order, in an element that the hardware can combine."""
    dtype = ctx.operands.memory_dtype(s.target)
    home = ctx.operands.buffer(s.target).home
    return (
        not all_told(s)
        and s.op.rstrip("=!") in _ATOMICS
        and dtype.bits in (32, 64)
        and (dtype.is_integer or s.op[0] == "m")
        and all(ctx.operands.buffer(r.tensor).home != home for r in s.reads())
    )


def _threaded(ctx: GpuContext, s: Statement) -> list[Range]:
    """Return the output indices that threads divide among themselves."""
    apart = {r.name for r in s.outputs} if is_atomic(ctx, s) else told(s)
    return [r for r in s.outputs if r.name in apart]


def _form(ctx: GpuContext, s: Statement) -> str:
    if all_told(s):
        return "nest"
    return "nest, atomic" if is_atomic(ctx, s) else "nest, points that meet in order"


def _loops(ctx: GpuContext, ranges: Sequence[Range], body: Stmt) -> Stmt:
    for r in reversed(ranges):
        v = b.i64(safe_name(r.name))
        body = For(v, ctx.operands.size(r.low), ctx.operands.size(r.high), body)
    return body


class _Grid:
    """How points are handed to threads.

    A thread has one point, or walks on by as many as the grid has threads: then neighbours in a
    warp stay neighbours in memory, and a grid that would be too large may be cut.
    """

    def __init__(self, ctx: GpuContext, threads: int, points: int) -> None:
        self.ctx = ctx
        self.threads = threads
        self.points = points

    def over(self, name: str, ranges: Sequence[Range], body: Stmt) -> tuple[Function, Launch]:
        """Return a kernel over the points of ranges, the last running fastest."""
        ops = self.ctx.operands
        extents = [ops.size(r.extent) for r in ranges]
        count = b.mul(*extents)
        blocks = b.ceil_div(count, self.threads * self.points)
        known = b.value_of(blocks)
        fits = known <= MAX_BLOCKS if known is not None else self.ctx.spec.is_small
        point = b.i64(ops.local("point"))
        here = b.block(decode(ranges, extents, point, ops.size), body)
        first = Call("tc_point", (), I64)
        if self.points == 1 and fits:
            nest = b.block(Let(point, first), If(b.compare("<", point, count), here))
        else:
            step = b.mul(b.cast(Call("tc_blocks", (), Scalar(INT32)), I64), self.threads)
            nest = b.loop(point, first, count, here, step=step)
            blocks = blocks if fits else b.min64(blocks, MAX_BLOCKS)
        return kernel(self.ctx, name, nest, blocks=blocks, threads=self.threads)


def decode(
    ranges: Sequence[Range], extents: Sequence[Expr], point: Expr, low: Callable[[Size], Expr]
) -> list[Stmt]:
    """Declare the indices of a point, the last one running fastest."""
    lets: list[Stmt] = []
    for k, r in enumerate(ranges):
        rest = b.div(point, b.mul(*extents[k + 1 :]))
        at = rest if k == 0 else b.mod(rest, extents[k])
        lets.append(Let(b.i64(safe_name(r.name)), b.add(at, low(r.low))))
    return lets


# ---- the model


def _points(ctx: GpuContext, ranges: Iterable[Range]) -> float:
    return prod(float(max(0, ctx.extent(r.extent))) for r in ranges)


def _touch(
    ctx: GpuContext,
    s: Statement,
    name: str,
    subs: Sequence[typed.Expr],
    inner: str,
    requests: float,
) -> Touch:
    """Return how a statement touches an operand, neighbours along inner side by side."""
    size = ctx.operands.memory_dtype(name).size_bytes
    layout, shape = ctx.operands.layout(name), ctx.operands.buffer(name).shape
    extents = {r.name: max(0, ctx.extent(r.extent)) for r in s.ranges}
    distance, elements, stride = 0, 1.0, 1
    for d in reversed(range(len(subs))):
        a, extent = affine_of(subs[d]), max(0, ctx.extent(shape[d]))
        if d == layout.unit:
            stride = 1
        here = 0 if d in layout.zeros else stride
        if a is None:  # read from data: anywhere
            distance += SECTOR
            elements *= extent
        else:
            distance += a.coefficient(inner) * here * size
            elements *= min(extent, prod(extents[n] for n, _ in a.terms))
        stride *= max(1, extent)
    return Touch(requests, size, distance, min(elements, requests) * size)
