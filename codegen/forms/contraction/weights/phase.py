"""The nest around the micro-kernels of a weight gradient.

A task is a group of strips, an outer point and a panel of columns; its sums, one row of `width`
elements for each channel and tap, lie in shared memory, or in its own if it is the only group.
Per strip it packs b, then runs over channels and over the taps of outer axes; those of the
innermost lie in the register tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tcdsl.codegen.forms.contraction.packer import packer_params
from tcdsl.codegen.forms.contraction.problem import Index
from tcdsl.codegen.forms.contraction.register_tile import FIRST
from tcdsl.codegen.forms.contraction.weights.finish import stored_rows
from tcdsl.codegen.forms.contraction.weights.kernel import (
    Steps,
    WeightTile,
    weight_kernel,
    weight_kernel_params,
)
from tcdsl.codegen.forms.contraction.weights.nest import (
    WeightNest,
    b_steps,
    is_cut,
    pack_function,
    packer_of,
)
from tcdsl.codegen.forms.contraction.weights.schedule import parts
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Call,
    Cast,
    Elem,
    Eval,
    Expr,
    Function,
    If,
    Let,
    Return,
    Stmt,
    Table,
    Var,
)
from tcdsl.grammar.types.dtypes import INT32


def _tables(nest: WeightNest) -> dict[str, tuple[Table, Table]]:
    """Return, for outer axes with borders, first pixel and end of each tap."""
    out: dict[str, tuple[Table, Table]] = {}
    for axis in nest.problem.axes[:-1]:
        if axis.taps > 1 and not axis.is_whole:
            spans = [axis.pixels(t) for t in range(axis.taps)]
            stem = f"{nest.prefix}_{axis.pixel.name}"
            out[axis.pixel.name] = (
                Table(f"{stem}_first", I64, tuple(s.start for s in spans)),
                Table(f"{stem}_stop", I64, tuple(s.stop for s in spans)),
            )
    return out


# ---- micro-kernels


def _tiles(nest: WeightNest, columns: int) -> Iterator[tuple[str, range, int, WeightTile]]:
    """Yield the register tiles of a panel: name, first and last channel and step, the tile."""
    p, c = nest.problem, nest.choice
    inner = p.axes[-1]
    steps = Steps(
        b.value_of(nest.along(p.a, p.channels)),
        b.value_of(nest.stride(p.a, inner.tap)),
        tuple(b.value_of(nest.stride(p.a, x.pixel)) for x in p.axes),
        tuple(map(b.value_of, b_steps(nest, columns))),
    )
    whole = p.channel_count // c.channels * c.channels
    rest = p.channel_count - whole
    spans = [(c.channels, range(whole)), (rest, range(whole, p.channel_count))]
    for taps in parts(inner.taps, c.taps):
        for channels, span in spans:
            if not span:
                continue
            name = f"{nest.prefix}_tile_{channels}x{len(taps)}_{columns}"
            if len(taps) < inner.taps:
                name += f"_from{taps.start}"
            yield (
                name,
                range(span.start, span.stop, channels),
                taps.start,
                WeightTile(
                    channels,
                    taps,
                    columns,
                    nest.lanes,
                    p.dtype,
                    inner,
                    steps,
                    p.row_stride(p.channels[-1].name) if p.channels else 0,
                    p.row_stride(inner.tap.name) if inner.tap is not None else 0,
                    nest.width,
                    is_cut(nest),
                ),
            )


def _panel_widths(nest: WeightNest) -> list[int]:
    """Return the columns of whole panels and of the last one, as far as they differ."""
    panels = -(-nest.problem.column_count // nest.width)
    last = nest.problem.column_count - (panels - 1) * nest.width
    return [last] if panels == 1 or last == nest.width else [nest.width, last]


# ---- the phase


def weight_phase(nest: WeightNest) -> tuple[list[Function], list[Table]]:
    """Return the micro-kernels, the packer and the phase, which comes last, and its tables."""
    p, ops = nest.problem, nest.operands
    tables = _tables(nest)
    widths = _panel_widths(nest)
    functions = [weight_kernel(name, t) for w in widths for name, _, _, t in _tiles(nest, w)]
    head: list[Stmt] = [] if nest.is_direct else [*nest.planned(), *nest.sums()]
    if nest.choice.pack:
        functions.append(pack_function(nest.prefix, p, nest.lanes))
        packed = nest.pointer("packed_b")
        head.append(Let(packed, Cast(b.WORKSPACE, packed.type)))
    task, group, panel = nest.var("task"), nest.var("group"), nest.var("panel")
    place, at = nest.placed(panel, group)
    strip, first, block = nest.var("strip"), nest.var("first_strip"), nest.pointer("block")
    body = b.loop(
        strip,
        first,
        b.min64(b.add(first, nest.each), nest.total),
        _strip(nest, strip, first, widths, tables),
    )
    tasks = b.loop(
        task,
        b.BEGIN,
        b.END,
        place,
        Let(block, _sums_of(nest, task, block)),
        Let(first, b.mul(group, nest.each)),
        body,
        stored_rows(nest, at, b.c64(0), b.c64(p.row_count)) if nest.is_direct else None,
    )
    whole = ops.declare(b.block(head, tasks))
    name = f"{nest.prefix}_sums"
    functions.append(b.phase_function(name, b.block(whole, Return(b.const(0, INT32)))))
    return functions, [t for pair in tables.values() for t in pair]


def _sums_of(nest: WeightNest, task: Var, block: Var) -> Expr:
    """Return where the sums of a task lie."""
    if nest.is_direct:
        return Cast(b.offset(b.WORKSPACE, nest.packed_bytes), block.type)
    return b.offset(nest.pointer("sums"), b.mul(task, nest.block_elements))


def _strip(
    nest: WeightNest,
    strip: Var,
    first: Var,
    widths: list[int],
    tables: Mapping[str, tuple[Table, Table]],
) -> Stmt:
    """Return the work on one strip: where it lies, its packing, its register tiles."""
    p = nest.problem
    out: list[Stmt] = []
    starts: list[Expr] = []
    lengths: list[Expr] = []
    inside = nest.strips.total
    for n, (axis, blocks) in enumerate(zip(p.axes, nest.strips.counts, strict=True)):
        inside //= blocks
        size = nest.strips.block(n, axis.extent)
        is_open = axis.pixel.extent.constant is None  # the first one: all above is its position
        position = b.div(strip, inside)
        if not is_open:
            position = b.mod(position, blocks)
        start: Expr = b.c64(0)
        if blocks > 1 or is_open:
            start = nest.var(f"{axis.pixel.name}_start")
            out.append(Let(start, b.mul(position, size)))
        starts.append(start)
        if size == 1 or (axis.extent % size == 0 and not is_open):
            lengths.append(b.c64(size))
        else:
            length = nest.var(f"{axis.pixel.name}_length")
            extent = nest.size(axis.pixel.extent)
            out.append(Let(length, b.min64(b.c64(size), b.sub(extent, start))))
            lengths.append(length)
    flags = nest.var("flags")
    is_first = b.compare("==", strip, first)
    out.append(Let(flags, b.select(is_first, b.c64(FIRST), b.c64(0))))

    def panel_work(columns: int) -> Stmt:
        return b.block(
            _pack(nest, columns, starts, lengths) if nest.choice.pack else None,
            _windows(nest, columns, starts, lengths, tables),
        )

    if len(widths) == 1:
        return b.block(out, panel_work(widths[0]))
    is_whole = b.compare("<", nest.var("panel"), b.sub(nest.panels, 1))
    return b.block(out, If(is_whole, panel_work(widths[0]), panel_work(widths[1])))


def _windows(
    nest: WeightNest,
    columns: int,
    starts: list[Expr],
    lengths: list[Expr],
    tables: Mapping[str, tuple[Table, Table]],
) -> Stmt:
    """Return the loops over channels and over the taps of outer axes, and the tiles inside."""
    p, pack = nest.problem, nest.choice.pack
    steps = b_steps(nest, columns)
    head: list[Stmt] = []
    a_at: list[Expr] = []
    b_at: list[Expr] = []
    rows: list[Expr] = []
    counts: list[Expr] = []
    loops: list[tuple[Var, int]] = []
    for n, axis in enumerate(p.axes[:-1]):
        tap: Expr = b.c64(0)
        if axis.tap is not None and axis.taps > 1:
            tap = nest.var(f"tap_{axis.tap.name}")
            loops.append((tap, axis.taps))
        low, end = starts[n], b.add(starts[n], lengths[n])
        if axis.pixel.name in tables:
            ends = tables[axis.pixel.name]
            first, stop = (Elem(t.name, (tap,), I64) for t in ends)
            low, end = b.max64(low, first), b.min64(end, stop)
        elif not axis.is_whole:
            span = axis.pixels(0)
            low, end = b.max64(low, span.start), b.min64(end, span.stop)
        length = lengths[n]
        if not axis.is_whole:
            names = nest.var(f"{axis.pixel.name}_from"), nest.var(f"{axis.pixel.name}_count")
            head += [Let(names[0], low), Let(names[1], b.max64(b.sub(end, names[0]), 0))]
            low, length = names
        counts.append(length)
        a_at += [b.mul(low, nest.stride(p.a, axis.pixel)), b.mul(tap, nest.stride(p.a, axis.tap))]
        b_at.append(b.mul(b.sub(low, starts[n]) if pack else low, steps[n]))
        if axis.tap is not None:
            rows.append(b.mul(tap, p.row_stride(axis.tap.name)))
    if is_cut(nest):
        counts += [starts[-1], b.add(starts[-1], lengths[-1])]
        if pack:  # pixels count from the first of the axis
            b_at.append(b.mul(starts[-1], b.sub(0, steps[-1])))
    a_line, b_line = nest.pointer("a_line", const=True), nest.pointer("b_line", const=True)
    sums = nest.pointer("tile_sums")
    head.append(Let(a_line, b.offset(nest.pointer("a_at", const=True), b.add(*a_at))))
    if nest.choice.pack:
        start: Expr = nest.pointer("packed_b")
    else:
        skipped = b.mul(nest.var("panel"), nest.width, nest.along(p.b, p.columns))
        start = b.offset(nest.pointer("b_at", const=True), skipped)
    head.append(Let(b_line, b.offset(start, b.add(*b_at))))
    head.append(Let(sums, b.offset(nest.pointer("block"), b.mul(b.add(*rows), nest.width))))
    runs = [
        _run_tiles(nest, name, span, tap, t, (a_line, b_line, sums), counts)
        for name, span, tap, t in _tiles(nest, columns)
    ]
    body = b.block(head, runs)
    for v, taps in reversed(loops):
        body = b.loop(v, 0, taps, body)
    return body


def _run_tiles(
    nest: WeightNest,
    name: str,
    channels: range,
    tap: int,
    t: WeightTile,
    lines: tuple[Var, Var, Var],
    counts: list[Expr],
) -> Stmt:
    """Return the calls of one register tile for its channels."""
    p = nest.problem
    a_line, b_line, sums = lines
    values = {
        "a_channel": nest.along(p.a, p.channels),
        "a_tap": nest.stride(p.a, p.axes[-1].tap),
    }
    for n, (axis, b_step) in enumerate(zip(p.axes, b_steps(nest, t.columns), strict=True)):
        values[f"a_axis{n}"] = nest.stride(p.a, axis.pixel)
        values[f"b_axis{n}"] = b_step
    c = nest.var("channel")
    row = b.add(b.mul(c, t.channel_rows), tap * t.tap_rows)
    args = (
        b.offset(a_line, b.mul(c, values["a_channel"])),
        b_line,
        *(values[n] for n, known in t.steps.named() if known is None),
        b.offset(sums, b.mul(row, nest.width)),
        *counts,
        nest.var("flags"),
    )
    assert len(args) == len(weight_kernel_params(t))
    call = Eval(Call(name, args, None))
    return b.loop(c, channels.start, channels.stop, call, step=channels.step)


# ---- packing


def _pack(nest: WeightNest, columns: int, starts: list[Expr], lengths: list[Expr]) -> Stmt:
    """Return the packing of a strip, in pieces in which b has one stride from pixel to pixel."""
    p = nest.problem
    steps = b_steps(nest, columns)
    piece: tuple[Index, ...] = (p.axes[-1].pixel,)
    depth = lengths[-1]
    n = len(p.axes) - 1
    # axes inside the cut are whole; the cut one is the last that a piece can take
    while n > 0 and n - 1 >= nest.strips.cut:
        longer = (p.axes[n - 1].pixel, *piece)
        if p.b.linear(longer) is None:
            break
        piece, n = longer, n - 1
        depth = b.mul(depth, lengths[n])
    source = [
        b.mul(nest.var("panel"), nest.width, nest.along(p.b, p.columns)),
        b.mul(starts[-1], nest.stride(p.b, p.axes[-1].pixel)),
    ]
    target: list[Expr] = []
    loops: list[tuple[Var, Expr]] = []
    for k, axis in enumerate(p.axes[:-1]):
        at = starts[k]
        if k < n and b.value_of(lengths[k]) != 1:
            i = nest.var(f"pack_{axis.pixel.name}")
            loops.append((i, lengths[k]))
            at = b.add(at, i)
            target.append(b.mul(i, steps[k]))
        source.append(b.mul(at, nest.stride(p.b, axis.pixel)))
    along = p.b.linear(piece)
    assert along is not None, "extended while linear"
    args = (
        b.offset(nest.pointer("b_at", const=True), b.add(*source)),
        nest.along(p.b, p.columns),
        nest.size(along),
        b.offset(nest.pointer("packed_b"), b.add(*target)),
        depth,
        b.c64(columns),
        b.c64(nest.width),
    )
    assert len(args) == len(packer_params(packer_of(p, nest.lanes)))
    body: Stmt = Eval(Call(pack_function(nest.prefix, p, nest.lanes).name, args, None))
    for v, extent in reversed(loops):
        body = b.loop(v, 0, extent, body)
    return body
