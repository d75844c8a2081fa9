"""What a phase of the panel method calls: functions of its own, or of the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from tcdsl.codegen.forms.contraction.blocking import Blocking
from tcdsl.codegen.forms.contraction.dot import CHUNK, dot_kernel, dot_rows, most_rows
from tcdsl.codegen.forms.contraction.finish import finish_pass
from tcdsl.codegen.forms.contraction.kernel import kernel_params, micro_kernel
from tcdsl.codegen.forms.contraction.lets import pick
from tcdsl.codegen.forms.contraction.library import (
    Dots,
    Joining,
    Packing,
    Streams,
    Tiles,
    declared,
    packer_at_hand,
    picked_tile,
)
from tcdsl.codegen.forms.contraction.packer import Packer
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.problem import Index, Operand
from tcdsl.codegen.forms.contraction.register_tile import (
    Reads,
    RegisterTile,
    Strides,
    has_cheap_masks,
    pairs_steps,
)
from tcdsl.codegen.forms.contraction.squares import joiner
from tcdsl.codegen.forms.contraction.stream import stream_kernel
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Call,
    Eval,
    Expr,
    Function,
    Stmt,
    Var,
)
from tcdsl.codegen.loops.walk import all_exprs
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import DType


@dataclass(frozen=True, slots=True)
class Kernels:
    """The register tiles that exist, by (rows, vectors), and what they have in common.

    strides: how a micro-kernel walks its operands. in_parts: other numbers of rows occur, and run
    as several tiles. may_pass: the output may be stored past the caches,
    as nothing of the same phase reads it.
    """

    panel: Panel
    machine: Machine
    tiles: tuple[tuple[int, int], ...]
    strides: Strides
    in_parts: bool = False
    may_pass: bool = False

    @property
    def library(self) -> Tiles:
        """The tiles of the library."""
        by_table = self.strides.b_k == "table"
        panel = self.panel
        term = panel.problem.term
        ahead = self.strides.asks == "b"
        registers = self.machine.registers
        return Tiles(panel.vector, registers, by_table, panel.words, term, ahead, self.shares)

    @property
    def shares(self) -> bool:
        """Whether FMAs of a micro-kernel share ports with its counters and addresses."""
        return self.machine.shares_ports and self.panel.words is None

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
        if not self.panel.fuses:
            return self.library.params[:-2]
        tile = RegisterTile(1, 1, self.panel.lanes, self.panel.dtype, self.panel.words)
        return kernel_params(tile, self.strides, self.panel.finish, self.stored)

    def told(self, callers: Sequence[Function]) -> dict[str, int]:
        """Return what all calls of micro-kernels in some functions say alike of parameters.

        Of exact sizes whose sums are one pass that is the flags and the depth: a quarter of a
        micro-kernel, and of the compiler's work on it, is for other passes.
        """
        names = {self.name(*t) for t in self.tiles} | {f"{self.panel.prefix}_tile"}
        params = self.params()
        calls = [
            e.args[-len(params) :]
            for f in callers
            for e in all_exprs(f.body)
            if isinstance(e, Call) and e.function in names
        ]
        found: dict[str, int] = {}
        for p, *each in zip(params, *calls, strict=True):
            values = {b.value_of(a) for a in each}
            if p.name in ("flags", "depth") and len(values) == 1 and (value := values.pop()):
                found[p.name] = value
        return found

    def functions(self, told: Mapping[str, int] = MappingProxyType({})) -> list[Function]:
        """Return the micro-kernels and `prefix_tile`, which picks one by rows and vectors.

        Or what stands for them, and the pass over finished tiles. told: see `told`.
        """
        panel = self.panel
        if not panel.fuses:
            return [declared(self.library), *([self._finish_pass()] if panel.has_pass else [])]
        finisher = f"{panel.prefix}_tile_finish" if panel.finish.is_long and self.tiles else None
        out = [
            micro_kernel(
                self.name(rows, vectors),
                self._tile(rows, vectors),
                self.strides,
                panel.finish,
                self.stored,
                panel.problem.term,
                finisher,
                told,
            )
            for rows, vectors in self.tiles
        ]
        if finisher is not None:
            out.insert(0, self._finish(finisher, adds=False))
        if len(self.tiles) <= 1:
            return out
        choice = (b.i64("rows"), b.i64("vectors"))
        body = picked_tile(self.tiles, *choice, self._call, in_parts=self.in_parts)
        out.append(Function(f"{panel.prefix}_tile", (*choice, *self.params()), body, "helper"))
        return out

    def _tile(self, rows: int, vectors: int) -> RegisterTile:
        panel = self.panel
        pairs = pairs_steps(self.shares, self.machine.registers, rows, vectors)
        reads = self._reads(vectors)
        return RegisterTile(rows, vectors, panel.lanes, panel.dtype, panel.words, pairs, reads)

    def _reads(self, vectors: int) -> Reads:
        """Return how tiles of so many vectors read lines of b: some occur whole, some do not."""
        x = self.panel.extents()
        n, reads = b.value_of(x.n), self.strides.reads
        if reads != "by columns" or n is None:
            return reads
        width = max(v for _, v in self.tiles) * x.lanes
        occur = {width if n >= width else 0, int(n) % width} - {0}
        mine = {c % x.lanes == 0 for c in occur if -(-c // x.lanes) == vectors}
        return reads if len(mine) == 2 else "whole" if mine == {True} else "by mask"

    def _finish_pass(self) -> Function:
        """Return the pass over finished sums."""
        return self._finish(f"{self.panel.prefix}_finish", adds=self.panel.adds_late)

    def _finish(self, name: str, *, adds: bool) -> Function:
        panel = self.panel
        return finish_pass(name, panel.finish, panel.vector, self.stored, adds=adds)

    def _call(self, rows: int, vectors: int, first: int) -> Stmt:
        """Return the call of a tile from row first on, what `prefix_tile` is given handed on."""
        args = tuple(self._from_row(first, p) for p in self.params())
        return Eval(Call(self.name(rows, vectors), args, None))

    def _from_row(self, first: int, param: Var) -> Expr:
        rows: dict[str, Expr] = {
            a.param: b.i64(f"{a.param}_row") for a in self.panel.finish.accesses if a.row
        }
        for name, known in (("a", self.strides.a_row), ("c", self.strides.c_row)):
            rows[name] = b.i64(f"{name}_row") if known is None else b.c64(int(known))
        return b.offset(param, b.mul(first, rows[param.name])) if param.name in rows else param

    def run(self, rows: Expr, vectors: Expr, args: tuple[Expr, ...]) -> Stmt:
        """Return the call of the micro-kernel for rows x vectors."""
        if not self.panel.fuses:
            return Eval(Call(self.library.name, (*args, rows, vectors), None))
        if len(self.tiles) == 1:
            return Eval(Call(self.name(*self.tiles[0]), args, None))
        return Eval(Call(f"{self.panel.prefix}_tile", (rows, vectors, *args), None))

    # ---- dot products

    def dot_functions(self, g: Blocking) -> list[Function]:
        """Return the dot kernels, or what stands for them."""
        if self.panel.shares:
            return [declared(self._dots())]
        columns = self._dot_columns(g)
        return [
            dot_kernel(self._dot_name(n), self._dots().dot(n, columns)) for n in self._dot_rows(g)
        ]

    @property
    def dots_swap(self) -> bool | None:
        """Whether rows of a dot kernel are columns of the product, the fewer ones.

        None where that is seen at run time. The kernel's columns are read once then, its rows stay
        nearby.
        """
        panel = self.panel
        if panel.turns:
            return True
        if panel.stored(panel.problem.a) != panel.stored(panel.problem.b):
            return False
        sizes = [b.value_of(panel.extent(fused)) for fused in (panel.problem.m, panel.problem.n)]
        m, n = sizes
        return None if m is None or n is None else n < m

    def run_dots(self, g: Blocking, rows: Expr, args: tuple[Expr, ...]) -> Stmt:
        """Return the call of the dot kernel for rows."""
        if self.panel.shares:
            return Eval(Call(self._dots().name, (*args, rows), None))
        calls: list[tuple[int, Stmt]] = [
            (n, Eval(Call(self._dot_name(n), args, None))) for n in self._dot_rows(g)
        ]
        return pick(rows, calls)

    def _dots(self) -> Dots:
        panel = self.panel
        p = panel.problem
        a, b_, c = (panel.stored(x) for x in (p.a, p.b, p.c))
        if self.dots_swap:
            a, b_ = panel.packed if panel.turns else b_, a
        return Dots(panel.vector, self.machine.registers, a, b_, c, panel.finish.resumes)

    def _dot_name(self, rows: int) -> str:
        return f"{self.panel.prefix}_dot_{rows}"

    def _dot_sides(self, g: Blocking) -> tuple[tuple[Expr, Expr], tuple[Expr, Expr]]:
        """Return rows and columns of dot kernels: how many there are, and in a block."""
        p = self.panel.problem
        sides = (self.panel.extent(p.m), g.mc), (self.panel.extent(p.n), g.nc)
        return (sides[1], sides[0]) if self.dots_swap else sides

    def _dot_rows(self, g: Blocking) -> list[int]:
        """Return the numbers of rows that occur at the ends of blocks."""
        m, block_rows = self._dot_sides(g)[0]
        most = b.value_of(dot_rows(self.machine, m))
        sizes = set(range(1, most_rows(self.machine.registers) + 1))
        if most is not None:
            total, rows = b.value_of(m) or 0, max(b.value_of(block_rows) or 0, 1)
            sizes = {most, rows % most, total % rows % most} - {0}
        return sorted(sizes)

    def _dot_columns(self, g: Blocking) -> set[int] | None:
        """Return the numbers of columns that kernels are called with, if they are known."""
        total, size = map(b.value_of, self._dot_sides(g)[1])
        if total is None or size is None:
            return None
        blocks = {min(int(size), int(total)), int(total) % max(int(size), 1)}
        return {n for block in blocks for n in (min(block, CHUNK), block % CHUNK)} - {0}

    # ---- streams

    def stream_functions(self, g: Blocking) -> list[Function]:
        """Return the stream kernels, or what stands for them, and the pass over their sums."""
        panel = self.panel
        last = [self._finish_pass()] if panel.has_work and not panel.has_pass else []
        if panel.shares:
            return [declared(self._streams()), *last]
        kernels = [
            stream_kernel(self._stream_name(n), self._streams().stream(n, self._vectors(g)))
            for n in self._stream_rows(g)
        ]
        return [*kernels, *last]

    def run_stream(self, g: Blocking, rows: Expr, args: tuple[Expr, ...]) -> Stmt:
        """Return the call of the stream kernel for rows."""
        if self.panel.shares:
            return Eval(Call(self._streams().name, (*args, rows), None))
        calls: list[tuple[int, Stmt]] = [
            (n, Eval(Call(self._stream_name(n), args, None))) for n in self._stream_rows(g)
        ]
        return pick(rows, calls)

    def _streams(self) -> Streams:
        panel = self.panel
        return Streams(panel.vector, self.machine.registers, panel.stored(panel.problem.b))

    def _stream_name(self, rows: int) -> str:
        return f"{self.panel.prefix}_stream_{rows}"

    @staticmethod
    def _vectors(g: Blocking) -> int:
        return int(b.value_of(g.nv) or 1)

    def _stream_rows(self, g: Blocking) -> list[int]:
        """Return the numbers of rows that occur at the ends of blocks."""
        m, block, most = (int(b.value_of(e) or 0) for e in (self.panel.extents().m, g.mc, g.mr))
        left = m % max(block, 1)
        rows = {min(most, m), min(block, m) % most, left % most, min(left, most)}
        return sorted(rows - {0}) or [1]


def packer_name(panel: Panel, name: str, p: Packer) -> str:
    """Return what packs an operand, "a" or "b"."""
    return pack_function(panel, name, p).name


def pack_function(panel: Panel, name: str, p: Packer) -> Function:
    """Return that function, or what stands for it."""
    own = f"{panel.prefix}_pack_{name}"
    return declared(Packing(p)) if panel.shares else packer_at_hand(own, p)


def joiner_name(panel: Panel) -> str:
    """Return what stores finished matrices inside each other."""
    return _joining(panel).name if panel.shares else f"{panel.prefix}_join"


def join_function(panel: Panel) -> Function:
    """Return that function, or what stands for it."""
    shared = _joining(panel)
    if panel.shares:
        return declared(shared)
    name, by_table = joiner_name(panel), shared.by_table
    return joiner(name, shared.stored, panel.dtype, panel.lanes, table=by_table)


def _joining(panel: Panel) -> Joining:
    c = panel.problem.c
    return Joining(panel.vector, panel.stored(c), c.linear(panel.problem.n) is None)


def strides_of(
    panel: Panel, g: Blocking, machine: Machine, *, fetches_rows: bool = False
) -> Strides:
    """Return the strides that a blocking makes constants, else None for a parameter.

    Packed operands have the rows or columns of the tile at hand as their stride. A direct b whose
    reduction indices do not fuse has a table. fetches_rows: of a, which no cache holds.
    """
    p = panel.problem

    def known(x: Operand, fused: tuple[Index, ...]) -> int | None:
        stride = panel.stride(x, fused)
        value = None if stride is None else b.value_of(stride)
        return None if value is None else int(value)

    direct_a, direct_b = (b.value_of(flag) == 0 for flag in (g.pack_a, g.pack_b))
    by_table = panel.extents().keeps_b
    may_fetch_rows = direct_a and panel.words is None and not machine.has_few_registers
    asks: Literal["", "b", "ab"] = ""
    if panel.shares and panel.words is None:
        few: Literal["", "b"] = "b" if p.natural and not panel.extents().packs_b else ""
        asks = few if machine.has_few_registers else "ab"
    reads: Reads = "by flag"
    if has_cheap_masks(panel.lanes, panel.dtype):
        reads = "by mask"
    elif panel.words is not None or (panel.fuses and panel.extents().packs_b):
        reads = "whole"
    elif panel.fuses and (known_b := b.value_of(g.pack_b)) is not None:
        reads = "whole" if known_b else "by columns"
    if not panel.fuses:
        a_k = 1 if panel.is_tiled else None
        b_k = "table" if by_table else None
        return Strides(a_k=a_k, b_k=b_k, asks=asks, has_base=True, reads=reads)
    return Strides(
        a_row=known(p.a, p.m) if direct_a else None,
        a_k=known(p.a, p.k) if direct_a else None,
        b_k="table" if by_table else known(p.b, p.k) if direct_b else None,
        c_row=None if panel.has_stage else known(p.c, p.m),
        asks=asks,
        reads=reads,
        ahead=p.natural and direct_b,
        rows_ahead=fetches_rows and may_fetch_rows and known(p.a, p.k) == 1,
    )
