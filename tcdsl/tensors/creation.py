"""Tensors from nothing: of one number, of a range, of chance, of Python's numbers and NumPy's."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tcdsl import core
from tcdsl.chance.generator import Generator, default_generator
from tcdsl.core import Tensor, dtypes
from tcdsl.core.dtypes import DType
from tcdsl.ops import filling, internal, on_device
from tcdsl.ops.rules import broadcast_shape, default_float
from tcdsl.ops.table import publish
from tcdsl.tensors.devices import Device, place_of

__all__ = [
    "arange",
    "as_tensor",
    "empty",
    "empty_like",
    "eye",
    "from_numpy",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "normal",
    "ones",
    "ones_like",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "range",
    "scalar_tensor",
    "tensor",
    "zeros",
    "zeros_like",
]

_range = range
_OF_PYTHON = {bool, int, float}
Place = Device | str | int | None


def size_of(sizes: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape that `(2, 3)`, `((2, 3),)` or `([2, 3],)` says.

    Raises
    ------
    TypeError
        If one of them is no integer.
    RuntimeError
        If one is negative.
    """
    given = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes
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


def _blank(
    shape: tuple[int, ...], dtype: DType | None, device: Place, out: Tensor | None = None
) -> Tensor:
    """Return a tensor to fill: `out` in that shape, or a new one."""
    if out is None:
        return _empty(shape, default_float() if dtype is None else dtype, place_of(device))
    if tuple(out.shape) != shape:
        out.resize_(shape)
    return out


def _empty(shape: tuple[int, ...], dtype: DType, place: int) -> Tensor:
    return on_device.empty(shape, dtype, place - 1) if place else core.empty(shape, dtype)


def _finished(made: Tensor, requires_grad: bool) -> Tensor:
    if requires_grad and not made.dtype.is_floating_point:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    return made.requires_grad_() if requires_grad else made


def empty(
    *sizes: Any,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of undefined contents.

    Parameters
    ----------
    *sizes : int, or one sequence of int
        The shape.
    out : Tensor, optional
        Used in place of a new one.
    dtype : dtype, optional
        By default `get_default_dtype()`.
    device : device, str or int, optional
    requires_grad : bool
    """
    return _finished(_blank(size_of(sizes), dtype, device, out), requires_grad)


def zeros(
    *sizes: Any,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of zeros; parameters as of `empty`."""
    return _finished(_blank(size_of(sizes), dtype, device, out).zero_(), requires_grad)


def ones(
    *sizes: Any,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of ones; parameters as of `empty`."""
    return _finished(_blank(size_of(sizes), dtype, device, out).fill_(1), requires_grad)


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
        dtype = _type_of_number(fill_value)
    made = _blank(size_of((size,)), dtype, device, out)
    return _finished(made.fill_(fill_value), requires_grad)


def scalar_tensor(
    s: float, *, dtype: DType | None = None, device: Place = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of rank 0 of a number."""
    return _finished(_blank((), dtype, device).fill_(s), requires_grad)


def _type_of_number(number: object) -> DType:
    if isinstance(number, bool):
        return dtypes.bool_
    return dtypes.int64 if isinstance(number, int) else default_float()


def _like(input: Tensor, dtype: DType | None, device: Place) -> Tensor:
    """Return a tensor to fill of another's shape and, if it is dense, order of dimensions."""
    place = input._device if device is None else place_of(device)
    kind = input.dtype if dtype is None else dtype
    if input.is_contiguous():
        return _empty(tuple(input.shape), kind, place)
    order = sorted(_range(input.ndim), key=lambda d: (-input.stride(d), d))
    made = _empty(tuple(input.shape[d] for d in order), kind, place)
    if order == list(_range(input.ndim)):
        return made
    return made.permute([order.index(d) for d in _range(input.ndim)])


def _is_plain(input: Tensor, dtype: DType | None, device: Place) -> bool:
    """Whether what is like a tensor is so in all: a dense one of its type, where it is."""
    return dtype is None and device is None and not input._device and input.is_contiguous()


def empty_like(
    input: Tensor,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of undefined contents, of another's shape and type."""
    return _finished(_like(input, dtype, device), requires_grad)


def zeros_like(
    input: Tensor,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return zeros of another tensor's shape and type."""
    if out is None and _is_plain(input, dtype, device):
        return _finished(internal.zeros(input.detach()), requires_grad)
    made = _like(input, dtype, device) if out is None else out
    return _finished(made.zero_(), requires_grad)


def ones_like(
    input: Tensor,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return ones of another tensor's shape and type."""
    if out is None and _is_plain(input, dtype, device):
        return _finished(internal.ones(input.detach()), requires_grad)
    made = _like(input, dtype, device) if out is None else out
    return _finished(made.fill_(1), requires_grad)


def full_like(
    input: Tensor,
    fill_value: float,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return one number in another tensor's shape and type."""
    return _finished(_like(input, dtype, device).fill_(fill_value), requires_grad)


def rand(
    *sizes: Any,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Return numbers that are uniform in [0, 1); parameters as of `empty`."""
    made = _blank(size_of(sizes), dtype, device, out)
    return _finished(filling.uniform_(made, generator=generator), requires_grad)


def randn(
    *sizes: Any,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Return numbers that are normal of mean 0 and deviation 1; parameters as of `empty`."""
    made = _blank(size_of(sizes), dtype, device, out)
    return _finished(filling.normal_(made, generator=generator), requires_grad)


def rand_like(
    input: Tensor,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return numbers that are uniform in [0, 1), in another tensor's shape and type."""
    return _finished(filling.uniform_(_like(input, dtype, device)), requires_grad)


def randn_like(
    input: Tensor,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return normal numbers in another tensor's shape and type."""
    return _finished(filling.normal_(_like(input, dtype, device)), requires_grad)


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
        size = given.pop()
    high = named.pop("high", None)
    if high is None:
        high = given.pop()
    low = named.pop("low", given.pop() if given else 0)
    if named or given:
        raise TypeError("randint() takes high and size, or low, high and size")
    kind = dtypes.int64 if dtype is None and out is None else dtype
    made = _blank(size_of((size,)), kind, device, out)
    return _finished(filling.random_(made, low, high, generator=generator), requires_grad)


def randint_like(
    input: Tensor,
    low: int,
    high: int | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return integers in [low, high), or [0, low), in another tensor's shape and type."""
    bounds = (0, low) if high is None else (low, high)
    return _finished(filling.random_(_like(input, dtype, device), *bounds), requires_grad)


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
        raise RuntimeError(f"n must be non-negative, got {n}")
    with (default_generator if generator is None else generator).numpy() as source:
        order = from_numpy(source.permutation(n).astype(dtype.numpy))
    if out is None:
        return _finished(on_device.moved(order, place_of(device)), requires_grad)
    return _blank((n,), None, device, out).copy_(order)


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
    size : sequence of int, optional
        Where both are numbers.
    """
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        shape = broadcast_shape([tuple(t.shape) for t in (mean, std) if isinstance(t, Tensor)])
        made = randn(shape, generator=generator) * std + mean
        return made if out is None else out.copy_(made)
    if size is None:
        raise TypeError("normal() of two numbers needs size=")
    made = _blank(size_of((size,)), None, None, out)
    return filling.normal_(made, mean, std, generator=generator)


def arange(
    *bounds: Any,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    **named: Any,
) -> Tensor:
    """Return numbers from start to below end: ``arange(end)``, ``arange(start, end, step=1)``.

    Parameters
    ----------
    start, end, step : number
    dtype : dtype, optional
        By default int64 where all three are integers.
    out, device, requires_grad
        As of `empty`.

    Raises
    ------
    RuntimeError
        If step is 0, or leads away from end.
    """
    start, end, step = _bounds(bounds, named)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * (1 if step > 0 else -1) < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    whole = all(isinstance(x, int) for x in (start, end, step))
    count = -(-(end - start) // step) if whole else math.ceil((end - start) / step)
    kind = (dtypes.int64 if whole else default_float()) if dtype is None else dtype
    made = _blank((int(count),), kind, device, out)
    row = filling.flat(made)
    target = _empty((int(count),), made.dtype, made._device) if row is None else row
    if whole:
        filling.arange_of_integers(target, start, step)
    else:
        filling.arange(target, float(start), float(step))
    return _finished(made if row is not None else made.copy_(target), requires_grad)


def _bounds(bounds: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return start, end and step of a range, as numbers of Python."""
    words = ("end",) if len(bounds) == 1 and "end" not in named else ("start", "end", "step")
    if len(bounds) > 3 or not {"start", "end", "step"} >= named.keys():
        raise TypeError("arange() takes end, or start, end and step")
    values = {"start": 0, "step": 1, **dict(zip(words, bounds, strict=False)), **named}
    if "end" not in values:
        raise TypeError("arange() takes end, or start, end and step")
    start, end, step = (_number(values[name]) for name in ("start", "end", "step"))
    if not all(math.isfinite(x) for x in (start, end, step)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    return start, end, step


def _number(value: Any) -> Any:
    """Return a number of Python for one of NumPy's, or a tensor of rank 0."""
    return value.item() if hasattr(value, "item") else value


def range(  # the name that programs say
    start: Any, end: Any = None, step: Any = 1, **settings: Any
) -> Tensor:
    """Return numbers from start to end, which is one of them if a step leads there."""
    low, high = (0, start) if end is None else (start, end)
    count = math.floor((high - low) / step) + 1
    settings.setdefault("dtype", default_float())
    return arange(float(low), float(low + count * step) - 0.5 * step, float(step), **settings)


def linspace(
    start: float,
    end: float,
    steps: int = 100,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return numbers at equal distances from start to end, both among them.

    Parameters
    ----------
    start, end : number
    steps : int
        How many.
    out, dtype, device, requires_grad
        As of `empty`.
    """
    return _spaced(filling.linspace, start, end, steps, (), out, dtype, device, requires_grad)


def logspace(
    start: float,
    end: float,
    steps: int = 100,
    base: float = 10.0,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return powers of base whose exponents are at equal distances from start to end."""
    more = (float(base),)
    return _spaced(filling.logspace, start, end, steps, more, out, dtype, device, requires_grad)


def _spaced(
    op: Any,
    start: Any,
    end: Any,
    steps: int,
    more: tuple[float, ...],
    out: Tensor | None,
    dtype: DType | None,
    device: Place,
    requires_grad: bool,
) -> Tensor:
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    low, high = float(_number(start)), float(_number(end))
    made = _blank((steps,), dtype, device, out)
    if steps == 1:
        high = low
    op(made, low, high, (high - low) / max(steps - 1, 1), *more)
    return _finished(made, requires_grad)


def eye(
    n: int,
    m: int | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a matrix with 1 on its diagonal and 0 elsewhere, shape (n, m), by default (n, n)."""
    made = _blank(size_of((n, n if m is None else m)), dtype, device, out)
    return _finished(filling.eye(made), requires_grad)


def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor over the memory of an array.

    Raises
    ------
    TypeError
        If it is no array, or of a type that tensors do not have.
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    return core.from_numpy(ndarray)


def tensor(
    data: Any,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor that holds a copy of numbers.

    Parameters
    ----------
    data : number, nested sequence of numbers, array or Tensor
    dtype : dtype, optional
        By default int64 for ints, bool for bools, `get_default_dtype()` for floats of Python; of
        arrays and tensors their own.
    device : device, str or int, optional
    requires_grad : bool

    Raises
    ------
    ValueError
        If sequences differ in length.
    RuntimeError
        If requires_grad goes with a type that is no float.
    """
    made = on_device.moved(_copied(data, dtype), place_of(device))
    return _finished(made, requires_grad)


def _copied(data: Any, dtype: DType | None) -> Tensor:
    if isinstance(data, Tensor):
        plain = data.detach()
        copied: Tensor = plain.clone() if dtype in (None, plain.dtype) else plain.to(dtype)
        return copied
    if type(data) in (bool, int, float):
        made = core.empty((), _type_of_number(data) if dtype is None else dtype)
        return made.fill_(data)
    array = _array_of(data, dtype)
    return core.from_numpy(array)


def _array_of(data: Any, dtype: DType | None) -> np.ndarray[Any, Any]:
    """Return numbers as an array of its own, of a type that tensors have."""
    is_array = isinstance(data, np.ndarray | np.generic) or hasattr(data, "__array_interface__")
    if not is_array:
        data = _plain(data)
    try:
        array = np.array(data, order="C")
    except ValueError as error:
        raise ValueError(_ragged(data) or str(error)) from None
    if array.dtype.kind not in "biuf" and dtypes.dtype_of(array.dtype) is None:
        if array.dtype.kind == "U":
            raise TypeError("new(): invalid data type 'str'")
        raise TypeError(f"can't convert an array of {array.dtype} to a tensor")
    if dtype is not None:
        return array.astype(dtypes.dtype_meant(dtype).numpy, copy=False)
    if not is_array and (array.dtype.kind == "f" or array.size == 0):
        return array.astype(default_float().numpy, copy=False)
    if not is_array and array.dtype.kind in "iu":
        return array.astype(np.int64, copy=False)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _ragged(data: Any, dim: int = 0) -> str:
    """Return which of sequences in sequences has another length than the first beside it."""
    sizes = [len(x) if isinstance(x, Sequence) else -1 for x in data]
    for n in sizes:
        if n != sizes[0]:
            if n < 0 or sizes[0] < 0:
                return f"expected sequences at dim {dim + 1}, or numbers, but got both"
            return f"expected sequence of length {sizes[0]} at dim {dim + 1} (got {n})"
    if not sizes or sizes[0] < 0:
        return ""
    return next((found for x in data if (found := _ragged(x, dim + 1))), "")


def _plain(data: Any) -> Any:
    """Return sequences in which tensors are the numbers that they hold."""
    if isinstance(data, Tensor):
        return data.detach().cpu().numpy() if data.ndim else data.item()
    if isinstance(data, list | tuple | _range):
        return data if {*map(type, data)} <= _OF_PYTHON else [_plain(x) for x in data]
    return data


def as_tensor(data: Any, dtype: DType | None = None, device: Place = None) -> Tensor:
    """Return data as a tensor, without a copy where it is a tensor or an array of the type."""
    dtype = None if dtype is None else dtypes.dtype_meant(dtype)
    if isinstance(data, Tensor):
        same: Tensor = data if dtype in (None, data.dtype) else data.to(dtype)
        return same if device is None else on_device.moved(same, place_of(device))
    if isinstance(data, np.ndarray) and dtypes.dtype_of(data.dtype) in (
        (dtype,) if dtype is not None else dtypes.ALL
    ):
        return on_device.moved(core.from_numpy(data), place_of(device))
    return tensor(data, dtype, device)


def _new(name: str) -> None:
    """Make `x.new_NAME(size, ...)`, which has x's type unless another is given."""
    make = globals()[name]

    def method(
        self: Tensor,
        *args: Any,
        dtype: DType | None = None,
        device: Place = None,
        requires_grad: bool = False,
    ) -> Tensor:
        kind = self.dtype if dtype is None else dtype
        place = self.device if device is None else device
        made: Tensor = make(*args, dtype=kind, device=place, requires_grad=requires_grad)
        return made

    method.__name__ = f"new_{name}"
    method.__doc__ = f"Return what `{name}` makes, by default of this tensor's type and device."
    publish(method, (method.__name__,), on=("Tensor",))


for _name in ("empty", "zeros", "ones", "full", "tensor"):
    _new(_name)
for _name in __all__:
    publish(globals()[_name], (_name,), on=("torch",))
