"""The phase of a convolution: a task packs a block of the weights and walks lines under it.

There may be several convolutions that write the elements of one output in turns (its residues):
they go along the lines together, so that a line of the output is fetched once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.contraction.finish import FinishAccess
from tcdsl.codegen.forms.contraction.lets import Lets
from tcdsl.codegen.forms.contraction.pack import fill_table, packer
from tcdsl.codegen.forms.contraction.problem import ONE, Operand, extent_of, known
from tcdsl.codegen.forms.contraction.register_tile import intrinsic
from tcdsl.codegen.forms.contraction.window.nest import WindowNest
from tcdsl.codegen.forms.contraction.window.problem import WindowSide
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
    Const,
    Elem,
    Eval,
    Expr,
    Function,
    If,
    Let,
    Return,
    Stmt,
    Table,
    Vector,
)
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types.dtypes import INT32

Point = Mapping[str, Expr]  # values of outer indices


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
        head += _head(nest)
        functions.append(packer(nest.name("pack"), nest.packer))
        functions += (spec.function(name) for spec, name in nest.kernels.items())
        functions.append(nest.store.function(nest.name("store")))
        tables += (t for side in nest.conv.sides for t in nest.tap_tables(side))
    body = b.block(head, b.loop(lead.var("task"), b.BEGIN, b.END, task))
    whole = lead.operands.declare(b.block(body, Return(b.const(0, INT32))))
    functions.append(b.phase_function(f"{lead.prefix}_convolution", whole))
    return functions, tables


def _head(nest: WindowNest) -> list[Stmt]:
    """Return the declarations of the workspace, the table, and what is the same everywhere."""
    out = [nest.area(nest.pointer("packed")), nest.area(nest.pointer("sums"))]
    if nest.has_table:
        strides = tuple(nest.size(nest.conv.problem.b.stride(i.name)) for i in nest.run)
        extents = tuple(nest.size(i.extent) for i in nest.run)
        out += [nest.area(nest.table), fill_table(nest.table, extents, strides)]
    for var, e in nest.finish.uniforms:
        values = Values(nest.operands, {})
        value = values.value(e)
        out += [*values.take(), Let(nest.uniform(var), value)]
    return out


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
    chunk, of_block, *outer = _digits(where, lead.var("task"), counts)
    first = where.let("first_column", b.mul(of_block, lead.columns))
    extents = line_extents([nest.conv for nest in nests])
    total = lead.size(prod(extents, start=ONE))
    begin = where.let("first_line", b.div(b.mul(chunk, total), lead.chunks))
    end = where.let("last_line", b.div(b.mul(b.add(chunk, 1), total), lead.chunks))
    left = b.min64(lead.columns, b.sub(known(c.column.extent), first))
    columns = where.let("columns", left if len(kinds) > 1 else b.c64(kinds[0].columns))

    inner = Lets(lead.var)
    named = [(f"at_{i.name}", lead.size(n)) for i, n in zip(c.rows, extents, strict=True)]
    at = _digits(inner, lead.var("line"), named[::-1])[::-1]
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


def _digits(where: Lets, number: Expr, counts: Sequence[tuple[str, Expr]]) -> list[Expr]:
    return where.digits(number, counts, lambda n: f"above_{n}{counts[n][0]}")


def _pack(nest: WindowNest, panel: Point, first: Expr, columns: Expr) -> Stmt:
    """Return the packing of a block."""
    c, x = nest.conv, nest.conv.problem.b
    stride = nest.size(x.stride(c.column.name))
    deep, step = known(extent_of(nest.run)), x.linear(nest.run)
    outer = c.sums[: len(c.sums) - len(nest.run)]
    names = [nest.var(f"k{n}") for n in range(len(outer))]
    source = b.add(_at(nest, x, panel), b.mul(first, stride))
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
    out: Stmt = Eval(Call(nest.name("pack"), args, None))
    for v, i in reversed(list(zip(names, outer, strict=True))):
        out = b.loop(v, 0, known(i.extent), out)
    # The last vector of a block that is not whole reads on: denormal numbers would slow it down.
    vector = Vector(nest.dtype, nest.lanes)
    end = b.offset(nest.pointer("packed"), b.mul(depth(c), columns))
    return b.block(out, Eval(intrinsic("tc_store", vector, end, Const(0.0, vector))))


# ---- a line


def _line(nest: WindowNest, block: ColumnBlocks, point: Point, first: Expr) -> Stmt:
    """Return the tiles of a line."""
    c, p = nest.conv, nest.conv.problem
    a, weights = nest.origin("a_at", p.a), nest.pointer("b_at")
    where = Lets(nest.var)
    image = [_at(nest, p.a, point)]
    packed: list[Expr] = []
    steps: list[Expr] = []
    turns: list[Expr] = []
    for level, step, side in nest.levels(block.columns):
        steps.append(nest.size(step))
        if side is not None:
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
        at = b.offset(nest.operands.pointer(x.buffer), _at(nest, x, point))
        heads.append(Let(nest.origin(f"{name}_at", x), at))
    ahead = nest.size(p.a.stride(c.rows[-1].name)) if c.rows else b.c64(0)

    def tiles(strip: Strip) -> Stmt:
        n = nest.var("tile")
        pixel = b.add(strip.first, b.mul(n, strip.rows))
        image_at = b.offset(a, b.mul(pixel, c.step(c.across.pixel)))
        place = (first, pixel) if c.is_turned else (pixel, first)
        out = _reach(nest, "c_at", p.c, True, place), nest.size(_row(nest, p.c))
        args = (image_at, weights, nest.pointer("sums"), *out, ahead, *steps, *turns)
        compute = Eval(Call(nest.kernel(strip, block), args, None))
        return b.loop(n, 0, strip.count, compute, _stores(nest, block, strip, pixel, first))

    return b.block(heads, *(tiles(strip) for strip in strips(c, nest.choice.mr)))


def _taps(nest: WindowNest, where: Lets, side: WindowSide, pixel: Expr) -> tuple[Expr, Expr]:
    """Return the first tap of a side at a pixel, and how many there are."""
    first, count = nest.tap_tables(side)
    return (
        where.let(f"tap_{side.pixel.name}", Elem(first.name, (pixel,), I64)),
        where.let(f"taps_{side.pixel.name}", Elem(count.name, (pixel,), I64)),
    )


def _stores(nest: WindowNest, block: ColumnBlocks, strip: Strip, pixel: Expr, first: Expr) -> Stmt:
    """Return the way of a tile to the output, a block of vectors at a time."""
    q, r = nest.var("column"), nest.var("row")
    turned, lanes = nest.conv.is_turned, nest.lanes
    left = b.min64(lanes, b.sub(block.columns, q)) if block.columns % lanes else b.c64(lanes)
    if turned:
        rows = b.min64(lanes, b.sub(strip.rows, r)) if strip.rows > lanes else b.c64(strip.rows)
        place = b.add(first, q), b.add(pixel, r)
        lines, width = left, rows
    else:
        place = b.add(pixel, r), b.add(first, q)
        lines, width = b.c64(strip.rows), left
    sums = b.offset(nest.pointer("sums"), b.add(b.mul(q, strip.rows), b.mul(r, lanes)))
    p = nest.conv.problem
    args: list[Expr] = [sums, _reach(nest, "c_at", p.c, True, place), nest.size(_row(nest, p.c))]
    if nest.store.step is None:
        args.append(nest.size(p.c.stride(p.n[0].name)))
    args += [lines, width]
    for x in nest.finish.accesses:
        args += _access(nest, x, place)
    args += [nest.uniform(v) for v, _ in nest.finish.uniforms]
    call = Eval(Call(nest.name("store"), tuple(args), None))
    inner = b.loop(r, 0, strip.rows if turned else 1, call, step=lanes)
    return b.loop(q, 0, block.columns, inner, step=lanes)


def _access(nest: WindowNest, x: FinishAccess, place: tuple[Expr, Expr]) -> list[Expr]:
    at = _reach(nest, f"{x.param}_at", x.operand, x.along, place)
    return [at, nest.size(_row(nest, x.operand))] if x.row else [at]


def _row(nest: WindowNest, x: Operand) -> Size:
    return x.stride(nest.conv.problem.m[0].name)


def _reach(nest: WindowNest, name: str, x: Operand, along: bool, place: tuple[Expr, Expr]) -> Expr:
    """Return the address of an element, m and n being place."""
    row = b.mul(place[0], nest.size(_row(nest, x)))
    step = nest.size(x.stride(nest.conv.problem.n[0].name)) if along else b.c64(0)
    return b.offset(nest.origin(name, x), b.add(row, b.mul(place[1], step)))


def _at(nest: WindowNest, x: Operand, point: Point) -> Expr:
    """Return the position of an operand's element at a point, other indices 0."""
    steps = (b.mul(v, nest.size(x.stride(name))) for name, v in point.items())
    return b.add(nest.size(x.offset), *steps)
