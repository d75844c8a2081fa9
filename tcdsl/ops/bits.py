"""Bits of integers and bools, and Python's operators on them."""

from __future__ import annotations

from tcdsl.core import Op, Tensor, operator
from tcdsl.ops.rules import TypeRule, broadcast, only, promote
from tcdsl.ops.table import Family, publish

ops = Family(__file__)


def _whole(kernel: str) -> TypeRule:
    """Return the rule of the type that holds all operands, which are no floats."""
    return only(kernel, (0, 1), promote)


def _of_two(name: str, kernel: str, text: str | None = None) -> Op:
    return ops.row(name, text=text, types=_whole(kernel), shape=broadcast, vjp=None, inplace=True)


bitwise_and = _of_two("bitwise_and", "bitwise_and_cpu")
bitwise_or = _of_two("bitwise_or", "bitwise_or_cpu")
bitwise_xor = _of_two("bitwise_xor", "bitwise_xor_cpu")
bitwise_left_shift = _of_two("bitwise_left_shift", "lshift_cpu", "shift_left")
bitwise_right_shift = _of_two("bitwise_right_shift", "rshift_cpu", "shift_right")
_not = ops.op("bitwise_not", types=_whole("bitwise_not_cpu"), vjp=None)
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


def _inverted(input: Tensor) -> Tensor:
    """Be the operator ``~``, which says of floats what it is for."""
    if input.dtype.is_floating_point:
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
        )
    return bitwise_not(input)


operator("__invert__", _inverted)
