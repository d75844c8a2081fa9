"""Dropout and what else computes with chance, under the names of PyTorch's nn.functional."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tcdsl import core
from tcdsl.chance.generator import default_generator
from tcdsl.core import Tensor, dtypes
from tcdsl.ops import drawing
from tcdsl.ops.filling import in_memory
from tcdsl.ops.table import Family, publish

ops = Family(__file__)

_masked = ops.op("masked")
_masked_alpha = ops.op("masked_alpha")
_masked_into = ops.op("masked", writes=True)
_masked_alpha_into = ops.op("masked_alpha", writes=True)
# On a GPU, by what is left out: elements, or channels.
_there = {False: ops.op("dropout"), True: ops.op("dropout_runs")}
_alpha_there = {False: ops.op("alpha_dropout"), True: ops.op("alpha_dropout_runs")}

# Below 0 so far lies the lower limit of SELU, scale * alpha (Klambauer et al., 2017).
_HEIGHT = 1.0507009873554804934193349852946 * 1.6732632423543772848170429916717


def _without_chance(
    input: Tensor, p: float, training: bool, inplace: bool, by_channel: bool
) -> Tensor | None:
    """Return what is left where all elements stay, or none; None where chance decides."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0 or not input.numel():
        return input
    if p < 1:
        if by_channel and input.ndim < 2:
            raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
        return None
    made: Tensor = input.mul_(0) if inplace else input * 0
    return made


@functools.lru_cache
def _scale(p: float, is_double: bool) -> float:
    """Return 1 / (1 - p) as PyTorch rounds it."""
    kind = np.float64 if is_double else np.float32
    return float(kind(1) / kind(1 - p))


def _noise(input: Tensor, p: float, by_channel: bool) -> Tensor:
    """Draw on a CPU which elements stay, as PyTorch does: in the order that they lie in."""
    shape: tuple[int, ...] = tuple(input.shape)
    order = None
    if by_channel:
        shape = shape[:2] + (1,) * (input.ndim - 2)
    elif not input.is_contiguous():
        order = in_memory(input)
        shape = tuple(shape[d] for d in order)
    row = core.empty((math.prod(shape),), dtypes.bool_)
    drawing.bernoulli_of_number(row, default_generator, 1 - p)
    noise: Tensor = row if len(shape) == 1 else row.view(shape)
    if order is None:
        return noise
    return noise.permute(sorted(range(len(order)), key=order.__getitem__))


def _dropped(
    input: Tensor, p: float, training: bool, inplace: bool, by_channel: bool = False
) -> Tensor:
    if (settled := _without_chance(input, p, training, inplace, by_channel)) is not None:
        return settled
    if input._device:
        made = _on_gpu(_there, input, by_channel, p, 1 / (1 - p))
        return input.copy_(made) if inplace else made
    op = _masked_into if inplace else _masked
    scale = _scale(p, input.dtype is dtypes.float64)
    return op(input, _noise(input, p, by_channel), scale)


def _dropped_to_low(
    input: Tensor, p: float, training: bool, inplace: bool, by_channel: bool = False
) -> Tensor:
    if (settled := _without_chance(input, p, training, inplace, by_channel)) is not None:
        return settled
    scale = 1 / math.sqrt((_HEIGHT * _HEIGHT * p + 1) * (1 - p))
    if input._device:
        settings = -_HEIGHT, scale, scale * p * _HEIGHT
        made = _on_gpu(_alpha_there, input, by_channel, p, *settings)
        return input.copy_(made) if inplace else made
    op = _masked_alpha_into if inplace else _masked_alpha
    settings = scale, _HEIGHT * scale, _HEIGHT * scale * p
    return op(input, _noise(input, p, by_channel), *settings)


def _on_gpu(ops: dict[bool, Any], input: Tensor, by_channel: bool, *settings: float) -> Tensor:
    """Leave elements or channels out by numbers of a kernel's own."""
    shape = (math.prod(input.shape[:2]), -1) if by_channel else (-1,)
    made: Tensor = ops[by_channel](
        input.reshape(shape), default_generator.draw_seed(), *map(float, settings)
    )
    return made.reshape(input.shape)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Leave elements out by probability p; the rest is divided by 1 - p."""
    return _dropped(input, p, training, inplace)


def _in_batch(input: Tensor, ndim: int, p: float, training: bool, inplace: bool) -> Tensor:
    """Leave channels out of a batch, of so many dimensions, or of a single input."""
    if input.ndim != ndim:
        return _dropped(input.unsqueeze(0), p, training, inplace, True).squeeze(0)
    return _dropped(input, p, training, inplace, True)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Leave whole channels out by probability p, shape (N, C, L) or (C, L)."""
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return _in_batch(input, 3, p, training, inplace)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Leave whole channels out by probability p, shape (N, C, H, W)."""
    return _dropped(input, p, training, inplace, True)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Leave whole channels out by probability p, shape (N, C, D, H, W) or (C, D, H, W)."""
    return _in_batch(input, 5, p, training, inplace)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Put the lower limit of SELU in elements by probability p; mean and variance stay."""
    return _dropped_to_low(input, p, training, inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Put the lower limit of SELU in whole channels by probability p, shape (N, C, ...)."""
    return _dropped_to_low(input, p, training, inplace, True)


publish(dropout, ("dropout",), on=("torch",))
publish(alpha_dropout, ("alpha_dropout",), on=("torch",))
publish(feature_alpha_dropout, ("feature_alpha_dropout",), on=("torch",))
