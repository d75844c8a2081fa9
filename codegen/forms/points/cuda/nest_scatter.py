"""Sums of a scatter in the order of the text, many at once.

    H(I(b), d) += X(b, d)

One kernel finds out of each point whether it is the first that goes to its element, and how far
ahead the next one is: by comparing all pairs, or by ranges of rows (`nest_ranges.py`) where points
are many. Another has a thread for each point (and each `d`), of which those of first points follow
the chain of theirs. An element is read and stored once, whatever number of points meet in it, and
these are combined in their order.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.kernel import KernelValues
from tcdsl.codegen.forms.base.outputs import injective_in, is_injective
from tcdsl.codegen.forms.base.phase import decode
from tcdsl.codegen.forms.base.scalars import combine, narrow, widen
from tcdsl.codegen.forms.points.cuda.nest_grid import Grid, loops
from tcdsl.codegen.forms.points.cuda.nest_ranges import range_links
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Assign,
    Expr,
    For,
    Function,
    If,
    Launch,
    Let,
    Load,
    Scalar,
    Stmt,
    Var,
)
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.program.expressions import indices_of, reads_of
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types.dtypes import BOOL, INT32, INT64
from tcdsl.grammar.types.typed import Range

_INT32_MAX = 2**31 - 1


def has_chains(ctx: GpuContext, s: Statement) -> bool:
    """Whether points meet, and which ones do does not depend on the injective indices."""
    if is_injective(s) or s.op == "=" or s.is_arg:
        return False
    home = ctx.operands.buffer(s.target).home
    if any(ctx.operands.buffer(r.tensor).home == home for r in s.reads()):
        return False
    names = {r.name for r in s.outputs}
    apart = injective_in(s)
    return all((used := indices_of(e) & names) <= apart or not used & apart for e in s.subs)


def has_rows(ctx: GpuContext, s: Statement) -> bool:
    """Whether threads may look up rows before a barrier: there is nothing to check in them."""
    names = {r.name for r in s.outputs} - injective_in(s)
    keys = [e for e in s.subs if indices_of(e) & names]
    return has_chains(ctx, s) and not any(any(r.checked) for e in keys for r in reads_of(e))


def rows_of(ctx: GpuContext, s: Statement) -> int:
    """Return a representative number of rows: of elements that the meeting indices choose among."""
    names = {r.name for r in s.outputs} - injective_in(s)
    shape = ctx.operands.buffer(s.target).shape
    return prod(max(0, ctx.extent(shape[d])) for d, e in enumerate(s.subs) if indices_of(e) & names)


def chain_kernels(
    grid: Grid, s: Statement, inner: str, *, by_ranges: bool
) -> tuple[list[tuple[Function, Launch]], tuple[Expr, ...]]:
    """Return the two kernels, and the bytes of the memory they share."""
    return _Chains(grid, s, inner).kernels(by_ranges)


class _Chains:
    """The text of both kernels."""

    def __init__(self, grid: Grid, s: Statement, inner: str) -> None:
        self.grid, self.s = grid, s
        self.ctx = ctx = grid.ctx
        self.ops = ops = ctx.operands
        apart = injective_in(s)
        self.meeting = [r for r in s.outputs if r.name not in apart]
        self.injective = sorted(
            (r for r in s.outputs if r.name in apart), key=lambda r: r.name == inner
        )
        names = {r.name for r in self.meeting}
        self.key_dims = [d for d, e in enumerate(s.subs) if indices_of(e) & names]
        self.rows = b.mul(*(ops.extent(s.target, d) for d in self.key_dims))
        total = Size.const(1)
        for r in self.meeting:
            total = total * r.extent
        self.all = Range(ops.local("start"), Size.const(0), total, "output")
        self.count = ops.size(total)
        known = b.value_of(self.count)
        small = known <= _INT32_MAX if known is not None else ctx.spec.is_small
        self.skips = b.pointer(ops.local("skips"), INT32 if small else INT64, restrict=True)
        self.firsts = b.pointer(ops.local("firsts"), BOOL, restrict=True)
        self.scratch = (self.skips, self.firsts)

    def kernels(self, by_ranges: bool) -> tuple[list[tuple[Function, Launch]], tuple[Expr, ...]]:
        """Return the kernels and the bytes of skips and firsts."""
        if by_ranges:
            link = range_links(self, rows_of(self.ctx, self.s))
        else:
            link = self.grid.over("links", self.meeting, self.links(), self.scratch)
        follow = self.grid.over("chains", [self.all, *self.injective], self.chains(), self.scratch)
        width = 4 if self.skips.type == b.pointer("", INT32, restrict=True).type else 8
        return [link, follow], (b.mul(self.count, width), self.count)

    def links(self) -> Stmt:
        """Return what is found out about a point, against all points."""
        others = self.renamed("other")
        mine, own_first = self.keys(self.meeting)
        theirs, their_first = self.keys(others)
        point, other = self.grid.point, b.i64(self.ops.local("other"))
        first = Var(self.ops.local("first"), Scalar(BOOL))
        skip = b.i64(self.ops.local("skip"))
        named = [b.i64(self.ops.local(f"key{k}")) for k in range(len(mine))]
        same = b.all_of(*(b.compare("==", x, y) for x, y in zip(theirs, named, strict=True)))
        at: Expr = b.c64(0)
        for r in others:
            at = b.add(
                b.mul(at, self.ops.size(r.extent)),
                b.sub(b.i64(safe_name(r.name)), self.ops.size(r.low)),
            )
        ahead = b.all_of(b.compare(">", other, point), b.compare("==", skip, self.count))
        meet = b.block(
            Let(other, at),
            If(b.compare("<", other, point), Assign(first, b.const(False, BOOL))),
            If(ahead, Assign(skip, b.sub(other, point))),
        )
        return b.block(
            own_first,
            [Let(v, x) for v, x in zip(named, mine, strict=True)],
            Let(first, b.const(True, BOOL), mutable=True),
            Let(skip, self.count, mutable=True),
            loops(self.ctx, others, b.block(their_first, If(same, meet))),
            Assign(b.load(self.firsts, point), first),
            Assign(b.load(self.skips, point), b.cast(skip, b.load(self.skips, point).type)),
        )

    def chains(self) -> Stmt:
        """Return what a thread of a first point does: fold all that go to its element."""
        s, ops = self.s, self.ops
        start, at = b.i64(self.all.name), b.i64(ops.local("at"))
        skip = b.i64(ops.local("skip"))
        firsts = self.renamed("first")
        target = self.values(firsts)
        place = target.place(s.target, s.subs, s.subs_checked)
        assert isinstance(place, Load)
        stored = ops.memory_dtype(s.target)
        acc = b.var(ops.local("acc"), ops.buffer(s.target).dtype.computed)
        values = self.values(self.meeting)
        step = combine(s.op, acc, values.value_of(s))
        update = loops(self.ctx, s.reductions, b.block(values.take(), Assign(acc, step)))
        follow = For(
            at,
            start,
            self.count,
            b.block(
                self.indices(self.meeting, at),
                update,
                # of rows that somebody writes meanwhile the blocks of links may see different ones,
                # and leave a point out: on from there to another point, or to the end
                Assign(skip, b.max64(1, b.min64(b.cast(b.load(self.skips, at), I64), self.count))),
            ),
            skip,
        )
        fold = b.block(
            self.indices(firsts, start),
            target.take(),
            Let(acc, widen(place, stored), mutable=True),
            Let(skip, b.c64(1), mutable=True),
            follow,
            Assign(place, narrow(acc, stored)),
        )
        return If(b.load(self.firsts, start), fold)

    # ---- points

    def row(self, point: Expr) -> tuple[list[Stmt], Expr]:
        """Return the row of a point, -1 outside the target, and what finds it."""
        keys, first = self.keys(self.meeting)
        named = [b.i64(self.ops.local(f"key{k}")) for k in range(len(keys))]
        extents = [self.ops.extent(self.s.target, d) for d in self.key_dims]
        row: Expr = b.c64(0)
        inside = []
        for key, extent in zip(named, extents, strict=True):
            row = b.add(b.mul(row, extent), key)
            inside += [b.compare(">=", key, 0), b.compare("<", key, extent)]
        lets = [Let(v, x) for v, x in zip(named, keys, strict=True)]
        found = b.select(b.all_of(*inside), row, b.c64(-1))
        return [*self.indices(self.meeting, point), *first, *lets], found

    def renamed(self, stem: str) -> list[Range]:
        """Return the meeting ranges under other names."""
        return [replace(r, name=self.ops.local(f"{stem}_{r.name}")) for r in self.meeting]

    def values(self, ranges: list[Range]) -> KernelValues:
        """Return values at the indices that ranges name, which stand for the meeting ones."""
        index: dict[str, Expr] = {r.name: b.i64(safe_name(r.name)) for r in self.s.ranges}
        for r, other in zip(self.meeting, ranges, strict=True):
            index[r.name] = b.i64(safe_name(other.name))
        return KernelValues(self.ops, index, prefix=ranges[0].name)

    def keys(self, ranges: list[Range]) -> tuple[list[Expr], list[Stmt]]:
        """Return the subscripts by which points meet, and what has to run before."""
        values = self.values(ranges)
        return [values.subscript(self.s.subs[d]) for d in self.key_dims], values.take()

    def indices(self, ranges: list[Range], at: Expr) -> list[Stmt]:
        """Declare the indices of a meeting point."""
        return decode(self.ops, ranges, at)
