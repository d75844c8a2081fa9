"""Bits of integers and bools, and Python's operators on them."""

from __future__ import annotations

from typing import Any

from tcdsl.core import Tensor, operator
from tcdsl.core.dtypes import DType
from tcdsl.ops.rules import Operands, broadcast, promote
from tcdsl.ops.table import Family, publish

ops = Family(__file__)


def _whole(operands: Operands) -> DType:
    """Return the type that holds all operands, which are no floats."""
    dtype = promote(operands)
    if dtype.is_floating_point:
        raise RuntimeError(f'"bitwise" not implemented for {dtype}')
    return dtype


_OF_TWO: dict[str, Any] = {"types": _whole, "shape": broadcast, "vjp": None, "inplace": True}
bitwise_and = ops.row("bitwise_and", **_OF_TWO)
bitwise_or = ops.row("bitwise_or", **_OF_TWO)
bitwise_xor = ops.row("bitwise_xor", **_OF_TWO)
bitwise_left_shift = ops.row("bitwise_left_shift", text="shift_left", **_OF_TWO)
bitwise_right_shift = ops.row("bitwise_right_shift", text="shift_right", **_OF_TWO)
_not = ops.op("bitwise_not", types=_whole, vjp=None)
_not_of_bools = ops.op("not_of_bools", vjp=None)


def bitwise_not(input: Tensor) -> Tensor:
    """Turn all bits round; of bools, what is true."""
    found: Tensor = (_not if input.dtype.category else _not_of_bools)(input)
    return found


publish(bitwise_not, ("bitwise_not",))
for _name, _op in {
    "and": bitwise_and,
    "or": bitwise_or,
    "xor": bitwise_xor,
    "lshift": bitwise_left_shift,
    "rshift": bitwise_right_shift,
}.items():
    operator(f"__{_name}__", _op)
    operator(f"__i{_name}__", _op.__dict__["inplace"])
operator("__invert__", bitwise_not)
