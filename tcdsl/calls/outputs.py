"""The buffers that a caller gives for outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcdsl.calls.operands.arguments import Array, Operand, as_output
from tcdsl.calls.operands.overlap import meets_itself
from tcdsl.grammar.text.errors import ShapeError, TCTypeError
from tcdsl.grammar.types import typed


def checked_output(
    name: str, value: Any, tensor: typed.Tensor, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> Operand:
    """Return a buffer as an array that may be written.

    Parameters
    ----------
    name : str
        Of the definition, for messages.
    value : object
        The buffer, as it came.
    tensor : typed.Tensor
        The return, of this NumPy type and shape.

    Raises
    ------
    TCTypeError, ShapeError
        If it is none of that type and shape, cannot be written, or two of its elements are one
        place in memory.
    """
    array = as_output(value, tensor.name)
    if isinstance(array, np.ndarray) and array is not value and not array.flags.writeable:
        array = _as_buffer(value, array)
    what = f"{name}: out '{tensor.name}'"
    if array.dtype != dtype:
        raise TCTypeError(
            f"{name}: expected out '{tensor.name}' of type {tensor.dtype}, got {array.dtype}"
        )
    if array.shape != shape:
        symbols = ", ".join(map(str, tensor.shape))
        raise ShapeError(
            f"{name}: expected out '{tensor.name}' of shape ({symbols}) = {shape}, "
            f"got {array.shape}"
        )
    if not array.flags.writeable:
        raise ShapeError(f"{what} is read-only")
    if array.size and any(s == 0 < n - 1 for s, n in zip(array.strides, array.shape, strict=True)):
        raise ShapeError(f"{what} has stride 0: several elements are one place in memory")
    if meets_itself(array):
        raise ShapeError(
            f"{what} has elements that share memory (shape {array.shape}, strides "
            f"{array.strides} bytes)"
        )
    return array


def _as_buffer(value: Any, array: Array) -> Array:
    """Return what dlpack gave read-only as a buffer, which may be writable: the same memory."""
    try:
        buffer = np.asarray(value)
    except Exception:  # a foreign `__array__` may raise anything
        return array
    same = (buffer.ctypes.data, buffer.shape, buffer.strides, buffer.dtype)
    return buffer if same == (array.ctypes.data, array.shape, array.strides, array.dtype) else array
