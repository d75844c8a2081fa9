"""Scatters: values combined with, or put into, elements that data chooses, where points may meet.

    dE(I(b, l), d) +=! dO(b, l, d)      H(X(i)) += 1      dI(n, c, P(n,c,y) / W, P(n,c,y) % W) += ..
    O(i, J(i, k)) = Y(i, k)

`scatter_rows` divides the rows of the target among tasks, each of which takes the points of its own
rows, in the order of the text: the bits are those of one loop. `scatter_copies`, for many points
and few elements, cuts the points into parts of which each has a copy of the target, and adds the
copies up in their order. Which of the two, and how many parts, follows from sizes alone, so the
result is the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered
from tcdsl.codegen.forms.points.scatter_copies import has_parts, lower_copies, parts_of
from tcdsl.codegen.forms.points.scatter_points import NARROW, Scatter, scatter_of
from tcdsl.codegen.forms.points.scatter_rows import FILL_NS, lower_rows
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.machine.wall import SERIAL_NS, wall_ns
from tcdsl.codegen.program.expressions import walk_typed
from tcdsl.grammar.proofs.sizes import Size

_RANGES = (1, 2, 4, 8, 16, 32, 64)  # of rows, each of which all points are looked through for
_COPIES = 0  # in place of a number of ranges: copies of the target for parts of the points
_LOOK_NS = 1.2  # to see whether a point's row is in a range
_HIT_NS = 1.0  # to come back to a point that is
_POINT_NS = 2.0  # to find a row, in a cache or not
_NODE_NS = 0.05  # of the value, in vectors
_ALIKE = 1.03  # times the least: of ranges about as quick the fewest, as rows may be shorter
_UNEVEN = 0.2  # of the time, where each thread has one range: rows are not met equally often


def matches(ctx: Context) -> bool:
    """Whether the group is one statement of whose target data chooses the rows."""
    return len(ctx.group.statements) == 1 and _scatter(ctx) is not None


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return the number of ranges of rows, 0 for copies."""
    found = _found(ctx)
    is_whole = bool(found.slabs) or found.statement.op == "="
    return (Knob("ranges", _RANGES if is_whole else (_COPIES, *_RANGES)),)


def default(ctx: Context) -> dict[str, Value]:
    """Return copies for narrow rows in which many points meet, else ranges for all threads."""
    if not _found(ctx).slabs and _has_copies(ctx):
        return {"ranges": _COPIES}
    if _serial_ns(ctx, {"ranges": 1}) <= SERIAL_NS:  # of one thread, whatever is divided
        return {"ranges": 1}
    ns = {ranges: _ranges_ns(ctx, ranges) for ranges in _RANGES}
    return {"ranges": next(n for n in _RANGES if ns[n] <= _ALIKE * min(ns.values()))}


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call with the spec's threads (`wall.py`)."""
    serial_ns, ranges = _serial_ns(ctx, values), int(values["ranges"])
    if ranges == _COPIES:
        return wall_ns(serial_ns, parts_of(ctx, _found(ctx)).representative, ctx.spec.threads)
    return serial_ns if serial_ns <= SERIAL_NS else min(serial_ns, _ranges_ns(ctx, ranges))


def _ranges_ns(ctx: Context, ranges: int) -> float:
    """Return the time of the busiest thread; rows of a range are not met equally often."""
    threads, slabs = max(1, ctx.spec.threads), max(1.0, _count(ctx, "slabs"))
    used = min(threads, ranges * slabs)
    uneven = 1 + _UNEVEN * used / (ranges * slabs) if used > 1 else 1.0
    return uneven * _serial_ns(ctx, {"ranges": ranges}) / used


def _serial_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    ranges = int(values["ranges"])
    points = _count(ctx, "meeting") * _count(ctx, "slabs")
    elements = _elements(ctx)
    work = points * _each_ns(ctx)
    if _found(ctx).statement.base is None:  # else they are what they are
        work += elements * FILL_NS
    if ranges == _COPIES:
        return work + elements * FILL_NS * 2 * parts_of(ctx, _found(ctx)).representative
    return work + (points * (_LOOK_NS * ranges + _HIT_NS) if ranges > 1 else 0.0)


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return the phases of either way."""
    work = _count(ctx, "meeting") * _count(ctx, "slabs") * _each_ns(ctx)
    ranges = int(values["ranges"])
    if ranges == _COPIES:
        return lower_copies(ctx, _found(ctx), work)
    return lower_rows(ctx, _found(ctx), ranges, work)


def _scatter(ctx: Context) -> Scatter | None:
    return ctx.once("scatter", lambda: scatter_of(ctx))


def _found(ctx: Context) -> Scatter:
    found = _scatter(ctx)
    assert found is not None, "asked of a group that matches"
    return found


# ---- the model


def _count(ctx: Context, kind: str) -> float:
    return prod(float(max(0, ctx.extent(r.extent))) for r in getattr(_found(ctx), kind))


def _elements(ctx: Context) -> float:
    buffer = ctx.operands.buffer(_found(ctx).statement.target)
    return prod(float(max(0, ctx.extent(x))) for x in buffer.shape)


def _each_ns(ctx: Context) -> float:
    """Return the time of one point of data: its row, all columns."""
    s = _found(ctx).statement
    nodes = 2 + sum(1 for _ in walk_typed(s.value))
    inner = prod(float(max(0, ctx.extent(r.extent))) for r in s.reductions)
    return _POINT_NS + _NODE_NS * nodes * _count(ctx, "columns") * max(1.0, inner)


def _has_copies(ctx: Context) -> bool:
    found = _found(ctx)
    columns = Size.const(1)
    for r in found.columns:
        columns = columns * r.extent
    is_sum = found.statement.op != "="  # what copies keep of points that meet is not the last one
    return is_sum and not ctx.at_least(columns, NARROW) and has_parts(ctx, found)


FORM = Form("scatter", matches, knobs, default, cost_ns, lower, takes_any_points=True)
