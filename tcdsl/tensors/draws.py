"""Tensors of chance: uniform, normal, integers, orders."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from tcdsl.chance.generator import Generator, default_generator, source_of
from tcdsl.core import Tensor, dtypes
from tcdsl.core.dtypes import DType
from tcdsl.ops import drawing, filling, on_device
from tcdsl.ops.formats import FORMATS
from tcdsl.ops.rules import broadcast_shape
from tcdsl.ops.table import publish
from tcdsl.ops.writing import unrecorded
from tcdsl.tensors.creation import Place, blank, finished, is_like, is_plain, like, size_of
from tcdsl.tensors.devices import place_of

__all__ = [
    "normal",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
]


_preserve = FORMATS["preserve_format"]


def rand(
    *sizes: Any,
    size: Sequence[int] | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Return numbers that are uniform in [0, 1); parameters as of `empty`."""
    shape = size_of(sizes, size)
    if out is None and is_plain(dtype, device):
        drawn = drawing.new_uniform(shape, source_of(generator))
        if drawn is not None:
            return finished(drawn, requires_grad)
    made = blank(shape, dtype, device, out)
    return finished(filling.uniform_(made, generator=generator), requires_grad, out)


def randn(
    *sizes: Any,
    size: Sequence[int] | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Return numbers that are normal of mean 0 and deviation 1; parameters as of `empty`."""
    shape = size_of(sizes, size)
    if out is None and is_plain(dtype, device):
        drawn = drawing.new_normal(shape, source_of(generator))
        if drawn is not None:
            return finished(drawn, requires_grad)
    made = blank(shape, dtype, device, out)
    return finished(filling.normal_(made, generator=generator), requires_grad, out)


def rand_like(
    input: Tensor,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    memory_format: object = _preserve,
) -> Tensor:
    """Return numbers that are uniform in [0, 1), in another tensor's shape and type."""
    if input.dtype is dtypes.float32 and is_like(input, dtype, device, memory_format):
        drawn = drawing.new_uniform(tuple(input.shape), default_generator)
        if drawn is not None:
            return finished(drawn, requires_grad)
    return finished(filling.uniform_(like(input, dtype, device, memory_format)), requires_grad)


def randn_like(
    input: Tensor,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    memory_format: object = _preserve,
) -> Tensor:
    """Return normal numbers in another tensor's shape and type."""
    if input.dtype is dtypes.float32 and is_like(input, dtype, device, memory_format):
        drawn = drawing.new_normal(tuple(input.shape), default_generator)
        if drawn is not None:
            return finished(drawn, requires_grad)
    return finished(filling.normal_(like(input, dtype, device, memory_format)), requires_grad)


def randint(
    *bounds: Any,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
    **named: Any,
) -> Tensor:
    """Return integers in [low, high): ``randint(high, size)`` or ``randint(low, high, size)``.

    Parameters
    ----------
    low, high : int
    size : sequence of int
    out, device, requires_grad
        As of `empty`.
    dtype : dtype, optional
        By default int64.
    """
    given = list(bounds)
    size = named.pop("size", None)
    if size is None:
        if len(given) < 2 - ("high" in named) or isinstance(given[-1], int):
            raise TypeError("randint(): argument 'size' must be tuple of ints")
        size = given.pop()
    high = named.pop("high", None)
    if high is None:
        high = given.pop()
    low = named.pop("low", given.pop() if given else 0)
    if named or given:
        raise TypeError("randint() takes high and size, or low, high and size")
    kind = dtypes.int64 if dtype is None and out is None else dtype
    shape, low, high = size_of((size,)), int(low), int(high)
    if out is None and kind is dtypes.int64 and not place_of(device):
        source = source_of(generator)
        drawn = drawing.new_integers(shape, source, low, high - low)
        if drawn is not None:
            return finished(drawn, requires_grad)
    made = blank(shape, kind, device, out)
    return finished(filling.random_(made, low, high, generator=generator), requires_grad, out)


def randint_like(
    input: Tensor,
    low: int,
    high: int | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    memory_format: object = _preserve,
) -> Tensor:
    """Return integers in [low, high), or [0, low), in another tensor's shape and type."""
    bounds = (0, low) if high is None else (low, high)
    return finished(
        filling.random_(like(input, dtype, device, memory_format), *bounds), requires_grad
    )


def randperm(
    n: int,
    out: Tensor | None = None,
    dtype: DType = dtypes.int64,
    device: Place = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Return the integers from 0 to n - 1 in an order of chance."""
    n = operator.index(n)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    order = blank((n,), dtype, "cpu", None)
    drawing.shuffle(order, source_of(generator))
    if out is None:
        return finished(on_device.moved(order, place_of(device)), requires_grad)
    return blank((n,), None, device, out).copy_(order)


def normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    out: Tensor | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return normal numbers of means and deviations, each a number or a tensor.

    Parameters
    ----------
    mean, std : float or Tensor
        The numbers are of the type of the first tensor; no gradient goes back.
    size : sequence of int, optional
        Where both are numbers.
    """
    if isinstance(std, Tensor):
        if std.numel() and not drawing.least(std.detach()).item() >= 0:  # nor NaN
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        if out is None and _are_alike(mean, std):
            drawn = drawing.new_normal(mean.shape, source_of(generator))
            if drawn is not None:
                return finished(drawn.mul_(std.detach()).add_(mean.detach()), False)
        shape = broadcast_shape([tuple(t.shape) for t in (mean, std) if isinstance(t, Tensor)])
        first = mean if isinstance(mean, Tensor) else std
        with unrecorded():
            made = first.new_empty(shape) if out is None else blank(shape, None, None, out)
            filling.normal_(made, generator=generator)
            made.mul_(std).add_(mean)
        return finished(made, False, out)
    if size is None:
        raise TypeError("normal() of two numbers needs size=")
    shape = size_of((size,))
    if out is None and std >= 0 and is_plain(None, None):
        source = source_of(generator)
        drawn = drawing.new_normal(shape, source, float(mean), float(std))
        if drawn is not None:
            return drawn
    made = blank(shape, None, None, out)
    return finished(filling.normal_(made, mean, std, generator=generator), False, out)


def _are_alike(mean: Any, std: Any) -> bool:
    """Whether both are tensors of float32 of one shape, on the host."""
    return (
        isinstance(mean, Tensor)
        and isinstance(std, Tensor)
        and mean.dtype is dtypes.float32
        and std.dtype is dtypes.float32
        and mean.shape == std.shape
        and not mean._device
        and not std._device
    )


for _name in __all__:
    publish(globals()[_name], (_name,), on=("torch",))
