"""The general leaf nest on a GPU: any one statement, one thread for each output point.

    for outputs (threads): acc = identity (or the base's element); for reductions: acc op value

The innermost output index runs along the threads of a warp. Points of a scatter may meet in an
element. Where the hardware can combine it, each still has its thread and the combination is atomic;
not so for sums of floats, in which the order shows, if the spec asks for the same bits in every
run. Else they meet in the order of the text: linked to chains (`nest_scatter.py`), or by the
output indices in which the write is not injective being loops in the thread.
A statement that initialises a box it does not cover fills the box by a kernel before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from math import prod
from operator import mul

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.kernel import KernelValues, LoweredKernels
from tcdsl.codegen.forms.base.cuda.traffic import SECTOR, Touch, Workload, kernel_ns, operations
from tcdsl.codegen.forms.base.ends import LoopEnds
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.outputs import injective_in, innermost, is_injective
from tcdsl.codegen.forms.base.scalars import combine, identity, narrow, widen
from tcdsl.codegen.forms.points.arg import arg_reduction
from tcdsl.codegen.forms.points.cuda.nest_grid import Grid
from tcdsl.codegen.forms.points.cuda.nest_ranges import range_links_ns
from tcdsl.codegen.forms.points.cuda.nest_scatter import (
    chain_kernels,
    has_chains,
    has_rows,
    rows_of,
)
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Assign, Expr, Function, Launch, Let, Load, Stmt
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.loops.target import short_name
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Range

_ATOMICS = {"+": "tc_atomic_add", "min": "tc_atomic_min", "max": "tc_atomic_max"}
_MEET_NS = 500.0  # to store an element and have it back
_UNROLLED = 4  # turns of a reduction that the CUDA compiler loads for at once


def matches(ctx: GpuContext) -> bool:
    """Whether the group is one statement."""
    return len(ctx.group.statements) == 1


def meetings(ctx: GpuContext, s: Statement) -> tuple[str, ...]:
    """Return the ways in which points that write one element may be combined; none if none do.

    atomic: by the hardware, in any order. pairs, ranges: in the order of the text along chains,
    which are found by comparing all pairs or by ranges of rows. order: by one thread.
    """
    if is_injective(s):
        return ()
    ways = []
    if _is_combined_by_hardware(ctx, s):
        if not _shows_order(ctx, s):
            return ("atomic",)
        if not ctx.spec.is_deterministic:
            ways.append("atomic")
    if has_chains(ctx, s) and not any(changes(ctx, r) for r in s.ranges):
        ways.append("pairs")
        if has_rows(ctx, s):
            ways.append("ranges")
    return (*ways, "order")


def knobs(ctx: GpuContext) -> tuple[Knob, ...]:
    """Return the innermost index, how points meet, the threads of a block, points of a thread."""
    s = ctx.group.statements[0]
    ways = meetings(ctx, s)
    names = tuple(r.name for r in _threaded(s, "atomic" in ways))
    inner = (Knob("inner", names),) if len(names) > 1 else ()
    meet = (Knob("meeting", ways),) if len(ways) > 1 else ()
    return (*inner, *meet, Knob("threads", (64, 128, 256, 512)), Knob("points", (1, 2, 4)))


def default(ctx: GpuContext) -> dict[str, Value]:
    """Return the index that walks memory in unit steps, and blocks that reach all of the GPU."""
    s = ctx.group.statements[0]
    ways = meetings(ctx, s)
    best = innermost(ctx.operands, s)

    def values(way: str) -> dict[str, Value]:
        ranges = _threaded(s, way == "atomic")
        names = [r.name for r in ranges]
        found: dict[str, Value] = {}
        if len(_threaded(s, "atomic" in ways)) > 1 and names:
            found["inner"] = best if best in names else names[-1]
        if len(ways) > 1:
            found["meeting"] = way
        points = _points(ctx, ranges)
        return {**found, "threads": 256 if points >= 256 * ctx.machine.sms else 64, "points": 1}

    return min(map(values, ways or ("",)), key=lambda v: cost_ns(ctx, v))


def cost_ns(ctx: GpuContext, values: Mapping[str, Value]) -> float:
    """Return the time of memory traffic, arithmetic or the turns of a thread, whichever is most."""
    s = ctx.group.statements[0]
    way = _way(ctx, s, values)
    ranges = _threaded(s, way == "atomic")
    each = int(values["points"])
    points = _points(ctx, s.ranges)
    threads = _points(ctx, ranges) / each
    inner = str(values.get("inner", ranges[-1].name if ranges else ""))
    touches = [_touch(ctx, s, s.target, s.subs, inner, _points(ctx, s.outputs))]
    touches += [_touch(ctx, s, r.tensor, r.subs, inner, points) for r in s.reads() if r.subs]
    in_flight = sum(x.bytes for x in touches[1:]) * (_UNROLLED if s.reductions else 1)
    work = Workload(points, operations(s.value) + 1, threads, points / max(1.0, threads), in_flight)
    fill = 0.0
    if s.base is None and not s.covers:
        size = ctx.operands.memory_dtype(s.target).size_bytes
        elements = prod(max(0, ctx.extent(x)) for x in ctx.operands.buffer(s.target).shape)
        touch = Touch(elements, size, size, elements * size)
        fill = kernel_ns(ctx.machine, Workload(elements, 0, elements / each, each, 0), [touch])
    if way in ("pairs", "ranges"):
        return fill + _chains_ns(ctx, s, way, work, touches)
    meeting = [r for r in s.outputs if r not in ranges]
    # a point that may meet the one before waits until that is stored
    waits = _points(ctx, meeting) * _MEET_NS if meeting else 0.0
    return fill + waits + kernel_ns(ctx.machine, work, touches)


def _chains_ns(
    ctx: GpuContext, s: Statement, way: str, work: Workload, touches: list[Touch]
) -> float:
    """Return the time of both kernels of chains: of the links, and of the points."""
    ranges = _threaded(s, False)
    meeting = _points(ctx, (r for r in s.outputs if r not in ranges))
    pairs = Workload(meeting * meeting, 4, meeting, meeting / _UNROLLED, 4)
    each = Workload(work.points, work.operations, _points(ctx, s.outputs), 1, work.in_flight)
    links = (
        kernel_ns(ctx.machine, pairs, [])
        if way == "pairs"
        else range_links_ns(ctx, rows_of(ctx, s), meeting)
    )
    return links + kernel_ns(ctx.machine, each, touches)


def lower(ctx: GpuContext, values: Mapping[str, Value]) -> LoweredKernels:
    """Return one kernel, and one before it where the box has to be filled."""
    s = ctx.group.statements[0]
    grid = Grid(ctx, int(values["threads"]), int(values["points"]))
    parts = [_fill(grid, s)] if s.base is None and not s.covers else []
    inner = str(values.get("inner", ""))
    scratch: tuple[Expr, ...] = ()
    way = _way(ctx, s, values)
    if way in ("pairs", "ranges"):
        chains, scratch = chain_kernels(grid, s, inner, by_ranges=way == "ranges")
        parts += chains
    else:
        parts.append(_main(grid, s, inner, is_atomic=way == "atomic"))
    started = [p for p in parts if b.value_of(p[1].blocks) != 0]
    return LoweredKernels(
        _title(s, way),
        tuple(f for f, _ in started),
        tuple(x for _, x in started),
        scratch,
    )


# ---- the two kernels


def _main(grid: Grid, s: Statement, inner: str, *, is_atomic: bool) -> tuple[Function, Launch]:
    ctx, ops = grid.ctx, grid.ctx.operands
    ranges = sorted(
        _threaded(s, is_atomic), key=lambda r: r.name == inner
    )  # stable: inner goes last
    meeting = [r for r in s.outputs if r not in ranges]
    values = KernelValues(ops, {r.name: b.i64(safe_name(r.name)) for r in s.ranges})
    ends = LoopEnds(values, s.ranges)
    stored = ops.memory_dtype(s.target)
    if s.op == "=":
        value = values.value_of(s)
        place = values.place(s.target, s.subs, s.subs_checked)
        assert isinstance(place, Load)
        body = b.block(values.take(), Assign(place, narrow(value, stored)))
    elif is_atomic:
        body = _atomically(ctx, s, values, ends)
    elif s.is_arg:
        body = arg_reduction(values, s, lambda search: ends.nested(s.reductions, search))
    else:
        acc = b.var(ops.local("acc"), ops.buffer(s.target).dtype.computed)
        place = values.place(s.target, s.subs, s.subs_checked)
        assert isinstance(place, Load)
        locate = values.take()
        first = identity(s.op, ops.buffer(s.target).dtype)
        if s.resumes or meeting:  # points that meet go on from what stands there
            first = widen(place, stored)
        step = combine(s.op, acc, values.value_of(s))
        update = b.block(values.take(), Assign(acc, step))
        body = b.block(
            locate,
            Let(acc, first, mutable=True),
            ends.nested(s.reductions, update),
            Assign(place, narrow(acc, stored)),
        )
    turning = [r for r in ranges if changes(ctx, r)]  # the grid is the same in all turns
    ranges = [r for r in ranges if r not in turning]
    within = [*meeting, *turning]
    if any(r.bounds for r in within):  # in the order of the text
        within = [r for r in s.outputs if r in within]
    return grid.over("nest", ranges, ends.nested(within, body))


def _fill(grid: Grid, s: Statement) -> tuple[Function, Launch]:
    """Fill the box with what elements that no point reaches hold."""
    ops = grid.ctx.operands
    buffer = ops.buffer(s.target)
    is_run = ops.layout(s.target).contiguous
    extents = (reduce(mul, buffer.shape, Size.const(1)),) if is_run else buffer.shape
    ranges = [
        Range(ops.local(f"i{d}"), Size.const(0), extent, "output")
        for d, extent in enumerate(extents)
    ]
    at = [b.i64(r.name) for r in ranges]
    place = b.load(ops.pointer(s.target), at[0]) if is_run else ops.element(s.target, at)
    value = narrow(identity(s.op, buffer.dtype), ops.memory_dtype(s.target))
    return grid.over("fill", ranges, Assign(place, value))


def _atomically(ctx: GpuContext, s: Statement, values: KernelValues, ends: LoopEnds) -> Stmt:
    """Combine what a point comes to with its element, which other threads may do as well."""
    place = values.place(s.target, s.subs, s.subs_checked)
    assert isinstance(place, Load)
    locate = values.take()
    dtype = ctx.operands.memory_dtype(s.target)
    value = values.value_of(s)
    first = values.take()
    if s.reductions:
        acc = b.var(ctx.operands.local("acc"), dtype)
        update = b.block(first, Assign(acc, combine(s.op, acc, value)))
        start = Let(acc, identity(s.op, dtype), mutable=True)
        first, value = [start, ends.nested(s.reductions, update)], acc
    at = b.offset(place.pointer, place.index)
    return b.block(
        locate, first, b.do(f"{_ATOMICS[s.op.rstrip('=!')]}_{short_name(dtype)}", at, value)
    )


def _is_combined_by_hardware(ctx: GpuContext, s: Statement) -> bool:
    """Whether there is an instruction for an operator, and nothing reads what it changes."""
    dtype = ctx.operands.memory_dtype(s.target)
    home = ctx.operands.buffer(s.target).home
    return (
        s.op.rstrip("=!") in _ATOMICS
        and dtype.bits in (32, 64)
        and all(ctx.operands.buffer(r.tensor).home != home for r in s.reads())
    )


def _shows_order(ctx: GpuContext, s: Statement) -> bool:
    """Whether a result tells in which order it was combined: sums of floats do."""
    return not ctx.operands.memory_dtype(s.target).is_integer and s.op[0] != "m"


def _threaded(s: Statement, is_atomic: bool) -> list[Range]:
    """Return the output indices that threads divide among themselves."""
    apart = {r.name for r in s.outputs} if is_atomic else injective_in(s)
    return [r for r in s.outputs if r.name in apart]


def changes(ctx: GpuContext, r: Range) -> bool:
    """Whether a range is another one from turn to turn of a loop, or from point to point."""
    return r.bounds is not None or any(map(ctx.program.depends, (r.low, r.high)))


def _way(ctx: GpuContext, s: Statement, values: Mapping[str, Value]) -> str:
    """Return how points meet: what values say, or the only way."""
    ways = meetings(ctx, s)
    return str(values.get("meeting", ways[0] if ways else ""))


def _title(s: Statement, way: str) -> str:
    if is_injective(s):
        return "nest"
    if way == "order":
        return "nest, points that meet in order"
    return "nest, atomic" if way == "atomic" else f"nest, points that meet in chains by {way}"


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


FORM = Form(
    "nest", matches, knobs, default, cost_ns, lower, takes_any_points=True, takes_ragged=True
)
