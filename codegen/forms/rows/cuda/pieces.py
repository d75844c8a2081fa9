"""Copies of several neighbours at once between memory and registers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.forms.base.space import Access
from tcdsl.codegen.forms.rows.values import RowValues
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Address, Array, Bin, Elem, Expr, Pointer, Scalar, Stmt
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types.dtypes import UINT64

COPIES = (4, 8, 16)  # bytes that a thread loads or stores at once
_UNSIGNED = Scalar(UINT64)


def is_multiple(size: Size, width: int) -> bool:
    """Whether a size is a multiple of a width by its form."""
    return all(k % width == 0 for _, k in size.terms)


def address_of(operands: Operands, name: str) -> Expr:
    """Return the address of an operand as a number."""
    return b.cast(operands.pointer(name), _UNSIGNED)


def are_multiples(addresses: Mapping[int, Iterable[Expr]]) -> list[Expr]:
    """Return the conditions under which addresses are multiples of so many bytes."""
    conditions = []
    for size, found in addresses.items():
        together = reduce(lambda x, y: Bin("|", x, y, _UNSIGNED), found)
        rest = Bin("%", together, b.const(size, UINT64), _UNSIGNED)
        conditions.append(b.compare("==", rest, b.const(0, UINT64)))
    return conditions


def array_of(values: RowValues, access: Access, width: int) -> Array:
    """Return the local array that a piece of an operand is copied to or from."""
    stored = values.stored(access[0])
    name = values.fresh(f"{values.operands.pointer(access[0]).name}_v")
    return Array(name, Scalar(stored), (width,), align=stored.size_bytes * width)


def copy(
    values: RowValues, access: Access, array: Array, counters: Mapping[str, Expr], *, load: bool
) -> Stmt:
    """Return the copy of a piece between memory and registers."""
    pointer, index = values.address(access, counters)
    stored, (width,) = values.stored(access[0]), array.shape
    here = Address(Elem(array.name, (b.c64(0),), array.type), Pointer(stored, space="local"))
    there = b.offset(pointer, index)
    to, source = (here, there) if load else (there, here)
    return b.do(f"tc_copy{stored.size_bytes * width}", to, source)
