"""Subscripts outside their tensors, as callers hear of them."""

from __future__ import annotations

from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import BoundsError


@dataclass(frozen=True, slots=True)
class OperandNames:
    """What a fault calls a definition and its operands, parameters then returns."""

    kernel: str
    operands: tuple[str, ...]


def bounds_error(
    names: OperandNames, operand: int, dim: int, value: int, extent: int
) -> BoundsError:
    """Return the error of a subscript outside its tensor."""
    name = names.operands[operand] if operand >= 0 else "a temporary"
    return BoundsError(
        f"{names.kernel}: subscript {dim} of '{name}' is {value}, outside [0, {extent})\n"
        "  the outputs of this call are undefined"
    )
