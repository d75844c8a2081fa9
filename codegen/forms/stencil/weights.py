"""The gradient of a window by its weights: a sum over all pixels for each tap, in a register.

D(c, i, j) +=! G(n, c, h, w) * pad(I(n, c, h + i - 1, w + j - 1), 0)

for c:                          a task's part
  for n:  for some rows:
    sums = 0;  for h, w:        vectors of pixels: sum (i, j) += G * I
    D(c, i, j) += sums          of all lanes
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.phase import fill, float_product
from tcdsl.codegen.forms.base.scalars import narrow
from tcdsl.codegen.forms.stencil.cost import point_ns
from tcdsl.codegen.forms.stencil.find_weights import weights_of
from tcdsl.codegen.forms.stencil.lines import Cut
from tcdsl.codegen.forms.stencil.problem import Stencil, asked_taps
from tcdsl.codegen.forms.stencil.sums import SumsNest
from tcdsl.codegen.forms.stencil.weights_last import lower_last
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Assign,
    Call,
    Const,
    Expr,
    Let,
    Load,
    Return,
    Scalar,
    Stmt,
    Var,
    Vector,
)
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.machine.wall import divided_ns
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.types.dtypes import INT32

_BLOCK = 1 << 12  # vectors that a sum has before it goes to the total
_MOST_STEPS = 100  # taps times rows


class WeightsNest(SumsNest):
    """The nest: sums of all pixels, whatever vector of a block they come from."""

    sums: Mapping[tuple[int, ...], Var]

    def sum_of(self, tap: tuple[int, ...], vector: int) -> Var:
        """Return the sum of a tap."""
        return self.sums[tap]

    def body(self) -> Stmt:
        """Return the loop over the outer outputs."""
        size = self.ctx.operands.size
        s = self.stencil.statement
        unit = b.i64(self.local("unit"))
        divided = [r for r in self.stencil.outer if r.kind == "output"]
        walked = [r for r in self.stencil.outer if r.kind == "reduction"]
        found = b.unravel(unit, [size(r.extent) for r in divided])
        first: list[Stmt] = [
            Let(self.walk.index[r.name], b.add(at, size(r.low)))
            for r, at in zip(divided, found, strict=True)
        ]
        dtype = self.ctx.operands.buffer(s.target).dtype.computed
        t = Vector(dtype, self.walk.lanes)
        zero = b.const(0, dtype)
        taps = [tuple(tap.values()) for tap in self.stencil.points()]
        totals = {tap: b.var(self.walk.names.fresh("total"), dtype) for tap in taps}
        self.sums = {tap: Var(self.walk.names.fresh("sum"), t) for tap in taps}
        first += [Let(x, zero, mutable=True) for x in totals.values()]
        begun = [Let(x, Const(0, t), mutable=True) for x in self.sums.values()]
        added = [
            Assign(
                totals[tap], Call(vexpr.vector_call("sum", t).function, (x,), Scalar(dtype)), "+="
            )
            for tap, x in self.sums.items()
        ]
        low, high = size(self.lane.low), size(self.lane.high)
        if self.row is None:
            inner = self.lines_of(1, low, high)
            walk = b.block(self.walk.unit.stmts, begun, inner, added)
        else:
            top, bottom = (b.i64(self.local(n)) for n in ("top", "bottom"))
            inner = self.rows_of(
                top, bottom, lambda n, asks: self.lines_of(n, low, high, asks=asks)
            )
            last = size(self.row.high)
            end = Let(bottom, b.min64(b.add(top, self.cut.unit_rows), last))
            rows = b.loop(
                top, size(self.row.low), last, end, begun, inner, added, step=self.cut.unit_rows
            )
            walk = b.block(self.walk.unit.stmts, rows)
        for r in reversed(walked):
            walk = b.loop(self.walk.index[r.name], size(r.low), size(r.high), walk)
        return b.loop(unit, b.BEGIN, b.END, first, walk, self.stored(totals))

    def stored(self, totals: Mapping[tuple[int, ...], Var]) -> list[Stmt]:
        """Return the stores of the sums."""
        s = self.stencil.statement
        out: list[Stmt] = []
        for tap in self.stencil.points():
            index: dict[str, Expr] = {n: b.c64(v) for n, v in tap.items()}
            values = Values(self.ctx.operands, {**self.walk.index, **index})
            place = values.place(s.target, s.subs, s.subs_checked)
            assert isinstance(place, Load)
            stored = self.ctx.operands.memory_dtype(s.target)
            out.append(Assign(place, narrow(totals[tuple(tap.values())], stored)))
        return out


def matches(ctx: Context) -> bool:
    """Whether the group sums over pixels for each tap of a window."""
    return weights_of(ctx) is not None


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return the rows of a block; the window, where it is that of a regime of sizes."""
    s = _required(ctx)
    window = "x".join(str(len(values)) for _, values in s.taps)
    asked = (Knob("window", (window,)),) if asked_taps(ctx, s) else ()
    most = max(1, _MOST_STEPS // s.tap_count)
    steps = (1, 2, 3, 4) if s.is_still else (1, 2, 4)
    rows = Knob("rows", tuple(n for n in steps if n <= most and (s.row or n == 1)))
    return (*asked, rows, *((Knob("vectors", _vectors(ctx, s)),) if s.is_still else ()))


def _vectors(ctx: Context, s: Stencil) -> tuple[int, ...]:
    """Return how many vectors of channels have sums in registers, beside what a pixel reads."""
    return tuple(n for n in (1, 2) if n == 1 or n * (s.tap_count + 4) <= ctx.machine.registers)


def default(ctx: Context) -> dict[str, Value]:
    """Return the analytic choice: as many rows as there are, up to four."""
    s = _required(ctx)
    chosen: dict[str, Value] = {k.name: k.values[-1] for k in knobs(ctx)}
    if chosen.get("vectors") == 2 and not ctx.at_least(
        s.lane.extent, vexpr.lanes_of(s.bits, ctx.machine) + 1
    ):
        chosen["vectors"] = 1
    if s.row is not None:
        extent = ctx.extent(s.row.extent)
        rows = next(k.values for k in knobs(ctx) if k.name == "rows")
        chosen["rows"] = max((int(n) for n in rows if int(n) <= max(1, extent - 2)), default=1)
    return chosen


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call with the spec's threads (`wall.py`)."""
    s = _required(ctx)
    tapped = dict(s.taps)
    ranges = [r for r in s.statement.ranges if r.name not in tapped]
    points = prod(max(0, ctx.extent(r.extent)) for r in ranges)
    pieces = prod(max(1, ctx.extent(r.extent)) for r in s.outer if r.kind == "output")
    factor = 1.0 + 0.5 / int(values["rows"])
    return divided_ns(points * point_ns(ctx, s) * factor, pieces, ctx.spec.threads)


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase, and one before it where the box has to be filled."""
    s = _required(ctx)
    size = ctx.operands.size
    rows = int(values["rows"])
    if s.is_still:
        return lower_last(ctx, s, values)
    vectors = b.add(b.div(size(s.lane.extent), vexpr.lanes_of(s.bits, ctx.machine)), 1)
    height = b.mul(b.add(b.div(b.c64(_BLOCK // rows), vectors), 1), rows)
    nest = WeightsNest(ctx, s, Cut(rows, 1, height, b.c64(1)))
    functions, phases = [], []
    if s.statement.base is None and not s.statement.covers:
        function, phase = fill(ctx, s.statement)
        functions.append(function)
        phases.append(phase)
    name = f"{ctx.prefix}_stencil_weights"
    inner = b.block(nest.held(), nest.body())
    body = b.block(ctx.operands.declare(inner), Return(b.const(0, INT32)))
    functions.append(b.phase_function(name, body))
    tapped = dict(s.taps)
    extents = [size(r.extent) for r in s.statement.ranges if r.name not in tapped]
    tasks = b.mul(*(size(r.extent) for r in s.outer if r.kind == "output"), 1)
    phases.append(Phase(name, tasks, float_product(extents, point_ns(ctx, s))))
    return Lowered(
        title=f"stencil weights {rows} rows",
        functions=tuple(functions),
        phases=tuple(phases),
        plan=(),
        thread_bytes=b.c64(0),
        shared_bytes=b.c64(0),
    )


def _required(ctx: Context) -> Stencil:
    found = weights_of(ctx)
    if found is None:
        raise ScheduleError(f"{ctx.prefix}: not the gradient of a window by its weights")
    return found


FORM = Form("stencil_weights", matches, knobs, default, cost_ns, lower)
