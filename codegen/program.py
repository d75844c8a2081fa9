"""A checked definition as statements in SSA form over buffers: what fusion and lowering work on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcdsl.grammar.dtypes import DType
from tcdsl.grammar.nodes import AssignOp
from tcdsl.grammar.sizes import Size
from tcdsl.grammar.typed import CheckedDef, Constraint, Expr, Range


@dataclass(frozen=True, slots=True)
class Buffer:
    """One version of a tensor: every statement makes a new one.

    tensor is the declared name, name the version (`O`, then `O.1`, ...). The last version of a
    return is the output. Versions of one tensor may share memory where no later statement reads
    an older one (`Program.shares`); a version that fusion keeps in a tile has no memory at all.
    """

    name: str
    tensor: str
    dtype: DType
    shape: tuple[Size, ...]
    low: tuple[Size, ...]
    role: Literal["param", "return", "temp"]


@dataclass(frozen=True, slots=True)
class Affine:
    """sum of coefficient * index variable + constant: what most subscripts are."""

    terms: tuple[tuple[str, int], ...]
    const: Size

    def coefficient(self, var: str) -> int:
        """Return the coefficient of an index variable."""
        return dict(self.terms).get(var, 0)


@dataclass(frozen=True, slots=True)
class Statement:
    """`typed.Statement` whose names are buffers.

    target is the version written. base is the version whose elements it combines with or leaves
    where it writes nothing; None where it initialises: then elements of the box that no point
    reaches hold the initial value of language.md 2.3. subs count from the box's lowest element
    (the `low` of the buffer is already subtracted, in reads too).
    """

    target: str
    base: str | None
    subs: tuple[Expr, ...]
    op: AssignOp
    value: Expr
    ranges: tuple[Range, ...]
    covers: bool  # every element of the box is written
    subs_checked: tuple[bool, ...]
    text: str  # the statement as TC text, for headers and `show`


@dataclass(frozen=True, slots=True)
class Program:
    """A definition as statements over buffers; loops (`for`) come with the scan leaf."""

    name: str
    text: str  # canonical TC text: the key, and the header comment
    sizes: tuple[str, ...]
    scalars: tuple[str, ...]
    inputs: tuple[str, ...]  # versions that hold the parameters, in order
    outputs: tuple[str, ...]  # last versions of the returns, in order
    buffers: tuple[Buffer, ...]
    statements: tuple[Statement, ...]
    constraints: tuple[Constraint, ...]

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of that name."""
        for b in self.buffers:
            if b.name == name:
                return b
        raise KeyError(name)


def program_of(checked: CheckedDef) -> Program:
    """Return the SSA form of a checked definition."""
    raise NotImplementedError


def affine_of(expr: Expr) -> Affine | None:
    """Return a subscript as an affine map of index variables, or None if it is not one."""
    raise NotImplementedError
