"""A block of a task: what is packed for it before the micro-kernels walk over its tiles.

Where the matrices of a batch lie inside each other, a block is that of a group of neighbours:
their operands are packed together, then each of them is walked by itself, and what has to lie
inside each other again is kept in the workspace until the last one is finished.
"""

from __future__ import annotations

from dataclasses import replace

from tcdsl.codegen.forms.contraction.blocking import AHEAD, Blocking, Extents
from tcdsl.codegen.forms.contraction.called import Kernels, joiner_name, packer_name
from tcdsl.codegen.forms.contraction.lets import Lets
from tcdsl.codegen.forms.contraction.packer import Packer, packer_params
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.problem import Index, Operand
from tcdsl.codegen.forms.contraction.register_tile import FIRST, LAST, WIDENS
from tcdsl.codegen.forms.contraction.tiles import (
    DepthPass,
    TaskBlock,
    address,
    area,
    of_batch,
    operands_of,
    origin,
    origins,
    rows_of_a,
    tiles,
)
from tcdsl.codegen.forms.contraction.words import (
    LEAST_EXPONENTS,
    LEAST_OF_ZEROS,
    TILED_COLUMNS,
)
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Assign,
    Bin,
    Call,
    Cast,
    Eval,
    Expr,
    Field,
    If,
    Let,
    Opaque,
    Stmt,
)
from tcdsl.grammar.types.dtypes import UINT16

_LOOKED_AT = 8 * TILED_COLUMNS  # columns of panels that are packed before they are looked at


def only_pass(panel: Panel, x: Extents) -> DepthPass:
    """Return the pass over all of k, which begins at zero or goes on from what there is."""
    goes_on = panel.resumes or panel.base is not None
    return DepthPass(b.c64(0), x.k, b.c64(LAST if goes_on else FIRST | LAST))


def one_pass(panel: Panel, g: Blocking, kernels: Kernels, block: TaskBlock, now: DepthPass) -> Stmt:
    """Return the packing of a pass and its tiles, of one matrix or of a group of neighbours."""
    near = panel.neighbours
    if near is None:
        return _matrix(panel, g, kernels, block, now)
    p = panel.problem
    batch = panel.var("batch")
    own = [
        Let(of_batch(panel, name), b.offset(area(panel, name), b.mul(batch, apart)))
        for name, x, apart in _apart(panel, g)
        if panel.is_near(x)
    ]
    each = b.loop(
        batch,
        0,
        block.batches,
        origins(panel, {**block.at, near.name: b.add(block.at[near.name], batch)}),
        own,
        _matrix(panel, g, kernels, block, now),
    )
    return b.block(
        [
            Let(origin(panel, name, x), address(panel, x, block.at))
            for name, x in operands_of(panel)
            if panel.is_near(x)
        ],
        packing(panel, "b", g, block, now) if panel.is_near(p.b) else None,
        packing(panel, "a", g, block, now) if panel.is_near(p.a) else None,
        each,
        _join(panel, g, block) if panel.is_near(p.c) else None,
    )


def _apart(panel: Panel, g: Blocking) -> list[tuple[str, Operand, Expr]]:
    """Return what lies in the workspace once per neighbour, and how far apart it is."""
    p = panel.problem
    return [
        ("packed_a", p.a, b.mul(g.mb, g.kc)),
        ("packed_b", p.b, b.mul(g.nc, g.kc)),
        ("stage", p.c, b.mul(g.mc, g.nc)),
    ]


def _matrix(panel: Panel, g: Blocking, kernels: Kernels, block: TaskBlock, now: DepthPass) -> Stmt:
    """Return what a pass does for one matrix, by cache blocks: b stays, rows of a change."""
    p = panel.problem
    if _is_looked_at(panel) and panel.is_tiled:
        head: Stmt | None = _looked_at_panels(panel, g, block, now)
    else:
        head = None if panel.is_near(p.b) else _panels(panel, g, block, now)
        if _is_looked_at(panel):
            head = b.block(head, Let(panel.var("least_b"), _least_of_words(panel, "b", block, now)))
    if panel.packs_all_rows:
        head = b.block(head, _packing_once(panel, "a", g, block, now))

    def rows_from(part: TaskBlock) -> Stmt:
        look, flags = looked_through(panel, g, part, now)
        packed = panel.is_near(p.a) or panel.packs_all_rows
        return b.block(
            None if packed else _packing_once(panel, "a", g, part, now),
            look,
            tiles(panel, g, kernels, part, replace(now, flags=flags)),
        )

    if g.mb == g.mc:
        return b.block(head, rows_from(block))
    at = panel.var("cut")
    where = Lets(panel.var)
    part = replace(
        block,
        m0=where.let("m1", b.add(block.m0, at)),
        rows=where.let("part_rows", b.min64(g.mb, b.sub(block.rows, at))),
        cut=at,
    )
    rest = rows_from(part)
    return b.block(head, b.loop(at, 0, block.rows, where.stmts, rest, step=g.mb))


def staying(
    panel: Panel, g: Blocking, block: TaskBlock, task: Expr
) -> tuple[Expr | None, Expr | None]:
    """Return for a and b whether the task before this one left its panels packed; None: never.

    It is the same block of a matrix that the innermost outer indices do not choose, and a task has
    all of its k at once. So weights of a convolution are packed once for its lines.
    """
    p, x = panel.problem, panel.extents()
    if panel.neighbours is not None or p.statement.is_ragged:
        return None, None
    is_next = b.all_of(b.compare(">", task, b.BEGIN), b.compare(">=", g.kc, x.k))
    whole = (
        b.all_of(b.compare("==", g.mt, 1), b.compare(">=", g.mb, x.m)),
        b.compare("==", g.nt, 1),
    )

    def inner(operand: Operand) -> list[Expr]:
        """Return whether an index is past its first value that does not choose the matrix."""
        found: list[Expr] = []
        for i in reversed(p.outer):
            if operand.uses(i.name):
                break
            found.append(b.compare(">", block.at[i.name], 0))
        return found

    moved_a, moved_b = inner(p.a), inner(p.b)
    stays_a = b.all_of(is_next, whole[0], b.any_of(b.compare(">", block.n0, 0), *moved_a))
    within = b.all_of(whole[1], b.any_of(*moved_b))
    stays_b = b.all_of(is_next, b.any_of(b.compare(">", block.m0, 0), within))
    if _is_looked_at(panel):  # b is looked at as it is packed
        moved_b = []
    return stays_a if moved_a else None, stays_b if moved_b else None


def _packing_once(
    panel: Panel, name: str, g: Blocking, block: TaskBlock, now: DepthPass
) -> Stmt | None:
    """Return the packing of the block of an operand, unless its panels are there already."""
    run, stays = packing(panel, name, g, block, now), block.stays["ab".index(name)]
    return run if run is None or stays is None else b.when(b.not_(stays), run)


def _panels(panel: Panel, g: Blocking, block: TaskBlock, now: DepthPass) -> Stmt | None:
    """Return what gets a pass its panels of b: those that are there already, or its own."""
    own = _packing_once(panel, "b", g, block, now)
    if panel.kept is None:
        return own
    held, kept = area(panel, "packed_b"), kept_panels(panel, block, now.k0)
    if b.value_of(g.pack_b) == AHEAD:
        return Let(held, kept)
    return If(b.compare("==", g.pack_b, AHEAD), Assign(held, kept), own)


def _looked_at_panels(panel: Panel, g: Blocking, block: TaskBlock, now: DepthPass) -> Stmt:
    """Return what packs b, some panels at a time, and looks at these while they are nearby."""
    j, least = panel.var("panels_at"), panel.var("least_b")
    names = Lets(panel.var)
    columns = names.let("panel_columns", b.min64(_LOOKED_AT, b.sub(block.columns, j)))
    some = replace(block, n0=b.add(block.n0, j), columns=columns)
    to = b.offset(area(panel, "packed_b"), b.mul(j, now.depth))
    here = Call("tc_least_bf16", (to, b.mul(columns, now.depth)), I64)
    each = b.block(
        names.stmts,
        packing(panel, "b", g, some, now, to=to),
        Assign(least, b.min64(least, here)),
    )
    return b.block(
        Let(least, b.c64(LEAST_OF_ZEROS), mutable=True),
        b.loop(j, 0, block.columns, each, step=_LOOKED_AT),
    )


def packer_of(panel: Panel, x: Operand, along: tuple[Index, ...]) -> Packer:
    """Return the packer of an operand, whose panels run along a fused index."""
    k = panel.problem.k
    stored = panel.stored(x)
    return Packer(
        UINT16 if panel.words is not None and stored.is_half else stored,  # its bits
        panel.packed,
        panel.lanes,
        panel.unit(x, along),
        x_table=x.linear(along) is None,
        k_table=x.linear(k) is None,
        word=None if panel.words is None else panel.words.of("a" if x == panel.problem.a else "b"),
    )


def looked_through(
    panel: Panel, g: Blocking, part: TaskBlock, now: DepthPass
) -> tuple[list[Stmt], Expr]:
    """Return what looks at words, and the flags for them: they may have to be widened."""
    if not _is_looked_at(panel):
        return [], now.flags
    least_a = _least_of_words(panel, "a", part, now)
    if panel.is_tiled:  # they may lie where they are
        held, at = area(panel, "packed_a"), (part.m0, now.k0)
        first, row, _ = rows_of_a(panel, g, panel.extents(), held, part.rows, at, now.depth)
        least_a = Call("tc_least_rows_bf16", (first, row, part.rows, now.depth), I64)
    names = Lets(panel.var)
    both = names.let("least", b.add(least_a, panel.var("least_b")))
    fits = b.compare(">=", both, LEAST_EXPONENTS)
    flags = b.select(fits, now.flags, Bin("|", now.flags, b.c64(WIDENS), I64))
    return names.stmts, names.let("word_flags", flags)


def _is_looked_at(panel: Panel) -> bool:
    """Whether there are words that their function takes for zero."""
    return panel.words is not None and panel.words.widening is not None


def _least_of_words(panel: Panel, name: str, part: TaskBlock, now: DepthPass) -> Expr:
    """Return the least exponent among packed words of a, "a", or of b."""
    words = b.mul(part.rows if name == "a" else part.columns, now.depth)
    return Call("tc_least_bf16", (area(panel, f"packed_{name}"), words), I64)


def kept_panels(panel: Panel, block: TaskBlock, k0: Expr, behind: Expr | None = None) -> Expr:
    """Return where the panels of a block's columns lie, from one depth on, of a b packed ahead.

    behind: elements of panels before those that are meant.
    """
    assert panel.kept is not None
    first = b.add(b.mul(block.n0, panel.extents().k), b.mul(k0, block.columns))
    first = first if behind is None else b.add(first, behind)
    base = b.offset(Field(b.ARGS, "shared", Opaque("char *")), panel.kept)
    return b.offset(Cast(base, area(panel, "packed_b").type), first)


def packing(
    panel: Panel,
    name: str,
    g: Blocking,
    block: TaskBlock,
    now: DepthPass,
    width: Expr | None = None,
    to: Expr | None = None,
) -> Stmt | None:
    """Return the packing of the block of an operand, if it is packed.

    width: of a panel, by default that of a register tile. to: where it goes, by default to the
    beginning of its area.
    """
    p = panel.problem
    if width is None:
        width = g.mr if name == "a" else b.mul(g.nv, panel.lanes)
    x, along, flag = (p.a, p.m, g.pack_a) if name == "a" else (p.b, p.n, g.pack_b)
    first, count = (block.m0, block.rows) if name == "a" else (block.n0, block.columns)
    if b.value_of(flag) == 0:
        return None
    spec = packer_of(panel, x, along)
    source: Expr = origin(panel, name, x)
    directions: list[Expr] = []
    k0, depth = b.mul(now.k0, panel.per_step), now.depth
    if panel.words is not None:  # the last word may be a part of one
        depth = b.min64(b.mul(depth, panel.per_step), b.sub(panel.extent(p.k), k0))
    for fused, low in ((along, first), (p.k, k0)):
        stride = panel.stride(x, fused)
        if stride is None:  # offsets from the first element, from the block's first entry on
            directions.append(b.offset(panel.table(x, fused), low))
        else:
            directions.append(stride)
            source = b.offset(source, b.mul(low, stride))
    to = area(panel, f"packed_{name}") if to is None else to
    args = [source, *directions, to, depth, count, width]
    if spec.unit == "batch":
        args += [next(d for n, _, d in _apart(panel, g) if n == f"packed_{name}"), block.batches]
    if panel.words is not None and panel.stored(x) != spec.source:
        args[0] = Cast(args[0], packer_params(spec)[0].type)
    if spec.unit in ("far_x", "far_k"):
        args.append(panel.extent((along if spec.unit == "far_x" else p.k)[1:]))
    assert len(args) == len(packer_params(spec))
    run = Eval(Call(packer_name(panel, name, spec), tuple(args), None))
    return b.when(b.compare("!=", flag, 0), run)


def _join(panel: Panel, g: Blocking, block: TaskBlock) -> Stmt:
    """Return the way of the finished blocks of a group to their places inside each other."""
    c = panel.problem.c
    row, step = panel.stride(c, panel.problem.m), panel.stride(c, panel.problem.n)
    assert row is not None, f"rows of '{c.buffer}' do not fuse"
    first = b.mul(block.m0, row)
    if step is None:
        step = b.offset(panel.table(c, panel.problem.n), block.n0)
    else:
        first = b.add(first, b.mul(block.n0, step))
    args = (
        area(panel, "stage"),
        b.mul(g.mc, g.nc),
        g.nc,
        b.offset(origin(panel, "c", c), first),
        row,
        step,
        block.rows,
        block.columns,
        block.batches,
    )
    return Eval(Call(joiner_name(panel), args, None))
