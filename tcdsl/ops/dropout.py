"""Dropout and what else computes with chance, under the names of PyTorch's nn.functional."""

from __future__ import annotations

import math
from typing import Any

from tcdsl.chance.generator import default_generator
from tcdsl.core import Tensor
from tcdsl.ops.table import Family, publish

ops = Family(__file__)

_dropout = ops.op("dropout")
_channels = ops.op("channels")
_alpha_dropout = ops.op("alpha_dropout")


def _check(p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _placed(input: Tensor, made: Tensor, inplace: bool) -> Tensor:
    shaped = made.reshape(input.shape)
    return input.copy_(shaped) if inplace else shaped


def _drawn(op: Any, input: Tensor, inplace: bool, *settings: float) -> Tensor:
    made = op(input.reshape(-1), default_generator.draw_seed(), *map(float, settings))
    return _placed(input, made, inplace)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Leave elements out by probability p; the rest is divided by 1 - p."""
    _check(p)
    if not training or p == 0 or not input.numel():
        return input
    return _drawn(_dropout, input, inplace, p, 0.0 if p == 1 else 1 / (1 - p))


def _dropped_channels(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    _check(p)
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    if not training or p == 0 or not input.numel():
        return input
    rows = input.reshape(input.size(0) * input.size(1), -1)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    made = _channels(rows, default_generator.draw_seed(), float(p), scale)
    return _placed(input, made, inplace)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Leave whole channels out by probability p, shape (N, C, L)."""
    return _dropped_channels(input, p, training, inplace)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Leave whole channels out by probability p, shape (N, C, H, W)."""
    return _dropped_channels(input, p, training, inplace)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Leave whole channels out by probability p, shape (N, C, D, H, W)."""
    return _dropped_channels(input, p, training, inplace)


# The lower limit of SELU, -scale * alpha (Klambauer et al., 2017).
_LOW = -1.0507009873554804934193349852946 * 1.6732632423543772848170429916717


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Put the lower limit of SELU in elements by probability p; mean and variance stay."""
    _check(p)
    if not training or p == 0 or not input.numel():
        return input
    if p == 1:
        return _placed(input, input * 0, inplace)
    a = 1 / math.sqrt((_LOW * _LOW * p + 1) * (1 - p))
    return _drawn(_alpha_dropout, input, inplace, p, _LOW, a, -a * p * _LOW)


publish(dropout, ("dropout",), on=("torch",))
publish(alpha_dropout, ("alpha_dropout",), on=("torch",))
