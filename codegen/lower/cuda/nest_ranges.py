"""The chains of a long scatter, found by ranges of rows instead of by all pairs of points.

    block (range of rows): for batches of points, one for each thread:
        lowest[row], highest[row] = first and last point of the batch that goes to a row of mine
        link:  last[row] of earlier batches -> first of this one -> ... -> last of this one

Every block looks at all points and links those of its rows. What atomics leave in shared memory
are extremes of integers: the same in any order of threads.
"""

from __future__ import annotations

from typing import Protocol

from tcdsl.codegen import build as b
from tcdsl.codegen.loopir import (
    I64,
    Address,
    Array,
    Assign,
    Call,
    Elem,
    Expr,
    Function,
    If,
    Launch,
    Let,
    Load,
    Pointer,
    Scalar,
    Stmt,
    Var,
)
from tcdsl.codegen.lower.context import GpuContext
from tcdsl.codegen.lower.cuda.kernel import kernel
from tcdsl.codegen.lower.cuda.traffic import LAUNCH_NS
from tcdsl.codegen.target import short_name
from tcdsl.grammar.dtypes import BOOL, INT32

_THREADS = 256  # of a block, and points of a batch
_LEAST_ROWS, _MOST_ROWS = 32, 1024  # of a range: three words each in shared memory
_BLOCKS = 4  # that a multiprocessor runs at a time
_BATCH_NS = 400.0  # to load a batch and come to two barriers


class Linked(Protocol):
    """What points are linked: see `nest_scatter`."""

    ctx: GpuContext
    count: Expr  # of points
    rows: Expr  # how many there are
    skips: Var
    firsts: Var

    def row(self, point: Expr) -> tuple[list[Stmt], Expr]:
        """Return the row of a point, -1 outside the target, and what finds it."""
        ...


def rows_of_range(ctx: GpuContext, rows: int) -> int:
    """Return how many rows a block takes: enough blocks for the GPU, not many more."""
    width = _LEAST_ROWS
    while width < _MOST_ROWS and width * _BLOCKS * ctx.machine.sms < rows:
        width *= 2
    return width


def range_links_ns(ctx: GpuContext, rows: int, points: float) -> float:
    """Return the time in which ranges of rows link points."""
    blocks = -(-rows // rows_of_range(ctx, rows))
    waves = max(1.0, blocks / (_BLOCKS * ctx.machine.sms))
    return LAUNCH_NS + waves * -(-points // _THREADS) * _BATCH_NS


def range_links(linked: Linked, rows: int) -> tuple[Function, Launch]:
    """Return the kernel that writes skips and firsts; rows: a representative number of them."""
    ctx, ops = linked.ctx, linked.ctx.operands
    width = rows_of_range(ctx, rows)
    pointer = linked.skips.type
    assert isinstance(pointer, Pointer)
    kind = Scalar(pointer.dtype)  # that holds a point

    def held(value: b.IntLike) -> Expr:
        return b.cast(b.expr(value), kind)

    lowest, highest = ops.local("lowest"), ops.local("highest")
    last, met = ops.local("last"), ops.local("met")
    thread, start, point = (b.i64(ops.local(n)) for n in ("thread", "start", "point"))
    low, row, mine = b.i64(ops.local("low")), b.i64(ops.local("row")), b.i64(ops.local("mine"))
    at, other, next_one = (b.i64(ops.local(n)) for n in ("at", "other", "following"))
    before = Var(ops.local("before"), kind)
    is_last = Var(ops.local("is_last"), Scalar(BOOL))

    def of_row(name: str) -> Elem:
        return Elem(name, (mine,), kind)

    def extreme(name: str, op: str, value: Expr) -> Stmt:
        place = Address(of_row(name), Pointer(kind.dtype, space="shared"))
        return b.do(f"tc_atomic_{op}_{short_name(kind.dtype)}", place, value)

    locate, found = linked.row(point)
    is_mine = b.all_of(b.compare(">=", row, low), b.compare("<", row, b.add(low, width)))
    is_met = b.compare(">=", mine, 0)
    lone = b.all_of(b.compare("<", row, 0), b.compare("==", low, 0))
    none = b.c64(-1)
    look = b.block(
        locate,
        Let(row, found),
        # outside the target: a chain of its own, which ends in a fault
        If(lone, _end(linked, point, b.const(True, BOOL))),
        If(is_mine, Assign(mine, b.sub(row, low))),
    )
    # a point less its batch's start: lower in every later batch, so nothing has to be reset
    rank = held(b.sub(thread, start))
    behind = b.block(
        Let(next_one, none, mutable=True),
        b.loop(
            other,
            b.add(thread, 1),
            _THREADS,
            If(
                b.all_of(
                    b.compare("<", next_one, 0),
                    b.compare("==", b.cast(Elem(met, (other,), Scalar(INT32)), I64), mine),
                ),
                Assign(next_one, b.sub(other, thread)),
            ),
        ),
        Assign(b.load(linked.skips, point), held(next_one)),
    )
    link_before = b.block(
        Let(before, of_row(last)),
        Assign(b.load(linked.firsts, point), b.compare("<", b.cast(before, I64), 0)),
        If(
            b.compare(">=", b.cast(before, I64), 0),
            Assign(
                b.load(linked.skips, b.cast(before, I64)),
                held(b.sub(point, b.cast(before, I64))),
            ),
        ),
    )
    link = b.block(
        Assign(is_last, b.compare("==", b.cast(of_row(highest), I64), point)),
        If(
            b.compare("==", b.cast(of_row(lowest), I64), b.sub(thread, start)),
            link_before,
            Assign(b.load(linked.firsts, point), b.const(False, BOOL)),
        ),
        If(is_last, Assign(b.load(linked.skips, point), held(linked.count)), behind),
    )
    batch = b.block(
        Let(point, b.add(start, thread)),
        Let(mine, none, mutable=True),
        Let(is_last, b.const(False, BOOL), mutable=True),
        If(b.compare("<", point, linked.count), look),
        Assign(Elem(met, (thread,), Scalar(INT32)), b.cast(mine, Scalar(INT32))),
        If(is_met, b.block(extreme(lowest, "min", rank), extreme(highest, "max", held(point)))),
        b.do("tc_barrier"),
        If(is_met, link),
        b.do("tc_barrier"),
        If(is_last, Assign(of_row(last), held(point))),
    )
    arrays = [Array(name, kind, (width,), space="shared") for name in (lowest, highest, last)]
    begin = [
        Assign(Elem(name, (at,), kind), held(value))
        for name, value in ((lowest, _THREADS), (highest, -1), (last, -1))
    ]
    body = b.block(
        arrays,
        Array(met, Scalar(INT32), (_THREADS,), space="shared"),
        Let(thread, b.cast(Call("tc_thread", (), Scalar(INT32)), I64)),
        Let(low, b.mul(b.cast(Call("tc_block", (), Scalar(INT32)), I64), width)),
        b.loop(at, thread, width, begin, step=_THREADS),
        b.do("tc_barrier"),
        b.loop(start, 0, linked.count, batch, step=_THREADS),
    )
    # points outside a target without rows are faults too, so there is always a block
    blocks = b.max64(1, b.ceil_div(linked.rows, width))
    scratch = (linked.skips, linked.firsts)
    return kernel(ctx, "links", body, blocks=blocks, threads=_THREADS, scratch=scratch)


def _end(linked: Linked, point: Expr, is_first: Expr) -> Stmt:
    """Return the stores that make a point the last of its chain."""
    skip = b.load(linked.skips, point)
    assert isinstance(skip, Load)
    return b.block(
        Assign(b.load(linked.firsts, point), is_first),
        Assign(skip, b.cast(linked.count, b.type_of(skip))),
    )
