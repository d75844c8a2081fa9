"""Convolutions with static tap lists: what is outside of the image is neither copied nor tested.

Takes the group {zero padding, contraction that reads it, pointwise epilogue}, or the contraction
alone if it slides over a window. Sizes are exact, but for the number of images. The same form is
the convolution's gradient by its input: another map from pixels and taps to the image, an output
maybe written with strides, by several contractions that take turns along its lines.

    problem         what is convolved: roles of indices, which taps exist
    schedule        how it is cut, what it costs
    kernel, store   register tiles; from there to the output
    phase, nest     the nest around them; what it is written from
    plan            how lines are cut where their number is known to a call only

Speed over torch's (times of 1 thread, AVX-512): 3x3 over 56x56 of 64 channels 1.14, stride 2 1.5,
14x14 of 256 1.15, 7x7 of 512 1.13, 16 channels 1.8. Gradients by the input take 1.0 to 1.3 times
the forward pass and have 1.04 to 1.9 times torch's speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered, Phase, spelled_out
from tcdsl.codegen.forms.base.phase import fill
from tcdsl.codegen.forms.contraction.epilogue import Unfused, finish_of
from tcdsl.codegen.forms.contraction.finish import Finish
from tcdsl.codegen.forms.contraction.problem import ONE, extent_of, known, reach_of
from tcdsl.codegen.forms.contraction.window.nest import WindowNest
from tcdsl.codegen.forms.contraction.window.phase import phase
from tcdsl.codegen.forms.contraction.window.plan import plan
from tcdsl.codegen.forms.contraction.window.problem import Convolution, convolutions_of
from tcdsl.codegen.forms.contraction.window.schedule import (
    DEEP,
    WindowChoice,
    choose,
    chunk_counts,
    predicted,
    tiles,
)
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import ScheduleError

_LONG = 12  # pixels of a line from which on a contraction's vectors pay


def matches(ctx: Context) -> bool:
    """Whether the group slides over a window of known sizes, with columns that fill vectors."""
    return _found(ctx) is not None


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return the register tiles, and in how many tasks a block's lines may be cut."""
    parts, lanes = _parts(ctx), _lanes(ctx)
    shapes = sorted({*tiles(parts, ctx.machine, lanes)})
    chosen = _default(ctx)
    chunks = {n for n in chunk_counts(parts) if n & (n - 1) == 0} | {chosen.chunks}
    if chosen.is_planned:
        chunks = {chosen.chunks}
    return (
        Knob("tile", tuple(f"{mr}x{nv}" for mr, nv in shapes)),
        Knob("chunks", tuple(sorted(chunks))),
    )


def default(ctx: Context) -> dict[str, Value]:
    """Return the analytic schedule."""
    c = _default(ctx)
    return {"tile": f"{c.mr}x{c.nv}", "chunks": c.chunks}


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call with the spec's threads (`wall.py`)."""
    return predicted(_parts(ctx), ctx.machine, ctx.spec.threads, _lanes(ctx), _choice(values))


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase, and one before it where elements of the output are no pixels."""
    found, choice = _required(ctx), _choice(values)
    nests: list[WindowNest] = []
    for n, (c, finish) in enumerate(zip(found.parts, found.finishes, strict=True)):
        suffix = f"_{n}" if n else ""
        base = nests[-1].areas()["end"] if nests else 0
        lanes = _lanes(ctx)
        names = ctx.operands, ctx.prefix, lanes, suffix
        nests.append(WindowNest(c, finish, *names, choice, base, ctx.param_base))
    functions, tables = phase(nests)
    if all(finish.is_plain for finish in found.finishes):  # others have functions to be moved
        functions = spelled_out(functions)
    planned = plan(nests, ctx.machine)
    phases = [Phase(functions[-1].name, planned.tasks, planned.cost_ns)]
    s = found.parts[0].problem.statement
    if s.base is None and not s.covers:
        function, filling = fill(ctx, s)
        functions.insert(0, function)
        phases.insert(0, filling)
    words = ["convolution", f"{choice.mr}x{choice.nv}"]
    words += [] if found.finishes[0].is_plain else ["+ epilogue"]
    return Lowered(
        title=" ".join(words),
        functions=tuple(functions),
        phases=tuple(phases),
        plan=planned.stmts,
        thread_bytes=b.c64(nests[-1].areas()["end"]),
        shared_bytes=b.c64(0),
        tables=tuple(tables),
        params_used=int(choice.is_planned),
    )


# ---- what the group is


@dataclass(frozen=True, slots=True)
class _Found:
    """A group as convolutions, and what happens to the sums of each."""

    parts: tuple[Convolution, ...]
    finishes: tuple[Finish, ...]


def _found(ctx: Context) -> _Found | None:
    return ctx.once("convolution", lambda: _find(ctx))


def _find(ctx: Context) -> _Found | None:
    parts = convolutions_of(ctx)
    if not parts or (len(parts) == 1 and _are_pixels_fuller(parts[0], _lanes_of(ctx, parts[0]))):
        return None
    if known(parts[0].column.extent) < _least_columns(ctx, parts[0]):
        return None
    reach = reach_of(ctx)
    finishes: list[Finish] = []
    for c in parts:
        bare = replace(ctx, group=c.group, known={})
        try:
            finishes.append(finish_of(bare, reach, c.problem))
        except Unfused:
            return None
    if not all(finish.is_vector for finish in finishes):
        return None
    return _Found(parts, tuple(finishes))


def _are_pixels_fuller(c: Convolution, lanes: int) -> bool:
    """Whether a contraction is faster: lines fill its vectors, of pixels, better by a third.

    It is where pixels lie behind each other, in the image too, weights need no packing, and sums
    are not so long that the image is read from afar again for each few rows. And where the image
    needs no padding: an infinite weight times a zero of its copy is NaN, and there is none here.
    """
    if any(side.windows for side in (c.across, *c.sides)):
        return False
    is_near = c.problem.c.stride(c.across.pixel.name) == ONE and c.step(c.across.pixel) == 1
    if not (is_near and c.is_turned) or c.problem.b.linear(c.sums) is None:
        return False
    columns, pixels = known(c.column.extent), c.across.pixels
    if pixels < _LONG or known(extent_of(c.sums)) > DEEP:
        return False
    return 4 * columns * ceil(pixels / lanes) < 3 * pixels * ceil(columns / lanes)


def _least_columns(ctx: Context, c: Convolution) -> int:
    """Return how many columns are worth a vector of them, most of whose lanes may be idle.

    Vectors of pixels are the other way, which are gathered and packed where strides part them, and
    of which short lines fill less than half: then even one column is (1 thread of Emerald Rapids,
    3x3: 16 channels to 1, 2 images of 14x6 37 -> 6 us, of 128x128 by twos 520 -> 227; 3x3x3 to 2,
    9x14x6 1160 -> 140, by twos 118 -> 35). Where lines are longer pixels take a third of the time.
    """
    lanes = _lanes_of(ctx, c)
    parted = c.step(c.across.pixel) != 1 and known(c.tap.extent) > 1
    return 1 if parted or c.across.pixels <= lanes // 2 else lanes // 2


def _required(ctx: Context) -> _Found:
    found = _found(ctx)
    if found is None:
        raise ScheduleError(f"{ctx.prefix}: not a convolution of known sizes")
    return found


def _parts(ctx: Context) -> tuple[Convolution, ...]:
    return _required(ctx).parts


def _default(ctx: Context) -> WindowChoice:
    threads, lanes = ctx.spec.threads, _lanes(ctx)
    return ctx.once("convolution default", lambda: choose(_parts(ctx), ctx.machine, threads, lanes))


def _choice(values: Mapping[str, Value]) -> WindowChoice:
    mr, nv = map(int, str(values["tile"]).split("x"))
    return WindowChoice(mr, nv, int(values["chunks"]))


def _lanes(ctx: Context) -> int:
    return _lanes_of(ctx, _parts(ctx)[0])


def _lanes_of(ctx: Context, c: Convolution) -> int:
    return ctx.machine.lanes(c.problem.dtype.size_bytes)


FORM = Form(
    "convolution", matches, knobs, default, cost_ns, lower, has_tiles=True, leaves_open=True
)
