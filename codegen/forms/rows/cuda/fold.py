"""Folds across the threads of a block: which threads walk a row, and how their parts meet.

The order in which values meet follows from the shape of the block alone, so that a sum is the
same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from tcdsl.codegen.forms.base.scalars import combine, identity
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Array,
    Assign,
    Call,
    Elem,
    Expr,
    Function,
    Let,
    Return,
    Scalar,
    Stmt,
    Unroll,
    Var,
)
from tcdsl.codegen.loops.target import short_name
from tcdsl.codegen.machine.gpu import WARP
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.text.nodes import AssignOp
from tcdsl.grammar.types.dtypes import INT32, DType

_STATIC_SHARED = 48 << 10  # bytes of a kernel's shared arrays
_NAMES = {"+=": "sum", "*=": "product", "min=": "min", "max=": "max"}


@dataclass(frozen=True, slots=True)
class Team:
    """The threads of a block: lanes to a row, of rows at a time; all powers of two.

    along: "rows", the lanes of a row are neighbours and so are the points they take; "columns",
    threads of neighbouring rows are, and the lanes of a row are `rows` threads apart.
    """

    along: Literal["rows", "columns"]
    lanes: int
    rows: int

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.lanes * self.rows

    @property
    def meets_at_barriers(self) -> bool:
        """Whether the lanes of a row are in several warps."""
        return self.lanes > (WARP if self.along == "rows" else 1)

    @property
    def is_whole_warps(self) -> bool:
        """Whether all threads of a warp are of one row."""
        return self.along == "rows" and self.lanes >= WARP


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A fold in the making: a mutable variable of each thread."""

    var: Var
    op: AssignOp

    @property
    def dtype(self) -> DType:
        """The type in which it is computed."""
        assert isinstance(self.var.type, Scalar)
        return self.var.type.dtype

    def start(self) -> Stmt:
        """Return its declaration."""
        return Let(self.var, identity(self.op, self.dtype), mutable=True)

    def add(self, value: Expr) -> Stmt:
        """Return the statement that folds a value."""
        return Assign(self.var, combine(self.op, self.var, value))


class Gather:
    """Folds accumulators over the lanes of a row, and collects the functions that do so.

    Parameters
    ----------
    team
        The threads of a block.
    prefix
        Of the names of functions.
    fresh
        Returns an unused name for a local array.
    """

    def __init__(self, team: Team, prefix: str, fresh: Callable[[str], str]) -> None:
        self.team = team
        self.prefix = prefix
        self.fresh = fresh
        self.functions: dict[str, Function] = {}

    def fold(self, accumulators: Sequence[Accumulator], slot: Expr, lane: Expr) -> list[Stmt]:
        """Return what leaves in each lane of a row the fold of all of them.

        slot: a thread's row in the block; lane: its place in the row. Every thread of the block
        has to come here. No shared memory is used twice, so that one barrier is enough.
        """
        if self.team.lanes == 1 or not accumulators:
            return []
        if self.team.along == "columns":
            return self._through_memory(accumulators, slot, lane)
        out = [self._across_lanes(a, min(self.team.lanes, WARP)) for a in accumulators]
        if self.team.lanes <= WARP:
            return out
        return out + self._across_warps(accumulators, slot, lane)

    def _across_lanes(self, a: Accumulator, lanes: int) -> Stmt:
        """Fold neighbouring lanes; in the end all have the same value."""
        function = _butterfly(f"{self.prefix}_{_NAMES[a.op.rstrip('!')]}", a, lanes)
        self.functions[function.name] = function
        return Assign(a.var, Call(function.name, (a.var,), a.var.type))

    def _across_warps(
        self, accumulators: Sequence[Accumulator], slot: Expr, lane: Expr
    ) -> list[Stmt]:
        """Fold the values of a row's warps: each warp leaves its own, then reads all of them."""
        warps = self.team.lanes // WARP
        arrays, stores, loads = [], list[Stmt](), list[Stmt]()
        at = b.add(b.mul(slot, warps), b.mod(lane, warps))
        mine = b.cast(b.call("tc_warp", type=b.INT), I64)
        for a in accumulators:
            name, kind = self.fresh(f"{a.var.name}_warps"), a.var.type
            arrays.append(Array(name, kind, (self.team.threads // WARP,), space="shared"))
            stores.append(Assign(Elem(name, (mine,), kind), a.var))
            loads.append(Assign(a.var, Elem(name, (at,), kind)))
            loads.append(self._across_lanes(a, warps))
        first = b.compare("==", b.call("tc_lane", type=b.INT), b.const(0, INT32))
        return [*arrays, b.when(first, stores), b.do("tc_barrier"), *loads]

    def _through_memory(
        self, accumulators: Sequence[Accumulator], slot: Expr, lane: Expr
    ) -> list[Stmt]:
        """Fold values of threads that are `rows` apart, one after the other."""
        used = sum(self.team.threads * a.dtype.size_bytes for a in accumulators)
        if used > _STATIC_SHARED:
            raise ScheduleError(
                f"folds of {self.team.threads} threads take {used} bytes of shared memory"
            )
        arrays, stores, loads = [], list[Stmt](), list[Stmt]()
        i = b.i64(self.fresh("i"))
        for a in accumulators:
            name, kind = self.fresh(f"{a.var.name}_lanes"), a.var.type
            arrays.append(Array(name, kind, (self.team.lanes, self.team.rows), space="shared"))
            stores.append(Assign(Elem(name, (lane, slot), kind), a.var))
            add = a.add(Elem(name, (i, slot), kind))
            mark = Unroll(min(8, self.team.lanes - 1))
            loads.append(Assign(a.var, Elem(name, (b.c64(0), slot), kind)))
            loads.append(b.loop(i, 1, self.team.lanes, add, mark=mark))
        return [*arrays, *stores, b.do("tc_barrier"), *loads]


def _butterfly(stem: str, a: Accumulator, lanes: int) -> Function:
    """Return the function that folds a value of `lanes` neighbouring lanes, for each of them."""
    kind = a.var.type
    x, out = Var("x", kind), Accumulator(Var("all", kind), a.op)
    body: list[Stmt] = [Let(out.var, x, mutable=True)]
    mask = lanes // 2
    while mask:
        shuffle = f"tc_shuffle_xor_{short_name(a.dtype)}"
        body.append(out.add(Call(shuffle, (out.var, b.const(mask, INT32)), kind)))
        mask //= 2
    name = f"{stem}_of_{lanes}_{short_name(a.dtype)}"
    return Function(name, (x,), b.block(body, Return(out.var)), "inline", kind)
