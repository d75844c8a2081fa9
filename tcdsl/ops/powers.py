"""Powers of elements, by numbers or by elements of another tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcdsl.core import Tensor, check_write, is_grad_enabled, made_by, operator, written
from tcdsl.ops import pointwise
from tcdsl.ops.pointwise import reciprocal, rsqrt, sqrt, square
from tcdsl.ops.rules import broadcast, promote
from tcdsl.ops.strides import strides_of_result
from tcdsl.ops.table import Family, publish
from tcdsl.ops.writing import check_castable

ops = Family(__file__)
_pow = ops.op("each_pow", types=promote, shape=broadcast)
_pow_ = ops.op("each_pow", types=promote, shape=broadcast, writes=True)
_pow_integers = ops.op(
    "pow_integers", types=promote, shape=broadcast, vjp=None, order=strides_of_result
)
_BY_EXPONENT = {
    1: pointwise.ops.op("itself"),
    2: square,
    3: ops.op("cube"),
    0.5: sqrt,
    -0.5: rsqrt,
    -1: reciprocal,
}
_BY_EXPONENT_ = {
    1: pointwise.ops.op("itself", writes=True),
    3: ops.op("cube", writes=True),
    **{e: op.__dict__["inplace"] for e, op in _BY_EXPONENT.items() if e not in (1, 3)},
}


def pow(input: Any, exponent: Any, *, out: Any = None) -> Any:
    """Return elements to the power of others, or of a number.

    ``out = input ** exponent``; squares, cubes, roots and reciprocals are computed as such.
    """
    of_floats = isinstance(input, Tensor) and input.dtype.is_floating_point
    if not of_floats and (whole := _whole_power(input, exponent)) is not None:
        return whole if out is None else out.copy_(whole)
    if out is not None:
        return _pow(input, exponent, out=out)
    op = _BY_EXPONENT.get(exponent) if type(exponent) in (int, float) else None
    if op is not None and isinstance(input, Tensor):
        is_whole = type(exponent) is int and exponent > 0
        if is_whole or of_floats:
            return op(input) if is_whole else made_by(op(input), "PowBackward0")
    return _pow(input, exponent)


def _whole_power(input: Any, exponent: Any) -> Tensor | None:
    """Return the power of integers; None where there are others.

    Raises
    ------
    RuntimeError
        If the exponent is a number below 0.
    """
    operands = input, exponent = [
        int(o) if isinstance(o, np.integer | np.bool_) else o for o in (input, exponent)
    ]
    if not any(isinstance(o, Tensor) for o in operands) or isinstance(input, float):
        return None
    if not all(isinstance(o, Tensor | int) for o in operands):
        return None
    dtype = promote(operands)
    if dtype.is_floating_point or not dtype.category:
        return None
    if isinstance(exponent, int):
        if exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        if exponent in (2, 3) and input.dtype is dtype:
            return _BY_EXPONENT[exponent](input)  # type: ignore[no-any-return]
        bits = exponent.bit_length()
    else:
        bits = 8 * dtype.itemsize - dtype.is_signed
    return _pow_integers.with_generics(BITS=bits)(input, exponent)  # type: ignore[no-any-return]


def pow_(input: Tensor, exponent: Any) -> Any:
    """Bring elements to a power, in place."""
    if not input.dtype.is_floating_point:
        if (whole := _whole_power(input, exponent)) is not None:
            check_castable(whole.dtype, input.dtype)
            return input.copy_(whole)
        return _pow_(input, exponent)
    op = _BY_EXPONENT_.get(exponent) if type(exponent) in (int, float) else None
    if op is None:
        return _pow_(input, exponent)
    if exponent == 1 and not (input.requires_grad and is_grad_enabled()):
        check_write(input, 0)
        written(input)  # nothing changes but the version
        return input
    return made_by(op(input), "PowBackward0")


publish(pow, ("pow",))
publish(pow_, ("pow_",), on=("Tensor",))
operator("__pow__", pow)
operator("__ipow__", pow_)
