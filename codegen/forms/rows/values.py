"""What a nest knows inside a row: counters, pointers, values of the row, scalar expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.access import DimLoop, Linear
from tcdsl.codegen.forms.base.context import GroupContext
from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.base.guarded import inside
from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.forms.base.scalars import convert, narrow, widen
from tcdsl.codegen.forms.base.space import Access, IterationSpace, points
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Assign, Expr, Let, Offset, Pointer, Stmt, Var, Vector
from tcdsl.codegen.loops.names import numbered, safe_name
from tcdsl.codegen.program.expressions import reads_of
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.fresh import fresh
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, FLOAT32, INT64, DType


class RowValues:
    """Counters, pointers and values of a row in the making.

    Parameters
    ----------
    ctx, space
        The group and its loops.
    """

    def __init__(self, ctx: GroupContext[Any], space: IterationSpace) -> None:
        self.ctx = ctx
        self.space = space
        self.operands: Operands = ctx.operands
        self.row: list[Stmt] = []  # of the row in the making, so far
        self.index: dict[str, Expr] = {}  # values of index variables
        self.kept: dict[str, Expr] = {}  # counters of the loops over rows
        self.values: dict[str, Expr] = {}  # scalars of this row by buffer
        self.pointers: dict[tuple[str, Linear], Var] = {}
        self.taken = set(ctx.operands.taken)
        self.lows = {d.name: ctx.operands.size(d.low) for d in space.aligned.dims}

    def fresh(self, stem: str) -> str:
        """Return an unused name that starts with stem."""
        return numbered(stem, self.taken)

    def size(self, size: Size) -> Expr:
        """Return a size as an expression."""
        return self.operands.size(size)

    def counter(self, loop: DimLoop) -> Var:
        """Return the variable of a loop."""
        return b.i64(safe_name(loop.name))

    def enter(self, counters: Mapping[str, Expr]) -> None:
        """Fix the counters of the loops over rows."""
        self.kept = dict(counters)
        self.index = self.lows | {n: b.add(c, self.lows[n]) for n, c in counters.items()}

    def where_points(self, e: typed.Expr, loops: tuple[DimLoop, ...]) -> typed.Expr:
        """Return an invariant of loops that reads nothing where these have no points.

        That they have some may be what proves a read inside: `w(M - 1)` along M points.
        """
        dims = {d.name: d for d in self.space.aligned.dims}
        reads = [r for r in reads_of(e) if r.subs and r.tensor not in self.values]
        if all(is_nonnegative(self.ctx.bind(x.extent - 1)) for x in loops) or all(
            (r.tensor, r.subs) in self.space.linear and inside(self.ctx, r, dims) for r in reads
        ):
            return e
        count = typed.SizeValue(points(loops), INT64)
        has_points = typed.Binary(">", count, typed.Lit(0, INT64), BOOL)
        nothing = typed.Lit(False if e.dtype == BOOL else 0.0 if e.dtype.is_float else 0, e.dtype)
        return typed.Select(has_points, e, nothing, e.dtype)

    # ---- memory

    def base(self, name: str) -> Var:
        """Return the pointer to a buffer's element 0."""
        if name in self.space.arena:
            stem = fresh("row_" + name.replace(".", "_"), self.operands.taken)
            return b.pointer(stem, self.stored(name))
        return self.operands.pointer(name)

    def stored(self, name: str) -> DType:
        """Return the type of a buffer's elements in memory."""
        if name in self.space.arena:
            return self.operands.buffer(name).dtype.computed
        return self.operands.memory_dtype(name)

    def in_memory(self, name: str) -> bool:
        """Whether somebody reads a buffer's elements from memory."""
        return name in self.space.arena or name not in self.ctx.group.local

    def as_stored(self, s: Statement, value: Expr) -> Expr:
        """Return a value as the readers of its target see it, a scalar or a vector.

        What combines has float32 values into a half; who reads it from a register sees what is
        stored. An assignment has its cast in its value.
        """
        buffer = self.operands.buffer(s.target)
        if s.op == "=" or buffer.role == "temp" or not buffer.dtype.is_half:
            return value
        t = b.type_of(value)
        if not isinstance(t, Vector):
            return convert(value, FLOAT32, buffer.dtype)
        return vexpr.rounded(value, t, buffer.dtype)

    def address(self, access: Access, counters: Mapping[str, Expr]) -> tuple[Var, Expr]:
        """Return the row's pointer of an access and the position behind it."""
        linear = self.space.linear[access]
        rest = linear.without(tuple(self.kept))
        fixed = replace(linear, terms=tuple(t for t in linear.terms if t[0] in self.kept))
        key = (access[0], fixed)
        if key not in self.pointers:
            base = self.base(access[0])
            at = self.row_offset(fixed)
            if b.value_of(at) == 0:
                self.pointers[key] = base
            else:
                assert isinstance(base.type, Pointer)
                kind = replace(base.type, restrict=False)
                p = Var(self.fresh(f"{base.name}_row"), kind)
                self.row.append(Let(p, Offset(base, at, kind)))
                self.pointers[key] = p
        # a dimension without a counter is part of another one's loop in this sweep
        inside = [(counters[n], step) for n, step in rest.terms if n in counters]
        index = b.add(*(b.mul(c, self.size(step)) for c, step in inside))
        return self.pointers[key], index

    def row_offset(self, linear: Linear) -> Expr:
        """Return the part of an address that is the same in all of the row."""
        terms = [b.mul(self.kept[n], self.size(step)) for n, step in linear.terms if n in self.kept]
        return b.add(*terms, self.size(linear.const))

    def element(self, access: Access, counters: Mapping[str, Expr]) -> Expr:
        """Return an element in its computing type."""
        pointer, index = self.address(access, counters)
        return widen(b.load(pointer, index), self.stored(access[0]))

    def store(self, access: Access, counters: Mapping[str, Expr], value: Expr) -> Stmt:
        """Return the store of a computed scalar."""
        pointer, index = self.address(access, counters)
        return Assign(b.load(pointer, index), narrow(value, self.stored(access[0])))

    # ---- values

    def scalar(
        self,
        e: typed.Expr,
        counters: Mapping[str, Expr],
        out: list[Stmt],
        local: Mapping[Access, Expr] | None = None,
        known: Mapping[typed.Expr, Expr] | None = None,
    ) -> Expr:
        """Return the scalar value of e; what has to run before it goes to out."""

        def read(x: typed.Read) -> Expr | None:
            if x.tensor in self.values:
                return self.values[x.tensor]
            access = (x.tensor, x.subs)
            if local is not None and access in local:
                return local[access]
            return self.element(access, counters) if x.subs else None

        low = {n: b.add(c, self.lows[n]) for n, c in counters.items()}
        values = _Known(self.operands, {**self.index, **low}, read, known or {}, self.fresh("t"))
        value = values.value(e)
        out.extend(values.take())
        return value


class _Known(Values):
    """Scalar expressions of which some parts have been computed already."""

    def __init__(
        self,
        operands: Operands,
        index: Mapping[str, Expr],
        local: Callable[[typed.Read], Expr | None],
        known: Mapping[typed.Expr, Expr],
        prefix: str,
    ) -> None:
        super().__init__(operands, index, local, prefix)
        self.known = known

    def part(self, e: typed.Expr) -> Expr:
        return self.known[e] if e in self.known else super().part(e)
