"""Knobs of kernels over rows: which way they walk, the threads of a row and of a block; costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tcdsl.codegen import build as b
from tcdsl.codegen.config import Knob, Value
from tcdsl.codegen.lower.context import GpuContext
from tcdsl.codegen.lower.cuda.fold import WARP, Team
from tcdsl.codegen.lower.cuda.rows_kernel import held_points
from tcdsl.codegen.lower.cuda.rows_program import RowProgram
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
    return (walk, lanes, Knob("threads", _THREADS), Knob("unroll", (1, 2, 4, 8)))


def default(ctx: GpuContext, program: RowProgram) -> dict[str, Value]:
    """Return a warp to a short row, a block to a long one; columns where neighbours are rows."""
    space = program.space
    if space.kept and ctx.extent(space.kept[-1].extent) >= 4 and columns_are_nearer(space):
        return _columns(ctx, space)
    length, rows = row_length(ctx, space), row_count(ctx, space)
    if length <= _SHORT_ROW and rows * WARP >= ctx.machine.sms * 64:
        lanes = _power(length / 4, 1, WARP)
        return {"walk": "rows", "lanes": lanes, "threads": 128, "unroll": 4}
    lanes = _power(length / 8, WARP, 512)
    while lanes < 1024 and program.live() * length > 16 * lanes and length >= 8 * lanes:
        lanes *= 2
    # few rows: a row takes more threads than it would need to fill the GPU
    while lanes < 1024 and rows * lanes < ctx.machine.sms * 512 and length >= 4 * lanes:
        lanes *= 2
    return {"walk": "rows", "lanes": lanes, "threads": max(128, lanes), "unroll": 4}


def _columns(ctx: GpuContext, space: Space) -> dict[str, Value]:
    length, rows = row_length(ctx, space), row_count(ctx, space)
    lanes = 1
    while lanes < 64 and rows * lanes < ctx.machine.sms * _BUSY and length >= 16 * lanes:
        lanes *= 2
    beside = WARP
    while beside > 8 and 2 * rows < beside * ctx.machine.sms:  # 8 read a whole sector still
        beside //= 2
    threads = min(1024, max(256, lanes * beside))
    return {"walk": "columns", "lanes": lanes, "threads": threads, "unroll": 4}


def team_of(values: Mapping[str, Value]) -> Team:
    """Return the threads of a block as the knobs have them.

    Raises
    ------
    ScheduleError
        If a row has more threads than its block.
    """
    lanes, threads = int(values["lanes"]), int(values["threads"])
    if lanes > threads:
        raise ScheduleError(f"a row of {lanes} threads in a block of {threads}")
    walk = "columns" if values["walk"] == "columns" else "rows"
    return Team(walk, lanes, threads // lanes)  # type: ignore[arg-type]


def cost_ns(
    ctx: GpuContext, program: RowProgram, values: Mapping[str, Value], parts: int = 1
) -> float:
    """Return the predicted time of the kernel; parts: blocks that share a row."""
    try:
        team = team_of(values)
    except ScheduleError:
        return _NEVER_NS
    space = program.space
    length, rows = row_length(ctx, space), row_count(ctx, space)
    held = all(held_points(program, team, n) for n in range(len(space.sweeps) - 1))
    touches = []
    for n, sweep in enumerate(space.aligned.sweeps):
        for access in {a for s in sweep.steps for a in accesses(s) if a in space.linear}:
            again = n > 0 and access[0] not in space.written
            if not (again and held):
                touches.append(_touch(ctx, program, team, n, access, cached=again))
    each = sum(
        operations(program.values[s.statement.target]) + 1
        for w in space.aligned.sweeps
        for s in w.steps
    )
    unroll = int(values["unroll"])
    count = float(rows) * length
    threads = float(max(1, rows)) * team.lanes * parts
    turns = len(space.sweeps) * -(-length // (team.lanes * parts)) / unroll
    meetings = len(space.sweeps) * (team.lanes > 1)
    folding = meetings * _FOLD_OPS * threads / max(1.0, count)
    in_flight = 4.0 * max(unroll, held_points(program, team, 0) or 0)
    work = Work(count, each + folding, threads, turns, in_flight)
    waves = max(1.0, threads / (ctx.machine.sms * ctx.machine.threads_sm))
    serial = team.lanes if team.walk == "columns" else 2 if team.meets_at_barriers else 0
    return kernel_ns(ctx.machine, work, touches) + len(space.sweeps) * serial * _SHARED_NS * waves


def _touch(
    ctx: GpuContext, program: RowProgram, team: Team, n: int, access: Access, *, cached: bool
) -> Touch:
    """Return how a sweep touches an operand; cached: an earlier sweep has read it."""
    space, loops = program.space, program.space.sweeps[n]
    form = space.linear[access]
    size = ctx.operands.memory_dtype(access[0]).size_bytes
    by_rows = team.walk == "columns" or (team.lanes == 1 and bool(space.kept))
    beside = space.kept[-1] if by_rows else loops[-1]
    distance = form.step(beside.name).evaluate(space.sizes) * size
    walked = tuple(x for x in (*space.kept, *loops) if form.step(x.name) != ZERO)
    footprint = 0.0 if cached else float(size * max(0, ctx.extent(points(walked))))
    requests = float(max(0, row_count(ctx, space) * ctx.extent(points(loops))))
    touch = Touch(requests, size, distance, footprint)
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


def is_empty(blocks: b.IntLike) -> bool:
    """Whether a kernel is known to have no blocks."""
    return b.value_of(b.expr(blocks)) == 0
