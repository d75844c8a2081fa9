"""The kernel of a contraction: tiles of both factors in shared memory, sums in registers.

    block: a bm x bn tile of the output;  thread: tm x tn sums of it
    for k0: load the next tiles into registers
            for k in the tile: fragments from shared memory, tm x tn products
            store the next tiles to the other stage; barrier
    finish each sum

Zeros stand for elements outside the factors, so that only stores are masked; where zeros would
change the result, steps beyond the last are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcdsl.codegen import build as b
from tcdsl.codegen.loopir import (
    I64,
    Array,
    Elem,
    Expr,
    Function,
    Launch,
    Let,
    Pointer,
    Scalar,
    Stmt,
    Var,
)
from tcdsl.codegen.lower.context import GpuContext
from tcdsl.codegen.lower.cuda.contraction_finish import (
    finish,
    indices_at,
    partial_place,
    role_var,
)
from tcdsl.codegen.lower.cuda.contraction_problem import A, B, Contraction, Group, Side, role_extent
from tcdsl.codegen.lower.cuda.contraction_schedule import Tiling
from tcdsl.codegen.lower.cuda.contraction_tile import WHOLE, Tile, place_of, position
from tcdsl.codegen.lower.cuda.kernel import KernelValues, kernel
from tcdsl.codegen.lower.expr import combine, identity
from tcdsl.codegen.lower.rows_space import size_expr
from tcdsl.grammar.dtypes import INT32


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block and a thread stand: variables, and the declarations that give them values."""

    declarations: tuple[Stmt, ...]
    batch: Var
    m0: Var
    n0: Var
    part: Var
    k_low: Expr
    k_high: Expr
    thread: Var
    row: Var  # of the thread among those along m
    column: Var


def main_kernel(
    ctx: GpuContext, x: Contraction, t: Tiling, min_blocks: int, partial: Var | None
) -> tuple[Function, Launch]:
    """Return the kernel; it leaves parts of sums in partial, if that is given."""
    ops = ctx.operands
    at = _place(ctx, x, t)
    a, o = (_tile(ctx, x, t, at, side, name) for side, name in ((x.a, "a"), (x.b, "b")))
    acc = ops.local("acc")
    stmts: list[Stmt] = [
        *at.declarations,
        *_source(ctx, x, at, x.a, "a"),
        *_source(ctx, x, at, x.b, "b"),
        a.declaration(),
        o.declaration(),
        *_zeroed(ctx, x, t, acc),
        a.fragment(t.tm),
        o.fragment(t.tn),
    ]
    sum_up = _through_registers if t.stages == 2 else _by_copies
    stmts += sum_up(ctx, x, t, at, a, o, acc)
    stmts.append(_stores(ctx, x, t, at, acc, partial))
    outer, ms, ns, _ = (role_extent(ctx, g) for g in x.roles())
    blocks = b.mul(outer, b.ceil_div(ms, t.bm), b.ceil_div(ns, t.bn), t.splits)
    return kernel(
        ctx,
        "contract",
        b.block(stmts),
        blocks=blocks,
        threads=t.threads,
        min_blocks=min_blocks,
        scratch=[] if partial is None else [partial],
    )


# ---- who computes what


def _place(ctx: GpuContext, x: Contraction, t: Tiling) -> Place:
    ops = ctx.operands
    outer, ms, ns, ks = (role_extent(ctx, g) for g in x.roles())
    names = ("block", "thread", "part", "batch", "m0", "n0", "k_low", "k_high", "row", "column")
    block, thread, part, batch, m0, n0, k_low, k_high, row, column = (
        b.i64(ops.local(name)) for name in names
    )
    rows, columns = b.ceil_div(ms, t.bm), b.ceil_div(ns, t.bn)
    tiles = b.mul(rows, columns)
    lets: list[Stmt] = [
        Let(block, _builtin("tc_block")),
        Let(thread, _builtin("tc_thread")),
    ]
    rest: Expr = block
    low: Expr = b.c64(0)
    high = ks
    if t.splits > 1:
        all_tiles = b.mul(outer, tiles)
        depth = b.mul(b.ceil_div(b.ceil_div(ks, t.bk), t.splits), t.bk)
        lets += [
            Let(part, b.div(block, all_tiles)),
            Let(k_low, b.mul(part, depth)),
            Let(k_high, b.min64(b.add(k_low, depth), ks)),
        ]
        low, high = k_low, k_high
        rest = b.mod(block, all_tiles)
    if x.outer:
        lets.append(Let(batch, b.div(rest, tiles)))
        rest = b.mod(rest, tiles)
    tile = block
    if rest != block:
        tile = b.i64(ops.local("tile"))
        lets.append(Let(tile, rest))
    lets += _raster(ctx, t, tile, rows, columns, m0, n0)
    along_n = t.bn // t.tn
    fits = [n for n in (8, 4, 2, 1, 16, 32) if along_n % n == 0 and (t.bm // t.tm) % (32 // n) == 0]
    lanes_n = next(iter(fits), 0)
    if lanes_n:
        # a warp is a block of 4 x 8 threads: that takes the fewest different fragments
        lane, warp = b.mod(thread, 32), b.div(thread, 32)
        across = along_n // lanes_n
        y = b.add(b.mul(b.div(warp, across), 32 // lanes_n), b.div(lane, lanes_n))
        z = b.add(b.mul(b.mod(warp, across), lanes_n), b.mod(lane, lanes_n))
    else:
        y, z = b.div(thread, along_n), b.mod(thread, along_n)
    lets += [Let(row, y), Let(column, z)]
    return Place(tuple(lets), batch, m0, n0, part, low, high, thread, row, column)


def _builtin(name: str) -> Expr:
    return b.cast(b.call(name, type=Scalar(INT32)), I64)


def _raster(
    ctx: GpuContext, t: Tiling, tile: Var, rows: Expr, columns: Expr, m0: Var, n0: Var
) -> list[Stmt]:
    """Declare the first row and column of a tile: down a few rows of tiles, then to the right."""
    if t.raster == 1 or b.value_of(rows) == 1:
        return [
            Let(m0, b.mul(b.div(tile, columns), t.bm)),
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
        Let(m0, b.mul(b.add(first, b.mod(inside, height)), t.bm)),
        Let(n0, b.mul(b.div(inside, height), t.bn)),
    ]


# ---- factors


def _source_var(ctx: GpuContext, x: Contraction, side: Side, name: str) -> Expr:
    pointer = ctx.operands.pointer(side.operand.buffer)
    moved = side.operand.offset.terms or any(side.operand.uses(i.name) for i in x.outer)
    if not moved:
        return pointer
    return Var(ctx.operands.local(name), Pointer(side.stored, const=True))


def _source(ctx: GpuContext, x: Contraction, at: Place, side: Side, name: str) -> list[Stmt]:
    """Declare where a factor of this batch begins, if that is not where its tensor begins."""
    v = _source_var(ctx, x, side, name)
    pointer = ctx.operands.pointer(side.operand.buffer)
    if v == pointer or not isinstance(v, Var):
        return []
    first = b.add(
        size_expr(ctx.operands, side.operand.offset),
        place_of(ctx, side.operand, x.outer, at.batch),
    )
    return [Let(v, b.offset(pointer, first))]


def _tile(ctx: GpuContext, x: Contraction, t: Tiling, at: Place, side: Side, name: str) -> Tile:
    is_a = side is x.a
    group: Group = x.m if is_a else x.n
    depth = b.value_of(role_extent(ctx, x.k))
    return Tile(
        ctx=ctx,
        side=side,
        name=name,
        group=group,
        x=role_var(ctx, group, "m" if is_a else "n"),
        first=at.m0 if is_a else at.n0,
        k=role_var(ctx, x.k, "k"),
        k_group=x.k,
        k_high=at.k_high,
        source=_source_var(ctx, x, side, name),
        thread=at.thread,
        width=t.bm if is_a else t.bn,
        bk=t.bk,
        stages=t.stages,
        threads=t.threads,
        padded=is_a,
        ragged_k=depth is None or bool(depth % t.bk),
    )


# ---- the sum


def _zeroed(ctx: GpuContext, x: Contraction, t: Tiling, acc: str) -> list[Stmt]:
    """Declare the sums of a thread, each at the identity of the operator."""
    first = identity(x.statement.op, x.dtype)
    array = Array(acc, Scalar(x.dtype), (t.tm, t.tn))
    i, j = b.i64(ctx.operands.local("i")), b.i64(ctx.operands.local("j"))
    place = Elem(acc, (i, j), Scalar(x.dtype))
    one = b.loop(j, 0, t.tn, b.assign(place, first), mark=WHOLE)
    return [array, b.loop(i, 0, t.tm, one, mark=WHOLE)]


def _through_registers(
    ctx: GpuContext, x: Contraction, t: Tiling, at: Place, a: Tile, o: Tile, acc: str
) -> list[Stmt]:
    """Return the loop over tiles, of which the next is in registers while one is used."""
    ops = ctx.operands
    k0, stage = b.i64(ops.local("k0")), b.i64(ops.local("stage"))
    following = b.add(k0, t.bk)
    is_more = b.compare("<", following, at.k_high)
    start = b.compare("<", at.k_low, at.k_high)
    other = b.sub(1, stage)
    first = b.c64(0)
    return [
        a.registers(),
        o.registers(),
        b.when(start, a.load(at.k_low), o.load(at.k_low), a.store(first), o.store(first)),
        b.do("tc_barrier"),
        b.loop(
            k0,
            at.k_low,
            at.k_high,
            Let(stage, b.mod(b.div(b.sub(k0, at.k_low), t.bk), 2)),
            b.when(is_more, a.load(following), o.load(following)),
            _products(ctx, x, t, at, a, o, acc, stage, k0),
            b.when(is_more, a.store(other), o.store(other)),
            b.do("tc_barrier"),
            step=t.bk,
        ),
    ]


def _by_copies(
    ctx: GpuContext, x: Contraction, t: Tiling, at: Place, a: Tile, o: Tile, acc: str
) -> list[Stmt]:
    """Return the loop over tiles, of which the next ones are on their way while one is used.

    Every turn commits one group of copies, an empty one at the end, so that waiting for all but
    the latest `stages - 2` groups is waiting for the tile of the turn.
    """
    ops = ctx.operands
    k0, stage = b.i64(ops.local("k0")), b.i64(ops.local("stage"))
    ahead = t.stages - 1

    def copies(to: Expr, start: Expr) -> list[Stmt]:
        inside = b.compare("<", start, at.k_high)
        return [b.when(inside, a.copy(to, start), o.copy(to, start)), b.do("tc_copy_commit")]

    first = [s for i in range(ahead) for s in copies(b.c64(i), b.add(at.k_low, i * t.bk))]
    return [
        *first,
        b.loop(
            k0,
            at.k_low,
            at.k_high,
            Let(stage, b.mod(b.div(b.sub(k0, at.k_low), t.bk), t.stages)),
            b.do("tc_copy_wait", b.const(t.stages - 2, INT32)),
            b.do("tc_barrier"),
            copies(b.mod(b.add(stage, ahead), t.stages), b.add(k0, ahead * t.bk)),
            _products(ctx, x, t, at, a, o, acc, stage, k0),
            step=t.bk,
        ),
        b.do("tc_copy_wait", b.const(0, INT32)),
    ]


def _products(
    ctx: GpuContext,
    x: Contraction,
    t: Tiling,
    at: Place,
    a: Tile,
    o: Tile,
    acc: str,
    stage: Expr,
    k0: Expr,
) -> Stmt:
    """Return the steps of one tile."""
    ops = ctx.operands
    k, i, j = (b.i64(ops.local(name)) for name in ("step", "i", "j"))
    sides = {A: a.own(i), B: o.own(j)}
    values = KernelValues(ops, {}, lambda r: sides.get(r.tensor))
    place = Elem(acc, (i, j), Scalar(x.dtype))
    value = values.value(x.value)
    update = b.block(values.take(), b.assign(place, combine(x.statement.op, place, value)))
    body = b.block(
        a.fetch(stage, k, at.row, t.tm),
        o.fetch(stage, k, at.column, t.tn),
        b.loop(i, 0, t.tm, b.loop(j, 0, t.tn, update, mark=WHOLE), mark=WHOLE),
    )
    if not x.is_product and a.ragged_k:
        body = b.when(b.compare("<", b.add(k0, k), at.k_high), body)
    return b.loop(k, 0, t.bk, body, mark=WHOLE)


# ---- the end


def _stores(
    ctx: GpuContext, x: Contraction, t: Tiling, at: Place, acc: str, partial: Var | None
) -> Stmt:
    """Return what each thread does with its sums."""
    ops = ctx.operands
    i, j = b.i64(ops.local("i")), b.i64(ops.local("j"))
    m, n = role_var(ctx, x.m, "m"), role_var(ctx, x.n, "n")
    _, ms, ns, _ = (role_extent(ctx, g) for g in x.roles())
    total = Elem(acc, (i, j), Scalar(x.dtype))
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
    return b.block(
        before,
        b.loop(
            i,
            0,
            t.tm,
            Let(m, b.add(at.m0, position(x.a, t.bm, t.tm, at.row, i))),
            b.when(
                _inside(m, ms, t.bm),
                row,
                b.loop(
                    j,
                    0,
                    t.tn,
                    Let(n, b.add(at.n0, position(x.b, t.bn, t.tn, at.column, j))),
                    b.when(_inside(n, ns, t.bn), column),
                    mark=WHOLE,
                ),
            ),
            mark=WHOLE,
        ),
    )


def _inside(v: Var, extent: Expr, width: int) -> Expr:
    known = b.value_of(extent)
    return b.all_of() if known is not None and known % width == 0 else b.compare("<", v, extent)
