"""The phase of a contraction: tasks are blocks of the output, each walked by micro-kernels.

A task is rows m0.. (mc of them) and columns n0.. (nc) of one outer point. Per pass along k it
packs what is to be packed into its thread's workspace, then walks its register tiles: panels of
b outside, rows of a inside. With constant extents everything but pointers folds; in a
size-generic phase the blocking comes from the plan. The dot form shares all but the inner part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tcdsl.codegen import build as b
from tcdsl.codegen.loopir import (
    I64,
    Bin,
    Call,
    Eval,
    Expr,
    Function,
    If,
    Let,
    Pointer,
    Return,
    Stmt,
    Var,
)
from tcdsl.codegen.lower.contraction_dot import (
    CHUNK,
    Dot,
    dot_kernel,
    dot_rows,
)
from tcdsl.codegen.lower.contraction_kernel import (
    FIRST,
    LAST,
)
from tcdsl.codegen.lower.contraction_pack import (
    Packer,
    Unit,
    fill_table,
    packer,
    packer_params,
)
from tcdsl.codegen.lower.contraction_panel import Kernels, Panel, pick
from tcdsl.codegen.lower.contraction_problem import ONE, Index, Operand
from tcdsl.codegen.lower.contraction_schedule import Blocking, Extents
from tcdsl.codegen.lower.expr import Values, narrow
from tcdsl.grammar.dtypes import INT32, INT64


def phase(panel: Panel, g: Blocking, kernels: Kernels, prologue: list[Stmt]) -> list[Function]:
    """Return the packers that the phase may call, and the phase.

    prologue declares what g stands on.
    """
    p, ops = panel.problem, panel.operands
    x = panel.extents()
    head: list[Stmt] = [*prologue, *_tables(panel, g)]
    functions: list[Function] = []
    for name, operand, along, flag in (("a", p.a, p.m, g.pack_a), ("b", p.b, p.n, g.pack_b)):
        if b.value_of(flag) != 0:
            spec = _packer_of(panel, operand, along)
            functions.append(packer(f"{panel.prefix}_pack_{name}", spec))
            head.append(panel.area(g, f"packed_{name}", panel.dtype))
    dots: dict[int, Dot] = {}
    if b.value_of(g.dot) != 0:
        dots = kernels.dots(g.mc)
        functions += [dot_kernel(f"{panel.prefix}_dot_{n}", d) for n, d in dots.items()]
    if panel.has_stage:
        head.append(panel.area(g, "stage", panel.dtype))
    for var, e in panel.finish.uniforms:
        values = Values(ops, {})
        value = values.value(e)
        head += [*values.take(), Let(Var(ops.local(var.name), var.type), value)]

    task = panel.var("task")
    where = _Names(panel, [])
    at, block = _decode(where, g, x, task)
    nest = b.loop(
        task,
        b.BEGIN,
        b.END,
        where.stmts,
        _origins(panel, at),
        _work(panel, g, kernels, x, block, dots),
    )
    whole = ops.declare(b.block(head, nest))
    name = f"{panel.prefix}_panel"
    functions.append(b.phase_function(name, b.block(whole, Return(b.const(0, INT32)))))
    return functions


@dataclass(frozen=True, slots=True)
class _Names:
    """Gives names to values; constants need none."""

    panel: Panel
    stmts: list[Stmt]

    def let(self, name: str, value: Expr) -> Expr:
        """Return value by name."""
        if b.value_of(value) is not None:
            return value
        v = self.panel.var(name)
        self.stmts.append(Let(v, value))
        return v


@dataclass(frozen=True, slots=True)
class _Block:
    """The block of a task: its first row and column, and how many there are."""

    m0: Expr
    n0: Expr
    rows: Expr
    columns: Expr


def _decode(where: _Names, g: Blocking, x: Extents, task: Expr) -> tuple[dict[str, Expr], _Block]:
    """Return the outer point of a task and its block: (outer point, column, row), row fastest."""
    panel = where.panel
    # no index of a program is named like the first two
    counts = [("row block", g.mt), ("column block", g.nt)]
    counts += [(i.name, panel.size(i.extent)) for i in reversed(panel.problem.outer)]
    rest, left = task, [c for _, c in counts]
    points: dict[str, Expr] = {}
    for n, (name, count) in enumerate(counts):
        is_last = all(b.value_of(c) == 1 for c in left[n + 1 :])
        points[name] = where.let(
            f"at_{name.replace(' ', '_')}", rest if is_last else b.mod(rest, count)
        )
        if b.value_of(count) == 1:
            points[name] = b.c64(0)
        elif not is_last:
            rest = where.let(f"rest_{n}", b.div(rest, count))
    m0 = where.let("m0", b.mul(points.pop("row block"), g.mc))
    n0 = where.let("n0", b.mul(points.pop("column block"), g.nc))
    rows = where.let("block_rows", _least(g.mt, g.mc, b.sub(x.m, m0)))
    columns = where.let("block_columns", _least(g.nt, g.nc, b.sub(x.n, n0)))
    return points, _Block(m0, n0, rows, columns)


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


def _origins(panel: Panel, at: dict[str, Expr]) -> list[Stmt]:
    """Declare, for every operand, the pointer to the first element of the outer point."""
    p = panel.problem
    named = [("a", p.a), ("b", p.b), ("c", p.c)]
    named += [(a.param, a.operand) for a in panel.finish.accesses]
    return [Let(_origin(panel, name, x), _address(panel, x, at)) for name, x in named]


def _origin(panel: Panel, name: str, x: Operand) -> Var:
    kind = panel.operands.pointer(x.buffer).type
    assert isinstance(kind, Pointer)
    return b.pointer(panel.operands.local(f"{name}_at"), kind.dtype, const=kind.const)


def _address(panel: Panel, x: Operand, at: dict[str, Expr]) -> Expr:
    steps = [b.mul(v, panel.size(x.stride(name))) for name, v in at.items()]
    return b.offset(panel.operands.pointer(x.buffer), b.add(panel.size(x.offset), *steps))


def _work(
    panel: Panel, g: Blocking, kernels: Kernels, x: Extents, block: _Block, dots: dict[int, Dot]
) -> Stmt:
    """Return what a task does."""
    if b.value_of(g.dot) == 0:
        return _passes(panel, g, kernels, x, block)
    by_dots = _dots(panel, g, kernels, x, block, dots)
    if b.value_of(g.dot) == 1:
        return by_dots
    passes = _passes(panel, g, kernels, x, block)
    return If(b.compare("!=", g.dot, 0), by_dots, passes)


def _dots(
    panel: Panel, g: Blocking, kernels: Kernels, x: Extents, block: _Block, dots: dict[int, Dot]
) -> Stmt:
    """Return the dot form of a block, and the epilogue on its sums."""
    p = panel.problem
    i, j = panel.var("i"), panel.var("j")
    outside, inside = _Names(panel, []), _Names(panel, [])
    columns = outside.let("columns", b.min64(CHUNK, b.sub(block.columns, j)))
    most = outside.let("most_rows", dot_rows(kernels.machine, x.m))
    rows = inside.let("rows", b.min64(most, b.sub(block.rows, i)))
    m, n = b.add(block.m0, i), b.add(block.n0, j)
    a_row, b_row = panel.stride(p.a, p.m), panel.stride(p.b, p.n)
    c_row, c_column = panel.stride(p.c, p.m), panel.stride(p.c, p.n)
    assert a_row is not None, "checked by extents"
    assert b_row is not None, "checked by extents"
    assert c_row is not None, f"rows of '{p.c.buffer}' do not fuse"
    assert c_column is not None, f"columns of '{p.c.buffer}' do not fuse"
    args = (
        b.offset(_origin(panel, "a", p.a), b.mul(m, a_row)),
        a_row,
        b.offset(_origin(panel, "b", p.b), b.mul(n, b_row)),
        b_row,
        b.offset(_origin(panel, "c", p.c), b.add(b.mul(m, c_row), b.mul(n, c_column))),
        c_row,
        c_column,
        x.k,
        columns,
    )
    calls: list[tuple[int, Stmt]] = [
        (count, Eval(Call(f"{panel.prefix}_dot_{count}", args, None))) for count in sorted(dots)
    ]
    sums = b.loop(
        j,
        0,
        block.columns,
        outside.stmts,
        b.loop(i, 0, block.rows, inside.stmts, pick(rows, calls), step=most),
        step=CHUNK,
    )
    if panel.finish.is_plain:
        return sums
    done = _Pass(b.c64(0), b.c64(0), b.c64(LAST))
    return b.block(
        sums, _tiles(panel, replace(g, pack_a=b.c64(0), pack_b=b.c64(0)), kernels, block, done)
    )


def _passes(panel: Panel, g: Blocking, kernels: Kernels, x: Extents, block: _Block) -> Stmt:
    """Return the passes along k of a task: pack, then walk the register tiles."""
    k, depth = b.value_of(x.k), b.value_of(g.kc)
    if k is not None and depth is not None and depth >= k:
        flags = LAST if panel.finish.resumes else FIRST | LAST
        return _pass(panel, g, kernels, block, _Pass(b.c64(0), x.k, b.c64(flags)))
    k0 = panel.var("k0")
    where = _Names(panel, [])
    deep = where.let("depth", b.min64(g.kc, b.sub(x.k, k0)))
    last = b.select(b.compare(">=", b.add(k0, deep), x.k), b.c64(LAST), b.c64(0))
    first = b.select(b.compare("==", k0, 0), b.c64(FIRST), b.c64(0))
    bits = last if panel.finish.resumes else Bin("|", first, last, I64)
    body = _pass(panel, g, kernels, block, _Pass(k0, deep, where.let("flags", bits)))
    # without any k the sum is zero, and is stored: there is always one pass
    return b.loop(k0, 0, b.max64(x.k, 1), where.stmts, body, step=g.kc)


@dataclass(frozen=True, slots=True)
class _Pass:
    """A pass along k: where it starts, how deep it goes, the micro-kernel's flag word."""

    k0: Expr
    depth: Expr
    flags: Expr


def _pass(panel: Panel, g: Blocking, kernels: Kernels, block: _Block, now: _Pass) -> Stmt:
    """Return the packing of a pass and its cache blocks: b stays, rows of a change."""
    p = panel.problem
    width = b.mul(g.nv, panel.lanes)
    head = _pack(panel, "b", p.b, p.n, g.pack_b, now, (block.n0, block.columns, width))

    def rows_from(part: _Block) -> Stmt:
        return b.block(
            _pack(panel, "a", p.a, p.m, g.pack_a, now, (part.m0, part.rows, g.mr)),
            _tiles(panel, g, kernels, part, now),
        )

    if g.mb == g.mc:
        return b.block(head, rows_from(block))
    at = panel.var("cut")
    where = _Names(panel, [])
    part = replace(
        block,
        m0=where.let("m1", b.add(block.m0, at)),
        rows=where.let("part_rows", b.min64(g.mb, b.sub(block.rows, at))),
    )
    rest = rows_from(part)
    return b.block(head, b.loop(at, 0, block.rows, where.stmts, rest, step=g.mb))


def _packer_of(panel: Panel, x: Operand, along: tuple[Index, ...]) -> Packer:
    """Return the packer of an operand, whose panels run along a fused index."""
    k = panel.problem.k
    unit: Unit = "none"
    if along and x.stride(along[-1].name) == ONE:
        unit = "x"
    elif k and x.stride(k[-1].name) == ONE:
        unit = "k"
    return Packer(
        panel.stored(x),
        panel.dtype,
        panel.lanes,
        unit,
        x_table=x.linear(along) is None,
        k_table=x.linear(k) is None,
    )


def _pack(
    panel: Panel,
    name: str,
    x: Operand,
    along: tuple[Index, ...],
    flag: Expr,
    now: _Pass,
    span: tuple[Expr, Expr, Expr],
) -> Stmt | None:
    """Return the packing of a block of an operand, if it is packed: first, count and width."""
    if b.value_of(flag) == 0:
        return None
    first, count, width = span
    spec = _packer_of(panel, x, along)
    source: Expr = _origin(panel, name, x)
    directions: list[Expr] = []
    for fused, low in ((along, first), (panel.problem.k, now.k0)):
        stride = panel.stride(x, fused)
        if stride is None:  # offsets from the first element, from the block's first entry on
            directions.append(b.offset(panel.table(x, fused), low))
        else:
            directions.append(stride)
            source = b.offset(source, b.mul(low, stride))
    packed = b.pointer(panel.operands.local(f"packed_{name}"), panel.dtype)
    args = (source, *directions, packed, now.depth, count, width)
    assert len(args) == len(packer_params(spec))
    run = Eval(Call(f"{panel.prefix}_pack_{name}", args, None))
    return b.when(b.compare("!=", flag, 0), run)


def _tiles(panel: Panel, g: Blocking, kernels: Kernels, block: _Block, now: _Pass) -> Stmt:
    """Return the walk over the register tiles of a block."""
    i, j = panel.var("i"), panel.var("j")
    width = b.mul(g.nv, panel.lanes)
    outside, inside = _Names(panel, []), _Names(panel, [])
    columns = outside.let("columns", b.min64(width, b.sub(block.columns, j)))
    vectors = outside.let("vectors", b.ceil_div(columns, panel.lanes))
    rows = inside.let("rows", b.min64(g.mr, b.sub(block.rows, i)))
    m, n = b.add(block.m0, i), b.add(block.n0, j)
    args = _tile_args(panel, g, kernels, now, (m, n, rows, columns))
    return b.loop(
        j,
        0,
        block.columns,
        outside.stmts,
        b.loop(
            i,
            0,
            block.rows,
            inside.stmts,
            kernels.run(rows, vectors, args),
            _unstage(panel, (m, n, rows, columns), width) if panel.has_stage else None,
            step=g.mr,
        ),
        step=width,
    )


_Place = tuple[Expr, Expr, Expr, Expr]  # of a register tile: row, column, rows, columns


def _tile_args(
    panel: Panel, g: Blocking, kernels: Kernels, now: _Pass, place: _Place
) -> tuple[Expr, ...]:
    """Return the arguments of the micro-kernel of a tile."""
    p = panel.problem
    i, j, k0, depth = panel.var("i"), panel.var("j"), now.k0, now.depth
    m, n, rows, columns = place
    x = panel.extents()
    packed_a, packed_b = (
        b.pointer(panel.operands.local(f"packed_{name}"), panel.dtype) for name in "ab"
    )
    args: list[Expr] = []
    strides = kernels.strides

    def walk(value: Expr, known: int | str | None) -> None:
        """Add a stride, unless the micro-kernel has it as a constant."""
        if not isinstance(known, int):
            args.append(value)

    def walks(at: Expr, row: Expr, step: Expr) -> None:
        args.append(at)
        walk(row, strides.a_row)
        walk(step, strides.a_k)

    if b.value_of(depth) == 0 and x.dots:  # nothing is read
        nowhere = _reach(panel, "c", p.c, True, m, n)[0]
        walks(nowhere, b.c64(0), b.c64(0))
        args.append(nowhere)
        walk(b.c64(0), strides.b_k)
    else:
        row, step = panel.stride(p.a, p.m), panel.stride(p.a, p.k)
        block = b.offset(packed_a, b.mul(i, depth))
        if x.packs_a or row is None or step is None:
            walks(block, b.c64(1), rows)
        else:
            direct = b.offset(_origin(panel, "a", p.a), b.add(b.mul(m, row), b.mul(k0, step)))
            packed = b.compare("!=", g.pack_a, 0)
            at = b.select(packed, block, direct)
            walks(at, b.select(packed, b.c64(1), row), b.select(packed, rows, step))
        step = panel.stride(p.b, p.k)
        block = b.offset(packed_b, b.mul(j, depth))
        if x.packs_b:
            args += [block, columns]
        elif step is None:
            direct = b.offset(_origin(panel, "b", p.b), n)
            args += [direct, b.offset(panel.table(p.b, p.k), k0)]
        else:
            direct = b.offset(_origin(panel, "b", p.b), b.add(b.mul(k0, step), n))
            packed = b.compare("!=", g.pack_b, 0)
            args.append(b.select(packed, block, direct))
            walk(b.select(packed, columns, step), strides.b_k)
    if panel.has_stage:
        stage = b.pointer(panel.operands.local("stage"), panel.dtype)
        args += [stage, b.mul(g.nv, panel.lanes)]
    else:
        to, row = _reach(panel, "c", p.c, True, m, n)
        args.append(to)
        walk(row, strides.c_row)
    args += [depth, now.flags, columns]
    for access in panel.finish.accesses:
        reached = _reach(panel, access.param, access.operand, access.along, m, n)
        args += reached if access.row else reached[:1]
    args += [Var(panel.operands.local(v.name), v.type) for v, _ in panel.finish.uniforms]
    assert len(args) == len(kernels.params())
    return tuple(args)


def _reach(panel: Panel, name: str, x: Operand, along: bool, m: Expr, n: Expr) -> tuple[Expr, Expr]:
    """Return the address of a tile's first element and the stride of its rows."""
    row = panel.stride(x, panel.problem.m)
    assert row is not None, f"rows of '{x.buffer}' do not fuse"
    at = b.add(b.mul(m, row), n) if along else b.mul(m, row)
    return b.offset(_origin(panel, name, x), at), row


def _unstage(panel: Panel, place: _Place, width: Expr) -> Stmt:
    """Return the way of a tile from the workspace to an output without vectors along n."""
    c = panel.problem.c
    row, step = panel.stride(c, panel.problem.m), panel.stride(c, panel.problem.n)
    assert row is not None, f"rows of '{c.buffer}' do not fuse"
    assert step is not None, f"columns of '{c.buffer}' do not fuse"
    y, z = panel.var("y"), panel.var("z")
    m, n, rows, columns = b.add(place[0], y), b.add(place[1], z), place[2], place[3]
    stage = b.pointer(panel.operands.local("stage"), panel.dtype)
    to = b.load(_origin(panel, "c", c), b.add(b.mul(m, row), b.mul(n, step)))
    value = narrow(b.load(stage, b.add(b.mul(y, width), z)), panel.stored(c))
    return b.loop(z, 0, columns, b.loop(y, 0, rows, b.assign(to, value)))
