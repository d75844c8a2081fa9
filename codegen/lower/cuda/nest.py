"""The general leaf nest on a GPU: any one statement, one thread for each output point.

    for outputs (threads): acc = identity (or the base's element); for reductions: acc op value

The innermost output index runs along the threads of a warp. A statement whose points may meet in
an element runs in a single thread; one that initialises a box it does not cover fills the box by
a kernel before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcdsl.codegen import build as b
from tcdsl.codegen.config import Knob, Value
from tcdsl.codegen.loopir import Assign, Block, For, Function, If, Launch, Let, Load, Stmt
from tcdsl.codegen.lower.context import GpuContext
from tcdsl.codegen.lower.cuda.kernel import KernelValues, LoweredKernels, kernel
from tcdsl.codegen.lower.expr import combine, identity, narrow, widen
from tcdsl.codegen.lower.nest import is_parallel
from tcdsl.codegen.lower.operands import compute_dtype, safe_name
from tcdsl.codegen.program import Statement
from tcdsl.grammar.sizes import Size
from tcdsl.grammar.typed import Range


def matches(ctx: GpuContext) -> bool:
    """Whether the group is one statement of plain operators."""
    statements = ctx.group.statements
    return len(statements) == 1 and not statements[0].op.startswith("arg")


def knobs(ctx: GpuContext) -> tuple[Knob, ...]:
    """Return the innermost output index and the threads of a block."""
    names = tuple(r.name for r in ctx.group.statements[0].outputs)
    inner = (Knob("inner", names),) if len(names) > 1 else ()
    return (*inner, Knob("threads", (64, 128, 256, 512)))


def default(ctx: GpuContext) -> dict[str, Value]:
    """Return the last output index as the innermost, 256 threads."""
    outputs = ctx.group.statements[0].outputs
    inner: dict[str, Value] = {"inner": outputs[-1].name} if len(outputs) > 1 else {}
    return {**inner, "threads": 256}


def cost_ns(ctx: GpuContext, values: Mapping[str, Value]) -> float:
    """Return a rough time: points of the statement at a thread's pace."""
    del values
    points = 1.0
    for r in ctx.group.statements[0].ranges:
        points *= max(0, ctx.extent(r.extent))
    return 3000 + points / (ctx.machine.sms * 10)


def lower(ctx: GpuContext, values: Mapping[str, Value]) -> LoweredKernels:
    """Return one kernel, and one before it where the box has to be filled."""
    s = ctx.group.statements[0]
    threads = int(values["threads"])
    parts = [_fill(ctx, s, threads)] if s.base is None and not s.covers else []
    parts.append(_main(ctx, s, str(values.get("inner", "")), threads))
    functions, launches = zip(*parts, strict=True)
    return LoweredKernels("nest", functions, launches)


def _main(ctx: GpuContext, s: Statement, inner: str, threads: int) -> tuple[Function, Launch]:
    ops = ctx.operands
    parallel = is_parallel(s)
    outputs = sorted(s.outputs, key=lambda r: r.name == inner)  # stable: inner goes last
    values = KernelValues(ops, {r.name: b.i64(safe_name(r.name)) for r in s.ranges})
    if s.op == "=":
        place = values.place(s.target, s.subs, s.subs_checked)
        assert isinstance(place, Load)
        value = narrow(values.value(s.value), ops.memory_dtype(s.target))
        body = b.block(values.take(), Assign(place, value))
    else:
        acc = b.var(ops.local("acc"), compute_dtype(ops.buffer(s.target).dtype))
        first = identity(s.op, ops.buffer(s.target).dtype)
        place = values.place(s.target, s.subs, s.subs_checked)
        assert isinstance(place, Load)
        locate = values.take()
        if not (s.base is None and s.covers and parallel):
            first = widen(place, ops.memory_dtype(s.target))
        step = combine(s.op, acc, values.value(s.value))
        update = b.block(values.take(), Assign(acc, step))
        body = b.block(
            locate,
            Let(acc, first, mutable=True),
            _loops(ctx, s.reductions, update),
            Assign(place, narrow(acc, ops.memory_dtype(s.target))),
        )
    if not parallel:
        return kernel(ctx, "nest", _loops(ctx, outputs, body), blocks=1, threads=1)
    return _over_points(ctx, "nest", outputs, body, threads)


def _fill(ctx: GpuContext, s: Statement, threads: int) -> tuple[Function, Launch]:
    """Fill the box with what elements that no point reaches hold."""
    ops = ctx.operands
    buffer = ops.buffer(s.target)
    ranges = [
        Range(ops.local(f"i{d}"), Size.const(0), extent, "output")
        for d, extent in enumerate(buffer.shape)
    ]
    value = narrow(identity(s.op, buffer.dtype), ops.memory_dtype(s.target))
    body = Assign(ops.element(s.target, [b.i64(r.name) for r in ranges]), value)
    return _over_points(ctx, "fill", ranges, body, threads)


def _over_points(
    ctx: GpuContext, name: str, ranges: Sequence[Range], body: Stmt, threads: int
) -> tuple[Function, Launch]:
    """Return a kernel with a thread for each point of ranges, the last running fastest."""
    ops = ctx.operands
    extents = [ops.size(r.extent) for r in ranges]
    count = b.mul(*extents)
    point = b.i64(ops.local("point"))
    lets: list[Stmt] = []
    for k, r in enumerate(ranges):
        rest = b.div(point, b.mul(*extents[k + 1 :]))
        at = rest if k == 0 else b.mod(rest, extents[k])
        lets.append(Let(b.i64(safe_name(r.name)), b.add(at, ops.size(r.low))))
    nest = b.block(
        Let(point, b.call("tc_point", type=point.type)),
        If(b.compare("<", point, count), Block((*lets, body))),
    )
    return kernel(ctx, name, nest, blocks=b.ceil_div(count, threads), threads=threads)


def _loops(ctx: GpuContext, ranges: Sequence[Range], body: Stmt) -> Stmt:
    for r in reversed(ranges):
        v = b.i64(safe_name(r.name))
        body = For(v, ctx.operands.size(r.low), ctx.operands.size(r.high), body)
    return body
