"""The general leaf nest: any one statement, loops over its ranges in the order of the text.

    for outputs: acc = identity (or the base's element); for reductions: acc op value; store

Parallel over the output indices that the written element tells. The others, whose points may meet
in one element (a scatter's), are run through in the order of the text by every task. A statement
that initialises a box it does not cover fills the box in a phase before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.expr import Values, combine, identity, narrow, widen
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.outputs import all_told, innermost, told
from tcdsl.codegen.forms.points.arg import arg_reduction, is_arg
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Assign,
    Expr,
    For,
    Function,
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
from tcdsl.codegen.loops.walk import all_exprs, variables, walk_stmt
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.machine.wall import divided_ns
from tcdsl.codegen.program.program import Statement, walk_typed
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types.dtypes import FLOAT64, INT32
from tcdsl.grammar.types.typed import Range

_NS_PER_NODE = 0.3  # of the value expression, per point, not vectorised
_TASK_NS = 2000.0  # a task should be worth claiming


def matches(ctx: Context) -> bool:
    """Whether the group is one statement."""
    return len(ctx.group.statements) == 1


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return the choice of the innermost output index."""
    names = tuple(r.name for r in ctx.group.statements[0].outputs)
    return (Knob("inner", names),) if len(names) > 1 else ()


def default(ctx: Context) -> dict[str, Value]:
    """Return the index that walks memory in unit steps in most accesses, the target's first."""
    s = ctx.group.statements[0]
    best = innermost(ctx.operands, s)
    return {"inner": best} if best is not None and len(s.outputs) > 1 else {}


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return a rough time of a call (`wall.py`): nodes of the expression times points."""
    s = ctx.group.statements[0]
    points = 1.0
    for r in s.ranges:
        points *= max(0, ctx.extent(r.extent))
    serial_ns = points * _point_ns(s) * (1.0 if values == default(ctx) else 1.5)
    divided = _divided(ctx, s, str(values.get("inner", "")))
    pieces = prod(ctx.extent(r.extent) for r in divided[:-1] or divided)
    return divided_ns(serial_ns, pieces, ctx.spec.threads)


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase, and one before it where the box has to be filled."""
    s = ctx.group.statements[0]
    functions, phases = [], []
    parts = []
    if s.base is None and not s.covers:
        parts.append(fill(ctx, s))
    parts.append(_main(ctx, s, str(values.get("inner", ""))))
    for function, phase in parts:
        functions.append(function)
        phases.append(phase)
    return Lowered(
        form=_form(s),
        functions=tuple(functions),
        phases=tuple(phases),
        plan=(),
        thread_bytes=b.c64(0),
        shared_bytes=b.c64(0),
    )


def _form(s: Statement) -> str:
    if all_told(s):
        return "nest"
    return "nest, points that meet in order" if told(s) else "nest, serial"


def _ordered(s: Statement, inner: str) -> list[Range]:
    return sorted(s.outputs, key=lambda r: r.name == inner)  # stable: inner goes last


def _turning(ctx: Context, outputs: Sequence[Range]) -> list[Range]:
    """Return the ranges whose extents the turn of a loop decides."""
    return [r for r in outputs if any(map(ctx.program.depends, (r.low, r.high)))]


def _divided(ctx: Context, s: Statement, inner: str) -> list[Range]:
    """Return the ranges that are divided among tasks: all but the last, or that one alone."""
    outputs = _ordered(s, inner)
    turning = _turning(ctx, outputs)
    return [r for r in outputs if r.name in told(s) and r not in turning]


# ---- the two phases


def _main(ctx: Context, s: Statement, inner: str) -> tuple[Function, Phase]:
    ops = ctx.operands
    tasked = _divided(ctx, s, inner)
    turning = _turning(ctx, _ordered(s, inner))
    meeting = [r for r in s.outputs if r.name not in told(s)]  # in the order of the text
    turning = [r for r in turning if r not in meeting]  # plan does not know their extents
    values = Values(ops, {r.name: b.i64(safe_name(r.name)) for r in s.ranges})
    # a scatter may meet an element twice, so what stands there counts
    starts_fresh = not (s.resumes or meeting)
    reductions = list(s.reductions)
    locate: list[Stmt] = []

    if s.op == "=":
        value = values.value(s.value)
        body = b.block(values.take(), _store(values, s, value))
    elif is_arg(s):
        body = arg_reduction(values, s, lambda x: nested(ctx, reductions, x, Serial()))
    else:
        acc = b.var(ops.local("acc"), ops.buffer(s.target).dtype.computed)
        first = identity(s.op, ops.buffer(s.target).dtype)
        place = values.place(s.target, s.subs, s.subs_checked)
        assert isinstance(place, Load)
        locate = values.take()
        if not starts_fresh:
            first = widen(place, ops.memory_dtype(s.target))
        step = combine(s.op, acc, values.value(s.value))
        update = b.block(values.take(), Assign(acc, step))
        body = b.block(
            Let(acc, first, mutable=True),
            nested(ctx, reductions, update, reduction_mark(s, acc)),
            Assign(place, narrow(acc, ops.memory_dtype(s.target))),
        )
    if turning:
        locate, body = [], nested(ctx, turning, b.block(locate, body), Serial())
    return _phase(ctx, f"{ctx.prefix}_nest", _Nest(tasked, meeting, locate, body), s)


def fill(ctx: Context, s: Statement) -> tuple[Function, Phase]:
    """Fill the box with what elements that no point reaches hold."""
    ops = ctx.operands
    buffer = ops.buffer(s.target)
    ranges = [
        Range(ops.local(f"i{d}"), Size.const(0), extent, "output")
        for d, extent in enumerate(buffer.shape)
    ]
    at = [b.i64(r.name) for r in ranges]
    value = narrow(identity(s.op, buffer.dtype), ops.memory_dtype(s.target))
    body = Assign(ops.element(s.target, at), value)
    return _phase(ctx, f"{ctx.prefix}_fill", _Nest(ranges, (), (), body), None)


def _store(values: Values, s: Statement, value: Expr) -> Stmt:
    place = values.place(s.target, s.subs, s.subs_checked)
    assert isinstance(place, Load)
    return b.block(
        values.take(), Assign(place, narrow(value, values.operands.memory_dtype(s.target)))
    )


@dataclass(frozen=True, slots=True)
class _Nest:
    """A point and the loops around it.

    tasked ranges are divided among tasks; meeting ones, whose points may write one element, are
    run through in order by every task. locate finds the element of a point before body works on
    it.
    """

    tasked: Sequence[Range]
    meeting: Sequence[Range]
    locate: Sequence[Stmt]
    body: Stmt

    def under(self, ctx: Context, inner: Callable[[Stmt, Simd | Serial], Stmt], last: str) -> Stmt:
        """Return the loops over the meeting ranges around the innermost one, which inner makes.

        What locates an element is done once where it does not depend on the innermost index.
        """
        used = {name for t in self.locate for e in all_exprs(t) for name in variables(e)}
        if self.meeting and last not in used:
            nest = b.block(self.locate, inner(self.body, parallel_mark(self.body)))
        else:
            point = b.block(self.locate, self.body)
            nest = inner(point, parallel_mark(point))
        return nested(ctx, self.meeting, nest, Serial())


def _phase(ctx: Context, name: str, nest: _Nest, s: Statement | None) -> tuple[Function, Phase]:
    """Return a phase over the ranges of a nest; one task where none can be divided."""
    ops = ctx.operands
    task = b.i64("task")
    point_ns = _NS_PER_NODE if s is None else _point_ns(s)
    total = [_planned(ctx, r) for r in (nest.tasked if s is None else s.ranges)]
    cost = float_product([*total], point_ns)
    if not nest.tasked:
        loops = nested(ctx, nest.meeting, b.block(nest.locate, nest.body), Serial())
        # also a statement without points is one task, which then does nothing
        loops = b.when(b.compare(">", b.END, b.BEGIN), loops)
        tasks: Expr = b.c64(1)
    else:
        *outer, last = nest.tasked
        v, low, high = b.i64(safe_name(last.name)), ops.size(last.low), ops.size(last.high)
        if outer:
            tasks = b.mul(*(_extent(ctx, r) for r in outer))
            row = nest.under(ctx, lambda x, mark: b.loop(v, low, high, x, mark=mark), v.name)
            loops = b.loop(task, b.BEGIN, b.END, decode(ctx, outer, task), row)
        else:
            block = _block(ctx, last, s)
            tasks = b.ceil_div(_extent(ctx, last), block)
            start = b.add(low, b.mul(b.BEGIN, block))
            stop = b.i64(ops.local("stop"))
            loops = b.block(
                Let(stop, b.min64(high, b.add(low, b.mul(b.END, block)))),
                nest.under(ctx, lambda x, mark: b.loop(v, start, stop, x, mark=mark), v.name),
            )
    function = b.phase_function(name, b.block(ops.declare(loops), Return(b.const(0, INT32))))
    return function, Phase(name, tasks, cost)


def decode(ctx: Context, ranges: Sequence[Range], task: Var) -> list[Stmt]:
    """Declare the indices of a task, the last one running fastest."""
    found = b.unravel(task, [_extent(ctx, r) for r in ranges])
    return [
        Let(b.i64(safe_name(r.name)), b.add(at, ctx.operands.size(r.low)))
        for r, at in zip(ranges, found, strict=True)
    ]


def nested(ctx: Context, ranges: Sequence[Range], body: Stmt, mark: Simd | Serial) -> Stmt:
    """Return loops over ranges, the first outermost; mark is the innermost one's."""
    for k, r in enumerate(reversed(ranges)):
        body = For(
            b.i64(safe_name(r.name)),
            ctx.operands.size(r.low),
            ctx.operands.size(r.high),
            body,
            mark=mark if k == 0 else Serial(),
        )
    return body


def parallel_mark(body: Stmt) -> Simd | Serial:
    """Return how independent iterations run: one that may leave or holds a loop, in order."""
    plain = all(not isinstance(t, For | Return) for t in walk_stmt(body))
    return Simd() if plain else Serial()


def reduction_mark(s: Statement, acc: Var) -> Simd | Serial:
    """Return how reductions run whose body is step: sums and products may be reassociated."""
    checked = any(any(r.checked) for r in s.reads())
    op = s.op[0]
    if not s.reductions or checked or op not in "+*":
        return Serial()
    return Simd(((op, acc.name),))  # type: ignore[arg-type]


# ---- sizes and costs


def _extent(ctx: Context, r: Range) -> Expr:
    return ctx.operands.size(r.extent)


def _planned(ctx: Context, r: Range) -> Expr:
    """Return an extent as plan sees it: of a middle turn where it changes from turn to turn."""
    if any(map(ctx.program.depends, (r.low, r.high))):
        return b.c64(max(0, ctx.extent(r.extent)))
    return _extent(ctx, r)


def _block(ctx: Context, r: Range, s: Statement | None) -> int:
    """Return how many values of a single parallel index make a task."""
    work_ns = _NS_PER_NODE
    if s is not None:
        work_ns = _point_ns(s)
        for q in s.ranges:
            work_ns *= 1 if q.name == r.name else max(1, ctx.extent(q.extent))
    block = 1
    while block < 4096 and block * work_ns < _TASK_NS:
        block *= 2
    return block


def float_product(factors: Sequence[Expr], scale: float) -> Expr:
    """Return scale * product as float64."""
    product = b.mul(*factors)
    if (known := b.value_of(product)) is not None:
        return b.const(round(scale * known, 3), FLOAT64)
    real = Scalar(FLOAT64)
    return b.arith("*", b.cast(product, real), b.const(round(scale, 3), FLOAT64))


def _point_ns(s: Statement) -> float:
    return _NS_PER_NODE * sum(1 for _ in walk_typed(s.value))


FORM = Form("nest", matches, knobs, default, cost_ns, lower, takes_any_points=True)
