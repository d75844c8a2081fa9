"""Gathers: rows of a tensor that subscripts from data choose, copied, combined or summed.

    O(b, d) +=! E(I(b, l), d)

    for b, block of d: acc[..] = 0; for l: row = I(b, l), checked; for d of the block, in vectors:
        acc[d] += E[row, d]; store acc

What the data says is read and checked once for a block of d, the index that walks memory, and not
for every element as the general nest does.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.ends import LoopEnds
from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.outputs import innermost, is_injective
from tcdsl.codegen.forms.base.phase import decode, float_product, typical
from tcdsl.codegen.forms.base.scalars import combine, identity, narrow, widen
from tcdsl.codegen.forms.points.gather_vectors import summed, widths
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Array,
    Assign,
    Elem,
    Expr,
    For,
    If,
    Let,
    Load,
    Return,
    Scalar,
    Simd,
    Stmt,
    Var,
)
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.loops.walk import all_exprs, variables, walk_stmt
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.machine.wall import wall_ns
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import indices_of, reads_of
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT32
from tcdsl.grammar.types.typed import Range

_BLOCKS = (64, 128, 256, 512)  # elements of a block of sums: they should stay in the first level
_WIDTHS = (32, 64, 128)  # of rows, and so of blocks of longer ones
_ROW_NS, _ELEMENT_NS = 4.0, 0.1  # of a row that is found, of an element of it in vectors


def matches(ctx: Context) -> bool:
    """Whether the group is one statement that reads rows, the same ones along its last index."""
    if len(ctx.group.statements) != 1:
        return False
    s = ctx.group.statements[0]
    row = innermost(ctx.operands, s)
    if row is None or s.is_arg or any(s.subs_checked) or not is_injective(s):
        return False
    if s.base is None and not s.covers:  # the box has to be filled first
        return False
    ends = [e for r in s.ranges for e in r.bounds or ()]
    if any(row in indices_of(e) for e in ends) or any(r.bounds for r in s.outputs):
        return False
    if not any(any(r.checked) or any(map(reads_of, r.subs)) for r in s.reads()):
        return False
    target = affine_of(s.subs[ctx.operands.layout(s.target).unit or 0]) if s.subs else None
    if target is None or target.coefficient(row) != 1:
        return False
    return all(_is_plain(t, safe_name(row)) for t in _point(ctx, s).stmts)


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return how many elements of a row make a block: no more than it has, where that is known."""
    extent = _row(ctx, ctx.group.statements[0]).extent
    width = ctx.extent(extent) if ctx.knows(extent) else None
    parts = (n for n in _BLOCKS if width is None or n < width)
    return (Knob("block", tuple(sorted({*parts, _block(ctx)}))),)


def default(ctx: Context) -> dict[str, Value]:
    """Return the whole row where it is short, else a part."""
    return {"block": _block(ctx)}


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call (`wall.py`): finding rows, and their elements."""
    s = ctx.group.statements[0]
    row = _row(ctx, s)
    width = max(1, ctx.extent(row.extent))
    rows = outer = 1.0
    for r in s.ranges:
        count = 1 if r.name == row.name else typical(ctx, s, r)
        rows *= count
        outer *= count if r.kind == "output" else 1
    blocks = ceil(width / int(values["block"]))
    serial_ns = rows * (_ROW_NS * blocks + _ELEMENT_NS * width)
    return wall_ns(serial_ns, int(outer * blocks), ctx.spec.threads)


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase; a task is a block of a row."""
    ops, s = ctx.operands, ctx.group.statements[0]
    row, block = _row(ctx, s), int(values["block"])
    outer = [r for r in s.outputs if r.name != row.name]
    extent, task = ops.size(row.extent), b.i64("task")
    blocks = b.ceil_div(extent, block)
    point, part, start, stop = (b.i64(ops.local(n)) for n in ("point", "part", "start", "stop"))
    begin = b.add(ops.size(row.low), b.mul(part, block))
    if widths(ctx, s, row) and not s.resumes:  # the last block goes back, and is whole
        begin = b.max64(ops.size(row.low), b.min64(begin, b.sub(ops.size(row.high), block)))
    body = b.block(
        decode(ctx.operands, outer, point),
        Let(start, begin),
        Let(stop, b.min64(b.add(start, block), ops.size(row.high))),
        _in_whole_vectors(ctx, s, row, (start, stop), block),
    )
    nest = _counted(task, (point, part), blocks, body)
    function = b.phase_function(
        f"{ctx.prefix}_gather", b.block(ops.declare(nest), Return(b.const(0, INT32)))
    )
    tasks = b.mul(*(ops.size(r.extent) for r in outer), blocks)
    each = _ROW_NS + _ELEMENT_NS * min(block, max(1, ctx.extent(row.extent)))
    turns = [
        ops.size(r.extent) if r.bounds is None else b.c64(typical(ctx, s, r)) for r in s.reductions
    ]
    cost = float_product([tasks, *turns], each)
    return Lowered(
        title="gather of rows",
        functions=(function,),
        phases=(Phase(function.name, tasks, cost),),
        plan=(),
        thread_bytes=b.c64(0),
        shared_bytes=b.c64(0),
    )


def _counted(task: Var, digits: tuple[Var, Var], blocks: Expr, body: Stmt) -> Stmt:
    """Return the loop over tasks, each a point and a part of its row.

    Of an unknown number of parts they are counted on: two divisions a task took a fifth of the time
    of rows of 64.
    """
    point, part = digits
    if b.value_of(blocks) is not None:
        named = Let(point, b.div(task, blocks)), Let(part, b.mod(task, blocks))
        return b.loop(task, b.BEGIN, b.END, *named, body)
    next_point = b.assign(part, b.c64(0)), b.assign(point, b.add(point, 1))
    return b.block(
        Let(point, b.div(b.BEGIN, b.max64(1, blocks)), mutable=True),
        Let(part, b.sub(b.BEGIN, b.mul(point, blocks)), mutable=True),
        b.loop(
            task,
            b.BEGIN,
            b.END,
            body,
            b.assign(part, b.add(part, 1)),
            b.when(b.compare("==", part, blocks), *next_point),
        ),
    )


# ---- a block of a row


@dataclass(frozen=True, slots=True)
class _GatherPoint:
    """One point: what finds its rows stands in front, value is what they give."""

    stmts: list[Stmt]
    value: Expr
    place: Load
    ends: LoopEnds


def _point(ctx: Context, s: Statement) -> _GatherPoint:
    ops = ctx.operands
    values = Values(ops, {r.name: b.i64(safe_name(r.name)) for r in s.ranges})
    ends = LoopEnds(values, s.ranges)
    value = values.value_of(s)
    place = values.place(s.target, s.subs, s.subs_checked)
    assert isinstance(place, Load)
    return _GatherPoint(values.take(), value, place, ends)


def _is_plain(t: Stmt, row: str) -> bool:
    """Whether a statement in front is the same for the whole row, and no choice of the point's."""
    used = {name for e in all_exprs(t) for name in variables(e)}
    inner = [x for x in walk_stmt(t) if not isinstance(x, If | Return)]
    mutable = any(isinstance(x, Let) and x.mutable for x in inner)
    return row not in used and not mutable and not any(isinstance(x, Assign | For) for x in inner)


def _in_whole_vectors(
    ctx: Context, s: Statement, row: Range, part: tuple[Expr, Expr], block: int
) -> Stmt:
    """Return the work on a block; of unknown width, with texts of their own for usual ones.

    Their sums stay in registers, and nothing is left behind the last vector.
    """
    out = _rows(ctx, s, row, part, block)
    extent = ctx.bind(row.extent).constant
    if in_registers := [w for w in widths(ctx, s, row) if w <= block]:
        most = in_registers[-1] if extent is None else min(extent, in_registers[-1])
        suited = [w for w in in_registers if w <= most]
        for width in suited if extent is None else suited[-1:]:
            out = _in_registers(ctx, s, row, part, width, out)
        return out
    if extent is not None:
        return out
    start, stop = part
    for width in _WIDTHS:
        if width <= block:
            whole = _rows(ctx, s, row, (start, b.add(start, width)), width)
            out = If(b.compare("==", b.sub(stop, start), width), whole, out)
    return out


def _in_registers(
    ctx: Context, s: Statement, row: Range, part: tuple[Expr, Expr], width: int, other: Stmt
) -> Stmt:
    """Return the work on a block in parts of a width, where it has one; else other.

    The last part goes back to be whole, where that is no second sum into the same elements.
    """
    start, stop = part
    length = b.sub(stop, start)
    if s.resumes:
        return If(b.compare("==", length, width), summed(ctx, s, row, start, width), other)
    turn, at = b.i64(ctx.operands.local("turn")), b.i64(ctx.operands.local("at"))
    whole = summed(ctx, s, row, at, width)
    begin = Let(at, b.min64(turn, b.sub(stop, width)))
    return If(
        b.compare(">=", length, width), b.loop(turn, start, stop, begin, whole, step=width), other
    )


def _rows(ctx: Context, s: Statement, row: Range, part: tuple[Expr, Expr], block: int) -> Stmt:
    """Return the work on elements [start, stop) of a row."""
    ops, start = ctx.operands, part[0]
    p, d = _point(ctx, s), b.i64(safe_name(row.name))
    stored = ops.memory_dtype(s.target)

    def along(body: Stmt) -> Stmt:
        return b.loop(d, *part, body, mark=Simd())

    if s.op == "=":
        return b.block(p.stmts, along(Assign(p.place, narrow(p.value, stored))))
    dtype = ops.buffer(s.target).dtype.computed
    sums = ops.local("acc")
    acc = Elem(sums, (b.sub(d, start),), Scalar(dtype))
    first = widen(p.place, stored) if s.resumes else identity(s.op, ops.buffer(s.target).dtype)
    step = b.block(p.stmts, along(Assign(acc, combine(s.op, acc, p.value))))
    return b.block(
        Array(sums, Scalar(dtype), (block,)),
        along(Assign(acc, first)),
        p.ends.nested(s.reductions, step),
        along(Assign(p.place, narrow(acc, stored))),
    )


# ---- sizes


def _row(ctx: Context, s: Statement) -> Range:
    name = innermost(ctx.operands, s)
    return next(r for r in s.outputs if r.name == name)


def _block(ctx: Context) -> int:
    """Return equal blocks for a row of known length, as few as the first level takes."""
    s = ctx.group.statements[0]
    extent = _row(ctx, s).extent
    width = max(1, ctx.extent(extent))
    in_registers = widths(ctx, s, _row(ctx, s))
    if in_registers and (not ctx.knows(extent) or width >= in_registers[-1]):
        return in_registers[-1]
    if not ctx.knows(extent):
        return 128
    most = _BLOCKS[-1] if s.op != "=" else 4096
    parts = ceil(width / most)
    return ceil(ceil(width / parts) / 16) * 16


FORM = Form("gather", matches, knobs, default, cost_ns, lower, takes_ragged=True, leaves_open=True)
