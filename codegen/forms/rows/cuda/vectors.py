"""Which accesses of a row program can be copies of several elements.

The lanes of a row take pieces of `width` neighbours in turn. An operand that walks the innermost
loop in unit steps is copied a piece at a time, 4, 8 or 16 bytes, if sizes and strides keep all its
pieces aligned; only where the operand begins is asked at run time. Unaligned, the same points are
the same lane's, element by element: the order of sums does not depend on addresses.
"""

from __future__ import annotations

from collections.abc import Iterable

from tcdsl.codegen.forms.base.access import ONE
from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.space import Access, IterationSpace
from tcdsl.codegen.forms.rows.cuda.pieces import COPIES, address_of, are_multiples, is_multiple
from tcdsl.codegen.forms.rows.cuda.program import RowProgram, unguarded
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr
from tcdsl.grammar.types import typed

WIDTHS = (1, 2, 4, 8)


def widths(ctx: GpuContext, program: RowProgram) -> tuple[int, ...]:
    """Return the numbers of neighbours that a lane may take at once, 1 among them."""
    return tuple(w for w in WIDTHS if w == 1 or _is_legal(ctx, program, w))


def copied(ctx: GpuContext, program: RowProgram, n: int, width: int) -> frozenset[Access]:
    """Return the accesses of sweep n that are copies of width elements."""
    if width == 1:
        return frozenset()
    return frozenset(a for a in _touched(program, n) if _fits(ctx, program.space, n, a, width))


def aligned(ctx: GpuContext, program: RowProgram, width: int) -> Expr:
    """Return the condition under which all copies are aligned; temporaries always are."""
    addresses: dict[int, dict[Expr, None]] = {}
    for n in range(len(program.space.sweeps)):
        for name in sorted({a[0] for a in copied(ctx, program, n, width)}):
            if ctx.operands.position(name) is not None:
                size = ctx.operands.memory_dtype(name).size_bytes * width
                addresses.setdefault(size, {})[address_of(ctx.operands, name)] = None
    return b.all_of(*are_multiples(addresses))


def read_nodes(exprs: Iterable[typed.Expr], known: Iterable[typed.Expr]) -> list[typed.Read]:
    """Return the reads that are evaluated for exprs where some parts are known."""
    stops = set(known)
    found: dict[typed.Read, None] = {}
    for e in exprs:
        for x in unguarded(e, stops.__contains__):
            if isinstance(x, typed.Read) and x not in stops:
                found[x] = None
    return list(found)


def _touched(program: RowProgram, n: int) -> frozenset[Access]:
    """Return what a sweep may touch at every point: not what only a guard keeps inside."""
    reads = read_nodes(program.sweep_values(n), ())
    steps = program.space.aligned.sweeps[n].steps
    stored = [(s.statement.target, s.statement.subs) for s in steps if not s.folds]
    return frozenset(
        a
        for a in (*((r.tensor, r.subs) for r in reads if r.subs), *stored)
        if a in program.space.linear
    )


def _is_legal(ctx: GpuContext, program: RowProgram, width: int) -> bool:
    """Whether pieces divide all loops, and all that is stored at a point is copied."""
    found = False
    for n, loops in enumerate(program.space.sweeps):
        extent = loops[-1].extent.constant
        if not extent or extent % width:
            return False
        pieces = copied(ctx, program, n, width)
        stored = {
            (s.statement.target, s.statement.subs)
            for s in program.space.aligned.sweeps[n].steps
            if not s.folds and s.statement.target not in ctx.group.local
        }
        if not stored <= pieces:
            return False
        found |= bool(pieces)
    return found


def _fits(ctx: GpuContext, space: IterationSpace, n: int, access: Access, width: int) -> bool:
    """Whether an access is in unit steps and all its pieces are as aligned as the first."""
    linear, inner = space.linear[access], space.sweeps[n][-1].name
    if ctx.operands.memory_dtype(access[0]).size_bytes * width not in COPIES:
        return False
    others = (*(s for name, s in linear.terms if name != inner), linear.const)
    return linear.step(inner) == ONE and all(is_multiple(s, width) for s in others)
