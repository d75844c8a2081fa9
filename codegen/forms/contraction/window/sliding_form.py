"""Convolutions of unknown sizes where vectors along the weights' columns pay; see `sliding.py`.

A contraction has its vectors along the pixels, where the image has neighbours: with a stride it has
to gather them, and a short line does not fill them. Weights whose sums do not lie one behind the
other, as in the gradient by the image, it packs for each line. Of a window with a width it reads
vectors of pixels anew for each tap: 1.1 to 1.7 of the time. How long lines are would be one more
regime: only where the text says so they are short.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.phase import fill
from tcdsl.codegen.forms.contraction.epilogue import Unfused, finish_of
from tcdsl.codegen.forms.contraction.finish import Finish
from tcdsl.codegen.forms.contraction.problem import ONE, ZERO, extent_of, reach_of
from tcdsl.codegen.forms.contraction.schedule import CALL, STORE
from tcdsl.codegen.forms.contraction.window.border import Edges, edges_of
from tcdsl.codegen.forms.contraction.window.plan import cut
from tcdsl.codegen.forms.contraction.window.schedule import (
    DEEP,
    LOOP,
    PACK,
    TURN,
    most_rows,
    tile_step,
)
from tcdsl.codegen.forms.contraction.window.sliding import Sliding, sliding_of
from tcdsl.codegen.forms.contraction.window.sliding_nest import SlidingNest, phase
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr, Scalar
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.machine.wall import wall_ns
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.types.dtypes import FLOAT64

_MOST_TAPS = 8  # of a row of the window: each is code in all micro-kernels
_AT_ONCE = 2  # of a wider window, whose row is as many equal pieces as it takes
_WAITING = 64  # pixels of which sums wait to be turned around: in the first level
_LONG = 2  # vectors of pixels from which on a line fills them well enough


def matches(ctx: Context) -> bool:
    """Whether the group slides over a window of few taps, in steps or along short lines."""
    return _found(ctx) is not None


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return the widths of a block of columns, in vectors, and how many taps are written out."""
    return (Knob("vectors", (1, 2)), Knob("taps", (_required(ctx).taps,)))


def default(ctx: Context) -> dict[str, Value]:
    """Return two vectors: a block of fewer columns has tiles of its own."""
    return {"vectors": 2, "taps": _required(ctx).taps}


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call with the spec's threads (`wall.py`)."""
    c, nv = _required(ctx).conv, int(values["vectors"])
    mr, lanes = most_rows(ctx.machine, nv), _lanes(ctx)
    columns, pixels, depth = (
        ctx.extent(x) for x in (c.column.extent, c.pixel.extent, extent_of(c.sums))
    )
    lines = ctx.extent(extent_of((*c.lines, *c.panels)))
    blocks, tiles = -(-columns // (nv * lanes)), max(1, -(-pixels // mr))
    rows = max(1, -(-pixels // tiles))  # a line is cut evenly
    half_cycles = lines * blocks * tiles * _tile_cost(ctx, rows, nv, depth)
    tasks = blocks * max(1, lines)
    return wall_ns(half_cycles / (2 * ctx.machine.frequency_ghz), tasks, ctx.spec.threads)


def _tile_cost(ctx: Context, rows: int, nv: int, depth: int) -> int:
    """Return the half cycles of a register tile."""
    return depth * tile_step(ctx.machine, rows, nv) + CALL + LOOP + rows * nv * (STORE + TURN)


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase, and one before it where elements of the output are no pixels."""
    found, nv = _required(ctx), int(values["vectors"])
    mr, lanes = most_rows(ctx.machine, nv), _lanes(ctx)
    rows = tuple(most_rows(ctx.machine, n) for n in range(1, nv + 1))
    names = ctx.operands, ctx.prefix, lanes, ""
    # a store of less than a vector is several where there are no masks
    waits = found.conv.is_turned and not ctx.machine.has_masks
    at_once = max(1, _WAITING // mr) if waits else 1
    sizes = found.taps, rows, ctx.param_base, at_once
    nest = SlidingNest(found.conv, found.finish, *names, *sizes, found.edges, found.missing)
    functions = phase(nest)
    blocks = b.mul(nest.blocks, nest.size(extent_of(found.conv.panels)))
    tiles = b.ceil_div(nest.size(found.conv.pixel.extent), mr)
    each = b.add(b.mul(nest.depth, tile_step(ctx.machine, mr, nv)), _tile_cost(ctx, mr, nv, 0))
    walk = b.mul(blocks, nest.lines, tiles, each)
    packing = b.mul(blocks, nest.depth, nest.width * PACK)
    stmts, chunks = cut(nest.var, nest.param, nest.lines, blocks, walk, packing, ctx.machine)

    def ns(half_cycles: Expr) -> Expr:
        cycles = b.cast(half_cycles, Scalar(FLOAT64))
        return b.arith("*", cycles, b.const(0.5 / ctx.machine.frequency_ghz, FLOAT64))

    cost = ns(b.add(walk, b.mul(chunks, packing)))
    phases = [Phase(functions[-1].name, b.mul(chunks, blocks), cost)]
    s = found.conv.problem.statement
    if s.base is None and not s.covers:
        function, filling = fill(ctx, s)
        functions.insert(0, function)
        phases.insert(0, filling)
    words = ["convolution of any size", f"{mr}x{nv}"]
    words += [] if found.finish.is_plain else ["+ epilogue"]
    return Lowered(
        title=" ".join(words),
        functions=tuple(functions),
        phases=tuple(phases),
        plan=stmts,
        thread_bytes=nest.offsets()["end"],
        shared_bytes=b.c64(0),
        params_used=1,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """A group as a convolution, and what happens to its sums.

    taps: of a row of the window, or of a piece of it. edges: at the ends of lines; missing: how
    many elements are at the end.
    """

    conv: Sliding
    finish: Finish
    taps: int
    edges: Edges | None = None
    missing: Size = ZERO


def _found(ctx: Context) -> _Found | None:
    return ctx.once("sliding", lambda: _find(ctx))


def _find(ctx: Context) -> _Found | None:
    c = sliding_of(ctx)
    if c is None:
        return None
    lanes = ctx.machine.lanes(c.problem.dtype.size_bytes)
    is_wide, is_near = c.tap.extent != ONE, c.problem.a.stride(c.pixel.name) == ONE
    pixels = c.pixel.extent.constant  # nobody asks how long a line is: see above
    if is_near:
        is_packed = c.problem.b.linear(c.sums) is None
        is_short = pixels is not None and pixels < _LONG * lanes
        if c.tap.extent.constant is None or not (is_short or is_packed or is_wide):
            return None
        if not (is_packed or is_short) and not _are_columns_full(ctx, c, lanes):
            return None
    are_gathered = (is_wide and not is_near) or (pixels is not None and pixels <= lanes // 2)
    if not are_gathered and not ctx.at_least(c.column.extent, lanes // 2):  # see `form.py`
        return None
    try:
        own = replace(ctx, group=c.group, known={})
        finish = finish_of(own, reach_of(own), c.problem)
    except Unfused:
        return None
    if not finish.is_vector:
        return None
    count = _taps(ctx, c)  # asked last
    if not count:
        return None
    if c.across is None:
        return _Found(c, finish, count)
    ends = edges_of(c.across, c.pixel, count, (c.tap.extent.constant or count) // count)
    return None if ends is None else _Found(c, finish, count, *ends)


def _taps(ctx: Context, c: Sliding) -> int | None:
    """Return how many taps are written out: all of a row, or a piece of a long one."""
    known = c.tap.extent.constant
    if known is None or known <= _MOST_TAPS:
        return ctx.value_up_to(c.tap.extent, _MOST_TAPS)
    return max(n for n in range(1, _AT_ONCE + 1) if known % n == 0)


def _are_columns_full(ctx: Context, c: Sliding, lanes: int) -> bool:
    """Whether columns fill two thirds of one or two vectors: else pixels do so better.

    Many are asked for first, by one question. See `form.py`, where lines are known.
    """
    if not c.is_turned or ctx.at_least(c.column.extent, 4 * lanes // 3 + 1):
        return True
    is_above = ctx.at_least(c.column.extent, lanes + 1)
    if not is_above and ctx.at_least(c.column.extent, 2 * lanes // 3 + 1):
        return True
    return ctx.at_least(extent_of(c.sums), DEEP + 1)


def _required(ctx: Context) -> _Found:
    found = _found(ctx)
    if found is None:
        raise ScheduleError(f"{ctx.prefix}: not a convolution of unknown sizes")
    return found


def _lanes(ctx: Context) -> int:
    return ctx.machine.lanes(_required(ctx).conv.problem.dtype.size_bytes)


FORM = Form("sliding", matches, knobs, default, cost_ns, lower, has_tiles=True)
