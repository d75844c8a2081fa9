"""Stencils: statements that look at neighbours, in vectors of what lies next to each other.

Depthwise convolutions, pools, blurs, differences, and whatever else `pad` surrounds that is no sum
of products with register tiles.

    find, problem     what is slid over what; where elements exist
    block, lanes      what lanes points load and store; expressions at them
    kept, nest        what windows keep in registers; the loops around all
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import partial, reduce
from math import ceil, prod

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.phase import fill, float_product
from tcdsl.codegen.forms.base.planned import Plan
from tcdsl.codegen.forms.stencil.ahead import is_far, rows_ahead
from tcdsl.codegen.forms.stencil.cost import beyond, point_ns
from tcdsl.codegen.forms.stencil.framed import FramedNest, frame_of
from tcdsl.codegen.forms.stencil.inside import has_parts_of, is_repeatable
from tcdsl.codegen.forms.stencil.kept import registers_of
from tcdsl.codegen.forms.stencil.lines import Cut
from tcdsl.codegen.forms.stencil.nest import StencilNest, units_of
from tcdsl.codegen.forms.stencil.pair import PairNest, paired
from tcdsl.codegen.forms.stencil.pieces import Piece, pieces_of
from tcdsl.codegen.forms.stencil.problem import (
    MOST_ROWS,
    Stencil,
    asked_taps,
    gathers,
    is_apart,
    reloads,
)
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr, Return
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.machine.wall import TASK_NS, divided_ns
from tcdsl.codegen.program.affine import affine_of
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.types.dtypes import INT32

_MOST_STEPS = 200  # taps times rows times vectors: the length of a block's text
_LONG_LINE = 4096  # lanes of a unit
_ANY = 0  # parts of all rows
_MANY_ROWS = 4  # of pieces that look at no neighbours
_FEW_ROWS = 3  # of two pieces together where there are few registers
_TALL = 1 << 14  # points of a unit where there are many


def matches(ctx: Context) -> bool:
    """Whether the group is a stencil in vectors, or several that write one tensor in turns."""
    return bool(pieces_of(ctx))


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return rows and vectors of a block, and in how many parts units cut all rows.

    The window, where it is that of a regime of sizes; where some are left open whether rows are
    fetched ahead.
    """
    s = _widest(ctx)
    window = (Knob("window", (_window(s),)),) if asked_taps(ctx, s) else ()
    block = Knob("rows", _rows(ctx, s)), Knob("vectors", _vectors(ctx, s))
    ahead = (Knob("ahead", (is_far(ctx, s),)),) if ctx.spec.open else ()
    parts = (Knob("parts", _parts(ctx, s)),) if ctx.is_exact() else ()
    return (*window, *block, *ahead, *parts)


def _parts(ctx: Context, s: Stencil) -> tuple[int, ...]:
    """Return in how many parts all rows of known number may be cut; `_ANY`: as suits tasks."""
    most = 0 if s.row is None else ctx.extent(s.row.extent)
    return (_ANY, *(n for n in (1, 2, 4, 8, 16) if n <= most))


def _rows(ctx: Context, s: Stencil) -> tuple[int, ...]:
    """Return how many rows of a stencil may be computed together."""
    held = MOST_ROWS // registers_of(s)
    if not s.shares and not is_apart(ctx, s):
        return (1,)
    return tuple(n for n in range(1, held + 1) if n <= _most(ctx, s))


def _vectors(ctx: Context, s: Stencil) -> tuple[int, ...]:
    return tuple(n for n in (1, 2) if n <= _most(ctx, s))


def _most(ctx: Context, s: Stencil) -> int:
    """Return how many vectors of points a block has at most."""
    steps = 2 * _MOST_STEPS if reloads(ctx, s) else _MOST_STEPS
    if gathers(ctx, s):  # twice 16 instructions each: gcc took 9 s for the 78 of six rows
        steps //= 5
    return max(1, steps // (s.tap_count * len(s.windows)))


def default(ctx: Context) -> dict[str, Value]:
    """Return the analytic choice: rows that leave few over, two vectors along long lines."""
    s = _widest(ctx)
    rows, vectors = _rows(ctx, s), _vectors(ctx, s)
    lanes = _lanes(ctx, s)
    count = 1
    if s.row is not None and not _are_rows_apart(s):
        extent = max(1, ctx.extent(s.row.extent))
        count = min(rows, key=lambda r: (_line_cost(s, extent, r), -r))
    if not s.shares and s.row is not None and is_apart(ctx, s):  # they share the loop along lines
        count = max(n for n in rows if n <= _MANY_ROWS)
    least = 3 if reloads(ctx, s) else 8
    wide = 2 in vectors and not _walked(ctx, s, 2).is_still
    if s.is_still:  # another walk is a regime of its own
        wide = wide and ctx.at_least(s.lane.extent, least * lanes)
    else:
        wide = wide and ctx.extent(s.lane.extent) >= least * lanes
    if wide and reloads(ctx, s):
        count = min(count, 4)
    elif wide and s.is_still:  # each lane has factors of its own, which more rows would spill
        count = min(count, 2)
    many = 2 if wide and count * 2 <= _most(ctx, s) else 1
    chosen: dict[str, Value] = {"window": _window(s)} if asked_taps(ctx, s) else {}
    if ctx.spec.open:
        chosen["ahead"] = is_far(ctx, s)
    if ctx.is_exact():
        chosen["parts"] = _ANY
    return chosen | {"rows": count, "vectors": many}


def _are_rows_apart(s: Stencil) -> bool:
    """Whether no two rows read anything together, as where windows lie side by side."""
    taps = {name: len(values) - 1 for name, values in s.taps}
    if s.row is None or s.is_still:
        return False
    for read in (x for w in s.windows for x in w.reads()):
        places = [a for e in read.subs if (a := affine_of(e)) and a.coefficient(s.row.name)]
        if len(places) != 1:
            return False
        spread = sum(abs(k) * taps.get(name, 0) for name, k in places[0].terms)
        if spread >= abs(places[0].coefficient(s.row.name)):
            return False
    return True


def _walked(ctx: Context, s: Stencil, vectors: int) -> Stencil:
    """Return a stencil as a block of so many vectors is walked.

    Where a vector is half a line (AVX2), two of channels come before the next row, a pixel: pixels
    a power of two apart share sets of the first level, and are gone before their other half is
    asked for.
    """
    stays = ctx.machine.has_masks or vectors == 1
    return s if stays or not s.is_still else replace(s, is_still=False)


def _window(s: Stencil) -> str:
    return "x".join(str(len(values)) for _, values in s.taps)


def _line_cost(s: Stencil, extent: int, rows: int) -> float:
    """Return the steps of all rows: some together share what they read.

    Those left over do not, unless the last block goes back to be whole.
    """
    taps = s.tap_count
    side = max((len(v) for _, v in s.taps), default=1)
    shared = taps * rows + taps / side * (rows + side - 1)
    if extent >= rows and is_repeatable(s):
        return ceil(extent / rows) * shared
    return extent // rows * shared + extent % rows * 2.5 * taps


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call with the spec's threads (`wall.py`)."""
    rows, vectors = int(values["rows"]), int(values["vectors"])
    factor = 1.0 + 0.3 / rows + 0.05 * abs(vectors - int(default(ctx)["vectors"]))
    time, every = 0.0, 0
    for p in _required(ctx):
        points = prod(max(0, ctx.extent(r.extent)) for r in p.stencil.statement.outputs)
        time += points * point_ns(p.ctx, p.stencil) * factor
        every += points
    return divided_ns(time, every, ctx.spec.threads)


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase, and one before it where the box has to be filled."""
    rows, vectors = int(values["rows"]), int(values["vectors"])
    pieces = [replace(p, stencil=_walked(p.ctx, p.stencil, vectors)) for p in _required(ctx)]
    widest = _walked(ctx, _widest(ctx), vectors)
    cut = _cut(ctx, widest, rows, vectors, int(values.get("parts", _ANY)))
    plan = Plan(ctx)
    height = plan.keep("height", cut.unit_rows)
    cut = replace(cut, unit_rows=height.in_phase)
    frame = frame_of(ctx, widest, cut) if len(pieces) == 1 else None
    nests: list[StencilNest] = []
    functions, phases = [], []
    for p, *other in paired(pieces):
        few = max(n for n in _rows(p.ctx, p.stencil) if n <= rows)
        names = nests[0].walk.names if nests else None
        own = replace(cut, rows=few)
        if not nests:  # what the first piece of a unit reads the others find in a cache
            far = bool(values["ahead"]) if "ahead" in values else None
            ahead = plan.keep("ahead", rows_ahead(p.ctx, p.stencil, few, far))
            own = replace(own, ahead=ahead.in_phase)
        if other:
            if ctx.machine.has_few_registers:  # for the points of two
                own = replace(own, rows=min(few, _FEW_ROWS))
            nests.append(PairNest(p, other[0], own, names))
        elif frame is not None:
            nests.append(FramedNest(p.ctx, p.stencil, own, frame))
        else:
            nests.append(StencilNest(p.ctx, p.stencil, own, names))
        for statement in (x for q in (p, *other) for x in q.stencil.statements):
            if statement.base is None and not statement.covers:
                function, phase = fill(ctx, statement)
                functions.append(function)
                phases.append(phase)
    name = f"{ctx.prefix}_stencil"
    units, loop = units_of(nests, plan, height.in_plan)
    inner = b.block(*(n.held() for n in nests), loop)
    body = b.block(ctx.operands.declare(inner), Return(b.const(0, INT32)))
    functions.append(b.phase_function(name, body))
    costs = [
        float_product(
            [ctx.operands.size(r.extent) for r in p.stencil.statement.outputs],
            point_ns(p.ctx, p.stencil),
            beyond(p.ctx, p.stencil),
        )
        for p in pieces
    ]
    phases.append(Phase(name, units, reduce(partial(b.arith, "+"), costs)))
    words = ["stencil", f"{rows}x{vectors}"]
    words += ["+ epilogue"] if widest.later else []
    words += ["in a frame"] if frame is not None else []
    words += ["in turns"] if len(pieces) > 1 else []
    return Lowered(
        title=" ".join(words),
        functions=tuple(functions),
        phases=tuple(phases),
        plan=tuple(plan.stmts),
        thread_bytes=reduce(b.max64, (n.workspace() for n in nests)),
        shared_bytes=b.c64(0),
        params_used=plan.count,
    )


def meaning(ctx: Context, values: Mapping[str, Value]) -> Hashable:
    """Return what of the values decides the nest: its cut."""
    rows, vectors = int(values["rows"]), int(values["vectors"])
    return FORM.name, _cut(ctx, _widest(ctx), rows, vectors, int(values.get("parts", _ANY)))


def _cut(ctx: Context, s: Stencil, rows: int, vectors: int, parts: int) -> Cut:
    """Return the rows and lanes of a unit: worth a task, and enough of them for all threads."""
    lanes = _lanes(ctx, s)
    wide = lanes * vectors
    along = wide if s.is_still else ceil(_LONG_LINE / wide) * wide
    if s.row is None:
        return Cut(rows, vectors, b.c64(1), b.c64(along))
    extent: Expr = ctx.operands.size(s.row.extent)
    line = b.min64(ctx.operands.size(s.lane.extent), along)
    points = max(1, int(4 * TASK_NS / point_ns(ctx, s)))
    height = b.add(b.div(b.c64(points), b.max64(line, 1)), 1)
    known, all_rows = b.value_of(height), b.value_of(extent)
    if parts != _ANY and all_rows is not None:
        count = _full(all_rows, max(1, -(-all_rows // parts)), rows)
        return Cut(rows, vectors, b.c64(count), b.c64(along))
    if known is not None and all_rows is not None:
        outer = prod(max(1, ctx.extent(r.extent)) for r in s.outer)
        if outer >= 16 * ctx.spec.threads and not ctx.machine.has_masks:
            known = max(known, _TALL // max(1, ctx.extent(s.lane.extent)))  # less often a border
        most = max(1, -(-all_rows // max(1, -(-4 * ctx.spec.threads // outer))))
        count = _full(all_rows, min(max(1, all_rows), max(rows, min(known, most))), rows)
        return Cut(rows, vectors, b.c64(count), b.c64(along))
    if s.outer and not ctx.machine.has_masks:
        outer_points = b.mul(*(ctx.operands.size(r.extent) for r in s.outer))
        many = b.compare(">=", outer_points, 16 * ctx.spec.threads)
        tall = b.div(b.c64(_TALL), b.max64(ctx.operands.size(s.lane.extent), 1))
        height = b.select(many, b.max64(height, tall), height)
    height = b.round_up(height, rows)
    return Cut(rows, vectors, height, b.c64(along))


def _full(extent: int, count: int, rows: int) -> int:
    """Return about so many rows for a unit, in whole blocks: the last unit too has one, if it can.

    Else no unit takes rows at borders together (`StencilNest.rows_of`).
    """
    blocks = -(-count // rows)
    near = (blocks, *(n for d in (1, 2) for n in (blocks + d, blocks - d) if n > 0))
    return rows * next((n for n in near if has_parts_of(extent, n * rows, rows)), blocks)


def _lanes(ctx: Context, s: Stencil) -> int:
    return vexpr.lanes_of(s.bits, ctx.machine)


def _required(ctx: Context) -> tuple[Piece, ...]:
    found = pieces_of(ctx)
    if not found:
        raise ScheduleError(f"{ctx.prefix}: not a stencil in vectors")
    return found


def _widest(ctx: Context) -> Stencil:
    """Return the stencil of a group that knobs are for: the one with the most taps."""
    return max((p.stencil for p in _required(ctx)), key=lambda s: s.tap_count)


FORM = Form("stencil", matches, knobs, default, cost_ns, lower, meaning, leaves_kept_open=True)
