"""Weight gradients of convolutions: sums over pixels, taps in the output, borders without zeros.

    problem    what it is: the roles of indices, which taps exist where
    schedule   register tile, strips of pixels, groups of strips
    kernel     micro-kernel with static lists of taps
    nest       facts and addresses of both phases
    phase      packing and the nest around the micro-kernels
    finish     groups added up, stored in any layout

For exact sizes, but for the number of images: lists of taps follow from them. Of unknown sizes:
`sliding_form.py`.

Time over that of torch's convolution_backward for the weights alone (1 thread, processor time):
0.4 to 0.75, channels last 0.3 to 0.9. Over our own forward pass: 0.93 to 1.16 (3x3 with 16 to 512
channels, stride 1 and 2); 7x7 by twos of 3 channels 1.09.
"""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered, Phase, spelled_out
from tcdsl.codegen.forms.base.phase import float_product
from tcdsl.codegen.forms.contraction.problem import ONE
from tcdsl.codegen.forms.contraction.weights.finish import (
    finish_phase,
    finish_tasks,
    is_in_vectors,
)
from tcdsl.codegen.forms.contraction.weights.nest import WeightNest, nest_of
from tcdsl.codegen.forms.contraction.weights.phase import weight_phase
from tcdsl.codegen.forms.contraction.weights.problem import WeightGradient, gradient_of
from tcdsl.codegen.forms.contraction.weights.schedule import (
    WeightChoice,
    best,
    finish_half_cycles,
    half_cycles,
    longest_strip,
    predicted_ns,
    weight_tiles,
)
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.types.dtypes import FLOAT64


def matches(ctx: Context) -> bool:
    """Whether the group is one weight gradient, of an image that may be padded by zeros."""
    return _gradient(ctx) is not None


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return the register tiles, lengths of strips, numbers of groups, and whether to pack."""
    p, lanes = _required(ctx), _lanes(ctx)
    chosen = default(ctx)
    tiles = sorted(weight_tiles(p, ctx.machine, lanes))
    longest = longest_strip(p, ctx.machine, lanes)
    pixels = {min(p.pixel_count, max(1, longest >> n)) for n in range(8)} | {int(chosen["pixels"])}
    groups = {n for n in (1, 2, 4, 8, 16, 32, 64) if n <= p.pixel_count} | {int(chosen["groups"])}
    return (
        Knob("tile", tuple("x".join(map(str, t)) for t in tiles)),
        Knob("pixels", tuple(sorted(pixels))),
        Knob("groups", tuple(sorted(groups))),
        Knob("pack", (False, True) if _is_direct(p) else (True,)),
    )


def default(ctx: Context) -> dict[str, Value]:
    """Return the analytic schedule."""
    p = _required(ctx)
    c = ctx.once(
        "weights default", lambda: best(p, ctx.machine, _lanes(ctx), pack=not _is_direct(p))
    )
    return {
        "tile": f"{c.channels}x{c.taps}x{c.vectors}",
        "pixels": c.pixels,
        "groups": c.groups,
        "pack": c.pack,
    }


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call with the spec's threads (`wall.py`)."""
    threads = ctx.spec.threads
    return predicted_ns(_required(ctx), ctx.machine, threads, _lanes(ctx), _choice(values))


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return a phase whose tasks sum up; several groups have another that stores the output."""
    p, c, lanes = _required(ctx), _choice(values), _lanes(ctx)
    if not c.pack and not _is_direct(p):
        raise ScheduleError(f"{ctx.prefix}.pack cannot be false for these layouts")
    nest = nest_of(p, c, ctx.operands, ctx.prefix, lanes, ctx.shared_base, ctx.param_base)
    functions, tables = weight_phase(nest)
    ns = 0.5 / ctx.machine.frequency_ghz
    sums_ns = half_cycles(p, ctx.machine, lanes, c) * ns
    finish_ns = finish_half_cycles(p, c) * ns
    tasks = b.mul(nest.groups, nest.blocks)
    if nest.is_direct:
        total_ns = _of_call(nest, sums_ns + finish_ns)
        phases: tuple[Phase, ...] = (Phase(functions[-1].name, tasks, total_ns),)
    else:
        finish = finish_phase(nest)
        phases = (
            Phase(functions[-1].name, tasks, _of_call(nest, sums_ns)),
            Phase(finish.name, finish_tasks(nest), b.const(finish_ns, FLOAT64)),
        )
        functions.append(finish)
    if is_in_vectors(nest):
        functions = spelled_out(functions)
    return Lowered(
        title=f"convolution weights {values['tile']}" + (" packed b" if c.pack else ""),
        functions=tuple(functions),
        phases=tuple(phases),
        plan=tuple(nest.plan()),
        thread_bytes=nest.thread_bytes,
        shared_bytes=nest.shared_bytes,
        tables=tuple(tables),
        params_used=2 * nest.is_planned,
    )


def _of_call(nest: WeightNest, ns: float) -> Expr:
    """Return a time at the images of a call, given that at a representative number of them."""
    first = nest.problem.axes[0]
    if not nest.problem.is_open:
        return b.const(ns, FLOAT64)
    return float_product([nest.size(first.pixel.extent)], ns / first.extent)


def _gradient(ctx: Context) -> WeightGradient | None:
    return ctx.once("weight gradient", lambda: gradient_of(ctx))


def _required(ctx: Context) -> WeightGradient:
    p = _gradient(ctx)
    if p is None:
        raise ScheduleError(f"{ctx.prefix}: not the weight gradient of a convolution")
    return p


def _lanes(ctx: Context) -> int:
    return ctx.machine.lanes(_required(ctx).dtype.size_bytes)


def _is_direct(p: WeightGradient) -> bool:
    """Whether vectors of b can be read where they lie."""
    return p.b.linear(p.columns) == ONE


def _choice(values: Mapping[str, Value]) -> WeightChoice:
    channels, taps, vectors = map(int, str(values["tile"]).split("x"))
    return WeightChoice(
        channels, taps, vectors, int(values["pixels"]), int(values["groups"]), bool(values["pack"])
    )


FORM = Form(
    "convolution_weights",
    matches,
    knobs,
    default,
    cost_ns,
    lower,
    has_tiles=True,
    ends_group=True,
    leaves_open=True,
)
