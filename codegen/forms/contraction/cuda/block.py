"""What a block of threads computes of a contraction: its tile, its part of the sum, its stores.

Blocks are numbered part by part of the sum, batch by batch, and in a batch along stripes of a few
tiles' height, so that blocks which run together share tiles of both factors in the cache.
"""

from __future__ import annotations

from collections.abc import Callable

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.contraction.cuda.address import place_of, role_extent
from tcdsl.codegen.forms.contraction.cuda.finish import finish, indices_at, partial_place, role_var
from tcdsl.codegen.forms.contraction.cuda.problem import Contraction, Side
from tcdsl.codegen.forms.contraction.cuda.tiling import WHOLE, BlockTiling
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import I64, Comment, Elem, Expr, Let, Pointer, Scalar, Stmt, Var
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT32


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """Where a block stands: variables, and the declarations that give them values."""

    declarations: tuple[Stmt, ...]
    thread: Var
    batch: Var
    part: Var
    m0: Var
    n0: Var
    k_low: Expr
    k_high: Expr


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of a thread: rows x columns of them, where each lies in the tile, what holds it."""

    rows: int
    columns: int
    row: Callable[[Expr], Expr]
    column: Callable[[Expr], Expr]
    element: Callable[[Expr, Expr], Elem]


def block_count(ctx: GpuContext, x: Contraction, t: BlockTiling) -> Expr:
    """Return the blocks of a grid."""
    outer, ms, ns, _ = (role_extent(ctx, g) for g in x.roles())
    return b.mul(outer, b.ceil_div(ms, t.bm), b.ceil_div(ns, t.bn), t.splits)


def place(ctx: GpuContext, x: Contraction, t: BlockTiling) -> BlockPlace:
    """Return where a block stands, by its number."""
    ops = ctx.operands
    outer, ms, ns, ks = (role_extent(ctx, g) for g in x.roles())
    names = ("block", "thread", "part", "batch", "m0", "n0", "k_low", "k_high")
    block, thread, part, batch, m0, n0, k_low, k_high = (b.i64(ops.local(name)) for name in names)
    lets: list[Stmt] = [
        Let(block, _builtin("tc_block")),
        Let(thread, _builtin("tc_thread")),
    ]

    def named(name: str, value: Expr) -> Expr:
        """Return a value that is used again, as a variable unless it is known."""
        if b.value_of(value) is not None:
            return value
        v = b.i64(ops.local(name))
        lets.append(Let(v, value))
        return v

    rows = named("tile_rows", b.ceil_div(ms, t.bm))
    columns = named("tile_columns", b.ceil_div(ns, t.bn))
    rest: Expr = block
    low: Expr = b.c64(0)
    high = ks
    if t.splits > 1:
        tiles = named("tiles", b.mul(outer, rows, columns))
        depth = named("depth", b.mul(b.ceil_div(b.ceil_div(ks, t.bk), t.splits), t.bk))
        lets += [
            Let(part, b.div(block, tiles)),
            Let(k_low, b.min64(b.mul(part, depth), ks)),
            Let(k_high, b.min64(b.add(k_low, depth), ks)),
        ]
        low, high = k_low, k_high
        rest = b.mod(block, tiles)
    if x.outer:
        lets.append(Let(batch, b.div(rest, b.mul(rows, columns))))
        rest = b.mod(rest, b.mul(rows, columns))
    tile = block
    if rest != block:
        tile = b.i64(ops.local("tile"))
        lets.append(Let(tile, rest))
    lets += _raster(ctx, t, tile, rows, columns, m0, n0)
    return BlockPlace(tuple(lets), thread, batch, part, m0, n0, low, high)


def _builtin(name: str) -> Expr:
    return b.cast(b.call(name, type=Scalar(INT32)), I64)


def _raster(
    ctx: GpuContext, t: BlockTiling, tile: Var, rows: Expr, columns: Expr, m0: Var, n0: Var
) -> list[Stmt]:
    """Declare the first row and column of a tile: down a few rows of tiles, then to the right."""
    if t.raster == 1 or b.value_of(rows) == 1:
        return [
            Let(m0, b.mul(_below(b.div(tile, columns), rows), t.bm)),
            Let(n0, b.mul(b.mod(tile, columns), t.bn)),
        ]
    ops = ctx.operands
    first = b.i64(ops.local("first"))
    known = b.value_of(rows)
    height: Expr = b.c64(t.raster)
    lets: list[Stmt] = []
    if known is None or known % t.raster:
        height = b.i64(ops.local("height"))
        lets.append(Let(height, b.min64(b.sub(rows, first), t.raster)))
    inside = b.mod(tile, b.mul(columns, t.raster))
    return [
        Let(first, b.mul(b.div(tile, b.mul(columns, t.raster)), t.raster)),
        *lets,
        Let(m0, b.mul(_below(b.add(first, b.mod(inside, height)), rows), t.bm)),
        Let(n0, b.mul(_below(b.div(inside, height), columns), t.bn)),
    ]


def _below(index: Expr, count: Expr) -> Expr:
    """Return an index that is below count, so that this shows: then 32 bits are enough for it."""
    return index if b.value_of(count) is not None else b.min64(index, b.sub(count, 1))


def source_var(ctx: GpuContext, x: Contraction, side: Side, name: str) -> Expr:
    """Return the pointer that a factor of this batch is reached by."""
    pointer = ctx.operands.pointer(side.operand.buffer)
    moved = side.operand.offset.terms or any(side.operand.uses(i.name) for i in x.outer)
    if not moved:
        return pointer
    return Var(ctx.operands.local(name), Pointer(side.stored, const=True))


def source(ctx: GpuContext, x: Contraction, at: BlockPlace, side: Side, name: str) -> list[Stmt]:
    """Declare where a factor of this batch begins, if that is not where its tensor begins."""
    v = source_var(ctx, x, side, name)
    pointer = ctx.operands.pointer(side.operand.buffer)
    if v == pointer or not isinstance(v, Var):
        return []
    first = b.add(
        ctx.operands.size(side.operand.offset),
        place_of(ctx, side.operand, x.outer, at.batch),
    )
    return [Let(v, b.offset(pointer, first))]


def pipeline(
    ctx: GpuContext,
    t: BlockTiling,
    at: BlockPlace,
    copies: Callable[[Expr, Expr], list[Stmt]],
    products: Callable[[Expr, Expr], Stmt],
) -> list[Stmt]:
    """Return the loop over tiles, of which the next ones are on their way while one is used.

    Every turn commits one group of copies, an empty one at the end, so that waiting for all but
    the latest `stages - 2` groups is waiting for the tile of the turn.

    Parameters
    ----------
    copies, products
        Of a stage, and of the first k of what it holds.
    """
    ops = ctx.operands
    k0, stage = b.i64(ops.local("k0")), b.i64(ops.local("stage"))
    ahead = t.stages - 1

    def issue(to: Expr, start: Expr) -> list[Stmt]:
        inside = b.compare("<", start, at.k_high)
        return [b.when(inside, copies(to, start)), b.do("tc_copy_commit")]

    first = [s for i in range(ahead) for s in issue(b.c64(i), b.add(at.k_low, i * t.bk))]
    return [
        Comment("the first tiles"),
        *first,
        b.loop(
            k0,
            at.k_low,
            at.k_high,
            Let(stage, b.mod(b.div(b.sub(k0, at.k_low), t.bk), t.stages)),
            b.do("tc_copy_wait", b.const(t.stages - 2, INT32)),
            b.do("tc_barrier"),
            issue(b.mod(b.add(stage, ahead), t.stages), b.add(k0, ahead * t.bk)),
            products(stage, k0),
            step=t.bk,
        ),
        b.do("tc_copy_wait", b.const(0, INT32)),
    ]


def stores(
    ctx: GpuContext, x: Contraction, t: BlockTiling, at: BlockPlace, sums: Sums, partial: Var | None
) -> Stmt:
    """Return what each thread does with its sums: it leaves them in partial, if that is given."""
    ops = ctx.operands
    i, j = b.i64(ops.local("i")), b.i64(ops.local("j"))
    m, n = role_var(ctx, x.m, "m"), role_var(ctx, x.n, "n")
    _, ms, ns, _ = (role_extent(ctx, g) for g in x.roles())
    total = sums.element(i, j)
    before: list[Stmt] = []
    if partial is not None:
        batch = at.batch if x.outer else b.c64(0)
        row: list[Stmt] = []
        column: Stmt = b.assign(partial_place(ctx, x, partial, at.part, batch, m, n), total)
    else:
        before, outer_at = indices_at(ctx, x.outer, at.batch)
        row, row_at = indices_at(ctx, x.m, m)
        lets, column_at = indices_at(ctx, x.n, n)
        column = b.block(lets, finish(ctx, x, total, outer_at | row_at | column_at))
    column = b.block(Let(n, b.add(at.n0, sums.column(j))), b.when(_inside(n, ns, t.bn), column))
    along = b.loop(j, 0, sums.columns, column, mark=WHOLE)
    return b.block(
        before,
        Comment("the finished sums"),
        b.loop(
            i,
            0,
            sums.rows,
            Let(m, b.add(at.m0, sums.row(i))),
            b.when(_inside(m, ms, t.bm), row, along),
            mark=WHOLE,
        ),
    )


def _inside(v: Var, extent: Expr, width: int) -> Expr:
    known = b.value_of(extent)
    return b.all_of() if known is not None and known % width == 0 else b.compare("<", v, extent)
