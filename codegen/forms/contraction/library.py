"""What size-generic contractions call and do not have themselves: compiled once per machine.

Register tiles, dot products and packers are most of what a compiler works on, and depend on nothing
but the types and the registers: strides, sizes and blocks are parameters. So an executable for all
sizes has only its plan, its loops and its epilogue, and imports these. Each is a unit of its own,
compiled when the first executable asks for it (`codegen/library`); its name says all of it:

    tc_tile_v16f32_r32           a register tile of given rows and vectors
    tc_tile_v16i32_r32_dot2      the same, of words
    tc_tile_v16i32_r32_tiled4ss  the same, of words in tiles
    tc_tile_v16f32_r32_square    the same for sums of squared differences
    tc_tile_v8f32_r16_ahead      the same for a b whose next panel is fetched ahead
    tc_dot_v16f32_r32_f32f32f32  dot products of given rows with columns
    tc_stream_v16f32_r32_f32     strips of b, read by given rows
    tc_pack_k_v16f32_f16         panels of an operand of unit stride along k, of halves
    tc_pack_x_v16i32_i8_x4       panels of words of four bytes
    tc_join_v16f32_f32           finished matrices, stored inside each other
    tc_join_columns_v16f32_f32   the same, offsets of columns in a table
    tc_plan_v16f32_r32_..        the analytic schedule, for caches and layouts that it names

Rows and vectors stand behind the arguments of the micro-kernel: to pick one is a jump.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import accumulate
from typing import Literal

from tcdsl.codegen.forms.contraction.blocking import Extents
from tcdsl.codegen.forms.contraction.dot import Dot, columns_of, dot_kernel, dot_params, most_rows
from tcdsl.codegen.forms.contraction.kernel import kernel_params, micro_kernel
from tcdsl.codegen.forms.contraction.lets import pick
from tcdsl.codegen.forms.contraction.pack_words import packing
from tcdsl.codegen.forms.contraction.packer import Packer, packer_params
from tcdsl.codegen.forms.contraction.plan import cost_table, plan_function
from tcdsl.codegen.forms.contraction.problem import Term
from tcdsl.codegen.forms.contraction.register_tile import (
    Plain,
    Reads,
    RegisterTile,
    Strides,
    has_cheap_masks,
    pairs_steps,
)
from tcdsl.codegen.forms.contraction.schedule import kernel_set, parallel_from, row_parts
from tcdsl.codegen.forms.contraction.squares import joiner
from tcdsl.codegen.forms.contraction.stream import (
    Stream,
    stream_kernel,
    stream_params,
    vectors_of,
)
from tcdsl.codegen.forms.contraction.stream import most_rows as most_stream_rows
from tcdsl.codegen.forms.contraction.words import Words
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Block, Call, Eval, Expr, Function, Stmt, Table, Var, Vector
from tcdsl.codegen.loops.target import short_name
from tcdsl.codegen.machine.cpu import Machine, has_few
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT64, DType


@dataclass(frozen=True, slots=True)
class Tiles:
    """All register tiles of a type: rows x vectors, which are the last two arguments.

    by_table: the offsets of b along k come from a table, else from a stride. words: of words. term:
    what they sum. ahead: they fetch the next panel of b; those for many registers can do so always.
    shares: `Machine.shares_ports`; words take their steps one by one.
    """

    vector: Vector
    registers: int
    by_table: bool = False
    words: Words | None = None
    term: Term = "product"
    ahead: bool = False
    shares: bool = False

    @property
    def name(self) -> str:
        """The name that executables import."""
        words = "" if self.words is None else f"_{self.words.name}"
        term = "" if self.term == "product" else f"_{self.term}"
        table = "_table" * self.by_table
        ahead = "_ahead" * self.ahead
        shares = "_shared" * self.shares
        return f"tc_tile_{_of(self.vector)}_r{self.registers}{table}{words}{term}{ahead}{shares}"

    @property
    def strides(self) -> Strides:
        """All strides are parameters, and how far ahead is fetched; words are packed nearby."""
        has_room = not has_few(self.registers) and self.words is None
        asks: Literal["", "b", "ab"] = "ab" if has_room else "b" if self.ahead else ""
        a_k = 1 if self.is_tiled else None
        b_k = "table" if self.by_table else None
        return Strides(a_k=a_k, b_k=b_k, asks=asks, has_base=True, reads=self.reads)

    @property
    def reads(self) -> Reads:
        """How lines of b are read: words are packed."""
        if has_cheap_masks(self.vector.lanes, self.vector.dtype):
            return "by mask"
        return "by flag" if self.words is None else "whole"

    @property
    def is_tiled(self) -> bool:
        """Whether they are all one, a product of tiles."""
        return self.words is not None and self.words.is_tiled

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters: those of a micro-kernel, rows, vectors."""
        own = kernel_params(self._tile(1, 1), self.strides, Plain(), self.vector.dtype)
        return (*own, b.i64("rows"), b.i64("vectors"))

    def _tile(self, rows: int, vectors: int) -> RegisterTile:
        pairs = self.words is None and pairs_steps(self.shares, self.registers, rows, vectors)
        lanes, dtype = self.vector.lanes, self.vector.dtype
        return RegisterTile(rows, vectors, lanes, dtype, self.words, pairs, self.reads)

    def functions(self) -> list[Function]:
        """Return the micro-kernels, and what picks one; other numbers of rows run in parts."""
        if self.is_tiled:
            return [Function(self.name, self.params, self._product(), "export")]
        tiles = kernel_set(self.registers)
        dtype = self.vector.dtype
        out = [
            micro_kernel(f"tile_{rows}x{vectors}", tile, self.strides, Plain(), dtype, self.term)
            for rows, vectors in tiles
            for tile in (self._tile(rows, vectors),)
        ]
        choice = b.i64("rows"), b.i64("vectors")
        body = picked_tile(tiles, *choice, self._call, in_parts=True)
        return [*out, Function(self.name, self.params, body, "export")]

    def _product(self) -> Stmt:
        """Return the call of the prelude's product of tiles."""
        assert self.words is not None
        return Eval(Call(f"tc_{self.words.function}", self.params[:-1], None))

    def _call(self, rows: int, vectors: int, first: int) -> Stmt:
        """Return the call of a tile from row first on, with the parameters handed on."""
        args = tuple(
            b.offset(p, b.mul(first, b.i64(f"{p.name}_row"))) if p.name in ("a", "c", "base") else p
            for p in self.params[:-2]
        )
        return Eval(Call(f"tile_{rows}x{vectors}", args, None))


def picked_tile(
    tiles: Iterable[tuple[int, int]],
    rows: Expr,
    vectors: Expr,
    call: Callable[[int, int, int], Stmt],
    *,
    in_parts: bool,
) -> Stmt:
    """Return the choice of a tile by rows and vectors.

    call(rows, vectors, first) is the call of one of tiles from row first on. in_parts: numbers of
    rows between those that there are run as several.
    """
    by_vectors: dict[int, list[int]] = {}
    for r, v in sorted(tiles):
        by_vectors.setdefault(v, []).append(r)

    def parts(count: int, v: int) -> Stmt:
        found = row_parts(count, by_vectors[v])
        firsts = accumulate(found, initial=0)
        return b.block([call(r, v, first) for r, first in zip(found, firsts, strict=False)])

    def pick_rows(v: int) -> Stmt:
        there = by_vectors[v]
        counts = range(1, there[-1] + 1) if in_parts else there
        return pick(rows, [(n, parts(n, v)) for n in counts])

    return pick(vectors, [(v, pick_rows(v)) for v in sorted(by_vectors)])


@dataclass(frozen=True, slots=True)
class Dots:
    """All dot kernels of some types; the number of rows is the last argument."""

    vector: Vector
    registers: int
    a: DType
    b: DType
    c: DType
    resumes: bool

    @property
    def name(self) -> str:
        """The name that executables import."""
        stored = "".join(short_name(t) for t in (self.a, self.b, self.c))
        more = "_onto" * self.resumes
        return f"tc_dot_{_of(self.vector)}_r{self.registers}_{stored}{more}"

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters: those of a dot kernel, rows."""
        return (*dot_params(self.dot(1)), b.i64("rows"))

    def dot(self, rows: int, occur: Collection[int] | None = None) -> Dot:
        """Return the dot kernel of so many rows, for any number of columns or those that occur."""
        columns = columns_of(self.registers, rows, occur)
        return Dot(rows, columns, self.vector, self.a, self.b, self.c, self.resumes)

    def functions(self) -> list[Function]:
        """Return the kernels, and what picks one."""
        counts = range(1, most_rows(self.registers) + 1)
        kernels = [dot_kernel(f"dot_{n}", self.dot(n)) for n in counts]
        args = self.params[:-1]
        calls: list[tuple[int, Stmt]] = [(n, Eval(Call(f"dot_{n}", args, None))) for n in counts]
        return [*kernels, Function(self.name, self.params, pick(b.i64("rows"), calls), "export")]


@dataclass(frozen=True, slots=True)
class Streams:
    """All stream kernels for a type of b; the number of rows is the last argument."""

    vector: Vector
    registers: int
    b: DType

    @property
    def name(self) -> str:
        """The name that executables import."""
        return f"tc_stream_{_of(self.vector)}_r{self.registers}_{short_name(self.b)}"

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters: those of a stream kernel, rows."""
        return (*stream_params(self.stream(1, 1)), b.i64("rows"))

    def stream(self, rows: int, vectors: int) -> Stream:
        """Return the stream kernel of so many rows and vectors."""
        return Stream(rows, vectors, self.vector, self.b)

    def functions(self) -> list[Function]:
        """Return the kernels, and what picks one."""
        counts = range(1, most_stream_rows(self.registers) + 1)
        kernels = [
            stream_kernel(f"stream_{n}", self.stream(n, vectors_of(self.registers, n)))
            for n in counts
        ]
        args = self.params[:-1]
        calls: list[tuple[int, Stmt]] = [(n, Eval(Call(f"stream_{n}", args, None))) for n in counts]
        return [*kernels, Function(self.name, self.params, pick(b.i64("rows"), calls), "export")]


@dataclass(frozen=True, slots=True)
class Packing:
    """A packer."""

    packer: Packer

    @property
    def name(self) -> str:
        """The name that executables import."""
        p = self.packer
        tables = "_columns" * p.x_table + "_depth" * p.k_table
        word = "" if p.word is None else f"_{p.word.name}"
        return f"tc_pack_{p.unit}{tables}_{_of(p.vector)}_{short_name(p.source)}{word}"

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters of the packer."""
        return packer_params(self.packer)

    def functions(self) -> list[Function]:
        """Return the packer."""
        made = packing(self.name, self.packer)
        return [Function(made.name, made.params, made.body, "export")]


@dataclass(frozen=True, slots=True)
class Joining:
    """What stores finished matrices inside each other.

    by_table: the offsets of columns come from a table, else from a stride.
    """

    vector: Vector
    stored: DType
    by_table: bool = False

    @property
    def name(self) -> str:
        """The name that executables import."""
        table = "_columns" * self.by_table
        return f"tc_join{table}_{_of(self.vector)}_{short_name(self.stored)}"

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters of the joiner."""
        return self.functions()[0].params

    def functions(self) -> list[Function]:
        """Return the joiner."""
        dtype, lanes = self.vector.dtype, self.vector.lanes
        made = joiner(self.name, self.stored, dtype, lanes, table=self.by_table)
        return [Function(made.name, made.params, made.body, "export")]


TRAITS = "luabkxyzwdstm"  # what a plan's text hangs on, a letter for each: `traits_of`


def traits_of(x: Extents) -> str:
    """Return what holds of a contraction, whatever its sizes are."""
    facts = (
        x.a_row is not None,
        x.a_k_unit,
        x.packs_a,
        x.packs_b,
        x.keeps_b,
        *x.near,
        x.whole,
        x.dots,
        x.streams,
        x.dots and x.turns,
        x.is_tiled,
    )
    return "".join(letter for letter, holds in zip(TRAITS, facts, strict=True) if holds)


@dataclass(frozen=True, slots=True)
class Planning:
    """The schedule of contractions that have the same traits.

    crosses: `Machine.crosses_lines`. keeps_up: `Machine.l2_keeps_up`.
    """

    vector: Vector
    registers: int
    l1_bytes: int
    l1_ways: int
    l2_bytes: int
    fma_per_cycle: int
    crosses: bool
    keeps_up: bool
    traits: str

    @staticmethod
    def of(machine: Machine, vector: Vector, traits: str) -> Planning:
        """Return what plans contractions on a machine."""
        caches = machine.l1_bytes, machine.l1_ways, machine.l2_bytes
        speed = machine.fma_per_cycle, machine.crosses_lines, machine.l2_keeps_up
        return Planning(vector, machine.registers, *caches, *speed, traits)

    @property
    def name(self) -> str:
        """The name that executables import."""
        caches = f"{self.l1_bytes}_{self.l1_ways}_{self.l2_bytes}"
        speed = f"{self.fma_per_cycle}{'c' * self.crosses}{'n' * self.keeps_up}"
        return f"tc_plan_{_of(self.vector)}_r{self.registers}_{caches}_{speed}_{self.traits}"

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters: extents, what they meet, where the blocking goes."""
        names = "outer", "a_outer", "groups", "m", "n", "k", "a_row", "threads", "pays_from"
        return (*map(b.i64, names), b.pointer("to", INT64))

    def arguments(self, x: Extents, machine: Machine, threads: Expr) -> tuple[Expr, ...]:
        """Return the arguments but the last."""
        row = b.c64(0) if x.a_row is None else x.a_row
        pays_from = b.c64(parallel_from(machine))
        return (x.outer, x.a_outer, x.groups, x.m, x.n, x.k, row, threads, pays_from)

    def _machine(self) -> Machine:
        vector_bytes = self.vector.lanes * self.vector.dtype.size_bytes
        facts = self.registers, self.l1_bytes, self.l1_ways, self.l2_bytes
        speed = self.fma_per_cycle, self.crosses
        return Machine("", vector_bytes, *facts, 0, 0, 0.0, *speed, l2_keeps_up=self.keeps_up)

    def table(self) -> Table:
        """Return the costs that the plan reads."""
        return cost_table("step_cost", self._machine())

    def functions(self) -> list[Function]:
        """Return the plan."""
        outer, a_outer, groups, m, n, k, a_row, *_ = self.params
        linear, unit, packs_a, packs_b, keeps_b, *near, whole, dots, streams, turns, tiled = (
            letter in self.traits for letter in TRAITS
        )
        x = Extents(
            outer, a_outer, groups, m, n, k, a_row if linear else None,
            unit, packs_a, packs_b, keeps_b, (near[0], near[1], near[2]), whole, dots, streams,
            self.vector.lanes, self.vector.dtype.size_bytes, turns, is_tiled=tiled,
        )  # fmt: skip
        return [plan_function(self.name, x, self._machine(), self.params, self.table())]


LibraryFunction = Tiles | Dots | Streams | Packing | Joining | Planning


def declared(f: LibraryFunction) -> Function:
    """Return what stands for a function in a unit that calls it."""
    return Function(f.name, f.params, Block(()), "import")


def packer_at_hand(own: str, p: Packer) -> Function:
    """Return the packer of a nest of known sizes, named so, or what stands for it.

    What turns squares around is the library's: it is the most of what a compiler works on there,
    and all machines have that of float32, which the next sizes want.
    """
    is_plain = p.source == p.dtype and p.word is None and not (p.x_table or p.k_table)
    return declared(Packing(p)) if p.unit == "k" and is_plain else packing(own, p)


def _of(vector: Vector) -> str:
    return f"v{vector.lanes}{short_name(vector.dtype)}"
