"""Whether a row group can run in explicit vectors, which knobs that leaves, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.access import ONE, ZERO
from tcdsl.codegen.forms.base.align import AlignedStatement
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.guarded import inside
from tcdsl.codegen.forms.base.space import IterationSpace, accesses, columns_are_nearer, points
from tcdsl.codegen.forms.rows.point import RowWalk
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.machine.wall import BYTES_PER_NS, divided_ns
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL

# Nanoseconds per point of one core, in vectors: measured on 16 lanes at 4 GHz.
_ARITHMETIC_NS, _DIVISION_NS, _FUNCTION_NS = 0.01, 0.06, 0.16
_SHORT_FUNCTIONS = ("min", "max", "abs", "fabs")
_LONG = 256  # neighbours that are stored, most of whose lines are their own
_SCALAR_FACTOR = 1.4  # what the C compiler's vectors cost against explicit ones


def vector_bits(ctx: Context, space: IterationSpace, column: str | None = None) -> int | None:
    """Return the lane width in which the whole group runs, or None where vectors do not fit.

    column: the loop whose values lie in the lanes; the innermost one of each sweep if None.
    """
    return space.once(("bits", column), lambda: _vector_bits(ctx, space, column))


def _vector_bits(ctx: Context, space: IterationSpace, column: str | None) -> int | None:
    if ctx.machine.isa not in ("avx512", "avx2"):
        return None
    steps = [(n, s) for n, w in enumerate(space.aligned.sweeps) for s in w.steps]
    if column is not None:  # what is computed once a row runs in the same lanes
        steps += [(0, s) for w in space.aligned.sweeps for s in w.before]
        steps += [(0, s) for s in space.aligned.after]
    bits = vexpr.width_of(tuple(s.statement.value for _, s in steps))
    if bits is None:
        return None
    dims = {d.name: d for d in space.aligned.dims}
    for n, step in steps:
        s = step.statement
        inner = column or space.sweeps[n][-1].name
        for buffer, subs in accesses(step):
            dtype = ctx.operands.buffer(buffer).dtype
            linear = space.linear.get((buffer, subs))
            if dtype == BOOL:
                return None
            if dtype.is_half and linear is not None:
                stored = buffer == s.target and (column is not None or not step.folds)
                if linear.step(inner) not in ((ONE,) if stored else (ZERO, ONE)):
                    return None

        def mentions(e: typed.Expr, inner: str = inner) -> bool:
            return _mentions(e, space, inner)

        def safe(r: typed.Read) -> bool:
            return inside(ctx, r, dims)

        if vexpr.unsupported(s.value, vexpr.any_of(mentions), safe) is not None:
            return None
    return bits


def column_walk(ctx: Context, space: IterationSpace) -> RowWalk | None:
    """Return how rows are walked side by side, or None where they cannot be."""
    if not space.kept or not space.sweeps or any(w.segment for w in space.aligned.sweeps):
        return None
    bits = vector_bits(ctx, space, column=space.kept[-1].name)
    return (
        RowWalk(1, 32, 1) if bits is None else RowWalk(vexpr.lanes_of(bits, ctx.machine), bits, 1)
    )


def columns_are_near(ctx: Context, space: IterationSpace) -> bool:
    """Whether rows can be walked side by side, and that is how they lie in memory."""
    if column_walk(ctx, space) is None or ctx.extent(space.kept[-1].extent) < 4:
        return False
    return space.once("near", lambda: columns_are_nearer(space))


def _mentions(e: typed.Expr, space: IterationSpace, inner: str) -> bool:
    """Whether a leaf may differ along the innermost loop."""
    match e:
        case typed.IndexValue(name):
            return name == inner
        case typed.Read(tensor, subs) if subs:
            linear = space.linear.get((tensor, subs))
            return linear is None or linear.step(inner) != ZERO
        case _:
            return False


def is_light(space: IterationSpace) -> bool:
    """Whether no point of a row needs a function that is longer than an operation."""

    def is_long(e: typed.Expr, inner: str) -> bool:
        calls = isinstance(e, typed.Builtin) and e.name not in _SHORT_FUNCTIONS
        return calls and inner in indices_of(e)

    return not any(
        is_long(x, space.sweeps[n][-1].name)
        for n, w in enumerate(space.aligned.sweeps)
        for step in w.steps
        for x in vexpr.walk(step.statement.value)
    )


# ---- knobs


def knobs(ctx: Context, space: IterationSpace) -> tuple[Knob, ...]:
    """Return vectors or not, vectors a turn, and the size of a task."""
    bits = vector_bits(ctx, space)
    task = Knob("task_us", (2, 8, 32))
    if bits is None:
        return (task,)
    vectors = (Knob("vectors", (True, False)), Knob("unroll", (1, 2, 4)))
    names = ["prefetch"] * (not _is_pointwise(space)) + ["stream"] * _ends_in_memory(space)
    return (*vectors, *(Knob(name, (False, True)) for name in names), task)


def walk_knob(ctx: Context, space: IterationSpace) -> Knob:
    """Return the directions: a row at a time, and side by side where they can be."""
    both = column_walk(ctx, space) is not None
    return Knob("walk", ("rows", "columns") if both else ("rows",))


def _is_pointwise(space: IterationSpace) -> bool:
    return len(space.sweeps) == 1 and not any(s.folds for s in space.aligned.steps)


def _ends_in_memory(space: IterationSpace) -> bool:
    """Whether the last sweep stores points: no other reads them again."""
    return not any(s.folds for s in space.aligned.sweeps[-1].steps)


def default(
    ctx: Context,
    space: IterationSpace,
    along: str = "rows",
    *,
    streams: bool = True,
    fetches: bool = True,
) -> dict[str, Value]:
    """Return explicit vectors where they fit, four a turn of known length with a short body.

    streams: outputs that no cache holds may go past the caches, as nobody reads them again.
    fetches: rows may be fetched before they are read.

    Rows side by side are not unrolled, so that the knob does not tell equal kernels apart.
    """
    values: dict[str, Value] = {"task_us": 8}
    if (bits := vector_bits(ctx, space)) is not None:
        heavy = max((_point_ns(s) for w in space.aligned.sweeps for s in w.steps), default=0.0)
        vectors = ctx.extent(space.row_length()) // vexpr.lanes_of(bits, ctx.machine)
        most = 4 if heavy < _FUNCTION_NS else 2
        unroll = most if vectors >= 8 else 2 if vectors >= 4 else 1
        if not ctx.knows(space.row_length()):  # short rows stay in registers, but of long bodies
            unroll = most
        if len(space.sweeps) > 1 and unroll > 2 and _is_far_here(ctx, space):
            unroll = 2  # measured: longer bursts of stores wait for memory
        if along == "columns":
            unroll = 1
        values |= {"vectors": True, "unroll": unroll}
        if _is_pointwise(space):
            values["stream"] = is_past(ctx, space)
        else:
            asks = along == "rows" or ctx.is_exact()  # columns of any sizes have one executable
            is_ahead = len(space.sweeps) > 1 or (fetches and asks and _is_far(ctx, space))
            values["prefetch"] = fetches and is_ahead
            if streams and along == "rows" and _ends_in_memory(space):
                values["stream"] = is_past(ctx, space) and ctx.at_least(
                    space.sweeps[-1][-1].extent, _LONG
                )
    return values


def is_past(ctx: Context, space: IterationSpace) -> bool:
    """Return whether no cache holds the outputs."""
    return ctx.at_least(_output_bytes(ctx, space), ctx.machine.own_l3_bytes)


def _is_far(ctx: Context, space: IterationSpace) -> bool:
    """Return whether rows come from memory: no cache holds what is read and written."""
    each = max(1, round(memory_per_point(ctx, space)))
    return ctx.at_least(points(space.kept) * space.row_length() * each, ctx.machine.l3_bytes + 1)


def _is_far_here(ctx: Context, space: IterationSpace) -> bool:
    """Return the same of this call where the length of rows is known, else of a usual one."""
    if ctx.spec.open and ctx.knows(space.row_length()):
        return _is_far(ctx, space)
    total = ctx.extent(points(space.kept) * space.row_length())
    return total * memory_per_point(ctx, space) > ctx.machine.l3_bytes


def walk_of(ctx: Context, space: IterationSpace, values: Mapping[str, Value]) -> RowWalk:
    """Return what the knobs say."""
    bits = vector_bits(ctx, space)
    if values.get("vectors") and bits is not None:
        lanes, unroll = vexpr.lanes_of(bits, ctx.machine), int(values.get("unroll", 2))
        ahead, past = bool(values.get("prefetch", False)), bool(values.get("stream", False))
        return RowWalk(lanes, bits, unroll, ahead, past)
    return RowWalk(1, bits or 32, 1)


# ---- cost


def _point_ns(step: AlignedStatement) -> float:
    total = 0.0
    for x in vexpr.walk(step.statement.value):
        match x:
            case typed.Builtin(name=name):
                total += _ARITHMETIC_NS if name in _SHORT_FUNCTIONS else _FUNCTION_NS
            case typed.Binary(op="/" | "%"):
                total += _DIVISION_NS
            case typed.Binary() | typed.Unary() | typed.Select() | typed.Cast():
                total += _ARITHMETIC_NS
            case typed.Lit() | typed.IndexValue() | typed.SizeValue() | typed.Read():
                pass
            case _:
                assert_never(x)
    return total + (_ARITHMETIC_NS if step.folds else 0.0)


def rows_ns(ctx: Context, space: IterationSpace, per_point: float, pieces: int) -> float:
    """Return the predicted time of a call: of the points of all rows, and of rows by themselves.

    pieces: what tasks are made of, as many as there are.
    """
    rows, length = ctx.extent(points(space.kept)), ctx.extent(space.row_length())
    return divided_ns(rows * (length * per_point + 15.0), pieces, ctx.spec.threads)


def point_ns(ctx: Context, space: IterationSpace, walk: RowWalk) -> float:
    """Return the time of one point of a row: all sweeps of it, memory or arithmetic."""
    is_scalar = walk.lanes == 1
    return space.once(("point", is_scalar), lambda: _all_sweeps_ns(ctx, space, is_scalar=is_scalar))


def _all_sweeps_ns(ctx: Context, space: IterationSpace, *, is_scalar: bool) -> float:
    compute = sum(_point_ns(s) for w in space.aligned.sweeps for s in w.steps)
    if is_scalar:
        compute *= _SCALAR_FACTOR
    per_point = memory_per_point(ctx, space)
    levels = (ctx.machine.l1_bytes, ctx.machine.l2_bytes, ctx.machine.l3_bytes)
    total = per_point * ctx.extent(points(space.kept) * space.row_length())
    rate = BYTES_PER_NS[sum(total > size for size in levels)]
    return max(compute, per_point / rate) + 0.002


def memory_per_point(ctx: Context, space: IterationSpace) -> float:
    """Return the bytes of inputs and outputs, each counted once, per point of a row."""
    sweeps = space.aligned.sweeps
    # In the order of the text: a sum of floats by the order of a set differs between processes.
    touched = dict.fromkeys(a[0] for w in sweeps for s in w.steps for a in accesses(s))
    return sum(_bytes_per_point(ctx, space, t) for t in touched if t not in ctx.group.local)


def _bytes_per_point(ctx: Context, space: IterationSpace, buffer: str) -> float:
    if ctx.operands.is_scalar(buffer):
        return 0.0
    elements, total = 1, max(1, ctx.extent(points(space.kept) * space.row_length()))
    for s in ctx.operands.buffer(buffer).shape:
        elements *= max(1, ctx.extent(s))
    return min(1.0, elements / total) * ctx.operands.memory_dtype(buffer).size_bytes


def _output_bytes(ctx: Context, space: IterationSpace) -> Size:
    """Return the bytes that are stored: of a slice, a turn's part of an output, no more."""
    stored = space.written - set(ctx.group.local)
    each = sum(ctx.operands.memory_dtype(name).size_bytes for name in sorted(stored))
    return points(space.kept) * space.row_length() * each
