"""The bytes of a tensor as elements of another type."""

from __future__ import annotations

from tcdsl.core import Tensor, retyped
from tcdsl.core.dtypes import DType
from tcdsl.ops.rules import NAMES


def as_type(input: Tensor, dtype: DType) -> Tensor:
    """Return a tensor of another type over the same memory, outside of any graph.

    Raises
    ------
    RuntimeError
        If the last dimension does not hold a whole number of them, side by side, or another one
        does not begin at one.
    """
    old, new = input.dtype.itemsize, dtype.itemsize
    kinds = f"to view {NAMES[input.dtype.name]} as {NAMES[dtype.name]} (different element sizes)"
    shape, strides = [*input.shape], [*input.stride()]
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
        for step, where in (
            (input.storage_offset(), "self.storage_offset()"),
            *((s, f"self.stride({d})") for d, s in enumerate(strides[:-1])),
        ):
            if step * old % new:
                raise RuntimeError(
                    f"{where} must be divisible by {new // old} {kinds}, but got {step}"
                )
        shape[-1] = shape[-1] * old // new
        strides[:-1] = [s * old // new for s in strides[:-1]]
    return retyped(input, dtype.numpy.num, tuple(shape), tuple(strides))
