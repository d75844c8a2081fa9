"""Knobs of kernels over rows: which way they walk, the threads of a row and of a block; costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from tcdsl.codegen import build as b
from tcdsl.codegen.config import Knob, Value
from tcdsl.codegen.lower.context import GpuContext
from tcdsl.codegen.lower.cuda.fold import WARP, Team
from tcdsl.codegen.lower.cuda.rows_kernel import Form, held_points
from tcdsl.codegen.lower.cuda.rows_program import RowProgram
from tcdsl.codegen.lower.cuda.rows_vectors import copied, widths
from tcdsl.codegen.lower.cuda.traffic import SECTOR, Touch, Work, kernel_ns, operations
from tcdsl.codegen.lower.rows_access import ZERO
from tcdsl.codegen.lower.rows_space import Access, Space, accesses, columns_are_nearer, points
from tcdsl.grammar.errors import ScheduleError

_LANES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_THREADS = (64, 128, 256, 512, 1024)
_SHORT_ROW = 1024  # the longest that a warp walks alone
_BUSY = 1024  # threads of a multiprocessor that hide the latency of memory
_NEVER_NS = 1e15  # of what cannot be built
_SHARED_NS = 20.0  # of a barrier, or of a value read from shared memory by all that need it
_FOLD_OPS = 10  # instructions of a thread that folds values of others


def row_length(ctx: GpuContext, space: Space) -> int:
    """Return the points of the longest sweep."""
    return max((ctx.extent(points(w)) for w in space.sweeps), default=0)


def row_count(ctx: GpuContext, space: Space) -> int:
    """Return the number of rows."""
    return ctx.extent(points(space.kept))


def knobs(ctx: GpuContext, program: RowProgram) -> tuple[Knob, ...]:
    """Return the direction, the threads of a row and of a block, and loads under way."""
    space = program.space
    walk = Knob("walk", ("rows", "columns") if space.kept else ("rows",))
    longest = max(WARP, 2 * row_length(ctx, space) - 1) if ctx.is_exact() else _LANES[-1]
    lanes = Knob("lanes", tuple(n for n in _LANES if n <= longest))
    return (
        walk,
        lanes,
        Knob("threads", _THREADS),
        Knob("width", widths(ctx, program)),
        Knob("unroll", (1, 2, 4, 8)),
    )


def default(ctx: GpuContext, program: RowProgram) -> dict[str, Value]:
    """Return a warp to a short row, a block to a long one; columns where neighbours are rows."""
    space = program.space
    if space.kept and ctx.extent(space.kept[-1].extent) >= 4 and columns_are_nearer(space):
        return _columns(ctx, space)
    length, rows = row_length(ctx, space), row_count(ctx, space)
    width = max(widths(ctx, program))
    if length <= _SHORT_ROW and rows * WARP >= ctx.machine.sms * 64:
        width = min(width, 4)
        lanes = _power(length / max(4, width), 1, WARP)
        either = _rows(lanes, 128, width), _rows(1, 128, 1)  # the latter for windows side by side
        return min(either, key=lambda values: cost_ns(ctx, program, values))
    lanes = _power(length / 8, WARP, 512)
    while lanes < 1024 and program.live() * length > 16 * lanes and length >= 8 * lanes:
        lanes *= 2
    # few rows: a row takes more threads than it would need to fill the GPU
    while lanes < 1024 and rows * lanes < ctx.machine.sms * 512 and length >= 4 * lanes:
        lanes *= 2
    while width > 1 and lanes * width > length:
        width //= 2
    width = width if width in widths(ctx, program) else 1
    return _rows(lanes, max(128, lanes), width)


def _rows(lanes: int, threads: int, width: int) -> dict[str, Value]:
    unroll = 4 if width <= 2 else 2
    return {"walk": "rows", "lanes": lanes, "threads": threads, "width": width, "unroll": unroll}


def _columns(ctx: GpuContext, space: Space) -> dict[str, Value]:
    length, rows = row_length(ctx, space), row_count(ctx, space)
    lanes = 1
    while lanes < 64 and rows * lanes < ctx.machine.sms * _BUSY and length >= 16 * lanes:
        lanes *= 2
    beside = WARP
    while beside > 8 and 2 * rows < beside * ctx.machine.sms:  # 8 read a whole sector still
        beside //= 2
    threads = min(1024, max(256, lanes * beside))
    return {"walk": "columns", "lanes": lanes, "threads": threads, "width": 1, "unroll": 4}


def form_of(values: Mapping[str, Value]) -> Form:
    """Return how rows are walked as the knobs have it.

    Raises
    ------
    ScheduleError
        If a row has more threads than its block, or columns would be copied in pieces.
    """
    lanes, threads, width = (int(values[n]) for n in ("lanes", "threads", "width"))
    if lanes > threads:
        raise ScheduleError(f"a row of {lanes} threads in a block of {threads}")
    walk: Literal["rows", "columns"] = "columns" if values["walk"] == "columns" else "rows"
    if walk == "columns" and width > 1:
        raise ScheduleError(f"columns cannot be read {width} points at once")
    return Form(Team(walk, lanes, threads // lanes), width, int(values["unroll"]))


def cost_ns(
    ctx: GpuContext, program: RowProgram, values: Mapping[str, Value], parts: int = 1
) -> float:
    """Return the predicted time of the kernel; parts: blocks that share a row."""
    try:
        form = form_of(values)
    except ScheduleError:
        return _NEVER_NS
    space, team = program.space, form.team
    length, rows = row_length(ctx, space), row_count(ctx, space)
    held = all(held_points(program, form, n) for n in range(len(space.sweeps) - 1))
    touches = []
    for n, sweep in enumerate(space.aligned.sweeps):
        for access in {a for s in sweep.steps for a in accesses(s) if a in space.linear}:
            again = n > 0 and access[0] not in space.written
            if not (again and held):
                touches.append(_touch(ctx, program, form, n, access, cached=again))
    each = sum(
        operations(program.values[s.statement.target]) + 1
        for w in space.aligned.sweeps
        for s in w.steps
    )
    unroll = form.unroll * form.width
    count = float(rows) * length
    threads = float(max(1, rows)) * team.lanes * parts
    turns = len(space.sweeps) * -(-length // (team.lanes * parts)) / unroll
    meetings = len(space.sweeps) * (team.lanes > 1)
    folding = meetings * _FOLD_OPS * threads / max(1.0, count)
    in_flight = 4.0 * max(unroll, held_points(program, form, 0) or 0)
    work = Work(count, each + folding, threads, turns, in_flight)
    waves = max(1.0, threads / (ctx.machine.sms * ctx.machine.threads_sm))
    serial = team.lanes if team.walk == "columns" else 2 if team.meets_at_barriers else 0
    return kernel_ns(ctx.machine, work, touches) + len(space.sweeps) * serial * _SHARED_NS * waves


def _touch(
    ctx: GpuContext, program: RowProgram, form: Form, n: int, access: Access, *, cached: bool
) -> Touch:
    """Return how a sweep touches an operand; cached: an earlier sweep has read it."""
    space, loops, team = program.space, program.space.sweeps[n], form.team
    linear = space.linear[access]
    dtype = ctx.operands.memory_dtype(access[0])
    by_rows = team.walk == "columns" or (team.lanes == 1 and bool(space.kept))
    beside = space.kept[-1] if by_rows else loops[-1]
    distance = linear.step(beside.name).evaluate(space.sizes) * dtype.size_bytes
    walked = tuple(x for x in (*space.kept, *loops) if linear.step(x.name) != ZERO)
    elements = 1
    for extent in ctx.operands.buffer(access[0]).shape:
        elements *= max(0, ctx.extent(extent))
    footprint = float(dtype.size_bytes * min(elements, max(0, ctx.extent(points(walked)))))
    requests = float(max(0, row_count(ctx, space) * ctx.extent(points(loops))))
    size = dtype.size_bytes
    if access in copied(ctx, program, n, form.width):
        requests, size, distance = requests / form.width, size * form.width, distance * form.width
    touch = Touch(requests, size, distance, 0.0 if cached else footprint)
    # a warp reads so many neighbours, then others elsewhere: parts of sectors, where they are few
    neighbours = min(WARP, team.rows if by_rows else team.lanes)
    span = abs(distance) * (neighbours - 1) + size
    sectors = WARP // neighbours * -(-span // SECTOR)
    return replace(touch, requests=requests * max(1.0, sectors / touch.sectors()))


def _power(at_least: float, low: int, high: int) -> int:
    """Return the least power of two that is at least a number, within bounds."""
    n = low
    while n < at_least and n < high:
        n *= 2
    return n


def spoken(form: Form) -> str:
    """Return the threads of a row and what they read at once, for people."""
    lanes, width = form.team.lanes, form.width
    threads = f"{lanes} thread{'s' if lanes > 1 else ''} to a row"
    return f"{threads}, {width} points at once" if width > 1 else threads


def is_empty(blocks: b.IntLike) -> bool:
    """Whether a kernel is known to have no blocks."""
    return b.value_of(b.expr(blocks)) == 0
