"""The panel form: blocks of the output as tasks, each walked by micro-kernels.

A task is rows m0.. (mc of them) and columns n0.. (nc) of one outer point. Per pass along k it
packs what is to be packed into its thread's workspace, then walks its register tiles: panels of
b outside, rows of a inside. With constant extents everything but pointers folds; in a
size-generic phase the blocking comes from the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tcdsl.codegen import build as b
from tcdsl.codegen.loopir import (
    I64,
    Bin,
    Call,
    Cast,
    Eval,
    Expr,
    Function,
    If,
    Let,
    Pointer,
    Return,
    Stmt,
    Var,
    Vector,
)
from tcdsl.codegen.lower.contraction_dot import (
    CHUNK,
    Dot,
    columns_of,
    dot_kernel,
    dot_rows,
    most_rows,
)
from tcdsl.codegen.lower.contraction_finish import Finish
from tcdsl.codegen.lower.contraction_kernel import (
    FIRST,
    LAST,
    Strides,
    Tile,
    kernel_params,
    micro_kernel,
)
from tcdsl.codegen.lower.contraction_pack import (
    Packer,
    Unit,
    fill_table,
    packer,
    packer_params,
)
from tcdsl.codegen.lower.contraction_problem import ONE, Index, Operand, Problem, extent_of
from tcdsl.codegen.lower.contraction_schedule import Blocking, Extents
from tcdsl.codegen.lower.expr import Values, narrow
from tcdsl.codegen.lower.operands import Operands, compute_dtype
from tcdsl.codegen.lower.rows_space import size_expr
from tcdsl.codegen.machine import Machine
from tcdsl.grammar.dtypes import INT32, INT64, DType
from tcdsl.grammar.sizes import Size

LINE = 64  # bytes: what lies in the workspace starts at a cache line


@dataclass(frozen=True, slots=True)
class Panel:
    """A contraction in panel form: what a phase is written from."""

    problem: Problem
    finish: Finish
    operands: Operands
    prefix: str
    lanes: int

    # ---- facts

    @property
    def dtype(self) -> DType:
        """The type of accumulators and of packed elements."""
        return compute_dtype(self.problem.dtype)

    def stored(self, x: Operand) -> DType:
        """Return the type of an operand in memory."""
        return self.operands.memory_dtype(x.buffer)

    @property
    def has_stage(self) -> bool:
        """Whether tiles go through the workspace, since the output has no vectors along n."""
        return not self.problem.unit

    def size(self, size: Size) -> Expr:
        """Return a size as an expression."""
        return size_expr(self.operands, size)

    def extent(self, fused: tuple[Index, ...]) -> Expr:
        """Return the extent of a fused index."""
        return self.size(extent_of(fused))

    def stride(self, x: Operand, fused: tuple[Index, ...]) -> Expr | None:
        """Return the stride of an operand along a fused index; None: offsets are in a table."""
        stride = x.linear(fused)
        return None if stride is None else self.size(stride)

    def extents(self) -> Extents:
        """Return what the schedule depends on."""
        p = self.problem
        a_row, a_k = p.a.linear(p.m), p.a.linear(p.k)
        widens_a, widens_b = self.stored(p.a) != self.dtype, self.stored(p.b) != self.dtype
        b_direct = p.b.linear(p.n) == ONE and not widens_b
        return Extents(
            outer=self.extent(p.outer),
            m=self.extent(p.m),
            n=self.extent(p.n),
            k=self.extent(p.k),
            a_row=None if a_row is None else self.size(a_row),
            a_k_unit=a_k is not None and a_k == ONE,
            packs_a=widens_a or a_row is None or a_k is None,
            packs_b=not b_direct,
            # a micro-kernel walks offsets of a direct b, or a stride, but not both
            keeps_b=b_direct and p.b.linear(p.k) is None,
            whole=self.has_stage or self.finish.overwrites or self.stored(p.c) != self.dtype,
            dots=self._has_dots(),
            lanes=self.lanes,
            bytes=self.dtype.size_bytes,
        )

    def _has_dots(self) -> bool:
        """Whether vectors can run along k, and the sums can wait in the output."""
        p = self.problem
        lines = p.a.linear(p.m) is not None and p.b.linear(p.n) is not None
        along = p.a.linear(p.k) == ONE and p.b.linear(p.k) == ONE
        keeps = self.stored(p.c) == self.dtype and p.unit and not self.finish.overwrites
        return lines and along and (keeps or self.finish.is_plain)

    def var(self, name: str) -> Var:
        """Return a local int64 of a phase."""
        return b.i64(self.operands.local(name))

    # ---- workspace

    def tables(self) -> Iterator[tuple[Var, Operand, tuple[Index, ...]]]:
        """Yield the offset tables: variable, operand, fused index."""
        p = self.problem
        for name, x, fused in (
            ("a_rows", p.a, p.m),
            ("a_depth", p.a, p.k),
            ("b_columns", p.b, p.n),
            ("b_depth", p.b, p.k),
        ):
            if x.linear(fused) is None:
                yield Var(self.operands.local(name), Pointer(INT64)), x, fused

    def table(self, x: Operand, fused: tuple[Index, ...]) -> Var:
        """Return the table of an operand along a fused index, which has one."""
        return next(v for v, y, f in self.tables() if y == x and f == fused)

    def areas(self, g: Blocking) -> dict[str, tuple[Expr, Expr]]:
        """Return, for what lies in the workspace, its byte offset and its bytes."""
        size = self.dtype.size_bytes
        bytes_of: list[tuple[str, Expr]] = [
            (v.name, b.mul(self.extent(fused), INT64.size_bytes)) for v, _, fused in self.tables()
        ]
        bytes_of.append(("packed_a", b.mul(g.pack_a, g.mb, g.kc, size)))
        bytes_of.append(("packed_b", b.mul(g.pack_b, g.nc, g.kc, size)))
        if self.has_stage:
            bytes_of.append(("stage", b.mul(g.mr, g.nv, self.lanes * size)))
        at: Expr = b.c64(0)
        out: dict[str, tuple[Expr, Expr]] = {}
        for name, count in bytes_of:
            out[name] = (at, count)
            at = b.add(at, b.mul(b.ceil_div(count, LINE), LINE))
        out["end"] = (at, b.c64(0))
        return out

    def area(self, g: Blocking, name: str, dtype: DType) -> Stmt:
        """Return the declaration of a pointer into the workspace."""
        kind = Pointer(dtype)
        at = b.offset(b.WORKSPACE, self.areas(g)[name][0])
        return Let(Var(self.operands.local(name), kind), Cast(at, kind))


# ---- the micro-kernels of a unit


@dataclass(frozen=True, slots=True)
class Kernels:
    """The register tiles that exist, by (rows, vectors), and what they have in common."""

    panel: Panel
    machine: Machine
    tiles: tuple[tuple[int, int], ...]

    @property
    def strides(self) -> Strides:
        """How a micro-kernel walks: a table only for a direct b whose k has one."""
        x = self.panel.extents()
        return Strides(b_k="table" if x.keeps_b else None)

    def name(self, rows: int, vectors: int) -> str:
        """Return the name of a micro-kernel."""
        return f"{self.panel.prefix}_tile_{rows}x{vectors}"

    @property
    def stored(self) -> DType:
        """The type behind c: of the output, or of the stage."""
        panel = self.panel
        return panel.dtype if panel.has_stage else panel.stored(panel.problem.c)

    def params(self) -> tuple[Var, ...]:
        """Return the parameters of all micro-kernels."""
        tile = Tile(1, 1, self.panel.lanes, self.panel.dtype)
        return kernel_params(tile, self.strides, self.panel.finish, self.stored)

    def functions(self) -> list[Function]:
        """Return the micro-kernels and `prefix_tile`, which picks one by rows and vectors."""
        panel = self.panel
        out = [
            micro_kernel(
                self.name(rows, vectors),
                Tile(rows, vectors, panel.lanes, panel.dtype),
                self.strides,
                panel.finish,
                self.stored,
            )
            for rows, vectors in self.tiles
        ]
        if len(self.tiles) <= 1:
            return out
        choice = (b.i64("rows"), b.i64("vectors"))
        by_vectors: dict[int, list[int]] = {}
        for rows, vectors in self.tiles:
            by_vectors.setdefault(vectors, []).append(rows)

        def pick_rows(vectors: int) -> Stmt:
            options = [(n, self.call(n, vectors)) for n in sorted(by_vectors[vectors])]
            return _pick(choice[0], options)

        body = _pick(choice[1], [(v, pick_rows(v)) for v in sorted(by_vectors)])
        out.append(Function(f"{panel.prefix}_tile", (*choice, *self.params()), body, "helper"))
        return out

    def dots(self) -> dict[int, Dot]:
        """Return the dot kernels by rows."""
        panel, p = self.panel, self.panel.problem
        m = panel.extent(p.m)
        most = b.value_of(dot_rows(self.machine, m))
        sizes = set(range(1, most_rows(self.machine) + 1))
        if most is not None:
            sizes = {most, (b.value_of(m) or 0) % most} - {0}
        return {
            rows: Dot(
                rows,
                columns_of(self.machine, rows),
                Vector(panel.dtype, panel.lanes),
                panel.stored(p.a),
                panel.stored(p.b),
                panel.stored(p.c),
                panel.finish.resumes,
            )
            for rows in sorted(sizes)
        }

    def call(self, rows: int, vectors: int) -> Stmt:
        """Return the call with the parameters of `prefix_tile` handed on."""
        return Eval(Call(self.name(rows, vectors), self.params(), None))

    def run(self, rows: Expr, vectors: Expr, args: tuple[Expr, ...]) -> Stmt:
        """Return the call of the micro-kernel for rows x vectors."""
        if len(self.tiles) == 1:
            return Eval(Call(self.name(*self.tiles[0]), args, None))
        return Eval(Call(f"{self.panel.prefix}_tile", (rows, vectors, *args), None))


def _pick(v: Expr, options: list[tuple[int, Stmt]]) -> Stmt:
    """Return the choice among ascending values as a balanced tree of comparisons."""
    if len(options) == 1:
        return options[0][1]
    half = len(options) // 2
    low, high = _pick(v, options[:half]), _pick(v, options[half:])
    return If(b.compare("<=", v, options[half - 1][0]), low, high)


# ---- the phase


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
        dots = kernels.dots()
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
    counts = [("row", g.mt), ("column", g.nt)]
    counts += [(i.name, panel.size(i.extent)) for i in reversed(panel.problem.outer)]
    rest, left = task, [c for _, c in counts]
    points: dict[str, Expr] = {}
    for n, (name, count) in enumerate(counts):
        is_last = all(b.value_of(c) == 1 for c in left[n + 1 :])
        points[name] = where.let(f"at_{name}", rest if is_last else b.mod(rest, count))
        if b.value_of(count) == 1:
            points[name] = b.c64(0)
        elif not is_last:
            rest = where.let(f"rest_{n}", b.div(rest, count))
    m0 = where.let("m0", b.mul(points.pop("row"), g.mc))
    n0 = where.let("n0", b.mul(points.pop("column"), g.nc))
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
        b.loop(i, 0, block.rows, inside.stmts, _pick(rows, calls), step=most),
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
    at = panel.var("at_m")
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
    if b.value_of(depth) == 0 and x.dots:  # nothing is read
        nowhere = _reach(panel, "c", p.c, True, m, n)[0]
        args += [nowhere, b.c64(0), b.c64(0), nowhere, b.c64(0)]
    else:
        row, step = panel.stride(p.a, p.m), panel.stride(p.a, p.k)
        block = b.offset(packed_a, b.mul(i, depth))
        if x.packs_a or row is None or step is None:
            args += [block, b.c64(1), rows]
        else:
            direct = b.offset(_origin(panel, "a", p.a), b.add(b.mul(m, row), b.mul(k0, step)))
            packed = b.compare("!=", g.pack_a, 0)
            args.append(b.select(packed, block, direct))
            args += [b.select(packed, b.c64(1), row), b.select(packed, rows, step)]
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
            args += [b.select(packed, block, direct), b.select(packed, columns, step)]
    if panel.has_stage:
        stage = b.pointer(panel.operands.local("stage"), panel.dtype)
        args += [stage, b.mul(g.nv, panel.lanes)]
    else:
        args += list(_reach(panel, "c", p.c, True, m, n))
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
