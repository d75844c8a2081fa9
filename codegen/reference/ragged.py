"""Points of ragged ranges for the reference evaluator: blocks of a box, of which some count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tcdsl.codegen.program.dtypes import identity
from tcdsl.codegen.reference.arithmetic import Array
from tcdsl.codegen.reference.expressions import Evaluator, Points
from tcdsl.grammar.types.typed import Statement

Block = tuple[Points, int, tuple[int, ...]]


def ragged_blocks(
    stmt: Statement,
    values: Evaluator,
    loop: Mapping[str, int],
    limit: int,
    split_reductions: bool,
) -> Iterator[Block]:
    """Yield blocks of about limit points with the number of output axes and the reduction axes.

    Each axis runs from the least of its bounds to the greatest; `Points.active` says which points
    are between their own. split_reductions: a block need not have all of a reduction.
    """
    rank = len(stmt.ranges)
    kept = sum(r.kind == "output" for r in stmt.ranges)
    index: dict[str, Array] = {k: np.asarray(v, np.int64) for k, v in loop.items()}
    if not split_reductions:
        limit = min(limit, 4096)  # of the outputs alone

    def blocks(axis: int, points: Points, room: int) -> Iterator[Block]:
        if axis == kept and points.active is not None:
            outer = points.active
            points = replace(points, written=outer.reshape(outer.shape[:kept]))
        if axis == rank:
            yield points, kept, tuple(range(kept, rank))
            return
        r = stmt.ranges[axis]
        low = high = None
        if r.bounds is None:
            first, end = (values.extent(x, loop) for x in (r.low, r.high))
        else:
            low, high = (values.subscript(e, points) for e in r.bounds)
            counts = low < high if points.active is None else (low < high) & points.active
            lows, highs = np.broadcast_arrays(low, high, counts)[:2]
            counts = np.broadcast_to(counts, lows.shape)
            if not counts.any():
                return
            first, end = int(lows[counts].min()), int(highs[counts].max())
        step = max(1, end - first) if axis >= kept and not split_reductions else max(1, room)
        for start in range(first, end, step):
            line = np.arange(start, min(start + step, end), dtype=np.int64)
            line = line.reshape([-1 if a == axis else 1 for a in range(rank)])
            inner = replace(points, index={**points.index, r.name: line})
            if low is not None and high is not None:
                inner = inner.where((low <= line) & (line < high))
            yield from blocks(axis + 1, inner, max(1, room // max(1, line.size)))

    yield from blocks(0, Points(index), limit)


def first_extreme(
    stmt: Statement,
    values: Evaluator,
    loop: Mapping[str, int],
    points: Points,
    value: Array,
    kept: int,
) -> Array:
    """Return the place of the extreme among the points that count: 0 where there is none.

    The index itself where one is reduced, else the row-major position in the box of all ranges.
    """
    assert points.active is not None
    shape = value.shape
    active = np.broadcast_to(points.active, shape).reshape(*shape[:kept], -1)
    flat = value.reshape(*shape[:kept], -1)
    op = "max=" if stmt.op.startswith("argmax") else "min="
    nothing: Any = identity(op, flat.dtype)
    ufunc = np.maximum if op == "max=" else np.minimum
    best = ufunc.reduce(np.where(active, flat, nothing), axis=-1, keepdims=True, initial=nothing)
    with np.errstate(invalid="ignore"):
        same = (flat == best) | ((flat != flat) & (best != best))
    at = np.argmax(same & active, axis=-1)
    place = np.zeros((1,) * len(shape), np.int64)
    reduced = stmt.ranges[kept:]
    for r in reduced:
        low = values.extent(r.low, loop)
        step = points.index[r.name] - (low if len(reduced) > 1 else 0)
        place = place * values.extent(r.extent, loop) + step
    places = np.broadcast_to(place, shape).reshape(*shape[:kept], -1)
    found = np.take_along_axis(places, at[..., None], axis=-1)[..., 0]
    return np.where(active.any(axis=-1), found, 0)
