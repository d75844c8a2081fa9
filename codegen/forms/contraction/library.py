"""What size-generic contractions call and do not have themselves: compiled once per machine.

Register tiles, dot products and packers are most of what a compiler works on, and depend on nothing
but the types and the registers: strides, sizes and blocks are parameters. So an executable for all
sizes has only its plan, its loops and its epilogue, and imports these. Each is a unit of its own,
compiled when the first executable asks for it (`codegen/library`); its name says all of it:

    tc_tile_v16f32_r32           a register tile of given rows and vectors
    tc_dot_v16f32_r32_f32f32f32  dot products of given rows with columns
    tc_pack_k_v16f32_f16         panels of an operand of unit stride along k, of halves
    tc_join_v16f32_f32           finished matrices, stored inside each other

Rows and vectors stand behind the arguments of the micro-kernel: to pick one is a jump.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import get_args

from tcdsl.codegen.forms.contraction.dot import Dot, columns_of, dot_kernel, dot_params, most_rows
from tcdsl.codegen.forms.contraction.kernel import (
    Plain,
    RegisterTile,
    Strides,
    kernel_params,
    micro_kernel,
)
from tcdsl.codegen.forms.contraction.lets import pick
from tcdsl.codegen.forms.contraction.pack import Packer, Unit, joiner, packer, packer_params
from tcdsl.codegen.forms.contraction.schedule import kernel_set, row_parts
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops import loopir
from tcdsl.codegen.loops.loopir import Block, Call, Eval, Expr, Function, Stmt, Var, Vector
from tcdsl.codegen.loops.target import short_name
from tcdsl.grammar.types.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType

_TYPES = {short_name(t): t for t in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)}
_TYPE = "|".join(_TYPES)
_VECTOR = rf"v(?P<lanes>[1-9]\d?)(?P<type>{_TYPE})"
_REGISTERS = r"r(?P<registers>[1-9]\d?)"
_UNIT = "|".join(get_args(Unit))


@dataclass(frozen=True, slots=True)
class Tiles:
    """All register tiles of a type: rows x vectors, which are the last two arguments.

    by_table: the offsets of b along k come from a table, else from a stride.
    """

    vector: Vector
    registers: int
    by_table: bool = False

    @property
    def name(self) -> str:
        """The name that executables import."""
        return f"tc_tile_{_of(self.vector)}_r{self.registers}{'_table' * self.by_table}"

    @property
    def strides(self) -> Strides:
        """All strides are parameters."""
        return Strides(b_k="table" if self.by_table else None)

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters: those of a micro-kernel, rows, vectors."""
        own = kernel_params(self._tile(1, 1), self.strides, Plain(), self.vector.dtype)
        return (*own, b.i64("rows"), b.i64("vectors"))

    def _tile(self, rows: int, vectors: int) -> RegisterTile:
        return RegisterTile(rows, vectors, self.vector.lanes, self.vector.dtype)

    def functions(self) -> list[Function]:
        """Return the micro-kernels, and what picks one; other numbers of rows run in parts."""
        tiles = kernel_set(self.registers)
        dtype = self.vector.dtype
        out = [
            micro_kernel(f"tile_{rows}x{vectors}", tile, self.strides, Plain(), dtype)
            for rows, vectors in tiles
            for tile in (self._tile(rows, vectors),)
        ]
        choice = b.i64("rows"), b.i64("vectors")
        body = picked_tile(tiles, *choice, self._call, in_parts=True)
        return [*out, Function(self.name, self.params, body, "export")]

    def _call(self, rows: int, vectors: int, first: int) -> Stmt:
        """Return the call of a tile from row first on, with the parameters handed on."""
        args = tuple(
            b.offset(p, b.mul(first, b.i64(f"{p.name}_row"))) if p.name in ("a", "c") else p
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

    def dot(self, rows: int) -> Dot:
        """Return the dot kernel of so many rows."""
        columns = columns_of(self.registers, rows)
        return Dot(rows, columns, self.vector, self.a, self.b, self.c, self.resumes)

    def functions(self) -> list[Function]:
        """Return the kernels, and what picks one."""
        counts = range(1, most_rows(self.registers) + 1)
        kernels = [dot_kernel(f"dot_{n}", self.dot(n)) for n in counts]
        args = self.params[:-1]
        calls: list[tuple[int, Stmt]] = [(n, Eval(Call(f"dot_{n}", args, None))) for n in counts]
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
        return f"tc_pack_{p.unit}{tables}_{_of(p.vector)}_{short_name(p.source)}"

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters of the packer."""
        return packer_params(self.packer)

    def functions(self) -> list[Function]:
        """Return the packer."""
        made = packer(self.name, self.packer)
        return [Function(made.name, made.params, made.body, "export")]


@dataclass(frozen=True, slots=True)
class Joining:
    """What stores finished matrices inside each other."""

    vector: Vector
    stored: DType

    @property
    def name(self) -> str:
        """The name that executables import."""
        return f"tc_join_{_of(self.vector)}_{short_name(self.stored)}"

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters of the joiner."""
        return self.functions()[0].params

    def functions(self) -> list[Function]:
        """Return the joiner."""
        made = joiner(self.name, self.stored, self.vector.dtype, self.vector.lanes)
        return [Function(made.name, made.params, made.body, "export")]


LibraryFunction = Tiles | Dots | Packing | Joining


def declared(f: LibraryFunction) -> Function:
    """Return what stands for a function in a unit that calls it."""
    return Function(f.name, f.params, Block(()), "import")


def library_unit(name: str) -> loopir.Unit:
    """Return the unit that exports the function of a name.

    Raises
    ------
    KeyError
        If no function is called so.
    """
    f = named(name)
    return loopir.Unit(name, f"{name}: of contractions for all sizes", tuple(f.functions()))


def named(name: str) -> LibraryFunction:
    """Return the function of a name.

    Raises
    ------
    KeyError
        If no function is called so.
    """
    found = _tiles(name) or _dots(name) or _packing(name) or _joining(name)
    if found is None or found.name != name:
        raise KeyError(name)
    return found


def usual(registers: int, vector: Vector) -> tuple[LibraryFunction, ...]:
    """Return the functions that products of a type call whose operands lie in any usual order."""
    t = vector.dtype
    units: tuple[Unit, ...] = ("x", "k")
    packers = tuple(Packing(Packer(t, t, vector.lanes, unit)) for unit in units)
    return Tiles(vector, registers), *packers, Dots(vector, registers, t, t, t, resumes=False)


# ---- names


def _of(vector: Vector) -> str:
    return f"v{vector.lanes}{short_name(vector.dtype)}"


def _vector(found: re.Match[str]) -> Vector:
    return Vector(_TYPES[found["type"]], int(found["lanes"]))


def _tiles(name: str) -> Tiles | None:
    found = re.fullmatch(rf"tc_tile_{_VECTOR}_{_REGISTERS}(?P<table>_table)?", name)
    return found and Tiles(_vector(found), int(found["registers"]), found["table"] is not None)


def _dots(name: str) -> Dots | None:
    stored = "".join(f"(?P<{x}>{_TYPE})" for x in "abc")
    found = re.fullmatch(rf"tc_dot_{_VECTOR}_{_REGISTERS}_{stored}(?P<onto>_onto)?", name)
    if found is None:
        return None
    a, b, c = (_TYPES[found[x]] for x in "abc")
    return Dots(_vector(found), int(found["registers"]), a, b, c, found["onto"] is not None)


def _packing(name: str) -> Packing | None:
    tables = "(?P<columns>_columns)?(?P<depth>_depth)?"
    pattern = rf"tc_pack_(?P<unit>{_UNIT}){tables}_{_VECTOR}_(?P<source>{_TYPE})"
    found = re.fullmatch(pattern, name)
    if found is None:
        return None
    vector, unit = _vector(found), next(u for u in get_args(Unit) if u == found["unit"])
    source, by_table = _TYPES[found["source"]], (found[x] is not None for x in ("columns", "depth"))
    return Packing(Packer(source, vector.dtype, vector.lanes, unit, *by_table))


def _joining(name: str) -> Joining | None:
    found = re.fullmatch(rf"tc_join_{_VECTOR}_(?P<stored>{_TYPE})", name)
    return found and Joining(_vector(found), _TYPES[found["stored"]])
