"""The nest of a chain: a task is some rows of one matrix, walked block by block.

    task:  the second factor of the first product, packed once for all its blocks
    block: rows of the first product -> the tile
           passes along the rows of the tile
           the rows of the second product, from the tile

The tile lies in the workspace: what is between the products never goes to memory, but what others
read too, which is where the tile of a block would be while it lies in cache. Of a row that
stops at a column, `limit` columns behind its own number, no more is computed than the register
tiles of its block reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tcdsl.codegen.forms.chain.parts import Parts
from tcdsl.codegen.forms.contraction.block import packing
from tcdsl.codegen.forms.contraction.blocking import Blocking
from tcdsl.codegen.forms.contraction.called import Kernels
from tcdsl.codegen.forms.contraction.lets import Lets
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.phase import decode, prepared, task_digits, work
from tcdsl.codegen.forms.contraction.register_tile import FIRST, LAST
from tcdsl.codegen.forms.contraction.tiles import (
    DepthPass,
    TaskBlock,
    address,
    operands_of,
    origin,
    tiles,
)
from tcdsl.codegen.forms.rows.cpu.nest import RowNest
from tcdsl.codegen.forms.rows.cpu.tasks import row_loop
from tcdsl.codegen.forms.rows.point import RowWalk
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Call,
    Cast,
    Eval,
    Expr,
    Function,
    Let,
    Opaque,
    Return,
    Stmt,
    Var,
)
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT32

SHARE = 4  # of the second level that the tile takes at most
TASKS = 4  # for each thread where rows are not equally long
_TILE = Var("tile", Opaque("char *"))


@dataclass(frozen=True, slots=True)
class Tile:
    """Where each buffer lies in the tile: its byte, and the bytes of one of its rows."""

    at: Mapping[str, Expr]
    row_bytes: Mapping[str, Expr]
    bytes: Expr

    @staticmethod
    def of(parts: Parts, rows: Expr) -> Tile:
        """Return the tile of a block of so many rows."""
        at, end = dict[str, Expr](), b.expr(0)
        columns = parts.scores.extent(parts.scores.problem.n)
        each = _row_bytes(parts, columns)
        row_bytes = {n: size for n, size in each.items() if n not in parts.chain.kept}
        for name, size in row_bytes.items():
            at[name] = end
            end = b.add(end, b.round_up(b.mul(size, rows), LINE))
        return Tile(at, row_bytes, end)

    def pointer(self, name: str, to: Var, first: Expr) -> Stmt:
        """Declare where row 0 would be, if row first is the tile's first one."""
        back = b.sub(self.at[name], b.mul(first, self.row_bytes[name]))
        return Let(to, Cast(b.offset(_TILE, back), to.type))


def row_bytes(parts: Parts, columns: Expr) -> Expr:
    """Return the bytes of cache that each row of so many columns takes."""
    return b.add(*_row_bytes(parts, columns).values())


def _row_bytes(parts: Parts, columns: Expr) -> dict[str, Expr]:
    """Return the bytes of a row of each buffer that goes from part to part."""
    inside = set(parts.rows_ctx.group.local)
    kept = [name for name in parts.chain.tiles if name not in inside]
    sizes = {name: parts.scores.operands.memory_dtype(name).size_bytes for name in kept}
    return {
        name: b.mul(size, columns) if parts.chain.tiles[name] else b.c64(size)
        for name, size in sizes.items()
    }


@dataclass(frozen=True, slots=True)
class ChainNest:
    """What the functions of a chain are written from.

    scores, product: the blocking of the products; walk: how rows are walked.
    """

    parts: Parts
    scores: Blocking
    scores_kernels: Kernels
    product: Blocking
    product_kernels: Kernels
    walk: RowWalk
    tile: Tile
    prefix: str

    def functions(self) -> tuple[list[Function], Expr]:
        """Return the functions, the phase last, and the bytes of rows in a thread's workspace."""
        along, arena = self._along()
        after = self._after()
        phase = self._phase(along.name, after[-1].name, self.places())
        return [along, *after, *phase], arena

    def places(self) -> tuple[Expr, Expr, Expr]:
        """Return where the tile, the second product's areas and those of rows begin.

        The last ones end the workspace.
        """
        tile_at = self.parts.scores.areas(self.scores)["end"][0]
        product_at = b.add(tile_at, self.tile.bytes)
        arena_at = b.add(product_at, self.parts.product.areas(self.product)["end"][0])
        return tile_at, product_at, arena_at

    # ---- rows

    def _along(self) -> tuple[Function, Expr]:
        """Return the passes along rows [begin, end) of all matrices, and the bytes they need."""
        parts, ctx = self.parts, self.parts.rows_ctx
        nest = RowNest(ctx, parts.rows, self.walk)
        columns = parts.scores.extent(parts.scores.problem.n)
        limit = parts.chain.limit

        def row(at: Mapping[str, Expr], number: Expr) -> list[Stmt]:
            if limit is None:
                return nest.build(at, None)
            high = b.i64(nest.fresh("columns"))
            bound = self._columns(b.mod(number, parts.scores.extent(parts.scores.problem.m)))
            return [Let(high, b.min64(bound, columns)), *nest.build(at, (b.c64(0), high))]

        rows = row_loop(nest, b.BEGIN, b.END, row)
        pointers = [
            self.tile.pointer(name, ctx.operands.pointer(name), b.BEGIN) for name in self.tile.at
        ]
        body = b.block(pointers, nest.arena_pointers(), rows)
        params = (b.ARGS, _TILE, b.WORKSPACE, b.BEGIN, b.END)
        name = f"{ctx.prefix}_along"
        _, arena = nest.arena_offsets()
        return Function(name, params, ctx.operands.declare(body), "helper"), arena

    def _columns(self, row: Expr) -> Expr:
        """Return how many columns of a row are of use, if there were no end of them."""
        limit = self.parts.chain.limit
        assert limit is not None
        return b.max64(b.add(row, self.parts.scores.size(limit)), 0)

    # ---- the second product

    def _after(self) -> list[Function]:
        """Return the functions of the second product, that of a block of rows last."""
        panel, g, kernels = self.parts.product, self.product, self.product_kernels
        ops = panel.operands
        functions, head = prepared(panel, g, kernels)
        at = {i.name: panel.var(f"at_{i.name}") for i in panel.problem.outer}
        first, rows = panel.var("first"), panel.var("block_rows")
        none = b.c64(0)
        columns = panel.extent(panel.problem.n)
        block = TaskBlock(at, b.c64(1), first, none, rows, columns, none)
        body = b.block(
            head,
            self._origins(panel, block),
            work(panel, g, kernels, panel.extents(), block),
        )
        params = (b.ARGS, _TILE, b.WORKSPACE, *at.values(), first, rows)
        name = f"{panel.prefix}_rows"
        return [
            *kernels.functions(),
            *functions,
            Function(name, params, ops.declare(body), "helper"),
        ]

    def _origins(self, panel: Panel, block: TaskBlock) -> list[Stmt]:
        """Declare, for every operand, the pointer to the first element of the matrix."""
        named = [*operands_of(panel), *((a.param, a.operand) for a in panel.finish.accesses)]
        return [
            self.tile.pointer(x.buffer, origin(panel, name, x), block.m0)
            if x.buffer in self.tile.at
            else Let(origin(panel, name, x), address(panel, x, block.at))
            for name, x in named
        ]

    # ---- the walk

    def _phase(self, along: str, after: str, at: tuple[Expr, Expr, Expr]) -> list[Function]:
        """Return the first product's functions and the phase; at: of tile, product, arena."""
        parts, g, kernels = self.parts, self.scores, self.scores_kernels
        panel = parts.scores
        functions, head = prepared(panel, g, kernels)
        task, cut = panel.var("task"), panel.var("cut")
        where, inner = Lets(panel.var), Lets(panel.var)
        digits = where.digits(task, task_digits(panel, g), lambda n: f"rest_{n}")
        block = decode(panel, where, g, panel.extents(), digits)
        block = replace(block, columns=where.let("task_columns", self._reached(block)))
        part = replace(
            block,
            m0=inner.let("m1", b.add(block.m0, cut)),
            rows=inner.let("part_rows", b.min64(g.mb, b.sub(block.rows, cut))),
            cut=cut,
        )
        part = replace(part, columns=inner.let("part_columns", self._reached(part)))
        now = DepthPass(b.c64(0), panel.extents().k, b.c64(FIRST | LAST))
        first = inner.let("first_row", self._number(part))
        names = dict(zip(parts.chain.rows_at, parts.chain.scores_at, strict=False))
        points = [part.at[names[i.name]] for i in parts.product.problem.outer]
        product_at, arena_at = (b.offset(b.WORKSPACE, x) for x in at[1:])
        c = panel.problem.c
        is_kept = c.buffer in parts.chain.kept
        rows = b.block(
            inner.stmts,
            None if is_kept else self.tile.pointer(c.buffer, origin(panel, "c", c), part.m0),
            packing(panel, "a", g, part, now),
            tiles(panel, g, kernels, part, now),
            Eval(Call(along, (b.ARGS, _TILE, arena_at, first, b.add(first, part.rows)), None)),
            Eval(Call(after, (b.ARGS, _TILE, product_at, *points, part.m0, part.rows), None)),
        )
        nest = b.loop(
            task,
            b.BEGIN,
            b.END,
            where.stmts,
            [
                Let(origin(panel, name, x), address(panel, x, block.at))
                for name, x in operands_of(panel)
                if x != c or is_kept
            ],
            packing(panel, "b", g, block, now),
            b.loop(cut, 0, block.rows, rows, step=g.mb),
        )
        tile = Let(_TILE, b.offset(b.WORKSPACE, at[0]))
        whole = panel.operands.declare(b.block(tile, head, nest))
        body = b.block(whole, Return(b.const(0, INT32)))
        phase = b.phase_function(f"{self.prefix}_chain", body)
        return [*kernels.functions(), *functions, phase]

    def _reached(self, block: TaskBlock) -> Expr:
        """Return the columns that the register tiles of a block reach."""
        panel, g = self.parts.scores, self.scores
        columns = panel.extent(panel.problem.n)
        chain = self.parts.chain
        if chain.limit is None or chain.scores.target in chain.kept:
            return columns
        width = b.mul(g.nv, panel.lanes)
        of_use = self._columns(b.sub(b.add(block.m0, block.rows), 1))
        return b.min64(columns, b.round_up(of_use, width))

    def _number(self, block: TaskBlock) -> Expr:
        """Return the number of a block's first row among those of all matrices."""
        panel = self.parts.scores
        extents = {i.name: panel.size(i.extent) for i in panel.problem.outer}
        number: Expr = b.c64(0)
        for name in self.parts.chain.scores_at[:-2]:
            number = b.add(b.mul(number, extents[name]), block.at[name])
        return b.add(b.mul(number, panel.extent(panel.problem.m)), block.m0)
