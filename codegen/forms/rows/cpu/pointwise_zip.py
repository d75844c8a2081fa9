"""Copies whose rows are two to four points long, each from afar: vectors whose lanes take turns.

    O(y, x, c) = A(c, y, x)     c in 0:3     tc_zip3_v16f32(O + .., n, A[0][..], A[1][..], A[2][..])

A square of such rows would be mostly masks, and each row a store of its own.
"""

from __future__ import annotations

from dataclasses import replace

from tcdsl.codegen.forms.base.access import ONE, DimLoop
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.space import IterationSpace
from tcdsl.codegen.forms.rows.point import RowPoints, RowWalk
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Call, Expr, Let, Mask, Stmt, Table, Var, Vector
from tcdsl.codegen.loops.target import short_name
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import FLOAT32, FLOAT64

_ROWS = (2, 3, 4)  # points of a row
_FULL = 0.4  # of a vector that lines along the other loop fill at least


def is_zipped(ctx: Context, space: IterationSpace, across: DimLoop) -> bool:
    """Whether a group is a copy of rows so short, which follow each other along the other loop."""
    inner = space.sweeps[0][-1]
    steps = [x.statement for x in space.aligned.steps]
    if len(steps) != 1 or not isinstance(steps[0].value, typed.Read) or len(space.linear) != 2:
        return False
    if inner.extent.constant not in _ROWS or any(steps[0].value.checked):
        return False
    (target,) = (a for a in space.linear if a[0] in space.written)
    (source,) = (a for a in space.linear if a[0] not in space.written)
    stored = [ctx.operands.memory_dtype(a[0]) for a in (target, source)]
    if stored[0] not in (FLOAT32, FLOAT64) or stored[0] != stored[1]:
        return False
    lanes = ctx.machine.lanes(stored[0].size_bytes)
    count = across.extent.constant
    if count is None or count / (-(-count // lanes) * lanes) < _FULL:
        return False
    row = space.linear[target]
    return (
        row.step(across.name).constant == inner.extent.constant
        and row.step(inner.name) == ONE
        and space.linear[source].step(across.name) == ONE
    )


class ZipNest(RowPoints):
    """The rows of a copy, as many at a time as a vector has lanes."""

    def __init__(self, ctx: Context, space: IterationSpace, walk: RowWalk, across: DimLoop) -> None:
        rows = tuple(x for x in space.kept if x != across)
        super().__init__(ctx, replace(space, kept=rows), walk)
        self.across = across
        self.inner = space.sweeps[0][-1]
        (self.target,) = (a for a in space.linear if a[0] in space.written)
        (self.source,) = (a for a in space.linear if a[0] not in space.written)
        self.tables: dict[tuple[int, ...], Table] = {}
        self.turned_bytes = self.stored(self.source[0]).size_bytes

    def zipped(self, t: Var, stop: Expr) -> list[Stmt]:
        """Return the copy of the rows from t on."""
        count = self.inner.extent.constant
        assert count is not None, "rows of known length"
        kind = Vector(self.stored(self.source[0]).computed, self.walk.lanes)
        short = f"v{kind.lanes}{short_name(kind.dtype)}"
        left, mask = b.i64(self.fresh("left")), Var(self.fresh("tail"), self._mask())
        out: list[Stmt] = [Let(left, b.min64(kind.lanes, b.sub(stop, t)))]
        out.append(Let(mask, self.tail(left)))
        loaded: list[Expr] = []
        for n in range(count):
            counters: dict[str, Expr] = {self.across.name: t, self.inner.name: b.c64(n)}
            at = b.offset(*self.address(self.source, counters))
            x = Var(self.fresh("x"), kind)
            out.append(Let(x, Call(f"tc_loadm_{short}", (at, mask), kind)))
            loaded.append(x)
        loaded += loaded[-1:] * (4 - count)
        to = b.offset(*self.address(self.target, {self.across.name: t, self.inner.name: b.c64(0)}))
        return [*out, b.do(f"tc_zip{count}_{short}", to, left, *loaded)]

    def _mask(self) -> Mask:
        return Mask(self.mask_dtype, self.walk.lanes)
