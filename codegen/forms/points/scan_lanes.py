"""Scans in vector registers, and of long rows in blocks that threads share.

    totals: for blocks of rows but the last: total = sum of the block's terms
    scan:   for blocks of rows: last = the element before the row + the totals of blocks before
                for t, a vector at a time: v = sums of lanes up to each; Y = last + v; last += all
                (of extremes: where no lane reaches the last one, that is all of them)
                the points that are left, one by one

That groups terms in another way than one after the other. So it is for sums over what lies before
(a loop over floats says their order), and for what is the same in any grouping: integers, the
largest, the smallest. Of a loop's largest float rows stay whole: which of two zeros it is goes by
their order, in which totals do not meet. Products of floats do not go so: of 0, 2, 2, .. those of a
block are infinite, and 0 times that is NaN. Blocks are cut by sizes alone, so the bits do not
depend on threads. In a row that runs backwards the lanes still lie as memory does, the last first.
"""

from __future__ import annotations

from dataclasses import replace

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.combine import combined
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.phase import float_product, point_ns
from tcdsl.codegen.forms.base.scalars import narrow, widen
from tcdsl.codegen.forms.points.scan_steps import Steps, varies
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Assign,
    Bin,
    BinaryOp,
    Call,
    Cast,
    Eval,
    Expr,
    Field,
    Function,
    If,
    Let,
    Load,
    Opaque,
    Return,
    Scalar,
    Stmt,
    Un,
    Var,
    Vector,
)
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.machine.wall import TASK_NS, divided_ns
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, INT32
from tcdsl.grammar.types.typed import Range

SHORTEST = 48  # points of a row: the steps within a vector take as long as four rows side by side
_ENOUGH_ROWS = 64  # for all threads: these are not cut
_BLOCK = 8192  # points at least: both passes over them find them in a cache
_MOST_BLOCKS = 64  # of a row: each adds up the totals of those before
_SUMS = 4  # vectors of a total, which are added up side by side
_POINT_NS = 0.08
_NAMES = {"+": "add", "*": "mul", "max": "max", "min": "min"}


def cost_ns(ctx: Context, s: Statement, points: int, rows: int) -> float:
    """Return a rough time of a call, of so many points in so many rows."""
    t = vexpr.lanes_of(s.value.dtype.computed.bits, ctx.machine)
    is_whole = rows >= _ENOUGH_ROWS or not _may_be_cut(s)
    pieces = rows if is_whole else max(rows, points // _BLOCK)
    return divided_ns(points * (_POINT_NS + point_ns(s) / t), pieces, ctx.spec.threads)


def _may_be_cut(s: Statement) -> bool:
    """Whether totals of blocks have the bits of the text's order, or no order is said."""
    return s.regroups or s.value.dtype.is_integer


def lower(ctx: Context, s: Statement, steps: Steps) -> Lowered:
    """Return the two phases; the first has no tasks where no row is cut."""
    return _Scan(ctx, s, steps).lowered()


class _Scan:
    """The text of a scan."""

    def __init__(self, ctx: Context, s: Statement, steps: Steps) -> None:
        self.ctx, self.s, self.steps, self.ops = ctx, s, steps, ctx.operands
        self.rows = tuple(r for r in s.outputs if r.name != s.along)
        self.turns: Range = next(r for r in s.ranges if r.name == s.along)
        self.t = steps.t
        self.kind = vexpr.kind_of(self.t, self.t.dtype)
        self.low, self.high = self.ops.size(self.turns.low), self.ops.size(self.turns.high)
        self.length = b.max64(0, self.ops.size(self.turns.extent))
        self.count = b.mul(*(self.ops.size(r.extent) for r in self.rows)) if self.rows else b.c64(1)
        self.totals = b.pointer(self.ops.local("total"), self.t.dtype)
        self._named = 0

    def lowered(self) -> Lowered:
        """Return the phases."""
        piece, blocks, units = self._cut()
        plan: list[Stmt] = []
        known = [x for x in map(b.value_of, (piece, blocks, units)) if x is not None]
        if len(known) < 3:  # told once a call
            base = self.ctx.param_base
            plan = [b.set_param(base + i, x) for i, x in enumerate((piece, blocks, units))]
            piece, blocks, units = (b.plan_param(base + i) for i in range(3))
        planned = self._cut()[1] if plan else blocks
        of_a_task = self._cut()[2] if plan else units
        names = f"{self.ctx.prefix}_totals", f"{self.ctx.prefix}_scan"
        bodies = self._all_totals(piece, blocks), self._all_scans(piece, blocks, units)
        functions: tuple[Function, ...] = tuple(
            b.phase_function(name, b.block(self.ops.declare(body), Return(b.const(0, INT32))))
            for name, body in zip(names, bodies, strict=True)
        )
        point = _POINT_NS + point_ns(self.s) / self.t.lanes
        points = [self.count, self.length]
        cut = b.mul(self.count, b.max64(0, b.sub(planned, 1)))
        phases: tuple[Phase, ...] = (
            Phase(names[0], cut, float_product([cut, self._cut()[0]], point)),
            Phase(
                names[1],
                b.ceil_div(b.mul(self.count, planned), of_a_task),
                float_product(points, point),
            ),
        )
        if b.value_of(cut) == 0:
            functions, phases = functions[1:], phases[1:]
        way = "" if self.steps.is_forward else " backwards"
        return Lowered(
            title=f"scan along {self.s.along} in vectors{way}",
            functions=functions,
            phases=phases,
            plan=tuple(plan),
            thread_bytes=b.c64(0),
            shared_bytes=b.mul(cut, self.t.dtype.bits // 8),
            params_used=len(plan),
        )

    def _cut(self) -> tuple[Expr, Expr, Expr]:
        """Return the points of a block, the blocks of a row, and the blocks of a task."""
        whole = self.t.lanes * _SUMS
        even = b.round_up(b.ceil_div(self.length, _MOST_BLOCKS), whole)
        is_cut = b.all_of(
            b.compare("<", self.count, _ENOUGH_ROWS), b.compare(">=", self.length, 2 * _BLOCK)
        )
        piece = b.max64(1, self.length)
        if _may_be_cut(self.s):
            piece = b.select(is_cut, b.max64(_BLOCK, even), piece)
        points = max(1, round(TASK_NS / _POINT_NS))
        units = b.max64(1, b.div(b.c64(points), piece))
        return piece, b.ceil_div(self.length, piece), units

    def _row(self, row: Expr) -> dict[str, Expr]:
        """Return the indices of a row."""
        at = b.unravel(row, [self.ops.size(r.extent) for r in self.rows]) if self.rows else []
        return {r.name: b.add(x, self.ops.size(r.low)) for r, x in zip(self.rows, at, strict=True)}

    def _named_row(self, row: Expr) -> tuple[dict[str, Expr], list[Stmt]]:
        index: dict[str, Expr] = {}
        lets: list[Stmt] = []
        for name, x in self._row(row).items():
            v = b.i64(safe_name(name))
            lets.append(Let(v, x))
            index[name] = v
        return index, lets

    def _declared_totals(self) -> Stmt:
        shared = b.offset(Field(b.ARGS, "shared", Opaque("char *")), self.ctx.shared_base)
        return Let(self.totals, Cast(shared, self.totals.type))

    # ---- totals

    def _all_totals(self, piece: Expr, blocks: Expr) -> Stmt:
        task, first = b.i64("task"), b.i64(self.ops.local("first"))
        before_last = b.sub(blocks, 1)
        index, lets = self._named_row(b.div(task, before_last))
        at = b.i64(self.ops.local("at"))
        turn = self.t.lanes * _SUMS
        sums = [Var(self._name("sum"), self.t) for _ in range(_SUMS)]
        begin: list[Stmt] = []
        step: list[Stmt] = []
        for u, acc in enumerate(sums):
            place = b.add(first, u * self.t.lanes)
            begin.append(Let(acc, self._term(index, place, begin), mutable=True))
            place = b.add(at, u * self.t.lanes)
            value = self._term(index, place, step)
            step.append(Assign(acc, combined(self.steps.op, acc, value)))
        whole: Expr = sums[0]
        for acc in sums[1:]:
            whole = combined(self.steps.op, whole, acc)
        body = b.block(
            lets,
            Let(first, b.mul(b.mod(task, before_last), piece)),
            begin,
            b.loop(at, b.add(first, turn), b.add(first, piece), b.block(step), step=turn),
            Assign(b.load(self.totals, task), self._all(whole)),
        )
        return b.block(self._declared_totals(), b.loop(task, b.BEGIN, b.END, body))

    # ---- the scan

    def _all_scans(self, piece: Expr, blocks: Expr, units: Expr) -> Stmt:
        ops = self.ops
        task, unit = b.i64("task"), b.i64(ops.local("unit"))
        end = b.i64(ops.local("behind"))
        body = b.block(
            Let(end, b.min64(b.mul(self.count, blocks), b.mul(b.add(task, 1), units))),
            b.loop(unit, b.mul(task, units), end, self._scan(unit, piece, blocks)),
        )
        return b.block(self._declared_totals(), b.loop(task, b.BEGIN, b.END, body))

    def _scan(self, unit: Var, piece: Expr, blocks: Expr) -> Stmt:
        ops, s, dtype, lanes = self.ops, self.s, self.t.dtype, self.t.lanes
        row, block = b.i64(ops.local("row")), b.i64(ops.local("block"))
        first, stop, whole = (b.i64(ops.local(x)) for x in ("first", "stop", "whole"))
        at, other = b.i64(ops.local("at")), b.i64(ops.local("other"))
        index, lets = self._named_row(row)
        begin = Values(ops, {**index, self.turns.name: self.low}, prefix=self._name("b"))
        place = begin.place(self.steps.kept.tensor, self.steps.kept.subs, self.steps.kept.checked)
        last = b.var(ops.local("last"), dtype)
        total = b.load(self.totals, b.add(b.mul(row, b.sub(blocks, 1)), other))
        carry, found = Var(ops.local("carry"), self.t), Var(ops.local("found"), self.t)
        step: list[Stmt] = []
        value = self._term(index, at, step)
        name = f"{'' if self.steps.is_forward else 'r'}scan_{_NAMES[self.steps.op]}"
        target = self._place(index, at, s.target, s.subs, step)
        every = vexpr.vector_call("last" if self.steps.is_forward else "first", self.t, found)
        whole_step = b.block(
            Let(found, vexpr.vector_call(name, self.t, value)),
            self._stored(target, combined(self.steps.op, carry, found)),
            Assign(carry, combined(self.steps.op, carry, every)),
        )
        reaches = self._any_reaches(value, carry)
        step.append(
            whole_step if reaches is None else If(reaches, whole_step, self._stored(target, carry))
        )
        return b.block(
            Let(row, b.div(unit, blocks)),
            Let(block, b.mod(unit, blocks)),
            lets,
            begin.take(),
            Let(last, widen(place, dtype), mutable=True),
            b.loop(other, 0, block, Assign(last, combined(self.steps.op, last, total))),
            Let(first, b.mul(block, piece)),
            Let(stop, b.min64(self.length, b.add(first, piece))),
            Let(whole, b.add(first, b.mul(b.div(b.sub(stop, first), lanes), lanes))),
            Let(carry, vexpr.splat(last, self.t), mutable=True),
            b.loop(at, first, whole, b.block(step), step=lanes),
            Assign(last, self._lane(carry)),
            b.loop(at, whole, stop, self._point(index, at, last)),
        )

    def _stored(self, target: Expr, v: Expr) -> Stmt:
        return Eval(Call(f"tc_store_{self.kind}", (target, v), None))

    def _any_reaches(self, value: Expr, carry: Expr) -> Expr | None:
        """Return whether a term may change an extreme, as few do; equal floats may be two zeros."""
        if self.steps.op not in ("max", "min"):
            return None
        truth = Vector(vexpr.integer_of(self.t.dtype.bits), self.t.lanes)
        less: BinaryOp = "<" if self.steps.op == "max" else ">"
        if self.t.dtype.is_integer:
            less = "<=" if self.steps.op == "max" else ">="
        beyond = Un("~", Bin(less, value, carry, truth), truth)
        return replace(vexpr.vector_call("any", truth, beyond), type=Scalar(BOOL))

    def _point(self, index: dict[str, Expr], at: Expr, last: Var) -> Stmt:
        """Return one point, the one of that number in its row."""
        here = {**index, self.turns.name: b.add(self.low, at)}
        values = Values(self.ops, here, prefix=self._name("p"))
        value = combined(self.steps.op, last, values.value(self.steps.term))
        before = values.take()
        place = values.place(self.s.target, self.s.subs, self.s.subs_checked)
        assert isinstance(place, Load)
        stored = narrow(last, self.t.dtype)
        return b.block(before, Assign(last, value), values.take(), Assign(place, stored))

    # ---- terms

    def _index(self, index: dict[str, Expr], at: Expr) -> dict[str, Expr]:
        """Return the indices of the lane that lies first in memory of those from a point on."""
        if self.steps.is_forward:
            return {**index, self.turns.name: b.add(self.low, at)}
        return {**index, self.turns.name: b.add(self.low, at, self.t.lanes - 1)}

    def _place(
        self,
        index: dict[str, Expr],
        at: Expr,
        tensor: str,
        subs: tuple[typed.Expr, ...],
        out: list[Stmt],
    ) -> Expr:
        values = Values(self.ops, self._index(index, at), prefix=self._name("a"))
        place = values.place(tensor, subs, (False,) * len(subs))
        out += values.take()
        assert isinstance(place, Load)
        return b.offset(place.pointer, place.index)

    def _term(self, index: dict[str, Expr], at: Expr, out: list[Stmt]) -> Expr:
        """Return the terms of as many points as a vector has lanes."""
        here = self._index(index, at)
        values = Values(self.ops, here, prefix=self._name("t"))

        def scalar(e: typed.Expr) -> Expr:
            value = values.value(e)
            out.extend(values.take())
            return value

        def read(e: typed.Read) -> Expr:
            stored = self.ops.memory_dtype(e.tensor)
            t = Vector(stored.computed, self.t.lanes)
            address = self._place(index, at, e.tensor, e.subs, out)
            return Call(f"tc_load_{vexpr.kind_of(t, stored)}", (address,), t)

        def iota(e: typed.IndexValue) -> Expr:
            t = Vector(vexpr.integer_of(self.t.dtype.bits), self.t.lanes)
            return vexpr.vector_call("iota", t, b.cast(here[e.name], Scalar(t.dtype)))

        scope = vexpr.LaneScope(
            self.t.lanes, self.t.dtype.bits, varies(self.s), scalar, read, iota, self._name, out
        )
        return scope.name(vexpr.splat(scope.vector(self.steps.term), self.t), "x")

    def _all(self, v: Expr) -> Expr:
        """Return the lanes of a vector together."""
        return self._lane(
            vexpr.vector_call(
                "last", self.t, vexpr.vector_call(f"scan_{_NAMES[self.steps.op]}", self.t, v)
            )
        )

    def _lane(self, v: Expr) -> Expr:
        return Call(f"tc_lane_{self.kind}", (v,), Scalar(self.t.dtype))

    def _name(self, stem: str) -> str:
        self._named += 1
        return self.ops.local(f"{stem}_{self._named}")
