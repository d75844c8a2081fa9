"""Tensors from nothing: of undefined contents, of one number, like another tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tcdsl import core
from tcdsl.core import Tensor, dtypes
from tcdsl.core.dtypes import DType
from tcdsl.ops import filling, internal, on_device
from tcdsl.ops.arguments import listed
from tcdsl.ops.formats import FORMATS, strides_in
from tcdsl.ops.rules import default_float
from tcdsl.ops.strides import Strides, laid_out
from tcdsl.ops.table import publish
from tcdsl.tensors.devices import CPU, Device, default_device, place_of

__all__ = [
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "scalar_tensor",
    "zeros",
    "zeros_like",
]


Place = Device | str | int | None
_preserve = FORMATS["preserve_format"]


def size_of(sizes: Sequence[Any], size: Sequence[int] | None = None) -> tuple[int, ...]:
    """Return the shape that `(2, 3)`, `((2, 3),)` or `([2, 3],)` says, or `size` by name.

    Raises
    ------
    TypeError
        If one of them is no integer.
    RuntimeError
        If one is negative.
    """
    if size is not None:
        sizes = (*sizes, size)
    given = sizes
    if len(sizes) == 1 and type(sizes[0]) is not int and isinstance(sizes[0], Sequence):
        given = sizes[0]
    for n in given:
        if type(n) is not int or n < 0:
            break
    else:
        return tuple(given)
    try:
        shape = tuple(int(n.__index__()) for n in given)
    except AttributeError:
        raise TypeError(
            f"expected sizes as integers, got {', '.join(type(n).__name__ for n in given)}"
        ) from None
    for n in shape:
        if n < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {n}: {list(shape)}"
            )
    return shape


def blank(
    shape: tuple[int, ...], dtype: DType | None, device: Place, out: Tensor | None = None
) -> Tensor:
    """Return a tensor to fill: `out` in that shape, or a new one."""
    if out is None:
        return empty_at(shape, default_float() if dtype is None else dtype, place_of(device))
    if tuple(out.shape) != shape:
        out.resize_(shape)
    return out


def is_plain(dtype: DType | None, device: Place) -> bool:
    """Whether these say float32 on the host, as nothing does by default."""
    place = default_device() if device is None else device
    return place is CPU and (default_float() if dtype is None else dtype) is dtypes.float32


def empty_at(shape: tuple[int, ...], dtype: DType, place: int) -> Tensor:
    return on_device.empty(shape, dtype, place - 1) if place else core.empty(shape, dtype)


def finished(made: Tensor, requires_grad: bool, out: Tensor | None = None) -> Tensor:
    """Return what was made, or written into `out`; a new tensor has not been written yet."""
    if out is None:
        core.fresh(made)
        if made._base is not None:  # a row that it was drawn into: nothing else shows it
            core.set_base(made, None)
    return requiring(made) if requires_grad else made


def requiring(made: Tensor) -> Tensor:
    """Return a new tensor, by which gradients are wanted."""
    if not made.dtype.is_floating_point:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    made.requires_grad = True
    return made


def empty(
    *sizes: Any,
    size: Sequence[int] | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    memory_format: object = None,
) -> Tensor:
    """Return a tensor of undefined contents.

    Parameters
    ----------
    *sizes : int, or one sequence of int
        The shape, or `size`.
    out : Tensor, optional
        Used in place of a new one.
    dtype : dtype, optional
        By default `get_default_dtype()`.
    device : device, str or int, optional
    requires_grad : bool
    memory_format : memory format, optional
        In what order elements lie; by default in C order.
    """
    shape = size_of(sizes, size)
    if memory_format is None:
        return finished(blank(shape, dtype, device, out), requires_grad, out)
    strides = strides_in(memory_format, shape, "empty")
    kind = default_float() if dtype is None else dtype
    return finished(_laid(shape, strides, kind, place_of(device)), requires_grad)


def zeros(
    *sizes: Any,
    size: Sequence[int] | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of zeros; parameters as of `empty`."""
    return finished(blank(size_of(sizes, size), dtype, device, out).zero_(), requires_grad, out)


def ones(
    *sizes: Any,
    size: Sequence[int] | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of ones; parameters as of `empty`."""
    return finished(blank(size_of(sizes, size), dtype, device, out).fill_(1), requires_grad, out)


def full(
    size: Any,
    fill_value: float,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of one number, of whose kind it is by default.

    Parameters
    ----------
    size : sequence of int
    fill_value : number
    out, dtype, device, requires_grad
        As of `empty`.
    """
    if dtype is None and out is None:
        dtype = type_of_number(fill_value)
    made = blank(size_of((size,)), dtype, device, out)
    return finished(made.fill_(fill_value), requires_grad, out)


def scalar_tensor(
    s: float, *, dtype: DType | None = None, device: Place = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of rank 0 of a number."""
    return finished(blank((), dtype, device).fill_(s), requires_grad)


def type_of_number(number: object) -> DType:
    number = listed(number)
    if isinstance(number, bool):
        return dtypes.bool_
    return dtypes.int64 if isinstance(number, int) else default_float()


def _laid(shape: tuple[int, ...], strides: Strides | None, dtype: DType, place: int) -> Tensor:
    """Return a dense tensor of undefined contents; strides None for C order."""
    if strides is None:
        return empty_at(shape, dtype, place)
    return laid_out(empty_at((math.prod(shape),), dtype, place), shape, strides)


def like(
    input: Tensor, dtype: DType | None, device: Place, memory_format: object = _preserve
) -> Tensor:
    """Return a tensor to fill of another's shape, by default in the order that its strides say."""
    place = input._device if device is None else place_of(device)
    kind = input.dtype if dtype is None else dtype
    return _laid(tuple(input.shape), strides_in(memory_format, input, "empty_like"), kind, place)


def is_like(
    input: Tensor, dtype: DType | None, device: Place, memory_format: object = _preserve
) -> bool:
    """Whether what is like a tensor is so in all: a dense one of its type, in the host's memory."""
    return (
        dtype is None
        and device is None
        and memory_format is _preserve
        and not input._device
        and input.is_contiguous()
    )


def empty_like(
    input: Tensor,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    memory_format: object = _preserve,
) -> Tensor:
    """Return a tensor of undefined contents, of another's shape and type."""
    return finished(like(input, dtype, device, memory_format), requires_grad)


def zeros_like(
    input: Tensor,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    memory_format: object = _preserve,
) -> Tensor:
    """Return zeros of another tensor's shape and type."""
    if out is None and is_like(input, dtype, device, memory_format):
        return finished(internal.zeros(input.detach()), requires_grad)
    made = like(input, dtype, device, memory_format) if out is None else out
    return finished(made.zero_(), requires_grad, out)


def ones_like(
    input: Tensor,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    memory_format: object = _preserve,
) -> Tensor:
    """Return ones of another tensor's shape and type."""
    if out is None and is_like(input, dtype, device, memory_format):
        return finished(internal.ones(input.detach()), requires_grad)
    made = like(input, dtype, device, memory_format) if out is None else out
    return finished(made.fill_(1), requires_grad, out)


def full_like(
    input: Tensor,
    fill_value: float,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    memory_format: object = _preserve,
) -> Tensor:
    """Return one number in another tensor's shape and type."""
    return finished(like(input, dtype, device, memory_format).fill_(fill_value), requires_grad)


def eye(
    n: int,
    m: int | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a matrix with 1 on its diagonal and 0 elsewhere, shape (n, m), by default (n, n)."""
    made = blank(size_of((n, n if m is None else m)), dtype, device, out)
    return finished(filling.eye(made), requires_grad, out)


for _name in __all__:
    publish(globals()[_name], (_name,), on=("torch",))
