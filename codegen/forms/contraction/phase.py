"""The phase of a contraction: tasks are blocks of the output, each walked by micro-kernels.

A task is rows m0.. (mc of them) and columns n0.. (nc) of one outer point, or of a group of
neighbours. Per pass along k it packs what is to be packed into its thread's workspace, then walks
its register tiles: panels of b outside, rows of a inside. With constant extents everything but
pointers folds; in a size-generic phase the blocking comes from the plan. The dot method shares all
but the inner part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcdsl.codegen.forms.contraction.ahead import goes_past
from tcdsl.codegen.forms.contraction.alone import where_alone
from tcdsl.codegen.forms.contraction.block import (
    kept_panels,
    one_pass,
    only_pass,
    packer_of,
    packing,
    staying,
)
from tcdsl.codegen.forms.contraction.blocking import AHEAD, DOT, PANEL, STREAM, Blocking, Extents
from tcdsl.codegen.forms.contraction.called import Kernels, join_function, pack_function
from tcdsl.codegen.forms.contraction.dot import CHUNK, dot_rows
from tcdsl.codegen.forms.contraction.lets import Lets
from tcdsl.codegen.forms.contraction.pack import fill_table
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.ragged import Depths
from tcdsl.codegen.forms.contraction.register_tile import FIRST, LAST
from tcdsl.codegen.forms.contraction.strips import strips
from tcdsl.codegen.forms.contraction.tiles import (
    DepthPass,
    TaskBlock,
    address,
    area,
    finished,
    origin,
    origins,
    tiles,
)
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Bin,
    Expr,
    Function,
    If,
    Let,
    Return,
    Stmt,
    Var,
)
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT32, INT64


def phase(panel: Panel, g: Blocking, kernels: Kernels, prologue: list[Stmt]) -> list[Function]:
    """Return the packers that the phase may call, and the phase.

    prologue declares what g stands on.
    """
    ops, x = panel.operands, panel.extents()
    functions, head = prepared(panel, g, kernels)
    task = panel.var("task")
    where = Lets(panel.var)
    digits, first, behind_it = where.counted(task, task_digits(panel, g))
    block = decode(panel, where, g, x, digits)
    block = replace(block, stays=staying(panel, g, block, task))
    nest = b.loop(
        task,
        b.BEGIN,
        b.END,
        where.stmts,
        origins(panel, block.at) if panel.neighbours is None else None,
        work(panel, g, kernels, x, block),
        behind_it,
    )
    behind = b.when(goes_past(panel, kernels.machine), b.do("tc_stream_end"))
    tasks = where_alone(panel, g, kernels, x, b.block(first, nest))
    whole = ops.declare(b.block(prologue, head, tasks, behind))
    name = f"{panel.prefix}_panel"
    functions.append(b.phase_function(name, b.block(whole, Return(b.const(0, INT32)))))
    return functions


def prepared(panel: Panel, g: Blocking, kernels: Kernels) -> tuple[list[Function], list[Stmt]]:
    """Return the functions that a walk over blocks may call, and what it declares before."""
    p, ops = panel.problem, panel.operands
    x = panel.extents()
    head: list[Stmt] = _tables(panel, g)
    functions: list[Function] = []
    for name, operand, along, flag in (("a", p.a, p.m, g.pack_a), ("b", p.b, p.n, g.pack_b)):
        if b.value_of(flag) != 0:
            functions.append(pack_function(panel, name, packer_of(panel, operand, along)))
            if name == "a" or b.value_of(g.pack_b) != AHEAD:
                may_be_kept = name == "b" and panel.kept is not None
                head.append(panel.area(g, f"packed_{name}", panel.packed, mutable=may_be_kept))
    may_be = {PANEL, DOT, STREAM} if b.value_of(g.method) is None else {b.value_of(g.method)}
    if x.dots and DOT in may_be:
        functions += kernels.dot_functions(g)
    if x.streams and STREAM in may_be:
        functions += kernels.stream_functions(g)
        head.append(panel.area(g, "sums", panel.dtype))
    if panel.waits:
        head.append(panel.area(g, "stage", panel.dtype))
    if panel.is_near(p.c):
        functions.append(join_function(panel))
    head += panel.finish.declared(lambda v: Var(ops.local(v.name), v.type))
    return functions, head


def packing_ahead(panel: Panel, g: Blocking, parts: Expr, prologue: list[Stmt]) -> Function:
    """Return the phase that packs all of b once: tasks are parts of blocks of columns.

    prologue declares what g and parts stand on.
    """
    p, ops, x = panel.problem, panel.operands, panel.extents()
    g = replace(g, pack_b=b.c64(AHEAD))  # else it has no tasks
    task, k0 = panel.var("task"), panel.var("k0")
    columns_at, passes = Lets(panel.var), Lets(panel.var)
    counts = [("at_part", parts), ("at_block", g.nt)]
    part, number = columns_at.digits(task, counts, lambda _: "rest")
    n0 = columns_at.let("n0", b.mul(number, g.nc))
    columns = columns_at.let("block_columns", _least(g.nt, g.nc, b.sub(x.n, n0)))
    width = b.mul(g.nv, panel.lanes)
    each = b.mul(b.ceil_div(b.ceil_div(g.nc, width), parts), width)
    first = columns_at.let("first", b.min64(b.mul(part, each), columns))
    own = columns_at.let("part_columns", _least(parts, each, b.sub(columns, first)))
    none = b.c64(0)
    block = TaskBlock({}, b.c64(1), none, n0, none, columns, none)
    depth = passes.let("depth", b.min64(g.kc, b.sub(x.k, k0)))
    body = b.block(
        Let(area(panel, "packed_b"), kept_panels(panel, block, k0, b.mul(first, depth))),
        packing(
            panel,
            "b",
            g,
            replace(block, n0=b.add(n0, first), columns=own),
            DepthPass(k0, depth, none),
        ),
    )
    nest = b.loop(
        task,
        b.BEGIN,
        b.END,
        columns_at.stmts,
        b.loop(k0, 0, x.k, passes.stmts, body, step=g.kc),
    )
    source = Let(origin(panel, "b", p.b), address(panel, p.b, {}))
    whole = ops.declare(b.block(prologue, _tables(panel, g), source, nest))
    name = f"{panel.prefix}_packing"
    return b.phase_function(name, b.block(whole, Return(b.const(0, INT32))))


def task_digits(panel: Panel, g: Blocking) -> list[tuple[str, Expr]]:
    """Return names and counts of what a task's number stands for: row, column, outer point."""
    near = panel.neighbours
    # no index of a program is named like the first two
    counts = [("row block", g.mt), ("column block", g.nt)]
    for i in reversed(panel.problem.outer):
        extent = panel.size(i.extent)
        counts.append((i.name, b.ceil_div(extent, panel.lanes) if i == near else extent))
    return [(f"at_{name.replace(' ', '_')}", count) for name, count in counts]


def decode(panel: Panel, where: Lets, g: Blocking, x: Extents, digits: Sequence[Expr]) -> TaskBlock:
    """Return the block of a task, whose digits are given."""
    near = panel.neighbours
    row_block, column_block, *at = digits
    points = dict(zip((i.name for i in reversed(panel.problem.outer)), at, strict=True))
    m0 = where.let("m0", b.mul(row_block, g.mc))
    n0 = where.let("n0", b.mul(column_block, g.nc))
    rows = where.let("block_rows", _least(g.mt, g.mc, b.sub(x.m, m0)))
    columns = where.let("block_columns", _least(g.nt, g.nc, b.sub(x.n, n0)))
    batches: Expr = b.c64(1)
    if near is not None:
        first = where.let("first", b.mul(points[near.name], panel.lanes))
        points[near.name] = first
        left = b.sub(panel.size(near.extent), first)
        batches = where.let("batches", b.min64(panel.lanes, left))
    return TaskBlock(points, batches, m0, n0, rows, columns, b.c64(0))


def _least(count: Expr, size: Expr, left: Expr) -> Expr:
    """Return the size of a block, or what is left for the last one of count."""
    return left if b.value_of(count) == 1 else b.min64(size, left)


def _tables(panel: Panel, g: Blocking) -> list[Stmt]:
    """Return the declaration and filling of the offset tables."""
    out: list[Stmt] = []
    for v, x, fused in panel.tables():
        out.append(panel.area(g, v.name, INT64))
        extents = tuple(panel.size(i.extent) for i in fused)
        strides = tuple(panel.size(x.stride(i.name)) for i in fused)
        out.append(fill_table(v, extents, strides))
    return out


def work(panel: Panel, g: Blocking, kernels: Kernels, x: Extents, block: TaskBlock) -> Stmt:
    """Return what is done for a block: that of a task."""
    method = b.value_of(g.method)
    if method == PANEL:
        return _passes(panel, g, kernels, x, block)
    if method is not None:
        return (_dots if method == DOT else strips)(panel, g, kernels, x, block)
    work = _passes(panel, g, kernels, x, block)
    if x.streams:
        work = If(b.compare("==", g.method, STREAM), strips(panel, g, kernels, x, block), work)
    if x.dots:
        work = If(b.compare("==", g.method, DOT), _dots(panel, g, kernels, x, block), work)
    return work


def _dots(panel: Panel, g: Blocking, kernels: Kernels, x: Extents, block: TaskBlock) -> Stmt:
    """Return the dot method of a block, and the epilogue on its sums."""
    p, swap = panel.problem, kernels.dots_swap
    head: Stmt | None = None
    b_row = panel.stride(p.b, p.n)
    assert b_row is not None, "checked by extents"
    from_b = b.offset(origin(panel, "b", p.b), b.mul(block.n0, b_row))
    if panel.turns:
        all_k = DepthPass(b.c64(0), x.k, b.c64(LAST))
        turned = replace(g, pack_b=b.c64(1))
        head = packing(panel, "b", turned, block, all_k, width=b.c64(1))
        from_b, b_row = area(panel, "packed_b"), x.k
    columns = _Side(x.n, from_b, b_row, _known(panel.stride(p.c, p.n)), block.columns)
    a_row = _known(panel.stride(p.a, p.m))
    from_a = b.offset(origin(panel, "a", p.a), b.mul(block.m0, a_row))
    rows = _Side(x.m, from_a, a_row, _known(panel.stride(p.c, p.m)), block.rows)
    to = b.add(b.mul(block.m0, rows.out), b.mul(block.n0, columns.out))
    at = b.offset(origin(panel, "c", p.c), to)

    def walk(few: _Side, many: _Side) -> Stmt:
        return _walk(panel, g, kernels, few, many, at, x.k)

    sums: Stmt
    if swap is None:
        sums = If(b.compare("<", x.n, x.m), walk(columns, rows), walk(rows, columns))
    else:
        sums = walk(columns, rows) if swap else walk(rows, columns)
    if panel.finish.is_plain:
        return b.block(head, sums)
    if not panel.fuses:
        return b.block(head, sums, finished(panel, g, block))
    done = DepthPass(b.c64(0), b.c64(0), b.c64(LAST))
    stays = replace(g, pack_a=b.c64(0), pack_b=b.c64(0))
    return b.block(head, sums, tiles(panel, stays, kernels, block, done))


@dataclass(frozen=True, slots=True)
class _Side:
    """Rows or columns of a product as lines along k: extent of all, those of a block.

    first: the block's first line. stride: of lines, out: of their sums in the output.
    """

    extent: Expr
    first: Expr
    stride: Expr
    out: Expr
    count: Expr


def _known(stride: Expr | None) -> Expr:
    assert stride is not None, "lines of a product by dots fuse"
    return stride


def _walk(
    panel: Panel, g: Blocking, kernels: Kernels, few: _Side, many: _Side, to: Expr, k: Expr
) -> Stmt:
    """Return the dot products of a block: some of many, each with all of few, before the next."""
    i, j = panel.var("i"), panel.var("j")
    outside, inside = Lets(panel.var), Lets(panel.var)
    columns = outside.let("columns", b.min64(CHUNK, b.sub(many.count, j)))
    most = outside.let("most_rows", dot_rows(kernels.machine, few.extent))
    rows = inside.let("rows", b.min64(most, b.sub(few.count, i)))
    args = (
        b.offset(few.first, b.mul(i, few.stride)),
        few.stride,
        b.offset(many.first, b.mul(j, many.stride)),
        many.stride,
        b.offset(to, b.add(b.mul(i, few.out), b.mul(j, many.out))),
        few.out,
        many.out,
        k,
        columns,
    )
    return b.loop(
        j,
        0,
        many.count,
        outside.stmts,
        b.loop(i, 0, few.count, inside.stmts, kernels.run_dots(g, rows, args), step=most),
        step=CHUNK,
    )


def _ragged_passes(panel: Panel, g: Blocking, kernels: Kernels, block: TaskBlock) -> Stmt:
    """Return the passes along the values of k that some row of a task has."""
    head, low, high = Depths(panel, block.at).hull(block.m0, block.rows)
    k0 = panel.var("k0")
    where = Lets(panel.var)
    deep = where.let("depth", b.min64(g.kc, b.sub(high, k0)))
    last = b.select(b.compare(">=", b.add(k0, deep), high), b.c64(LAST), b.c64(0))
    first = b.select(b.compare("==", k0, low), b.c64(FIRST), b.c64(0))
    flags = where.let("flags", last if panel.resumes else Bin("|", first, last, I64))
    body = one_pass(panel, g, kernels, block, DepthPass(k0, deep, flags))
    return b.block(head, b.loop(k0, low, b.max64(high, 1), where.stmts, body, step=g.kc))


def _passes(panel: Panel, g: Blocking, kernels: Kernels, x: Extents, block: TaskBlock) -> Stmt:
    """Return the passes along k of a task: pack, then walk the register tiles."""
    k, depth = b.value_of(x.k), b.value_of(g.kc)
    if panel.problem.statement.is_ragged:
        return _ragged_passes(panel, g, kernels, block)
    if k is not None and depth is not None and depth >= k:
        return one_pass(panel, g, kernels, block, only_pass(panel, x))
    k0 = panel.var("k0")
    where = Lets(panel.var)
    deep = where.let("depth", b.min64(g.kc, b.sub(x.k, k0)))
    is_last, is_first = b.compare(">=", b.add(k0, deep), x.k), b.compare("==", k0, 0)
    if panel.base is not None:  # from which a pass goes on that is the only one
        is_first = b.all_of(is_first, b.compare("<", b.add(k0, deep), x.k))
    last = b.select(is_last, b.c64(LAST), b.c64(0))
    first = b.select(is_first, b.c64(FIRST), b.c64(0))
    bits = last if panel.resumes else Bin("|", first, last, I64)
    body = one_pass(panel, g, kernels, block, DepthPass(k0, deep, where.let("flags", bits)))
    # without any k the sum is zero, and is stored: there is always one pass
    return b.loop(k0, 0, b.max64(x.k, 1), where.stmts, body, step=g.kc)
