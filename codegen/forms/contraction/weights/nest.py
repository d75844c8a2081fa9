"""A weight gradient with its schedule: the facts and addresses that its phases are written from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import prod

from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.forms.contraction.library import packer_at_hand
from tcdsl.codegen.forms.contraction.packer import Packer, Unit
from tcdsl.codegen.forms.contraction.problem import ONE, Index, Operand, extent_of
from tcdsl.codegen.forms.contraction.weights.problem import WeightGradient
from tcdsl.codegen.forms.contraction.weights.schedule import (
    SHORT,
    Strips,
    WeightChoice,
    strips_of,
)
from tcdsl.codegen.forms.contraction.weights.sliding import SlidingWeights
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Cast, Expr, Field, Function, Let, Opaque, Pointer, Stmt, Var
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Nest(ABC):
    """A weight gradient with its choices, of known sizes or of any.

    param: the first of the plan.
    """

    problem: WeightGradient | SlidingWeights
    operands: Operands
    prefix: str
    lanes: int
    shared_base: Expr
    param: int

    @property
    @abstractmethod
    def width(self) -> int:
        """Columns of a whole panel."""

    @property
    @abstractmethod
    def is_direct(self) -> bool:
        """Whether a task stores its block itself, and needs it no longer."""

    @property
    @abstractmethod
    def groups(self) -> Expr:
        """The groups."""

    @abstractmethod
    def finishing(self) -> list[Stmt]:
        """Return the declarations of what the phase that adds up groups has of the plan."""

    @property
    def row_count(self) -> Expr:
        """The rows: channels times taps."""
        return self.size(extent_of(self.problem.rows))

    @property
    def column_count(self) -> Expr:
        """The columns."""
        return self.size(extent_of(self.problem.columns))

    def row_stride(self, name: str) -> Expr:
        """Return the distance, in rows, between neighbours along an index of the rows."""
        rows = self.problem.rows
        at = next(n for n, i in enumerate(rows) if i.name == name)
        return self.size(extent_of(rows[at + 1 :]))

    @property
    def panels(self) -> Expr:
        """The panels."""
        return b.ceil_div(self.column_count, self.width)

    @property
    def outer_count(self) -> Expr:
        """The outer points."""
        return self.size(extent_of(self.problem.outer))

    @property
    def blocks(self) -> Expr:
        """Blocks of sums that one group has: a panel of an outer point each."""
        return b.mul(self.outer_count, self.panels)

    @property
    def block_elements(self) -> Expr:
        """The elements of such a block."""
        return b.mul(self.row_count, self.width)

    @property
    def block_bytes(self) -> Expr:
        """The bytes of a block of sums."""
        return b.mul(self.block_elements, self.problem.dtype.size_bytes)

    def var(self, name: str) -> Var:
        """Return a local int64."""
        return b.i64(self.operands.local(name))

    def pointer(self, name: str, *, const: bool = False) -> Var:
        """Return a local pointer to elements."""
        return b.pointer(self.operands.local(name), self.problem.dtype, const=const)

    def size(self, size: Size) -> Expr:
        """Return a size as an expression."""
        return self.operands.size(size)

    def stride(self, x: Operand, i: Index | None) -> Expr:
        """Return the stride of an operand along an index; 0 for none."""
        return b.c64(0) if i is None else self.size(x.stride(i.name))

    def along(self, x: Operand, fused: tuple[Index, ...]) -> Expr:
        """Return the stride of an operand along a fused index in which it is linear."""
        stride = x.linear(fused)
        assert stride is not None, f"'{x.buffer}' is not linear"
        return self.size(stride)

    def sums(self) -> list[Stmt]:
        """Return the declaration of the pointer to the shared sums."""
        p = self.pointer("sums")
        at = b.offset(Field(b.ARGS, "shared", Opaque("char *")), self.shared_base)
        return [Let(p, Cast(at, p.type))]

    def decode(self, n: Expr, indices: tuple[Index, ...]) -> tuple[list[Stmt], dict[str, Expr]]:
        """Return the declarations of the indices that a flat position stands for."""
        stmts: list[Stmt] = []
        at: dict[str, Expr] = {}
        places = b.unravel(n, [self.size(i.extent) for i in indices])
        for i, place in reversed([*zip(indices, places, strict=True)]):
            at[i.name] = v = self.var(f"at_{i.name}")
            stmts.append(Let(v, place))
        return stmts, at

    def origin(self, name: str, x: Operand, at: Mapping[str, Expr]) -> Let:
        """Return the declaration of the pointer to an operand's first element of an outer point."""
        kind = self.operands.pointer(x.buffer).type
        assert isinstance(kind, Pointer)
        steps = (b.mul(v, self.size(x.stride(i))) for i, v in at.items())
        p = Var(self.operands.local(f"{name}_at"), Pointer(kind.dtype, const=kind.const))
        return Let(p, b.offset(self.operands.pointer(x.buffer), b.add(self.size(x.offset), *steps)))

    def placed(self, panel: Var, group: Var) -> tuple[list[Stmt], dict[str, Expr]]:
        """Return the declarations of where a task is, and the indices of its outer point."""
        task, p = self.var("task"), self.problem
        point, at = self.decode(b.mod(b.div(task, self.panels), self.outer_count), p.outer)
        return [
            Let(panel, b.mod(task, self.panels)),
            Let(group, b.div(task, self.blocks)),
            *point,
            self.origin("a", p.a, at),
            self.origin("b", p.b, at),
        ], at


@dataclass(frozen=True, slots=True)
class WeightNest(Nest):
    """A weight gradient of known sizes and its schedule: what both phases are written from.

    The plan has the strips of a group and the number of groups where it is the plan that sees how
    many images there are.
    """

    problem: WeightGradient
    choice: WeightChoice
    strips: Strips

    @property
    def width(self) -> int:
        """Columns of a whole panel."""
        return self.choice.vectors * self.lanes

    @property
    def is_direct(self) -> bool:
        """Whether a task stores its block itself, and needs it no longer."""
        return (self.choice if self.problem.is_open else self.strips).groups == 1

    @property
    def total(self) -> Expr:
        """The strips."""
        if not self.problem.is_open:
            return b.c64(self.strips.total)
        size = self.strips.block(0, 0)
        blocks = b.ceil_div(self.size(self.problem.axes[0].pixel.extent), size)
        return b.mul(blocks, prod(self.strips.counts[1:]))

    @property
    def is_planned(self) -> bool:
        """Whether the plan has the strips of a group and the number of groups."""
        return self.problem.is_open and not self.is_direct

    @property
    def each(self) -> Expr:
        """The strips of a group."""
        if not self.problem.is_open:
            return b.c64(self.strips.each)
        return self.total if self.is_direct else self.var("each")

    @property
    def groups(self) -> Expr:
        """The groups."""
        return (
            self.var("groups")
            if self.is_planned
            else b.c64(1 if self.is_direct else self.strips.groups)
        )

    def planned(self) -> list[Stmt]:
        """Return the declarations of what the plan has left."""
        if not self.is_planned:
            return []
        names = self.var("each"), self.var("groups")
        return [Let(v, b.plan_param(self.param + n)) for n, v in enumerate(names)]

    def finishing(self) -> list[Stmt]:
        """Return the declarations of what the phase that adds up groups has of the plan."""
        return self.planned()[1:]

    def plan(self) -> list[Stmt]:
        """Return what the plan does: as many groups as are wanted, of SHORT pixels at least."""
        if not self.is_planned:
            return []
        p, strips, most = self.problem, self.var("strips"), self.var("most")
        pixels = b.mul(self.size(p.axes[0].pixel.extent), p.image_pixels)
        each, groups = self.var("each"), self.var("groups")
        few = b.min64(b.min64(self.choice.groups, b.div(pixels, SHORT)), strips)
        return [
            Let(strips, self.total),
            Let(most, b.max64(few, 1)),
            Let(each, b.ceil_div(strips, most)),
            Let(groups, b.ceil_div(strips, each)),
            b.set_param(self.param, each),
            b.set_param(self.param + 1, groups),
        ]

    @property
    def packed_bytes(self) -> int:
        """The bytes of a packed strip, in whole lines."""
        if not self.choice.pack:
            return 0
        blocks = (self.strips.block(n, x.extent) for n, x in enumerate(self.problem.axes))
        size = prod(blocks) * self.width * self.problem.dtype.size_bytes
        return -(-size // LINE) * LINE

    @property
    def thread_bytes(self) -> Expr:
        """The bytes that a task needs: a packed strip, and its sums if it stores them."""
        return b.add(self.packed_bytes, self.block_bytes if self.is_direct else 0)

    @property
    def shared_bytes(self) -> Expr:
        """The bytes of all sums that wait for those of other groups."""
        return b.c64(0) if self.is_direct else b.mul(self.groups, self.blocks, self.block_bytes)


def nest_of(
    p: WeightGradient,
    c: WeightChoice,
    operands: Operands,
    prefix: str,
    lanes: int,
    shared_base: Expr,
    param: int,
) -> WeightNest:
    """Return the nest of a choice."""
    return WeightNest(p, operands, prefix, lanes, shared_base, param, c, strips_of(p, c))


def b_steps(nest: WeightNest, columns: int) -> tuple[Expr, ...]:
    """Return the strides of b along the axes in a panel of columns, packed or where it lies."""
    p = nest.problem
    if not nest.choice.pack:
        return tuple(nest.stride(p.b, x.pixel) for x in p.axes)
    at, steps = columns, list[Expr]()
    for n in reversed(range(len(p.axes))):
        steps.append(b.c64(at))
        at *= nest.strips.block(n, p.axes[n].extent)
    return tuple(reversed(steps))


def is_cut(nest: WeightNest) -> bool:
    """Whether a strip has part of the innermost axis."""
    return nest.strips.counts[-1] > 1


def packer_of(p: WeightGradient | SlidingWeights, lanes: int) -> Packer:
    """Return the packer of b: pixels are its depth."""
    unit: Unit = "none"
    if p.b.stride(p.columns[-1].name) == ONE:
        unit = "x"
    elif p.b.stride(p.axes[-1].pixel.name) == ONE:
        unit = "k"
    return Packer(p.dtype, p.dtype, lanes, unit)


def pack_function(prefix: str, p: WeightGradient | SlidingWeights, lanes: int) -> Function:
    """Return the function that packs b, of this unit or of the library."""
    return packer_at_hand(f"{prefix}_pack_b", packer_of(p, lanes))
