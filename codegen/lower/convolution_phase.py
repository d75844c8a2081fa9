"""The phase of a convolution: a task packs a block of the weights and walks lines under it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tcdsl.codegen import build as b
from tcdsl.codegen.loopir import (
    I64,
    Call,
    Cast,
    Const,
    Elem,
    Eval,
    Expr,
    Function,
    If,
    Let,
    Pointer,
    Return,
    Stmt,
    Table,
    Var,
    Vector,
)
from tcdsl.codegen.lower.contraction_finish import Access, Finish
from tcdsl.codegen.lower.contraction_kernel import intrinsic
from tcdsl.codegen.lower.contraction_pack import Packer, Unit, fill_table, packer
from tcdsl.codegen.lower.contraction_problem import ONE, Index, Operand, extent_of
from tcdsl.codegen.lower.convolution_kernel import Level, TapKernel
from tcdsl.codegen.lower.convolution_problem import Convolution, Side, known
from tcdsl.codegen.lower.convolution_schedule import (
    Block,
    Choice,
    Strip,
    blocks,
    depth,
    lines,
    panels,
    strips,
    tile_of,
)
from tcdsl.codegen.lower.convolution_store import Store
from tcdsl.codegen.lower.expr import Values
from tcdsl.codegen.lower.operands import Operands
from tcdsl.codegen.lower.rows_space import size_expr
from tcdsl.grammar.dtypes import INT32, INT64, DType
from tcdsl.grammar.sizes import Size

LINE = 64  # bytes: what lies in the workspace starts at a cache line


@dataclass(frozen=True, slots=True)
class Nest:
    """A convolution with its choices: what a phase is written from."""

    conv: Convolution
    finish: Finish
    operands: Operands
    prefix: str
    lanes: int
    choice: Choice
    kernels: dict[TapKernel, str] = field(default_factory=dict)

    @property
    def dtype(self) -> DType:
        """The type of all elements."""
        return self.conv.problem.dtype

    @property
    def columns(self) -> int:
        """Columns of a whole block."""
        return self.choice.nv * self.lanes

    def size(self, size: Size) -> Expr:
        """Return a size as an expression."""
        return size_expr(self.operands, size)

    def var(self, name: str) -> Var:
        """Return a local int64 of the phase."""
        return b.i64(self.operands.local(name))

    def pointer(self, name: str) -> Var:
        """Return a pointer into the workspace."""
        return b.pointer(self.operands.local(name), self.dtype)

    def origin(self, name: str, x: Operand) -> Var:
        """Return the pointer to where an operand begins for a task or a line."""
        kind = self.operands.pointer(x.buffer).type
        assert isinstance(kind, Pointer)
        return b.pointer(self.operands.local(name), kind.dtype, const=kind.const)

    @property
    def slow(self) -> tuple[Index, ...]:
        """The indices of a block's lines, outer to inner."""
        return (*self.conv.images, *(s.pixel for s in self.conv.sides))

    # ---- workspace

    def areas(self) -> dict[str, int]:
        """Return the byte offsets of what lies in the workspace, and where it ends."""
        size = self.dtype.size_bytes
        c, deep = self.choice, depth(self.conv)
        # vectors of the last block are read whole, and squares of the last pixels
        bytes_of = {
            "depth_at": deep * INT64.size_bytes if self.has_table else 0,
            "packed": (deep * self.columns + self.lanes) * size,
            "sums": (c.mr * c.nv + self.lanes) * self.lanes * size,
        }
        out: dict[str, int] = {}
        at = 0
        for name, count in bytes_of.items():
            out[name] = at
            at += -(-count // LINE) * LINE
        return {**out, "end": at}

    def area(self, v: Var) -> Stmt:
        """Return the declaration of a pointer into the workspace."""
        name = next(n for n in self.areas() if self.operands.local(n) == v.name)
        return Let(v, Cast(b.offset(b.WORKSPACE, self.areas()[name]), v.type))

    # ---- packing

    @property
    def run(self) -> tuple[Index, ...]:
        """The inner sums that are packed at once: all, or those that lie side by side."""
        x, sums = self.conv.problem.b, self.conv.sums
        if x.linear(sums) is not None or x.stride(self.conv.column.name) == ONE:
            return sums
        parts = (sums[n:] for n in range(len(sums)))
        found = next((p for p in parts if x.linear(p) == ONE), ())
        return found if known(extent_of(found)) > 1 else sums

    @property
    def has_table(self) -> bool:
        """Whether offsets along the sums come from a table."""
        return self.conv.problem.b.linear(self.run) is None

    @property
    def packer(self) -> Packer:
        """The packer of a block of the weights."""
        x = self.conv.problem.b
        unit: Unit = "none"
        if x.stride(self.conv.column.name) == ONE:
            unit = "x"
        elif x.linear(self.run) == ONE:
            unit = "k"
        return Packer(self.dtype, self.dtype, self.lanes, unit, k_table=self.has_table)

    # ---- kernels

    def levels(self, columns: int) -> Iterator[tuple[Level, Size, Side | None]]:
        """Yield the loops around a row of taps: each with the step of the image, and its side."""
        c, a = self.conv, self.conv.problem.a
        for n, index in enumerate(c.channels):
            if known(index.extent) > 1:
                weights = known(extent_of(c.sums[n + 1 :])) * columns
                yield Level(known(index.extent), weights), a.stride(index.name), None
        for side in c.sides:
            if side.tap is None:
                yield Level(None, 0), Size(), side
                continue
            inner = c.sums[c.sums.index(side.tap) + 1 :]
            weights = known(extent_of(inner)) * columns
            yield Level(None, weights), a.stride(side.tap.name), side

    def kernel(self, strip: Strip, block: Block) -> str:
        """Return the name of the micro-kernel of a strip, making it if there is none yet."""
        c = self.conv
        step = abs(c.problem.c.stride(c.across.pixel.name).constant or 1)
        spec = TapKernel(
            tile_of(c, strip.rows, block.vectors, self.lanes),
            strip.taps,
            c.step(c.problem.a, c.across.pixel),
            c.step(c.problem.a, c.across.tap),
            block.columns,
            *((block.columns, strip.rows * step) if c.is_turned else (strip.rows, block.columns)),
            tuple(level for level, _, _ in self.levels(block.columns)),
        )
        return self.kernels.setdefault(spec, f"{self.prefix}_tile{len(self.kernels)}")

    @property
    def store(self) -> Store:
        """What takes a tile to the output."""
        turned = self.conv.is_turned
        rows = self.lanes if turned else self.choice.mr
        p = self.conv.problem
        step = p.c.stride(p.n[0].name).constant
        return Store(self.dtype, self.lanes, rows, turned, step, self.finish)


@dataclass(frozen=True, slots=True)
class _Names:
    """Gives names to values; constants need none."""

    nest: Nest
    stmts: list[Stmt] = field(default_factory=list)

    def let(self, name: str, value: Expr) -> Expr:
        """Return value by name."""
        if b.value_of(value) is not None:
            return value
        v = self.nest.var(name)
        self.stmts.append(Let(v, value))
        return v

    def digits(self, number: Expr, counts: Sequence[tuple[str, int]]) -> list[Expr]:
        """Return the digits of a number, the fastest first, in a system of these counts."""
        out: list[Expr] = []
        rest = number
        for n, (name, count) in enumerate(counts):
            if count == 1:
                out.append(b.c64(0))
            elif all(later == 1 for _, later in counts[n + 1 :]):
                out.append(self.let(f"at_{name}", rest))
            else:
                out.append(self.let(f"at_{name}", b.mod(rest, count)))
                rest = self.let(f"above_{name}", b.div(rest, count))
        return out


def phase(nest: Nest) -> tuple[list[Function], list[Table], int]:
    """Return the functions, the phase last, the tables, and the number of tasks."""
    c = nest.conv
    body = _task(nest)
    head: list[Stmt] = [nest.area(nest.pointer("packed")), nest.area(nest.pointer("sums"))]
    if nest.has_table:
        table = _depth_table(nest)
        strides = tuple(nest.size(c.problem.b.stride(i.name)) for i in nest.run)
        extents = tuple(nest.size(i.extent) for i in nest.run)
        head += [nest.area(table), fill_table(table, extents, strides)]
    for var, e in nest.finish.uniforms:
        values = Values(nest.operands, {})
        value = values.value(e)
        head += [*values.take(), Let(Var(nest.operands.local(var.name), var.type), value)]
    whole = nest.operands.declare(
        b.block(head, b.loop(nest.var("task"), b.BEGIN, b.END, body), Return(b.const(0, INT32)))
    )
    functions = [
        packer(f"{nest.prefix}_pack", nest.packer),
        *(spec.function(name) for spec, name in nest.kernels.items()),
        nest.store.function(f"{nest.prefix}_store"),
        b.phase_function(f"{nest.prefix}_convolution", whole),
    ]
    tables = [t for side in c.sides for t in _tap_tables(nest, side)]
    count = sum(block.count for block in blocks(c, nest.choice.nv, nest.lanes))
    return functions, tables, panels(c) * count * nest.choice.chunks


# ---- a task


def _task(nest: Nest) -> Stmt:
    """Return what a task does: pack its block, then walk its lines."""
    c, p = nest.conv, nest.conv.problem
    kinds = blocks(c, nest.choice.nv, nest.lanes)
    count = sum(block.count for block in kinds)
    where = _Names(nest)
    chunk, of_block, *outer = where.digits(
        nest.var("task"),
        [("chunk", nest.choice.chunks), ("block", count)]
        + [(i.name, known(i.extent)) for i in reversed(c.panels)],
    )
    panel = dict(zip((i.name for i in reversed(c.panels)), outer, strict=True))
    first = where.let("first_column", b.mul(of_block, nest.columns))
    total = lines(c)
    begin = where.let("first_line", b.div(b.mul(chunk, total), nest.choice.chunks))
    end = where.let("last_line", b.div(b.mul(b.add(chunk, 1), total), nest.choice.chunks))
    left = b.min64(nest.columns, b.sub(known(c.column.extent), first))
    columns = where.let("columns", left if len(kinds) > 1 else b.c64(kinds[0].columns))
    pack = _pack(nest, b.add(_at(nest, p.b, panel), _along(nest, p.b, c.column, first)), columns)

    line = nest.var("line")
    inner = _Names(nest)
    named = [(i.name, known(i.extent)) for i in reversed(nest.slow)]
    point = dict(zip((n for n, _ in named), inner.digits(line, named), strict=True))
    everywhere = {**panel, **point}
    taps = {id(side): _taps(nest, inner, side, point[side.pixel.name]) for side in c.sides}

    def walk(block: Block) -> Stmt:
        return _line(nest, block, everywhere, taps, first)

    body = walk(kinds[0])
    if len(kinds) > 1:
        body = If(b.compare("==", columns, kinds[0].columns), body, walk(kinds[1]))
    return b.block(where.stmts, pack, b.loop(line, begin, end, inner.stmts, body))


def _pack(nest: Nest, source: Expr, columns: Expr) -> Stmt:
    """Return the packing of a block."""
    c, x = nest.conv, nest.conv.problem.b
    deep = known(extent_of(nest.run))
    step = x.linear(nest.run)
    stride = nest.size(x.stride(c.column.name))
    along = _depth_table(nest) if step is None else nest.size(step)
    outer = c.sums[: len(c.sums) - len(nest.run)]
    names = [nest.var(f"k{n}") for n in range(len(outer))]
    flat: Expr = b.c64(0)
    for v, i in zip(names, outer, strict=True):
        source = b.add(source, b.mul(v, nest.size(x.stride(i.name))))
        flat = b.add(b.mul(flat, known(i.extent)), v)
    to = b.offset(nest.pointer("packed"), b.mul(flat, deep, columns))
    at = b.offset(nest.operands.pointer(x.buffer), source)
    width = nest.columns
    args = (at, stride, along, to, b.c64(deep), columns, b.c64(width))
    out: Stmt = Eval(Call(f"{nest.prefix}_pack", args, None))
    for v, i in reversed(list(zip(names, outer, strict=True))):
        out = b.loop(v, 0, known(i.extent), out)
    # The last vector of a block that is not whole reads on: denormal numbers would slow it down.
    vector = Vector(nest.dtype, nest.lanes)
    end = b.offset(nest.pointer("packed"), b.mul(depth(c), columns))
    return b.block(out, Eval(intrinsic("tc_store", vector, end, Const(0.0, vector))))


def _line(
    nest: Nest,
    block: Block,
    point: dict[str, Expr],
    taps: dict[int, tuple[Expr, Expr]],
    first: Expr,
) -> Stmt:
    """Return the tiles of a line."""
    c, p = nest.conv, nest.conv.problem
    a, weights = nest.origin("a_at", p.a), nest.pointer("b_at")
    image = [_at(nest, p.a, point)]
    packed: list[Expr] = []
    steps: list[Expr] = []
    turns: list[Expr] = []
    for level, step, side in nest.levels(block.columns):
        steps.append(nest.size(step))
        if side is not None:
            start, count = taps[id(side)]
            image.append(b.mul(start, nest.size(step)))
            packed.append(b.mul(start, level.weights))
            turns.append(count)
    stores = [("c", p.c, True), *((x.param, x.operand, x.along) for x in nest.finish.accesses)]
    head: list[Stmt] = [
        Let(a, b.offset(nest.operands.pointer(p.a.buffer), b.add(*image))),
        Let(weights, b.offset(nest.pointer("packed"), b.add(*packed))),
    ]
    for name, x, _ in stores:
        at = b.offset(nest.operands.pointer(x.buffer), _at(nest, x, point))
        head.append(Let(nest.origin(f"{name}_at", x), at))

    moving = nest.slow[-1:]  # the index that tells a line from the next
    ahead = nest.size(p.a.stride(moving[0].name)) if moving else b.c64(0)

    def tile(strip: Strip) -> Stmt:
        n = nest.var("tile")
        pixel = b.add(strip.first, b.mul(n, strip.rows))
        image_at = b.offset(a, b.mul(pixel, c.step(p.a, c.across.pixel)))
        place = (first, pixel) if c.is_turned else (pixel, first)
        out = _reach(nest, "c_at", p.c, True, place), nest.size(_row(nest, p.c))
        args = (image_at, weights, nest.pointer("sums"), *out, ahead, *steps, *turns)
        compute = Eval(Call(nest.kernel(strip, block), args, None))
        return b.loop(n, 0, strip.count, compute, _stores(nest, block, strip, pixel, first))

    return b.block(head, *(tile(strip) for strip in strips(c, nest.choice.mr)))


def _stores(nest: Nest, block: Block, strip: Strip, pixel: Expr, first: Expr) -> Stmt:
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
    args += [Var(nest.operands.local(v.name), v.type) for v, _ in nest.finish.uniforms]
    call = Eval(Call(f"{nest.prefix}_store", tuple(args), None))
    inner = b.loop(r, 0, strip.rows if turned else 1, call, step=lanes)
    return b.loop(q, 0, block.columns, inner, step=lanes)


def _access(nest: Nest, x: Access, place: tuple[Expr, Expr]) -> list[Expr]:
    at = _reach(nest, f"{x.param}_at", x.operand, x.along, place)
    return [at, nest.size(_row(nest, x.operand))] if x.row else [at]


def _row(nest: Nest, x: Operand) -> Size:
    return x.stride(nest.conv.problem.m[0].name)


def _reach(nest: Nest, name: str, x: Operand, along: bool, place: tuple[Expr, Expr]) -> Expr:
    """Return the address of an element, m and n being place."""
    row = b.mul(place[0], nest.size(_row(nest, x)))
    step = nest.size(x.stride(nest.conv.problem.n[0].name)) if along else b.c64(0)
    return b.offset(nest.origin(name, x), b.add(row, b.mul(place[1], step)))


# ---- tables and addresses


def _depth_table(nest: Nest) -> Var:
    return Var(nest.operands.local("depth_at"), Pointer(INT64))


def _taps(nest: Nest, where: _Names, side: Side, pixel: Expr) -> tuple[Expr, Expr]:
    """Return the first tap of a side at a pixel, and how many there are."""
    first, count = _tap_tables(nest, side)
    return (
        where.let(f"first_{side.pixel.name}", Elem(first.name, (pixel,), I64)),
        where.let(f"taps_{side.pixel.name}", Elem(count.name, (pixel,), I64)),
    )


def _tap_tables(nest: Nest, side: Side) -> tuple[Table, Table]:
    """Return the tables of the first tap at each pixel of a side, and of their number."""
    found = [side.taps_at(pixel) for pixel in range(side.pixels)]
    stem = f"{nest.prefix}_side{nest.conv.sides.index(side)}"
    return (
        Table(f"{stem}_first", I64, tuple(t.start for t in found)),
        Table(f"{stem}_taps", I64, tuple(len(t) for t in found)),
    )


def _at(nest: Nest, x: Operand, point: dict[str, Expr]) -> Expr:
    """Return the position of an operand's element at a point, other indices 0."""
    steps = (b.mul(v, nest.size(x.stride(name))) for name, v in point.items())
    return b.add(nest.size(x.offset), *steps)


def _along(nest: Nest, x: Operand, index: Index, value: Expr) -> Expr:
    return b.mul(value, nest.size(x.stride(index.name)))
