"""Copies that nobody else can write to: what a way back keeps.

A changed argument would give a wrong gradient in silence: NumPy's arrays have neither immutability
nor versions. A copy is right whatever is changed, through any view, by any library, and costs one
pass where the forward pass and the way back make several. Read-only outputs would leave arguments
open, version counters do not see writes through NumPy's views, check sums cost two passes and end
in an error. `with_grad(copy=False)` keeps references.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tcdsl.calls.operands.arguments import Array, as_array
from tcdsl.calls.operands.device_arrays import is_on_device
from tcdsl.calls.operands.foreign import like
from tcdsl.plain.kernel import PlainKernel, kernel_of_ours


def own(value: Any, name: str) -> Any:
    """Return a copy of an argument, of its kind and in its place; a number as it is.

    Dimensions that are permuted stay so, those that are repeated (stride 0) are not spelt out on
    the host.

    Raises
    ------
    TCTypeError
        If it is no argument of a kernel; name is the parameter, for messages.
    """
    if isinstance(value, bool | int | float | np.generic):
        return value
    if is_on_device(value):
        return _copy()(value)
    return like(value)(_dense(as_array(value, name)))


def _dense(array: Array) -> Array:
    repeated = [s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True)]
    once = tuple(slice(1) if r else slice(None) for r in repeated)
    copy = array[(*once, ...)].copy(order="K")  # `...` keeps one of rank 0 an array
    if not any(repeated):
        return copy
    strides = [0 if r else s for r, s in zip(repeated, copy.strides, strict=True)]
    return np.lib.stride_tricks.as_strided(copy, array.shape, strides)


@cache
def _copy() -> PlainKernel:
    return kernel_of_ours("def copy<T>(T(...) A) -> (B) { B(...) = A(...) }", "copy")
