"""The bytes of a tensor as elements of another type."""

from __future__ import annotations

from tcdsl.core import Tensor, from_numpy
from tcdsl.core.dtypes import DType
from tcdsl.ops.rules import NAMES


def as_type(input: Tensor, dtype: DType) -> Tensor:
    """Return a tensor of another type over the same memory, outside of any graph.

    Raises
    ------
    RuntimeError
        If the last dimension does not hold a whole number of them, side by side.
    """
    old, new = input.dtype.itemsize, dtype.itemsize
    kinds = f"to view {NAMES[input.dtype.name]} as {NAMES[dtype.name]} (different element sizes)"
    if old != new:
        if not input.ndim:
            raise RuntimeError(f"self.dim() cannot be 0 {kinds}")
        if input.stride(-1) != 1:
            raise RuntimeError(f"self.stride(-1) must be 1 {kinds}, but got {input.stride(-1)}")
        if input.shape[-1] * old % new:
            raise RuntimeError(
                f"self.size(-1) must be divisible by {new // old} {kinds}, but got "
                f"{input.shape[-1]}"
            )
    if input._device:
        raise NotImplementedError("view(dtype): tensors of a GPU keep their type; say cpu() first")
    return from_numpy(input.detach()._array().view(dtype.numpy))
