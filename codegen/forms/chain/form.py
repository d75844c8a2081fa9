"""Chains: two products with passes along rows between them, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.chain.nest import SHARE, TASKS, ChainNest, Tile, row_bytes
from tcdsl.codegen.forms.chain.parts import Parts, parts_of
from tcdsl.codegen.forms.chain.planned import planned_chain, products_ns
from tcdsl.codegen.forms.contraction import form as contraction
from tcdsl.codegen.forms.contraction.blocking import PANEL, Blocking
from tcdsl.codegen.forms.contraction.called import Kernels, strides_of
from tcdsl.codegen.forms.contraction.choice import number
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.problem import extent_of
from tcdsl.codegen.forms.contraction.schedule import register_tiles
from tcdsl.codegen.forms.rows import schedule
from tcdsl.codegen.forms.rows.point import RowWalk
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.machine.wall import wall_ns
from tcdsl.codegen.program.triangles import FAR
from tcdsl.grammar.text.errors import InternalError
from tcdsl.grammar.types.dtypes import FLOAT64

_DEEPEST = 512  # terms of the first product: its sums are finished in one pass
_FEWEST = 24  # rows of a matrix of any sizes: products of fewer have methods of their own
_BLOCKS = (1, 2, 4, 8, 12, 16, 24, 32)  # of register tiles


def matches(ctx: Context) -> bool:
    """Whether the group is a chain, whose products have register tiles."""
    if ctx.is_exact() and not _has_points(ctx):
        return False
    parts = ctx.once("chain parts", lambda: parts_of(ctx))
    if parts is None or not _has_points(ctx):
        return False
    p = parts.scores.problem
    if ctx.at_least(p.k[0].extent, _DEEPEST + 1):
        return False
    if parts.chain.limit is not None and any(ctx.at_least(x[0].extent, FAR) for x in (p.m, p.n)):
        return False  # where a condition in int32 is none on columns
    if not ctx.is_exact():
        return ctx.at_least(p.m[0].extent, _FEWEST)
    methods = {str(contraction.default(x)["method"]) for x in _products(parts)}
    return "stream" not in methods and _rows(parts) >= _tile(parts.scores_ctx)[0]


def _has_points(ctx: Context) -> bool:
    """Whether no range is empty."""
    return all(ctx.at_least(r.extent, 1) for s in ctx.group.statements for r in s.ranges)


def _products(parts: Parts) -> tuple[Context, Context]:
    return parts.scores_ctx, parts.product_ctx


def _parts(ctx: Context) -> Parts:
    """Return the parts of a chain, by the names of a config."""
    parts = parts_of(ctx)
    if parts is None:
        raise InternalError(f"{ctx.prefix} is no chain")
    return parts


def _rows(parts: Parts) -> int:
    return parts.scores_ctx.extent(parts.scores.problem.m[0].extent)


def _row_bytes(parts: Parts) -> int:
    columns = parts.scores_ctx.extent(parts.scores.problem.n[0].extent)
    return number(row_bytes(parts, b.c64(columns)))


def _matrices(parts: Parts) -> int:
    return parts.scores_ctx.extent(extent_of(parts.scores.problem.outer))


def _tile(ctx: Context) -> tuple[int, int]:
    mr, nv = str(contraction.default(ctx)["tile"]).split("x")
    return int(mr), int(nv)


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return the register tiles of both products, the rows of a block, tasks for each matrix.

    With sizes not known the plan makes these choices.
    """
    if not ctx.is_exact():
        return ()
    parts, chosen = _parts(ctx), default(ctx)
    shapes = tuple(f"{m}x{v}" for m, v in register_tiles(ctx.machine) if m <= _rows(parts))
    mr = _tile(parts.scores_ctx)[0]
    blocks = {mr * n for n in _BLOCKS if mr * n <= _rows(parts)} | {int(chosen["block"])}
    counts = {n for n in (1, 2, 4, 8, 16) if n * mr <= _rows(parts)} | {int(chosen["rows"])}
    return (
        Knob("scores", shapes),
        Knob("product", shapes),
        Knob("block", tuple(sorted(blocks))),
        Knob("rows", tuple(sorted(counts))),
    )


def default(ctx: Context) -> dict[str, Value]:
    """Return blocks that leave the caches to the factors, tasks enough for the threads."""
    if not ctx.is_exact():
        return {}
    parts = _parts(ctx)
    mr, nv = _tile(parts.scores_ctx)
    rows, matrices = _rows(parts), _matrices(parts)
    fit = ctx.machine.l2_bytes // SHARE // _row_bytes(parts)
    block = mr * max(2, fit // mr)
    block = min(block, mr * ceil(rows / mr))
    if block >= rows:
        block = rows
    threads = ctx.spec.threads
    wanted = ceil(threads * TASKS / matrices) if threads > 1 else 1
    return {
        "scores": f"{mr}x{nv}",
        "product": str(contraction.default(parts.product_ctx)["tile"]),
        "block": block,
        "rows": max(1, min(wanted, ceil(rows / block))),
    }


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call with the spec's threads (`wall.py`)."""
    parts = _parts(ctx)
    threads, matrices, rows = ctx.spec.threads, _matrices(parts), _rows(parts)
    total = 0.0
    if ctx.is_exact():
        for part, name in zip(_products(parts), ("scores", "product"), strict=True):
            chosen = {**contraction.default(part), "tile": values[name]}
            total += contraction.cost_ns(part, chosen) * min(threads, matrices * rows)
        block, count = int(values["block"]), int(values["rows"])
    else:
        total = sum(map(products_ns, _products(parts), (parts.scores, parts.product)))
        block = max(1, ctx.machine.l2_bytes // SHARE // max(1, _row_bytes(parts)))
        count = max(1, min(threads, ceil(rows / block)))
    walk = _walk(parts)
    along = schedule.point_ns(parts.rows_ctx, parts.rows, walk)
    total += matrices * rows * (parts.rows_ctx.extent(parts.rows.row_length()) * along + 15.0)
    if parts.chain.limit is not None:
        total *= 0.6
    total *= 1.0 + 2.0 / block  # calls, and panels that are gone through for each block
    if block * _row_bytes(parts) > ctx.machine.l2_bytes // 2:
        total *= 1.2
    return wall_ns(total, matrices * count, threads)


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase, whose tasks are some rows of a matrix."""
    parts = _parts(ctx)
    if not ctx.is_exact():
        return planned_chain(ctx, parts, _walk(parts), cost_ns(ctx, values))
    rows, block = _rows(parts), int(values["block"])
    each = ceil(ceil(rows / int(values["rows"])) / block) * block
    scores = _blocking(
        parts.scores_ctx, parts.scores, str(values["scores"]), block, each, in_blocks=True
    )
    product = _blocking(
        parts.product_ctx, parts.product, str(values["product"]), block, block, in_blocks=False
    )
    heights = {min(block, rows), rows % block} - {0}
    tile = Tile.of(parts, b.c64(block))
    nest = ChainNest(
        parts,
        scores,
        _kernels(ctx, parts.scores, scores, heights),
        product,
        _kernels(ctx, parts.product, product, heights),
        _walk(parts),
        tile,
        ctx.prefix,
    )
    functions, arena = nest.functions()
    tasks = _matrices(parts) * ceil(rows / each)
    words = f"chain {values['scores']}, rows, {values['product']} in blocks of {block}"
    if parts.chain.limit is not None:
        words += ", what is empty skipped"
    ns = cost_ns(ctx, values) * min(ctx.spec.threads, tasks)
    phase = Phase(functions[-1].name, b.c64(tasks), b.const(ns, FLOAT64))
    return Lowered(words, tuple(functions), (phase,), (), b.add(nest.places()[-1], arena), b.c64(0))


def _blocking(
    ctx: Context, panel: Panel, tile: str, block: int, each: int, in_blocks: bool
) -> Blocking:
    """Return the blocking of a product: each rows a task, in blocks where these are parts of it.

    b is packed once a task: where a block is one, only if it has to be.
    """
    x, chosen = panel.extents(), contraction.default(ctx)
    mr, nv = map(int, tile.split("x"))
    rows, columns, depth = map(number, (x.m, x.n, x.k))
    kc = depth if in_blocks or x.whole else min(depth, int(chosen["depth"]))
    pack_b = x.packs_b or (in_blocks and bool(chosen["pack_b"]))
    return Blocking(
        mr=b.c64(mr),
        nv=b.c64(nv),
        pack_a=b.c64(int(x.packs_a)),
        pack_b=b.c64(int(pack_b)),
        kc=b.c64(max(1, kc)),
        mb=b.c64(block),
        mc=b.c64(each),
        nc=b.c64(columns),
        mt=b.c64(ceil(rows / each)),
        nt=b.c64(1),
        method=b.c64(PANEL),
        strip=b.c64(max(1, kc)),
    )


def _kernels(ctx: Context, panel: Panel, g: Blocking, heights: set[int]) -> Kernels:
    """Return the register tiles that occur: full ones, and what is left at the ends of blocks."""
    mr, nv, columns = map(number, (g.mr, g.nv, g.nc))
    width = nv * panel.lanes
    rows = {min(mr, h) for h in heights} | ({h % mr for h in heights} - {0})
    if panel.problem.statement.is_ragged:
        rows |= {1}
    vectors = {nv if columns >= width else 0, -(-(columns % width) // panel.lanes)} - {0}
    tiles = tuple((r, v) for v in sorted(vectors) for r in sorted(rows))
    return Kernels(panel, ctx.machine, tiles, strides_of(panel, g, ctx.machine))


def _walk(parts: Parts) -> RowWalk:
    """Return how rows are walked: nothing is fetched ahead, they lie in cache."""
    ctx, space = parts.rows_ctx, parts.rows
    values = {**schedule.default(ctx, space, fetches=False), "stream": False}
    return schedule.walk_of(ctx, space, values)


FORM = Form("chain", matches, knobs, default, cost_ns, lower, has_tiles=True, takes_ragged=True)
