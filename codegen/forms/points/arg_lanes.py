"""Arg reductions along a row: each lane keeps the extreme of its own points, then the best wins.

    O(b) argmax=! X(b, n)

    for b: extreme[..], best[..] = none
           for blocks of n: for lanes, at once: if X(b, n + lane) beats extreme[lane]: keep it
           best of the lanes: the largest, of equals the first

`arg.py` looks at one point after the other; its chain of comparisons is what this form is rid of.
Where values have vectors of their own (`vexpr.py`) the lanes are registers (`arg_vectors.py`), else
arrays, of which the C compiler makes what it can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.outputs import is_injective
from tcdsl.codegen.forms.base.phase import decode, float_product, nested
from tcdsl.codegen.forms.points import arg_vectors
from tcdsl.codegen.forms.points.arg import beats, place_of, result_of, same
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    TRUTH,
    Array,
    Assign,
    Elem,
    Expr,
    Let,
    Load,
    Return,
    Scalar,
    Serial,
    Simd,
    Stmt,
    Var,
)
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.machine.wall import wall_ns
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import walk_typed
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, INT32, INT64, DType

_LANES = 32  # two vectors of float32 and more of other types: their chains overlap
_COUNTS = (8, 16, 32, 64)  # to choose from
_SHORTEST = 64  # a row below is done before its lanes are compared
_SHORTEST_IN_VECTORS = 16  # a vector of float32, if not several
_POINT_NS, _ROW_NS = 0.15, 60.0
_POINT_IN_VECTORS_NS, _ROW_IN_VECTORS_NS = 0.06, 15.0


def matches(ctx: Context) -> bool:
    """Whether the group looks for places along rows that lie in memory as they are walked."""
    if len(ctx.group.statements) != 1:
        return False
    s = ctx.group.statements[0]
    if not s.is_arg or not is_injective(s) or any(s.subs_checked):
        return False
    if s.base is None and not s.covers:
        return False
    shortest = _SHORTEST_IN_VECTORS if arg_vectors.in_vectors(ctx, s) else _SHORTEST
    return _is_along(ctx, s) and ctx.at_least(s.reductions[-1].extent, shortest)


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return how many chains of comparisons there are: vectors of them, or lanes in arrays."""
    if not ctx.is_exact():
        return ()
    s = ctx.group.statements[0]
    if arg_vectors.in_vectors(ctx, s):
        return (Knob("vectors", arg_vectors.chain_counts(ctx, s)),)
    return (Knob("lanes", _COUNTS),)


def default(ctx: Context) -> dict[str, Value]:
    """Return as many vectors as suit a row."""
    if not ctx.is_exact():
        return {}
    s = ctx.group.statements[0]
    if arg_vectors.in_vectors(ctx, s):
        return {"vectors": arg_vectors.default_chains(ctx, s)}
    return {"lanes": _LANES}


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call (`wall.py`): points, and lanes at the end of each row."""
    s = ctx.group.statements[0]
    rows = points = 1.0
    for r in s.ranges:
        rows *= max(0, ctx.extent(r.extent)) if r.kind == "output" else 1
        points *= max(0, ctx.extent(r.extent))
    row_ns, point_ns = _ROW_NS, _POINT_NS
    if arg_vectors.in_vectors(ctx, s):
        join_ns, latency = arg_vectors.chains_ns(int(values.get("vectors", arg_vectors.CHAINS)))
        row_ns, point_ns = _ROW_IN_VECTORS_NS + join_ns, _POINT_IN_VECTORS_NS * latency
    return wall_ns(rows * row_ns + points * point_ns, int(rows), ctx.spec.threads)


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase; a task is an output point."""
    ops, s = ctx.operands, ctx.group.statements[0]
    task = b.i64("task")
    in_vectors = arg_vectors.in_vectors(ctx, s)
    lanes = int(values.get("lanes", _LANES))

    def rows(row: Stmt) -> Stmt:
        return b.loop(task, b.BEGIN, b.END, decode(ops, s.outputs, task), row)

    if not in_vectors:
        nest = rows(_row(ctx, s, lanes))
    elif "vectors" in values:
        nest = rows(arg_vectors.exact_row(ctx, s, int(values["vectors"])))
    else:
        nest = arg_vectors.any_rows(ctx, s, rows)
    name = f"{ctx.prefix}_arg"
    function = b.phase_function(name, b.block(ops.declare(nest), Return(b.const(0, INT32))))
    tasks = b.mul(*(ops.size(r.extent) for r in s.outputs))
    point_ns = _POINT_IN_VECTORS_NS if in_vectors else _POINT_NS
    cost = float_product([ops.size(r.extent) for r in s.ranges], point_ns)
    return Lowered(
        title="arg reduction in lanes",
        functions=(function,),
        phases=(Phase(name, tasks, cost),),
        plan=(),
        thread_bytes=b.c64(0),
        shared_bytes=b.c64(0),
    )


def _is_along(ctx: Context, s: Statement) -> bool:
    """Whether no read crosses the rows, or needs a statement of its own."""
    ops, name = ctx.operands, s.reductions[-1].name
    for r in s.reads():
        if any(r.checked):
            return False
        for d, e in enumerate(r.subs):
            a = affine_of(e)
            if a is None or (a.coefficient(name) and d != ops.layout(r.tensor).unit):
                return False
            if a.coefficient(name) not in (0, 1):
                return False
    return not any(isinstance(e, typed.Builtin) and e.name == "rand" for e in walk_typed(s.value))


# ---- a row


@dataclass(frozen=True, slots=True)
class _Lanes:
    """What each of so many lanes holds: the extreme of its points, its place; -1 for none yet."""

    count: int
    extreme: Callable[[Expr], Elem]
    place: Callable[[Expr], Elem]


def _row(ctx: Context, s: Statement, count: int) -> Stmt:
    """Return the search at one output point and the store of its result."""
    ops = ctx.operands
    kept, counted = _kept_dtype(s), count_dtype(ctx, s)
    extremes, places, lane = ops.local("extremes"), ops.local("places"), b.i64(ops.local("lane"))
    lanes = _Lanes(
        count,
        lambda at: Elem(extremes, (at,), Scalar(kept)),
        lambda at: Elem(places, (at,), Scalar(counted)),
    )
    zero = b.const(False if kept == BOOL else 0, kept)
    clear = [Assign(lanes.extreme(lane), zero), Assign(lanes.place(lane), b.const(-1, counted))]
    return b.block(
        Array(extremes, Scalar(kept), (count,)),
        Array(places, Scalar(counted), (count,)),
        b.loop(lane, 0, count, clear, mark=Simd()),
        nested(ctx, s.reductions[:-1], _search(ctx, s, lanes, lane), Serial()),
        _compare(ctx, s, lanes, lane),
    )


def _search(ctx: Context, s: Statement, lanes: _Lanes, lane: Var) -> Stmt:
    """Return the walk along the innermost reduction, all lanes at once."""
    ops, along = ctx.operands, s.reductions[-1]
    values = Values(ops, {r.name: b.i64(safe_name(r.name)) for r in s.ranges})
    v, start = b.i64(safe_name(along.name)), b.i64(ops.local("start"))
    extreme, place = lanes.extreme(lane), lanes.place(lane)
    point, wins = b.var(ops.local("point"), _kept_dtype(s)), ops.local("wins")
    value = b.cast(values.value(s.value), point.type)
    none_yet = b.compare("<", place, b.const(0, count_dtype(ctx, s)))
    won = Var(wins, TRUTH)
    keep = b.block(
        Let(v, b.add(start, lane)),
        Let(point, value),
        Let(won, b.any_of(none_yet, beats(point, extreme, is_max=s.op.startswith("argmax")))),
        Assign(extreme, b.select(won, point, extreme)),
        Assign(place, b.select(won, b.cast(place_of(values, s), place.type), place)),
    )
    low, high = ops.size(along.low), ops.size(along.high)
    count = lanes.count
    whole = b.add(low, b.mul(b.div(ops.size(along.extent), count), count))
    return b.block(
        b.loop(start, low, whole, b.loop(lane, 0, count, keep, mark=Simd()), step=count),
        b.loop(start, whole, high, b.loop(lane, 0, b.sub(high, whole), keep), step=count),
    )


def _compare(ctx: Context, s: Statement, lanes: _Lanes, lane: Var) -> Stmt:
    """Return the store of the best of all lanes: half of them take from the other half, and so on.

    Of equal ones the first place wins, of NaNs too.
    """
    ops = ctx.operands
    values = Values(ops, {r.name: b.i64(safe_name(r.name)) for r in s.ranges})
    target = values.place(s.target, s.subs, s.subs_checked)
    assert isinstance(target, Load)
    zero = b.const(0, count_dtype(ctx, s))
    point, place = lanes.extreme(lane), lanes.place(lane)
    won = Var(ops.local("wins"), TRUTH)
    halves: list[Stmt] = []
    half = lanes.count // 2
    while half:
        there = b.add(lane, half)
        other, its_place = lanes.extreme(there), lanes.place(there)
        better = b.any_of(
            b.compare("<", place, zero),
            beats(other, point, is_max=s.op.startswith("argmax")),
            b.all_of(same(other, point), b.compare("<", its_place, place)),
        )
        take = b.block(
            Let(won, b.all_of(b.compare(">=", its_place, zero), better)),
            Assign(point, b.select(won, other, point)),
            Assign(place, b.select(won, its_place, place)),
        )
        halves.append(b.loop(lane, 0, half, take, mark=Simd()))
        half //= 2
    best = b.cast(lanes.place(b.c64(0)), I64)
    return b.block(halves, Assign(target, result_of(values, s, best)))


def _kept_dtype(s: Statement) -> DType:
    """Return the type of extremes: small integers lie in lanes as wide as those of places."""
    computed = s.value.dtype.computed
    return INT32 if computed.is_integer and computed.bits < 32 else computed


def count_dtype(ctx: Context, s: Statement) -> DType:
    """Return the type of places: as wide as the values, if that holds all of them."""
    most = 1
    for r in s.reductions:
        most *= max(1, ctx.extent(r.extent))
    is_narrow = s.value.dtype.computed.bits <= 32
    return INT32 if ctx.is_exact() and is_narrow and most < 1 << 31 else INT64


FORM = Form("arg_lanes", matches, knobs, default, cost_ns, lower)
