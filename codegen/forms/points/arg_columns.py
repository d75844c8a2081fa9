"""Arg reductions of columns: neighbours in memory are searched side by side.

    O(m) argmax=! X(n, m)

    for blocks of m: extreme[..], best[..] = none
                     for n: for lanes, at once: if X(n, m + lane) beats extreme[lane]: keep it
                     store best of each lane

Of unknown sizes, places have the width of the values where the positions are few enough, and 64
bits in a search of their own otherwise: 1.2 of the time at exact sizes, not 1.45.

`nest.py` walks down one column after the other, a cache line for each of its elements.
"""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.outputs import is_injective
from tcdsl.codegen.forms.base.phase import decode, float_product, nested
from tcdsl.codegen.forms.points.arg import beats, place_of, result_of
from tcdsl.codegen.forms.points.arg_lanes import count_dtype
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.build import IntLike
from tcdsl.codegen.loops.loopir import (
    I64,
    TRUTH,
    Array,
    Assign,
    Elem,
    If,
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
from tcdsl.codegen.machine.wall import divided_ns
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import walk_typed
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, INT32, DType
from tcdsl.grammar.types.typed import Range

_LANES = 128  # columns of a block: eight vectors of float32, two cache lines of an extreme each
_BLOCKS = (32, 64, 128, 256, 512)  # to choose from
_FEWEST = 8  # columns below are searched one by one
_POINT_NS = 0.2
_MOST = 1 << 31  # positions that places of 32 bits hold


def matches(ctx: Context) -> bool:
    """Whether the group looks for places across what lies in memory as neighbours."""
    if len(ctx.group.statements) != 1:
        return False
    s = ctx.group.statements[0]
    if not s.is_arg or not is_injective(s) or any(s.subs_checked) or s.is_ragged:
        return False
    if s.base is None and not s.covers:
        return False
    column = _column(ctx, s)
    return column is not None and ctx.at_least(column.extent, _FEWEST)


def _column(ctx: Context, s: Statement) -> Range | None:
    """Return the output index along which all reads lie next to each other, or are the same."""
    if any(isinstance(e, typed.Builtin) and e.name == "rand" for e in walk_typed(s.value)):
        return None
    if any(any(r.checked) for r in s.reads()):
        return None
    return next((r for r in reversed(s.outputs) if _walks(ctx, s, r.name)), None)


def _walks(ctx: Context, s: Statement, name: str) -> bool:
    found = False
    for r in s.reads():
        for d, e in enumerate(r.subs):
            a = affine_of(e)
            step = None if a is None else a.coefficient(name)
            if step not in (0, 1) or (step and d != ctx.operands.layout(r.tensor).unit):
                return False
            found |= step == 1
    return found


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return the columns of a block, as far as there are so many."""
    if not ctx.is_exact():
        return ()
    column = _column(ctx, ctx.group.statements[0])
    assert column is not None
    fewer = (n for n in _BLOCKS if n < ctx.extent(column.extent))
    return (Knob("block", tuple(sorted({*fewer, _LANES}))),)


def default(ctx: Context) -> dict[str, Value]:
    """Return two cache lines of extremes."""
    return {"block": _LANES} if ctx.is_exact() else {}


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call (`wall.py`)."""
    s = ctx.group.statements[0]
    points = blocks = 1.0
    column, lanes = _column(ctx, s), int(values.get("block", _LANES))
    for r in s.ranges:
        extent = max(0, ctx.extent(r.extent))
        points *= extent
        if r.kind == "output":
            blocks *= -(-extent // lanes) if r is column else extent
    return divided_ns(points * _POINT_NS, int(max(1, blocks)), ctx.spec.threads)


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase; a task is a block of columns."""
    ops, s = ctx.operands, ctx.group.statements[0]
    column, lanes = _column(ctx, s), int(values.get("block", _LANES))
    assert column is not None
    outer = [r for r in s.outputs if r is not column]
    blocks = b.ceil_div(ops.size(column.extent), lanes)
    task, block = b.i64("task"), b.i64(ops.local("block"))
    count = b.mul(*(ops.size(r.extent) for r in outer)) if outer else b.c64(1)
    point = b.div(task, b.max64(1, blocks))
    body = b.block(
        Let(block, b.sub(task, b.mul(point, blocks))),
        decode(ops, outer, point),
        _searched(ctx, s, column, block, lanes),
    )
    name = f"{ctx.prefix}_arg"
    loops = b.loop(task, b.BEGIN, b.END, body)
    function = b.phase_function(name, b.block(ops.declare(loops), Return(b.const(0, INT32))))
    cost = float_product([ops.size(r.extent) for r in s.ranges], _POINT_NS)
    return Lowered(
        title="arg reduction of columns",
        functions=(function,),
        phases=(Phase(name, b.mul(count, blocks), cost),),
        plan=(),
        thread_bytes=b.c64(0),
        shared_bytes=b.c64(0),
    )


def _searched(ctx: Context, s: Statement, column: Range, block: Var, lanes: int) -> Stmt:
    """Return the search of a block, with places as wide as the values where they are enough."""
    counted = count_dtype(ctx, s)
    if ctx.is_exact() or s.value.dtype.computed.bits > 32:
        return _search(ctx, s, column, (block, lanes), counted, Simd())
    positions = b.mul(*(ctx.operands.size(r.extent) for r in s.reductions))
    return If(
        b.compare("<", positions, _MOST),
        _search(ctx, s, column, (block, lanes), INT32, Simd()),
        _search(ctx, s, column, (block, lanes), counted, Serial()),
    )


def _search(
    ctx: Context,
    s: Statement,
    column: Range,
    part: tuple[Var, int],
    counted: DType,
    mark: Serial | Simd,
) -> Stmt:
    """Return the search of a block of columns and the stores of their results.

    part: the number of the block, and its columns.
    """
    ops, (block, lanes) = ctx.operands, part
    kept = s.value.dtype.computed
    extremes, places, lane = ops.local("extremes"), ops.local("places"), b.i64(ops.local("lane"))
    start, width = b.i64(ops.local("start")), b.i64(ops.local("width"))
    extreme = Elem(extremes, (lane,), Scalar(kept))
    place = Elem(places, (lane,), Scalar(counted))
    v = b.i64(safe_name(column.name))
    values = Values(ops, {r.name: b.i64(safe_name(r.name)) for r in s.ranges})
    value = values.value(s.value)
    point, won = b.var(ops.local("point"), kept), Var(ops.local("wins"), TRUTH)
    none_yet = b.compare("<", place, b.const(0, counted))
    keep = b.block(
        Let(v, b.add(start, lane)),
        values.take(),
        Let(point, value),
        Let(won, b.any_of(none_yet, beats(point, extreme, is_max=s.op.startswith("argmax")))),
        Assign(extreme, b.select(won, point, extreme)),
        Assign(place, b.select(won, b.cast(place_of(values, s), place.type), place)),
    )
    stored = Values(ops, {r.name: b.i64(safe_name(r.name)) for r in s.ranges})
    target = stored.place(s.target, s.subs, s.subs_checked)
    assert isinstance(target, Load)
    best = b.cast(place, I64)
    zero = b.const(False if kept == BOOL else 0, kept)
    clear = [Assign(extreme, zero), Assign(place, b.const(-1, counted))]
    store = [Let(v, b.add(start, lane)), *stored.take(), Assign(target, result_of(stored, s, best))]
    first, extent = ops.size(column.low), ops.size(column.extent)
    known = b.value_of(extent)
    all_whole = known is not None and known % lanes == 0
    if isinstance(mark, Simd):

        def columns(count: IntLike) -> Stmt:
            return nested(ctx, s.reductions, b.loop(lane, 0, count, keep, mark=mark), Serial())

        across = columns(lanes)  # nothing is left behind the last vector
        if not all_whole:
            across = If(b.compare("==", width, lanes), across, columns(width))
    else:  # what hardly anybody calls costs a compiler little
        across = b.loop(lane, 0, width, nested(ctx, s.reductions, keep, Serial()))
    left = b.sub(b.add(first, extent), start)
    return b.block(
        Let(start, b.add(first, b.mul(block, lanes))),
        Let(width, b.c64(lanes) if all_whole else b.min64(lanes, left)),
        Array(extremes, Scalar(kept), (lanes,)),
        Array(places, Scalar(counted), (lanes,)),
        b.loop(lane, 0, lanes, clear, mark=mark),
        across,
        b.loop(lane, 0, width, store),
    )


FORM = Form("arg_columns", matches, knobs, default, cost_ns, lower)
