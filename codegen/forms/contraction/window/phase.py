"""The phase of a convolution: a task packs a block of the weights and walks lines under it.

There may be several convolutions that write the elements of one output in turns (its residues):
they go along the lines together, so that a line of the output is fetched once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tcdsl.codegen.forms.contraction.lets import Lets
from tcdsl.codegen.forms.contraction.problem import ONE, extent_of, known
from tcdsl.codegen.forms.contraction.window.nest import WindowNest
from tcdsl.codegen.forms.contraction.window.problem import WindowSide
from tcdsl.codegen.forms.contraction.window.reach import (
    Point,
    digits,
    place_of,
    reach,
    row_of,
    stores,
)
from tcdsl.codegen.forms.contraction.window.schedule import (
    ColumnBlocks,
    Strip,
    blocks,
    depth,
    line_extents,
    strips,
)
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Call,
    Elem,
    Eval,
    Expr,
    Function,
    If,
    Let,
    Return,
    Stmt,
    Table,
)
from tcdsl.grammar.types.dtypes import INT32


def phase(nests: Sequence[WindowNest]) -> tuple[list[Function], list[Table]]:
    """Return the functions, the phase last, and the tables."""
    lead = nests[0]
    head: list[Stmt] = []
    if lead.choice.is_planned:
        head.append(Let(lead.var("chunks"), b.plan_param(lead.param)))
    task = _task(nests)  # names the micro-kernels
    functions: list[Function] = []
    tables: list[Table] = []
    for nest in nests:
        head += nest.head()
        functions.append(nest.pack)
        functions += (spec.function(name) for spec, name in nest.kernels.items())
        functions.append(nest.store.function(nest.name("store")))
        tables += (t for side in nest.conv.sides for t in nest.tap_tables(side))
    body = b.block(head, b.loop(lead.var("task"), b.BEGIN, b.END, task))
    whole = lead.operands.declare(b.block(body, Return(b.const(0, INT32))))
    functions.append(b.phase_function(f"{lead.prefix}_convolution", whole))
    return functions, tables


# ---- a task


def _task(nests: Sequence[WindowNest]) -> Stmt:
    """Return what a task does: pack its block of each, then walk the lines."""
    lead = nests[0]
    c = lead.conv
    kinds = blocks(c, lead.choice.nv, lead.lanes)
    count = sum(block.count for block in kinds)
    where = Lets(lead.var)
    around = [(f"at_{i.name}", lead.size(i.extent)) for i in reversed(c.panels)]
    counts = [("chunk", lead.chunks), ("block", b.c64(count)), *around]
    chunk, of_block, *outer = digits(where, lead.var("task"), counts)
    first = where.let("first_column", b.mul(of_block, lead.columns))
    extents = line_extents([nest.conv for nest in nests])
    total = lead.size(prod(extents, start=ONE))
    begin = where.let("first_line", b.div(b.mul(chunk, total), lead.chunks))
    end = where.let("last_line", b.div(b.mul(b.add(chunk, 1), total), lead.chunks))
    left = b.min64(lead.columns, b.sub(known(c.column.extent), first))
    columns = where.let("columns", left if len(kinds) > 1 else b.c64(kinds[0].columns))

    inner = Lets(lead.var)
    named = [(f"at_{i.name}", lead.size(n)) for i, n in zip(c.rows, extents, strict=True)]
    at = digits(inner, lead.var("line"), named[::-1])[::-1]
    packs: list[Stmt] = []
    walks: list[Stmt] = []
    for nest in nests:
        mine = nest.conv
        panel = dict(zip((i.name for i in reversed(mine.panels)), outer, strict=True))
        packs.append(_pack(nest, panel, first, columns))
        point = dict(zip((i.name for i in mine.rows), at, strict=True))
        whole = [
            b.compare("<", point[i.name], nest.size(i.extent))
            for i, extent in zip(mine.rows, extents, strict=True)
            if i.extent != extent
        ]
        lines = [_line(nest, block, {**panel, **point}, first) for block in kinds]
        walk = lines[0]
        if len(kinds) > 1:
            walk = If(b.compare("==", columns, kinds[0].columns), walk, lines[1])
        walks.append(b.when(b.all_of(*whole), walk))
    return b.block(where.stmts, packs, b.loop(lead.var("line"), begin, end, inner.stmts, walks))


def _pack(nest: WindowNest, panel: Point, first: Expr, columns: Expr) -> Stmt:
    """Return the packing of a block."""
    c, x = nest.conv, nest.conv.problem.b
    stride = nest.size(x.stride(c.column.name))
    deep, step = known(extent_of(nest.run)), x.linear(nest.run)
    outer = c.sums[: len(c.sums) - len(nest.run)]
    names = [nest.var(f"k{n}") for n in range(len(outer))]
    source = b.add(place_of(nest, x, panel), b.mul(first, stride))
    flat: Expr = b.c64(0)
    for v, i in zip(names, outer, strict=True):
        source = b.add(source, b.mul(v, nest.size(x.stride(i.name))))
        flat = b.add(b.mul(flat, known(i.extent)), v)
    args = (
        b.offset(nest.operands.pointer(x.buffer), source),
        stride,
        nest.table if step is None else nest.size(step),
        b.offset(nest.pointer("packed"), b.mul(flat, deep, columns)),
        b.c64(deep),
        columns,
        b.c64(nest.columns),
    )
    out: Stmt = Eval(Call(nest.pack.name, args, None))
    for v, i in reversed(list(zip(names, outer, strict=True))):
        out = b.loop(v, 0, known(i.extent), out)
    return b.block(out, nest.end_of_packed(depth(c), columns))


# ---- a line


def _line(nest: WindowNest, block: ColumnBlocks, point: Point, first: Expr) -> Stmt:
    """Return the tiles of a line."""
    c, p = nest.conv, nest.conv.problem
    a, weights = nest.origin("a_at", p.a), nest.pointer("b_at")
    where = Lets(nest.var)
    image = [place_of(nest, p.a, point)]
    packed: list[Expr] = []
    steps: list[Expr] = []
    turns: list[Expr] = []
    for level, step, side in nest.levels(block.columns):
        steps.append(nest.size(step))
        if side is not None:
            assert level.weights is not None, "the columns of a block are known"
            start, count = _taps(nest, where, side, point[side.pixel.name])
            image.append(b.mul(start, nest.size(step)))
            packed.append(b.mul(start, level.weights))
            turns.append(count)
    heads: list[Stmt] = [
        *where.stmts,
        Let(a, b.offset(nest.operands.pointer(p.a.buffer), b.add(*image))),
        Let(weights, b.offset(nest.pointer("packed"), b.add(*packed))),
    ]
    for name, x in (("c", p.c), *((x.param, x.operand) for x in nest.finish.accesses)):
        at = b.offset(nest.operands.pointer(x.buffer), place_of(nest, x, point))
        heads.append(Let(nest.origin(f"{name}_at", x), at))
    ahead = nest.size(p.a.stride(c.rows[-1].name)) if c.rows else b.c64(0)

    def tiles(strip: Strip) -> Stmt:
        n = nest.var("tile")
        pixel = b.add(strip.first, b.mul(n, strip.rows))
        image_at = b.offset(a, b.mul(pixel, c.step(c.across.pixel)))
        place = (first, pixel) if c.is_turned else (pixel, first)
        out = reach(nest, "c_at", p.c, True, place), nest.size(row_of(nest, p.c))
        args = (image_at, weights, nest.pointer("sums"), *out, ahead, *steps, *turns)
        compute = Eval(Call(nest.kernel(strip, block), args, None))
        sizes = b.c64(strip.rows), b.c64(block.columns)
        return b.loop(n, 0, strip.count, compute, stores(nest, *sizes, pixel, first))

    return b.block(heads, *(tiles(strip) for strip in strips(c, nest.choice.mr)))


def _taps(nest: WindowNest, where: Lets, side: WindowSide, pixel: Expr) -> tuple[Expr, Expr]:
    """Return the first tap of a side at a pixel, and how many there are."""
    first, count = nest.tap_tables(side)
    return (
        where.let(f"tap_{side.pixel.name}", Elem(first.name, (pixel,), I64)),
        where.let(f"taps_{side.pixel.name}", Elem(count.name, (pixel,), I64)),
    )
