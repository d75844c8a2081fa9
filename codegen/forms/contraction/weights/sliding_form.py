"""Weight gradients of convolutions whose sizes only a call knows; see `sliding.py`.

As `form.py`, with loop ends in place of lists of taps, and b always packed. A contraction has the
taps outside, and packs both factors anew for each.
"""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.contraction.problem import extent_of
from tcdsl.codegen.forms.contraction.schedule import step_cost
from tcdsl.codegen.forms.contraction.weights.finish import finish_phase, finish_tasks
from tcdsl.codegen.forms.contraction.weights.schedule import TASKS, parts
from tcdsl.codegen.forms.contraction.weights.sliding import (
    MOST_TAPS,
    SlidingWeights,
    sliding_weights_of,
)
from tcdsl.codegen.forms.contraction.weights.sliding_nest import (
    SlidingNest,
    most_channels,
    phase,
)
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr, Scalar
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.wall import wall_ns
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.types.dtypes import FLOAT64


@dataclass(frozen=True, slots=True)
class _Found:
    """A group as a weight gradient; how many taps a row of its window has."""

    problem: SlidingWeights
    taps: int


def matches(ctx: Context) -> bool:
    """Whether the group is the weight gradient of a convolution with a window of few taps."""
    return _found(ctx) is not None


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return the widths of a panel of columns, in vectors, and how many taps are written out."""
    return (Knob("vectors", (1, 2)), Knob("taps", (_required(ctx).taps,)))


def default(ctx: Context) -> dict[str, Value]:
    """Return two vectors: a panel of fewer columns has tiles of its own."""
    return {"vectors": 2, "taps": _required(ctx).taps}


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call with the spec's threads (`wall.py`)."""
    found, vectors = _required(ctx), int(values["vectors"])
    p, lanes = found.problem, _lanes(ctx)
    pixels, rows, columns, outer = (
        ctx.extent(x)
        for x in (
            extent_of(tuple(x.pixel for x in p.axes)),
            extent_of(p.rows),
            extent_of(p.columns),
            extent_of(p.outer),
        )
    )
    panels = -(-columns // (vectors * lanes))
    each, channels = _tile_cost(ctx.machine, found.taps, vectors)
    tiles = -(-rows // (found.taps * channels))
    half_cycles = outer * panels * pixels * (tiles * each + vectors * lanes)
    ns = 0.5 / ctx.machine.frequency_ghz
    return wall_ns(half_cycles * ns, max(TASKS, outer * panels), ctx.spec.threads)


def _part(machine: Machine, taps: int, vectors: int) -> int:
    """Return of how many taps register tiles are: of about equal ones the most."""
    sizes = {-(-taps // n) for n in range(1, taps + 1)}
    fitting = [n for n in sorted(sizes, reverse=True) if most_channels(machine, n, vectors)]

    def cost(part: int) -> float:
        channels = most_channels(machine, part, vectors)
        cut = parts(taps, part)
        return sum(step_cost(machine, channels * len(p), vectors) for p in cut) / channels

    return min(fitting, key=cost)


def _tile_cost(machine: Machine, taps: int, vectors: int) -> tuple[int, int]:
    """Return the half cycles of a pixel for the taps of a row, and the channels they are of."""
    part = _part(machine, taps, vectors)
    channels = most_channels(machine, part, vectors)
    cut = parts(taps, part)
    return sum(step_cost(machine, channels * len(p), vectors) for p in cut), channels


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return a phase whose tasks sum up; where there are several groups another one adds them."""
    found, vectors, machine = _required(ctx), int(values["vectors"]), ctx.machine
    p, lanes = found.problem, _lanes(ctx)
    part = _part(machine, found.taps, vectors)
    channels = tuple(most_channels(machine, part, v) for v in range(1, vectors + 1))
    nest = SlidingNest(
        p,
        ctx.operands,
        ctx.prefix,
        lanes,
        ctx.shared_base,
        ctx.param_base,
        found.taps,
        part,
        channels,
    )
    functions, finish = phase(nest), finish_phase(nest)
    alone, none = nest.is_alone, b.c64(0)
    each, most = _tile_cost(machine, found.taps, vectors)
    tiles = b.ceil_div(nest.row_count, most * found.taps)
    work = b.mul(nest.var("pixels"), b.add(b.mul(tiles, each), nest.width))
    sums = _ns(b.mul(nest.outer_count, nest.panels, work), machine)
    stored = b.mul(nest.blocks, nest.block_elements, b.add(nest.groups, 2))
    tasks = b.select(alone, none, finish_tasks(nest))
    return Lowered(
        title=f"convolution weights of any size {most}x{part}x{vectors}",
        functions=(*functions, finish),
        phases=(
            Phase(functions[-1].name, b.mul(nest.groups, nest.blocks), sums),
            Phase(finish.name, tasks, _ns(b.select(alone, none, b.div(stored, 4)), machine)),
        ),
        plan=tuple(nest.plan(machine)),
        thread_bytes=b.add(nest.packed_bytes, b.select(alone, nest.block_bytes, none)),
        shared_bytes=b.select(alone, none, b.mul(nest.groups, nest.blocks, nest.block_bytes)),
        params_used=nest.params_used,
    )


def _ns(half_cycles: Expr, machine: Machine) -> Expr:
    each = b.const(0.5 / machine.frequency_ghz, FLOAT64)
    return b.arith("*", b.cast(half_cycles, Scalar(FLOAT64)), each)


def _found(ctx: Context) -> _Found | None:
    return ctx.once("sliding weights", lambda: _find(ctx))


def _find(ctx: Context) -> _Found | None:
    p = sliding_weights_of(ctx)
    taps = None if p is None else ctx.value_up_to(p.tap.extent, MOST_TAPS)  # asked last
    return _Found(p, taps) if p is not None and taps else None


def _required(ctx: Context) -> _Found:
    found = _found(ctx)
    if found is None:
        raise ScheduleError(f"{ctx.prefix}: not a weight gradient of unknown sizes")
    return found


def _lanes(ctx: Context) -> int:
    return ctx.machine.lanes(_required(ctx).problem.dtype.size_bytes)


FORM = Form(
    "sliding_weights",
    matches,
    knobs,
    default,
    cost_ns,
    lower,
    has_tiles=True,
    ends_group=True,
)
