"""The chains of a long scatter, found by ranges of rows instead of by all pairs of points.

    block (range of rows): for batches of points, one for each thread:
        lowest[row], highest[row] = first and last point of the batch that goes to a row of mine
        link:  last[row] of earlier batches -> first of this one -> ... -> last of this one

Every block looks at all points and links those of its rows. What atomics leave in shared memory
are extremes of integers: the same in any order of threads.
"""

from __future__ import annotations

from typing import Protocol

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.kernel import kernel
from tcdsl.codegen.forms.base.cuda.traffic import LAUNCH_NS
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
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
    Pointer,
    Scalar,
    Stmt,
    Var,
)
from tcdsl.codegen.loops.target import short_name
from tcdsl.grammar.types.dtypes import BOOL, INT32

_THREADS = 256  # of a block, and points of a batch
_LEAST_ROWS, _MOST_ROWS = 32, 1024  # of a range: three words each in shared memory
_BLOCKS = 4  # that a multiprocessor runs at a time
_BATCH_NS = 400.0  # to load a batch and come to two barriers
_MET = Scalar(INT32)


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
    return _RangeLinks(linked, rows_of_range(linked.ctx, rows)).kernel()


class _RangeLinks:
    """The text of the kernel. A thread has the point start + thread of each batch.

    mine is the row of its point, counted from the first of the range, -1 if it is another block's.
    Of each row there are lowest and highest, what the points seen so far leave there, and last, the
    last point of the batches before.
    """

    def __init__(self, linked: Linked, width: int) -> None:
        self.linked, self.width = linked, width
        local = linked.ctx.operands.local
        pointer = linked.skips.type
        assert isinstance(pointer, Pointer)
        self.kind = Scalar(pointer.dtype)  # that holds a point
        self.lowest, self.highest, self.last = map(local, ("lowest", "highest", "last"))
        self.met = local("met")  # by the threads of the block: their mine
        self.thread, self.start, self.point = (
            b.i64(local(n)) for n in ("thread", "start", "point")
        )
        self.low, self.mine = b.i64(local("low")), b.i64(local("mine"))
        self.is_last = Var(local("is_last"), Scalar(BOOL))

    def kernel(self) -> tuple[Function, Launch]:
        """Return the kernel: every block goes through all batches."""
        linked, width = self.linked, self.width
        at = b.i64(linked.ctx.operands.local("at"))
        begin = [
            Assign(Elem(name, (at,), self.kind), self._held(b.c64(value)))
            for name, value in ((self.lowest, _THREADS), (self.highest, -1), (self.last, -1))
        ]
        body = b.block(
            *(
                Array(name, self.kind, (width,), space="shared")
                for name in (self.lowest, self.highest, self.last)
            ),
            Array(self.met, _MET, (_THREADS,), space="shared"),
            Let(self.thread, b.cast(Call("tc_thread", (), b.INT), I64)),
            Let(self.low, b.mul(b.cast(Call("tc_block", (), b.INT), I64), width)),
            b.loop(at, self.thread, width, begin, step=_THREADS),
            b.do("tc_barrier"),
            b.loop(self.start, 0, linked.count, self._batch(), step=_THREADS),
        )
        # points outside a target without rows are faults too, so there is always a block
        blocks = b.max64(1, b.ceil_div(linked.rows, width))
        scratch = (linked.skips, linked.firsts)
        return kernel(linked.ctx, "links", body, blocks=blocks, threads=_THREADS, scratch=scratch)

    def _batch(self) -> Stmt:
        """Return what a block does with a batch: look, meet, link; then the next may begin."""
        point, mine = self.point, self.mine
        is_met = b.compare(">=", mine, 0)
        # a point less its batch's start: lower in every later batch, so nothing has to be reset
        rank = self._held(b.sub(self.thread, self.start))
        meet = b.block(
            self._extreme(self.lowest, "min", rank),
            self._extreme(self.highest, "max", self._held(point)),
        )
        return b.block(
            Let(point, b.add(self.start, self.thread)),
            Let(mine, b.c64(-1), mutable=True),
            Let(self.is_last, b.const(False, BOOL), mutable=True),
            If(b.compare("<", point, self.linked.count), self._look()),
            Assign(Elem(self.met, (self.thread,), _MET), b.cast(mine, _MET)),
            If(is_met, meet),
            b.do("tc_barrier"),
            If(is_met, self._link()),
            b.do("tc_barrier"),
            If(self.is_last, Assign(self._of_row(self.last), self._held(point))),
        )

    def _look(self) -> Stmt:
        """Return the look at a point: is its row one of the range."""
        row = b.i64(self.linked.ctx.operands.local("row"))
        locate, found = self.linked.row(self.point)
        stop = b.add(self.low, self.width)
        is_lone = b.all_of(b.compare("<", row, 0), b.compare("==", self.low, 0))
        return b.block(
            locate,
            Let(row, found),
            # outside the target: a chain of its own, which ends in a fault
            If(is_lone, b.block(self._first(is_first=True), self._skip(self.linked.count))),
            If(
                b.all_of(b.compare(">=", row, self.low), b.compare("<", row, stop)),
                Assign(self.mine, b.sub(row, self.low)),
            ),
        )

    def _link(self) -> Stmt:
        """Return the links of a point to the one before it, of earlier batches, and after it."""
        is_first = b.compare(
            "==", b.cast(self._of_row(self.lowest), I64), b.sub(self.thread, self.start)
        )
        is_last = b.compare("==", b.cast(self._of_row(self.highest), I64), self.point)
        return b.block(
            Assign(self.is_last, is_last),
            If(is_first, self._after_last(), self._first(is_first=False)),
            If(self.is_last, self._skip(self.linked.count), self._to_following()),
        )

    def _after_last(self) -> Stmt:
        """Return the link from the last point of the batches before; without one this is first."""
        before = b.i64(self.linked.ctx.operands.local("before"))
        skip = self._held(b.sub(self.point, before))
        return b.block(
            Let(before, b.cast(self._of_row(self.last), I64)),
            If(
                b.compare("<", before, 0),
                self._first(is_first=True),
                b.block(
                    self._first(is_first=False),
                    Assign(b.load(self.linked.skips, before), skip),
                ),
            ),
        )

    def _to_following(self) -> Stmt:
        """Return the link to the next point of the batch, which there is."""
        local = self.linked.ctx.operands.local
        other, following = b.i64(local("other")), b.i64(local("following"))
        same = b.compare("==", b.cast(Elem(self.met, (other,), _MET), I64), self.mine)
        found = b.all_of(b.compare("<", following, 0), same)
        return b.block(
            Let(following, b.c64(-1), mutable=True),
            b.loop(
                other,
                b.add(self.thread, 1),
                _THREADS,
                If(found, Assign(following, b.sub(other, self.thread))),
            ),
            self._skip(following),
        )

    # ---- memory

    def _held(self, value: Expr) -> Expr:
        return b.cast(value, self.kind)

    def _of_row(self, name: str) -> Elem:
        return Elem(name, (self.mine,), self.kind)

    def _extreme(self, name: str, op: str, value: Expr) -> Stmt:
        place = Address(self._of_row(name), Pointer(self.kind.dtype, space="shared"))
        return b.do(f"tc_atomic_{op}_{short_name(self.kind.dtype)}", place, value)

    def _first(self, *, is_first: bool) -> Stmt:
        return Assign(b.load(self.linked.firsts, self.point), b.const(is_first, BOOL))

    def _skip(self, ahead: Expr) -> Stmt:
        return Assign(b.load(self.linked.skips, self.point), self._held(ahead))
