"""The walk of the micro-kernels over the register tiles of a block, and what a block is."""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.forms.base.scalars import narrow
from tcdsl.codegen.forms.contraction.ahead import ahead, with_bits, with_distance
from tcdsl.codegen.forms.contraction.blocking import Blocking, Extents
from tcdsl.codegen.forms.contraction.called import Kernels
from tcdsl.codegen.forms.contraction.lets import Lets
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.problem import Operand
from tcdsl.codegen.forms.contraction.ragged import Depths
from tcdsl.codegen.forms.contraction.register_tile import BEHIND, FIRST, LAST
from tcdsl.codegen.forms.contraction.schedule import goes_by_rows
from tcdsl.codegen.forms.contraction.words import TILED_PASS
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    TRUTH,
    Bin,
    Call,
    Cast,
    Const,
    Eval,
    Expr,
    If,
    Let,
    Pointer,
    Stmt,
    Var,
)
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TaskBlock:
    """The block of a task: its first row and column, and how many there are.

    at: the outer point, the first neighbour of a group. batches: neighbours in the group. cut:
    rows of the task before this part of it. stays: for a and b, whether the task before it left its
    panels packed; None: it cannot. b_ahead: how far ahead lines of b are fetched, if that is not
    its next panel.
    """

    at: Mapping[str, Expr]
    batches: Expr
    m0: Expr
    n0: Expr
    rows: Expr
    columns: Expr
    cut: Expr
    stays: tuple[Expr | None, Expr | None] = (None, None)
    b_ahead: Expr | None = None


def origins(panel: Panel, at: Mapping[str, Expr]) -> list[Stmt]:
    """Declare, for every operand, the pointer to the first element of the outer point.

    What is packed or stored for a whole group is reached from the group's first point.
    """
    named = [(n, x) for n, x in operands_of(panel) if not panel.is_near(x)]
    named += [(a.param, a.operand) for a in panel.finish.accesses]
    return [Let(origin(panel, name, x), address(panel, x, at)) for name, x in named]


def operands_of(panel: Panel) -> tuple[tuple[str, Operand], ...]:
    """Return the factors and the output by their names in emitted text."""
    p = panel.problem
    return ("a", p.a), ("b", p.b), ("c", p.c)


def origin(panel: Panel, name: str, x: Operand) -> Var:
    """Return the pointer that `origins` declares."""
    kind = panel.operands.pointer(x.buffer).type
    assert isinstance(kind, Pointer)
    return b.pointer(panel.operands.local(f"{name}_at"), kind.dtype, const=kind.const)


def address(panel: Panel, x: Operand, at: Mapping[str, Expr]) -> Expr:
    """Return the address of an operand's first element at an outer point."""
    steps = [b.mul(v, panel.size(x.stride(name))) for name, v in at.items()]
    return b.offset(panel.operands.pointer(x.buffer), b.add(panel.size(x.offset), *steps))


@dataclass(frozen=True, slots=True)
class DepthPass:
    """A pass along k: where it starts, how deep it goes, the micro-kernel's flag word."""

    k0: Expr
    depth: Expr
    flags: Expr


def area(panel: Panel, name: str) -> Var:
    """Return the pointer to an area of the workspace."""
    dtype = panel.packed if name.startswith("packed") else panel.dtype
    return b.pointer(panel.operands.local(name), dtype)


def of_batch(panel: Panel, name: str) -> Var:
    """Return the pointer to the part of an area that belongs to the matrix at hand."""
    p = panel.problem
    x = {"packed_a": p.a, "packed_b": p.b, "stage": p.c}[name]
    return area(panel, f"{name}_own" if panel.is_near(x) else name)


def tiles(panel: Panel, g: Blocking, kernels: Kernels, block: TaskBlock, now: DepthPass) -> Stmt:
    """Return the walk over the register tiles of a block.

    Panels of b outside, rows of a inside; or rows outside where the second level holds all of the
    block's panels and keeps up: then each row of a and of the output is gone to once, not once for
    each panel, and as many pages.
    """
    i, j = panel.var("i"), panel.var("j")
    width = b.mul(g.nv, panel.lanes)
    outside, inside = Lets(panel.var), Lets(panel.var)
    columns = outside.let("columns", b.min64(width, b.sub(block.columns, j)))
    vectors = outside.let("vectors", b.ceil_div(columns, panel.lanes))
    rows = inside.let("rows", b.min64(g.mr, b.sub(block.rows, i)))
    m, n = b.add(block.m0, i), b.add(block.n0, j)
    place = (m, n, rows, columns)
    part = _part_of_pass(panel, now)
    ahead_of_it, run, behind = one_tile(panel, g, kernels, block, now, place, vectors, part)
    shape, before, after = _shaped(panel, now, rows, columns)

    def by_columns(*body: Stmt) -> Stmt:
        return b.loop(j, 0, block.columns, outside.stmts, *body, step=width)

    def by_rows(*body: Stmt | None) -> Stmt:
        return b.loop(i, 0, block.rows, inside.stmts, *body, step=g.mr)

    tile = ahead_of_it, shape, run, behind
    rows_of_tiles = by_rows(*tile)
    if part is not None:  # without any k the sums are zero
        depth = b.max64(now.depth, 1)
        rows_of_tiles = b.loop(panel.var("skip"), 0, depth, rows_of_tiles, step=TILED_PASS)
    rows_outside = goes_by_rows(panel.extents(), kernels.machine, g)
    walk = b.either(rows_outside, by_rows(by_columns(b.block(*tile))), by_columns(rows_of_tiles))
    return b.block(before, walk, after)


def one_tile(
    panel: Panel,
    g: Blocking,
    kernels: Kernels,
    block: TaskBlock,
    now: DepthPass,
    place: Place,
    vectors: Expr,
    part: TilePart | None = None,
) -> tuple[Stmt | None, Stmt, Stmt]:
    """Return what a pass does for a tile: before its sums, its sums, behind them."""
    depths = Depths(panel, block.at)
    if panel.problem.statement.is_ragged and depths.by_row:
        run = _ragged_tile(panel, g, kernels, block, now, place, depths, vectors)
    else:
        args = _tile_args(panel, g, kernels, block, now, place, part)
        run = kernels.run(place[2], vectors, args)
    sums = _sums_at(panel, g, block, place)
    unstages = panel.has_stage and not panel.is_near(panel.problem.c)
    last = None
    if panel.has_pass:
        finishes = _is_last(now)
        if panel.base is not None:
            finishes = b.all_of(finishes, b.compare("!=", now.k0, 0))
        last = b.when(finishes, finish_call(panel, sums, place))
    behind = b.block(last, unstage(panel, sums, place) if unstages else None)
    ahead_of_it = fetched(panel, now, place) if panel.has_pass else None
    if part is not None:
        is_end = b.compare(">=", b.add(part.skip, TILED_PASS), now.depth)
        ahead_of_it = None if ahead_of_it is None else b.when(is_end, ahead_of_it)
        behind = b.when(is_end, behind)
    return ahead_of_it, run, behind


def _part_of_pass(panel: Panel, now: DepthPass) -> TilePart | None:
    """Return the part of a pass that all rows have before the next: of words in tiles, if deep.

    Its part of a panel stays in the first level, and sums go on where they have come to.
    """
    known = b.value_of(now.depth)
    if not panel.is_tiled or (known is not None and known <= TILED_PASS):
        return None
    skip = panel.var("skip")
    start = Bin("&", now.flags, b.c64(~FIRST), I64)
    flags = b.select(b.compare("==", skip, 0), now.flags, start)
    return TilePart(b.c64(0), skip, b.min64(TILED_PASS, b.sub(now.depth, skip)), flags)


def _shaped(
    panel: Panel, now: DepthPass, rows: Expr, columns: Expr
) -> tuple[Stmt | None, Stmt | None, Stmt | None]:
    """Return what gives the processor's tiles the shape for a product, before and behind a walk.

    Nobody else's shape stays, and ours is left to nobody: other code of the thread has its own.
    """
    if not panel.is_tiled:
        return None, None, None
    shape = panel.var("shape")
    args = shape, rows, columns, now.depth
    return (
        b.assign(shape, Call("tc_shape_tiles", args, I64)),
        Let(shape, b.c64(0), mutable=True),
        b.do("tc_drop_tiles"),
    )


def _is_last(now: DepthPass) -> Expr:
    known = b.value_of(now.flags)
    if known is not None:
        return Const(bool(int(known) & LAST), TRUTH)
    return b.compare("!=", Bin("&", now.flags, b.c64(LAST), I64), 0)


def _ragged_tile(
    panel: Panel,
    g: Blocking,
    kernels: Kernels,
    block: TaskBlock,
    now: DepthPass,
    place: Place,
    depths: Depths,
    vectors: Expr,
) -> Stmt:
    """Return a tile of which every row has its own values of k: those of all, then those of one."""
    m, _, rows, _ = place
    end = b.add(now.k0, now.depth)
    head, core, core_end = depths.core(m, rows, now.k0, end)
    r, low, high = panel.var("row"), panel.var("row_low"), panel.var("row_high")
    start = panel.var("row_start")
    first, behind = depths.of(b.add(m, r))

    def part(row: Expr, k: Expr, depth: Expr, flag: int) -> tuple[Expr, ...]:
        flags = Bin("&", now.flags, b.c64(flag), I64) if flag else b.c64(0)
        mine = TilePart(row, b.sub(k, now.k0), depth, flags)
        return _tile_args(panel, g, kernels, block, now, place, mine)

    one = b.c64(1)
    before = b.min64(high, core)
    is_left: Expr = b.compare("<", start, high)
    if panel.fuses and not panel.finish.is_plain:  # the epilogue comes with the last of them
        is_left = b.any_of(is_left, _is_last(now))
    left = b.max64(b.sub(high, start), 0)
    return b.block(
        head,
        kernels.run(rows, vectors, part(b.c64(0), core, b.sub(core_end, core), FIRST)),
        b.loop(
            r,
            0,
            rows,
            Let(low, b.max64(first, now.k0)),
            Let(high, b.min64(behind, end)),
            Let(start, b.max64(low, core_end)),
            If(
                b.compare("<", low, before),
                kernels.run(one, vectors, part(r, low, b.sub(before, low), 0)),
            ),
            If(is_left, kernels.run(one, vectors, part(r, start, left, LAST))),
        ),
    )


def finished(panel: Panel, g: Blocking, block: TaskBlock) -> Stmt:
    """Return the walk over a block whose sums lie in the output, for the pass alone."""
    i, j = panel.var("i"), panel.var("j")
    width = b.mul(g.nv, panel.lanes)
    outside, inside = Lets(panel.var), Lets(panel.var)
    columns = outside.let("columns", b.min64(width, b.sub(block.columns, j)))
    rows = inside.let("rows", b.min64(g.mr, b.sub(block.rows, i)))
    place = (b.add(block.m0, i), b.add(block.n0, j), rows, columns)
    last = finish_call(panel, reach(panel, "c", panel.problem.c, True, *place[:2]), place)
    each = b.loop(i, 0, block.rows, inside.stmts, last, step=g.mr)
    return b.loop(j, 0, block.columns, outside.stmts, each, step=width)


Place = tuple[Expr, Expr, Expr, Expr]  # of a register tile: row, column, rows, columns


def _sums_at(panel: Panel, g: Blocking, block: TaskBlock, place: Place) -> tuple[Expr, Expr]:
    """Return where the sums of a tile lie, and the stride of their rows."""
    m, n, _, _ = place
    if panel.is_near(panel.problem.c):
        row, column = b.add(block.cut, panel.var("i")), panel.var("j")
        return b.offset(of_batch(panel, "stage"), b.add(b.mul(row, g.nc), column)), g.nc
    if panel.waits:
        width = b.mul(g.nv, panel.lanes)
        stage = area(panel, "stage")
        return b.offset(stage, b.mul(panel.var("i"), width)) if panel.is_tiled else stage, width
    return reach(panel, "c", panel.problem.c, True, m, n)


def fetched(panel: Panel, now: DepthPass, place: Place) -> Stmt | None:
    """Return what fetches the lines that the pass over a tile reads, while its sums are formed."""
    m, n, rows, columns = place
    y, z = panel.var("y"), panel.var("z")
    lines: list[Stmt] = []
    for a in panel.finish.accesses:
        if a.row and a.along:
            first, row = reach(panel, a.param, a.operand, True, m, n)
            at = b.offset(first, b.add(b.mul(y, row), z))
            step = LINE // panel.stored(a.operand).size_bytes
            lines.append(b.loop(z, 0, columns, b.do("tc_prefetch", at), step=step))
    if not lines:
        return None
    return b.when(_is_last(now), b.loop(y, 0, rows, lines))


def finish_call(panel: Panel, sums: tuple[Expr, Expr], place: Place) -> Stmt:
    """Return the pass over a tile: from its sums to where they stay."""
    m, n, rows, columns = place
    to = sums if panel.has_stage else reach(panel, "c", panel.problem.c, True, m, n)
    args = (*sums, *to, rows, columns, *_finish_args(panel, m, n))
    return Eval(Call(f"{panel.prefix}_finish", args, None))


def _finish_args(panel: Panel, m: Expr, n: Expr) -> list[Expr]:
    """Return the arguments for what an epilogue reaches from a tile."""
    args: list[Expr] = []
    for access in panel.finish.accesses:
        reached = reach(panel, access.param, access.operand, access.along, m, n)
        args += reached if access.row else reached[:1]
    return args + [Var(panel.operands.local(v.name), v.type) for v, _ in panel.finish.uniforms]


@dataclass(frozen=True, slots=True)
class TilePart:
    """A part of a tile: from a row on, skip steps along k later than the pass, depth deep."""

    row: Expr
    skip: Expr
    depth: Expr
    flags: Expr


def _tile_args(
    panel: Panel,
    g: Blocking,
    kernels: Kernels,
    block: TaskBlock,
    now: DepthPass,
    place: Place,
    part: TilePart | None = None,
) -> tuple[Expr, ...]:
    """Return the arguments of the micro-kernel of a tile, or of a part of it."""
    p = panel.problem
    part = part or TilePart(b.c64(0), b.c64(0), now.depth, now.flags)
    i, j, k0, depth = panel.var("i"), panel.var("j"), b.add(now.k0, part.skip), now.depth
    m, n, rows, columns = b.add(place[0], part.row), *place[1:]
    x = panel.extents()
    packed_a, packed_b = (of_batch(panel, f"packed_{name}") for name in "ab")
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

    is_of_factors = panel.stored(p.c) == panel.dtype
    if b.value_of(depth) == 0 and x.dots and is_of_factors:  # nothing is read
        nowhere = reach(panel, "c", p.c, True, m, n)[0]
        walks(nowhere, b.c64(0), b.c64(0))
        args.append(nowhere)
        walk(b.c64(0), strides.b_k)
    else:
        inside = b.add(b.mul(part.skip, rows), part.row)
        if panel.is_tiled:
            inside = part.skip
        row_in_block = b.add(block.cut, i) if panel.packs_all_rows else i
        held = b.offset(packed_a, b.add(b.mul(row_in_block, depth), inside))
        walks(*rows_of_a(panel, g, x, held, rows, (m, k0), depth))
        step = panel.stride(p.b, p.k)
        panels = b.mul(j, b.add(depth, panel.starts))
        held = b.offset(packed_b, b.add(panels, b.mul(part.skip, columns)))
        if x.packs_b:
            args += [held, columns]
        elif step is None:
            direct = b.offset(origin(panel, "b", p.b), n)
            args += [direct, b.offset(panel.table(p.b, p.k), k0)]
        else:
            direct = b.offset(origin(panel, "b", p.b), b.add(b.mul(k0, step), n))
            packed = b.compare("!=", g.pack_b, 0)
            args.append(b.select(packed, held, direct))
            walk(b.select(packed, columns, step), strides.b_k)
    to, row = _sums_at(panel, g, block, place)
    args.append(b.offset(to, b.mul(part.row, row)))
    walk(row, strides.c_row)
    if strides.has_base:
        args += _base(panel, k0, place, args[-2:])
    flags = with_distance(panel, kernels.machine, part.flags, may_pass=kernels.may_pass)
    if strides.reads == "by flag":
        behind = b.select(b.compare("!=", g.pack_b, 0), b.c64(BEHIND), b.c64(0))
        flags = with_bits(flags, b.c64(BEHIND) if x.packs_b else behind)
    args += [part.depth, flags, columns]
    *rows_ahead, panel_ahead = ahead(panel, g, kernels.machine)
    args += rows_ahead if "a" in strides.asks else []
    args += [block.b_ahead or panel_ahead] if "b" in strides.asks else []
    args += _finish_args(panel, m, n) if panel.fuses else []
    assert len(args) == len(kernels.params())
    return tuple(args)


def _base(panel: Panel, k0: Expr, place: Place, to: list[Expr]) -> tuple[Expr, Expr]:
    """Return where what a tile goes on from lies, and the stride of its rows; to: the sums.

    The first pass goes on where it is the last too: what is added to several comes behind them, so
    that whoever has the tiles, the bits are the same.
    """
    there, row = to
    base = panel.base
    if base is None:
        return there, row
    first = reach(panel, base.param, base.operand, True, *place[:2])
    is_first = b.compare("==", k0, 0)
    return b.select(is_first, first[0], there), b.select(is_first, first[1], row)


def rows_of_a(
    panel: Panel,
    g: Blocking,
    x: Extents,
    held: Expr,
    rows: Expr,
    at: tuple[Expr, Expr],
    depth: Expr,
) -> tuple[Expr, Expr, Expr]:
    """Return where rows of a begin, and the distances of rows and of steps along k.

    held: where they lie if they are packed, so many rows together, depth steps deep. at: the first
    row and step.
    """
    p = panel.problem
    row, step = panel.stride(p.a, p.m), panel.stride(p.a, p.k)
    if panel.is_tiled:
        return _rows_in_bytes(panel, g, held, at, depth)
    if x.packs_a or row is None or step is None:
        return held, b.c64(1), rows
    m, k = at
    direct = b.offset(origin(panel, "a", p.a), b.add(b.mul(m, row), b.mul(k, step)))
    packed = b.compare("!=", g.pack_a, 0)
    return (
        b.select(packed, held, direct),
        b.select(packed, b.c64(1), row),
        b.select(packed, rows, step),
    )


def _rows_in_bytes(
    panel: Panel, g: Blocking, held: Expr, at: tuple[Expr, Expr], depth: Expr
) -> tuple[Expr, Expr, Expr]:
    """Return where rows of words for tiles begin, how many bytes apart, and their steps: 1."""
    p = panel.problem
    one, apart = b.c64(1), b.mul(depth, panel.packed.size_bytes)
    row = panel.stride(p.a, p.m)
    if b.value_of(g.pack_a) == 1 or row is None:
        return held, apart, one
    m, k = at
    direct = b.offset(origin(panel, "a", p.a), b.add(b.mul(m, row), b.mul(k, panel.per_step)))
    row = b.mul(row, panel.stored(p.a).size_bytes)
    packed = b.compare("!=", g.pack_a, 0)
    words = Cast(direct, Pointer(panel.packed, const=True))
    return b.select(packed, held, words), b.select(packed, apart, row), one


def reach(panel: Panel, name: str, x: Operand, along: bool, m: Expr, n: Expr) -> tuple[Expr, Expr]:
    """Return the address of a tile's first element and the stride of its rows."""
    row = panel.stride(x, panel.problem.m)
    assert row is not None, f"rows of '{x.buffer}' do not fuse"
    at = b.add(b.mul(m, row), n) if along else b.mul(m, row)
    return b.offset(origin(panel, name, x), at), row


def unstage(panel: Panel, sums: tuple[Expr, Expr], place: Place) -> Stmt:
    """Return the way of a tile from the workspace to an output without vectors along n.

    sums: where they lie, and the stride of their rows.
    """
    c = panel.problem.c
    row, step = panel.stride(c, panel.problem.m), panel.stride(c, panel.problem.n)
    assert row is not None, f"rows of '{c.buffer}' do not fuse"
    assert step is not None, f"columns of '{c.buffer}' do not fuse"
    y, z = panel.var("y"), panel.var("z")
    m, n, rows, columns = b.add(place[0], y), b.add(place[1], z), place[2], place[3]
    to = b.load(origin(panel, "c", c), b.add(b.mul(m, row), b.mul(n, step)))
    value = narrow(b.load(sums[0], b.add(b.mul(y, sums[1]), z)), panel.stored(c))
    return b.loop(z, 0, columns, b.loop(y, 0, rows, b.assign(to, value)))
