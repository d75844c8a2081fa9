"""What a contraction is: `O(m, n) += sum_k A(m, k) * B(k, n)`, whatever its indices are called.

Every index of the statement falls into one of four roles by where it occurs: K in factors only,
M in the output and the factor `a`, N in the output and the factor `b`, outer in both or neither.
`b` is the factor whose elements are read as vectors: it shares the output's index of stride one.
Indices of one role form one fused index as far as the output is linear in it; what is left over
becomes outer. Strides are symbolic sizes: constants, products of sizes, or run-time strides.

Where `b` has neighbours along another index than the output, its vectors may also run along its
own ("natural"). Then N is what fuses in `b`, and the output's nearest index is outer.

What is summed may also be how far A and B are apart, squared or absolute: tiles and panels are the
same. Nobody expands it: `a*a - 2*a*b + b*b` cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from tcdsl.codegen.forms.base.context import GroupContext
from tcdsl.codegen.forms.base.space import strides_of
from tcdsl.codegen.program.program import Program, Statement
from tcdsl.grammar.proofs.signs import constants, substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import DType

ZERO, ONE = Size(), Size.const(1)

Term = Literal["product", "square", "distance"]  # x * y, (x - y) * (x - y), abs(x - y)


@dataclass(frozen=True, slots=True)
class Reach:
    """How buffers lie in memory.

    strides: of a buffer, in elements. exact: values of sizes that are constants.
    """

    program: Program
    strides: Callable[[str], tuple[Size, ...]]
    exact: Mapping[str, Size]

    def bind(self, size: Size) -> Size:
        """Return a size with what is known put in."""
        return substitute_symbols(size, self.exact)


def reach_of(ctx: GroupContext[Any]) -> Reach:
    """Return how the buffers of a group's program lie, under its specialisation."""
    exact = constants(ctx.spec.sizes)
    return Reach(ctx.program, lambda name: strides_of(ctx.operands, name), exact)


@dataclass(frozen=True, slots=True)
class Index:
    """An index of the statement, counted from 0: its name and its extent."""

    name: str
    extent: Size


@dataclass(frozen=True, slots=True)
class Operand:
    """A buffer as the statement reaches it: an offset and a stride for every index.

    dims: for every index, the dimensions whose subscript it occurs in.
    """

    buffer: str
    dtype: DType
    offset: Size
    strides: tuple[tuple[str, Size], ...]
    dims: tuple[tuple[str, tuple[int, ...]], ...]

    def stride(self, name: str) -> Size:
        """Return the stride of an index; 0 where it does not occur."""
        return dict(self.strides).get(name, ZERO)

    def uses(self, name: str) -> bool:
        """Whether an index occurs."""
        return name in dict(self.dims)

    def shares_dim(self, name: str, others: Iterable[Index]) -> bool:
        """Whether an index stands in one subscript with one of the others, as in `h + kh`."""
        dims = dict(self.dims)
        mine = set(dims.get(name, ()))
        return any(mine & set(dims.get(i.name, ())) for i in others)

    def linear(self, fused: tuple[Index, ...]) -> Size | None:
        """Return the stride of indices fused outer to inner, or None if there is none."""
        if not fused:
            return ZERO
        step = stride = self.stride(fused[-1].name)
        extent = fused[-1].extent
        for index in reversed(fused[:-1]):
            step = step * extent
            if self.stride(index.name) != step:
                return None
            extent = index.extent
        return stride


@dataclass(frozen=True, slots=True)
class Side:
    """Which vectors there are.

    other: along the factor that would be read by elements; the output is then stored element by
    element. natural: along the factor's own neighbours, which are none in the output.
    """

    other: bool = False
    natural: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """A contraction by roles. k may be non-linear in a and b, m in a, n in b, but m never in c.

    scale: factors without a reduction index, applied to the finished sum. unit: c has stride one
    along n. natural: n lies in b as it is, and may be non-linear in c. term: what is summed of an
    element of a and one of b.
    """

    statement: Statement
    a: Operand
    b: Operand
    c: Operand
    outer: tuple[Index, ...]
    m: tuple[Index, ...]
    n: tuple[Index, ...]
    k: tuple[Index, ...]
    scale: tuple[typed.Expr, ...]
    dtype: DType  # of the sum
    unit: bool
    natural: bool = False
    term: Term = "product"

    @property
    def outer_of_a(self) -> tuple[Index, ...]:
        """The outer indices that choose a matrix a: those of other ones have it in common."""
        return tuple(i for i in self.outer if self.a.uses(i.name))


def extent_of(fused: tuple[Index, ...]) -> Size:
    """Return the number of points of a fused index; 1 for none."""
    total = ONE
    for index in fused:
        total = total * index.extent
    return total


def known(size: Size) -> int:
    """Return the value of a size that is a constant."""
    value = size.constant
    assert value is not None, f"{size} is not constant"
    return value
