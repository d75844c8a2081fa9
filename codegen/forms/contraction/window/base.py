"""A convolution with its choices, of known sizes or of any: its names, its packing, its head."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.forms.contraction.finish import Finish
from tcdsl.codegen.forms.contraction.library import packer_at_hand
from tcdsl.codegen.forms.contraction.pack import fill_table
from tcdsl.codegen.forms.contraction.packer import Packer, Unit
from tcdsl.codegen.forms.contraction.problem import ONE, Index, Operand, Problem
from tcdsl.codegen.forms.contraction.register_tile import intrinsic
from tcdsl.codegen.forms.contraction.window.problem import Convolution
from tcdsl.codegen.forms.contraction.window.sliding import Sliding
from tcdsl.codegen.forms.contraction.window.store import TileStore
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Cast,
    Const,
    Eval,
    Expr,
    Function,
    Let,
    Pointer,
    Stmt,
    Var,
    Vector,
)
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT64, DType


@dataclass(frozen=True, slots=True)
class Nest(ABC):
    """What a phase is written from.

    suffix: of its locals and functions, where a phase has several.
    """

    conv: Convolution | Sliding
    finish: Finish
    operands: Operands
    prefix: str
    lanes: int
    suffix: str

    @property
    def problem(self) -> Problem:
        """The same as a contraction of pixels and columns."""
        return self.conv.problem

    @property
    def is_turned(self) -> bool:
        """Whether tiles are turned around before they are stored."""
        return self.conv.is_turned

    @property
    def dtype(self) -> DType:
        """The type of all elements."""
        return self.problem.dtype

    @property
    @abstractmethod
    def tallest(self) -> int:
        """The most pixels of a register tile."""

    def size(self, size: Size) -> Expr:
        """Return a size as an expression."""
        return self.operands.size(size)

    def local(self, name: str) -> str:
        """Return the name of a local of the phase."""
        return self.operands.local(name + self.suffix)

    def var(self, name: str) -> Var:
        """Return a local int64 of the phase."""
        return b.i64(self.local(name))

    def pointer(self, name: str) -> Var:
        """Return a pointer into the workspace."""
        return b.pointer(self.local(name), self.dtype)

    def name(self, what: str) -> str:
        """Return the name of a function or a table."""
        return f"{self.prefix}{self.suffix}_{what}"

    def uniform(self, v: Var) -> Var:
        """Return the local that holds a parameter of the epilogue."""
        return Var(self.local(v.name), v.type)

    def origin(self, name: str, x: Operand) -> Var:
        """Return the pointer to where an operand begins for a task or a line."""
        kind = self.operands.pointer(x.buffer).type
        assert isinstance(kind, Pointer)
        return b.pointer(self.local(name), kind.dtype, const=kind.const)

    # ---- workspace

    @abstractmethod
    def offsets(self) -> Mapping[str, Expr]:
        """Return the byte offsets of what lies in the workspace."""

    def area(self, name: str, dtype: DType) -> Stmt:
        """Return the declaration of a pointer into the workspace."""
        v = b.pointer(self.local(name), dtype)
        return Let(v, Cast(b.offset(b.WORKSPACE, self.offsets()[name]), v.type))

    def head(self) -> list[Stmt]:
        """Return the declarations of the workspace, the table, and what is the same everywhere."""
        out = [self.area("packed", self.dtype), self.area("sums", self.dtype)]
        if self.has_table:
            strides = tuple(self.size(self.problem.b.stride(i.name)) for i in self.run)
            extents = tuple(self.size(i.extent) for i in self.run)
            out += [self.area("depth_at", INT64), fill_table(self.table, extents, strides)]
        return out + self.finish.declared(self.uniform)

    # ---- packing

    @property
    @abstractmethod
    def run(self) -> tuple[Index, ...]:
        """The inner sums that are packed at once."""

    @property
    def has_table(self) -> bool:
        """Whether offsets along the sums come from a table."""
        return self.problem.b.linear(self.run) is None

    @property
    def table(self) -> Var:
        """The table of offsets along the sums."""
        return b.pointer(self.local("depth_at"), INT64)

    @property
    def packer(self) -> Packer:
        """The packer of a block of the weights."""
        x = self.problem.b
        unit: Unit = "none"
        if x.stride(self.conv.column.name) == ONE:
            unit = "x"
        elif x.linear(self.run) == ONE:
            unit = "k"
        return Packer(self.dtype, self.dtype, self.lanes, unit, k_table=self.has_table)

    @property
    def pack(self) -> Function:
        """The function that packs it, of this unit or of the library."""
        return packer_at_hand(self.name("pack"), self.packer)

    def end_of_packed(self, depth: Expr | int, columns: Expr) -> Stmt:
        """Return the zeros behind a block, which the last vector of one that is not whole reads.

        Denormal numbers would slow it down.
        """
        vector = Vector(self.dtype, self.lanes)
        end = b.offset(self.pointer("packed"), b.mul(depth, columns))
        return Eval(intrinsic("tc_store", vector, end, Const(0.0, vector)))

    @property
    def store(self) -> TileStore:
        """What takes a tile to the output."""
        p, rows = self.problem, self.lanes if self.is_turned else self.tallest
        step = p.c.stride(p.n[0].name).constant
        return TileStore(self.dtype, self.lanes, rows, self.is_turned, step, self.finish)
