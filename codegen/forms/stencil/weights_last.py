"""The gradient of a window by its weights where channels lie next to each other.

D(i, j, c) +=! G(n, h, w, c) * pad(I(n, h + i - 1, w + j - 1, c), 0)

for part:                             a task: some of the lines (n, h)
  for n, h:  for c:                   vectors of channels
    sums = 0;  for w:                 some pixels at a time: sum (i, j) += G * I
    partial(part, i, j, c) += sums
for i, j, c: D(i, j, c) = partial(0, i, j, c) + partial(1, i, j, c) + ..       a second phase

How many parts there are follows from sizes alone, so that any number of threads adds in one order.
"""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.phase import fill, float_product
from tcdsl.codegen.forms.base.planned import Plan, Planned
from tcdsl.codegen.forms.base.scalars import narrow
from tcdsl.codegen.forms.stencil.cost import point_ns
from tcdsl.codegen.forms.stencil.lines import Cut
from tcdsl.codegen.forms.stencil.problem import Stencil
from tcdsl.codegen.forms.stencil.sums import SumsNest
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Assign,
    Bin,
    Call,
    Cast,
    Const,
    Expr,
    Field,
    If,
    Let,
    Load,
    Opaque,
    Pointer,
    Return,
    Simd,
    Stmt,
    Var,
    Vector,
)
from tcdsl.codegen.machine.config import Value
from tcdsl.grammar.types.dtypes import INT32
from tcdsl.grammar.types.typed import Range

_MOST_PARTS = 32
_PART_POINTS = 1 << 14  # pixels times channels


class WeightsLastNest(SumsNest):
    """The nest of parts, and that of the second phase; parts: how many there are."""

    def __init__(
        self, ctx: Context, stencil: Stencil, cut: Cut, parts: Planned, width: Planned
    ) -> None:
        super().__init__(ctx, stencil, cut)
        size = ctx.operands.size
        s = stencil.statement
        self.parts, self.width = parts, width
        self.divided = [r for r in stencil.outer if r.kind == "output"]
        self.lines_over = [r for r in stencil.outer if r.kind == "reduction"]
        self.count = b.mul(stencil.tap_count, *(size(r.extent) for r in self.divided))
        self.channels = b.mul(
            b.ceil_div(size(stencil.lane.extent), self.walk.lanes), self.walk.lanes
        )
        self.dtype = ctx.operands.buffer(s.target).dtype.computed
        self.partial = Var(self.walk.names.fresh("partial"), Pointer(self.dtype))
        self.sums: dict[tuple[tuple[int, ...], int], Var] = {}

    def declared(self) -> Stmt:
        """Return the declaration of the table of partial results, [part][output, tap][channel]."""
        base = b.offset(Field(b.ARGS, "shared", Opaque("char *")), self.ctx.shared_base)
        return Let(self.partial, Cast(base, self.partial.type))

    def bytes(self) -> Expr:
        """Return the size of that table, as the plan has it."""
        return b.mul(self.parts.in_plan, self.count, self.channels, self.dtype.size_bytes)

    def body(self) -> Stmt:
        """Return the loop over parts."""
        size = self.ctx.operands.size
        task, line, at, low, high = (
            b.i64(self.local(n)) for n in ("task", "line", "at", "low", "high")
        )
        *found, part = b.unravel(
            task, [*(size(r.extent) for r in self.divided), self.parts.in_phase]
        )
        table = Var(self.walk.names.fresh("table"), self.partial.type)
        begun = self.index_of(self.divided, found)
        number: Expr = b.c64(0)
        for r, x in zip(self.divided, found, strict=True):
            number = b.add(b.mul(number, size(r.extent)), x)
        place = b.add(b.mul(part, self.count), b.mul(number, self.stencil.tap_count))
        begun.append(Let(table, b.offset(self.partial, b.mul(place, self.channels))))
        zero = Assign(b.load(table, at), b.const(0, self.dtype))
        all_of_table = b.mul(self.stencil.tap_count, self.channels)
        begun.append(b.loop(at, 0, all_of_table, zero, mark=Simd()))
        first = b.mul(part, self.width.in_phase)
        last = b.min64(b.add(first, self.width.in_phase), self.line_count())
        places = b.unravel(line, [size(r.extent) for r in self.lines_over])
        wide = self.walk.lanes * self.cut.vectors
        chunk = b.loop(
            low,
            size(self.lane.low),
            size(self.lane.high),
            Let(high, b.min64(b.add(low, wide), size(self.lane.high))),
            self.chunk(table, low, high),
            step=wide,
        )
        lines = b.loop(
            line, first, last, self.index_of(self.lines_over, places), self.walk.unit.stmts, chunk
        )
        return b.loop(task, b.BEGIN, b.END, begun, lines)

    def line_count(self) -> Expr:
        """Return how many lines all parts have together."""
        return b.mul(1, *(self.ctx.operands.size(r.extent) for r in self.lines_over))

    def index_of(self, ranges: list[Range], found: list[Expr]) -> list[Stmt]:
        """Return the declarations of indices, each so far from where its range begins."""
        size = self.ctx.operands.size
        return [
            Let(self.walk.index[r.name], b.add(at, size(r.low)))
            for r, at in zip(ranges, found, strict=True)
        ]

    def chunk(self, table: Var, low: Var, high: Var) -> Stmt:
        """Return the sums of a line for some channels, and their way into the table."""
        assert self.row is not None
        size = self.ctx.operands.size
        t = Vector(self.dtype, self.walk.lanes)
        name = vexpr.kind_of(t, self.dtype)
        taps = [tuple(tap.values()) for tap in self.stencil.points()]
        self.sums = {
            (tap, v): Var(self.walk.names.fresh("sum"), t)
            for v in range(self.cut.vectors)
            for tap in taps
        }
        begun = [Let(x, Const(0, t), mutable=True) for x in self.sums.values()]
        top, bottom = size(self.row.low), size(self.row.high)
        w = self.walk.index[self.lane.name]
        whole = b.compare("==", b.sub(high, low), self.walk.lanes * self.cut.vectors)
        walks = [self._still_rows(top, bottom, is_whole=x) for x in (True, False)]
        first = b.sub(low, size(self.lane.low))
        added: list[list[Stmt]] = []
        for v in range(self.cut.vectors):
            into: list[Stmt] = []
            for n, tap in enumerate(taps):
                at = b.offset(table, b.add(first, b.mul(n, self.channels), v * self.walk.lanes))
                before = Call(f"tc_load_{name}", (at,), t)
                into.append(b.do(f"tc_store_{name}", at, Bin("+", before, self.sums[tap, v], t)))
            added.append(into)
        rest = [
            b.when(b.compare("<", b.add(low, v * self.walk.lanes), high), into)
            for v, into in enumerate(added)
            if v
        ]
        return b.block(Let(w, low), begun, If(whole, *walks), added[0], rest)

    def sum_of(self, tap: tuple[int, ...], vector: int) -> Var:
        """Return the sum of a tap in a vector of channels."""
        return self.sums[tap, vector]

    def finish(self) -> Stmt:
        """Return the second phase: the sums of all parts, in their order, and their stores."""
        size = self.ctx.operands.size
        s = self.stencil.statement
        task, part, at = (b.i64(self.local(n)) for n in ("task", "part", "at"))
        ranges = [(r.name, size(r.low), size(r.extent)) for r in self.divided]
        ranges += [(n, b.c64(x.start), b.c64(len(x))) for n, x in self.stencil.taps]
        found = b.unravel(task, [n for _, _, n in ranges])
        index: dict[str, Expr] = {
            name: b.add(x, low) for (name, low, _), x in zip(ranges, found, strict=True)
        }
        index[self.lane.name] = b.add(at, size(self.lane.low))
        total = b.load(self.partial, b.add(b.mul(task, self.channels), at))
        place_in_part = b.add(b.mul(b.add(b.mul(part, self.count), task), self.channels), at)
        more = Assign(total, b.load(self.partial, place_in_part), "+=")
        sums = b.loop(
            part,
            1,
            self.parts.in_phase,
            b.loop(at, 0, size(self.lane.extent), more, mark=Simd()),
        )
        place = Values(self.ctx.operands, index).place(s.target, s.subs, s.subs_checked)
        assert isinstance(place, Load)
        stored = self.ctx.operands.memory_dtype(s.target)
        store = Assign(place, narrow(total, stored))
        stores = b.loop(at, 0, size(self.lane.extent), store, mark=Simd())
        return b.loop(task, b.BEGIN, b.END, sums, stores)


def lower_last(ctx: Context, s: Stencil, values: Mapping[str, Value]) -> Lowered:
    """Return the phase of parts and that of their sums; before them one that fills, if needed."""
    size = ctx.operands.size
    rows, vectors = int(values["rows"]), int(values["vectors"])
    plan = Plan(ctx)
    lines = b.mul(1, *(size(r.extent) for r in s.outer if r.kind == "reduction"))
    assert s.row is not None
    work = b.mul(lines, size(s.row.extent), size(s.lane.extent))
    wanted = b.max64(1, b.min64(_MOST_PARTS, b.div(work, _PART_POINTS)))
    width = plan.keep("width", b.max64(1, b.ceil_div(lines, wanted)))
    parts = plan.keep("parts", b.max64(1, b.ceil_div(lines, width.in_plan)))
    cut = Cut(rows, vectors, b.c64(1), b.c64(1))
    functions, phases = [], []
    if s.statement.base is None and not s.statement.covers:
        function, phase = fill(ctx, s.statement)
        functions.append(function)
        phases.append(phase)
    nest, end = (WeightsLastNest(ctx, s, cut, parts, width) for _ in range(2))
    tapped = dict(s.taps)
    extents = [size(r.extent) for r in s.statement.ranges if r.name not in tapped]
    outer = [size(r.extent) for r in nest.divided]
    for name, walk, count, cost in (
        ("part", b.block(nest.held(), nest.declared(), nest.body()),
         b.mul(parts.in_plan, *outer), float_product(extents, point_ns(ctx, s))),
        ("whole", b.block(end.declared(), end.finish()),
         end.count, float_product([end.count, end.channels, parts.in_plan], 0.1)),
    ):  # fmt: skip
        function_name = f"{ctx.prefix}_stencil_weights_{name}"
        body = b.block(ctx.operands.declare(walk), Return(b.const(0, INT32)))
        functions.append(b.phase_function(function_name, body))
        phases.append(Phase(function_name, count, cost))
    return Lowered(
        title=f"stencil weights {rows}x{vectors} channels last, in parts",
        functions=tuple(functions),
        phases=tuple(phases),
        plan=tuple(plan.stmts),
        thread_bytes=b.c64(0),
        shared_bytes=nest.bytes(),
        params_used=plan.count,
    )
