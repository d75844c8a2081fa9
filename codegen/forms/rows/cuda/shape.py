"""Knobs of kernels over rows: which way they walk, the threads of a row and of a block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.space import columns_are_nearer
from tcdsl.codegen.forms.rows.cuda.cost import CostFacts, cost_ns, facts
from tcdsl.codegen.forms.rows.cuda.fold import Team
from tcdsl.codegen.forms.rows.cuda.kernel import TeamWalk
from tcdsl.codegen.forms.rows.cuda.program import RowProgram
from tcdsl.codegen.forms.rows.cuda.vectors import widths
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.machine.gpu import WARP
from tcdsl.grammar.text.errors import ScheduleError

_LANES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_THREADS = (64, 128, 256, 512, 1024)
_SHORT_ROW = 1024  # the longest that a warp walks alone
_NEVER_NS = 1e15
_BUSY = 1024  # threads of a multiprocessor that hide the latency of memory


def knobs(ctx: GpuContext, program: RowProgram) -> tuple[Knob, ...]:
    """Return the direction, the threads of a row and of a block, and loads under way."""
    space = program.space
    walk = Knob("walk", ("rows", "columns") if space.kept else ("rows",))
    longest = max(WARP, 2 * facts(ctx, program).length - 1) if ctx.is_exact() else _LANES[-1]
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
        return _columns(ctx, facts(ctx, program))
    length, rows = facts(ctx, program).length, facts(ctx, program).rows
    width = max(widths(ctx, program))
    if length <= _SHORT_ROW and rows * WARP >= ctx.machine.sms * 64:
        width = min(width, 4)
        lanes = _power(length / max(4, width), 1, WARP)
        either = _rows(lanes, 128, width), _rows(1, 128, 1)  # the latter for windows side by side
        return min(either, key=lambda values: cost_ns(ctx, program, walk_of(values)))
    lanes = _power(length / 8, WARP, 512)
    while lanes < 1024 and program.live * length > 16 * lanes and length >= 8 * lanes:
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


def _columns(ctx: GpuContext, known: CostFacts) -> dict[str, Value]:
    length, rows = known.length, known.rows
    lanes = 1
    while lanes < 64 and rows * lanes < ctx.machine.sms * _BUSY and length >= 16 * lanes:
        lanes *= 2
    beside = WARP
    while beside > 8 and 2 * rows < beside * ctx.machine.sms:  # 8 read a whole sector still
        beside //= 2
    threads = min(1024, max(256, lanes * beside))
    return {"walk": "columns", "lanes": lanes, "threads": threads, "width": 1, "unroll": 4}


def walk_of(values: Mapping[str, Value]) -> TeamWalk:
    """Return how rows are walked as the knobs have it.

    Raises
    ------
    ScheduleError
        If a row has more threads than its block, or columns would be copied in pieces.
    """
    lanes, threads, width = (int(values[n]) for n in ("lanes", "threads", "width"))
    if lanes > threads:
        raise ScheduleError(f"a row of {lanes} threads in a block of {threads}")
    along: Literal["rows", "columns"] = "columns" if values["walk"] == "columns" else "rows"
    if along == "columns" and width > 1:
        raise ScheduleError(f"columns cannot be read {width} points at once")
    return TeamWalk(Team(along, lanes, threads // lanes), width, int(values["unroll"]))


def predicted_ns(
    ctx: GpuContext, program: RowProgram, values: Mapping[str, Value], parts: int = 1
) -> float:
    """Return the predicted time of a kernel; without end for one that cannot be built."""
    try:
        walk = walk_of(values)
    except ScheduleError:
        return _NEVER_NS
    return cost_ns(ctx, program, walk, parts)


def _power(at_least: float, low: int, high: int) -> int:
    """Return the least power of two that is at least a number, within bounds."""
    n = low
    while n < at_least and n < high:
        n *= 2
    return n


def spoken(walk: TeamWalk) -> str:
    """Return the threads of a row and what they read at once, for people."""
    lanes, width = walk.team.lanes, walk.width
    threads = f"{lanes} thread{'s' if lanes > 1 else ''} to a row"
    return f"{threads}, {width} points at once" if width > 1 else threads


def is_empty(blocks: b.IntLike) -> bool:
    """Whether a kernel is known to have no blocks."""
    return b.value_of(b.expr(blocks)) == 0
