"""Tensors of numbers that are there: Python's, in sequences, and those of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from tcdsl import core
from tcdsl.core import Tensor, dtypes
from tcdsl.core.dtypes import DType
from tcdsl.ops import on_device
from tcdsl.ops.rules import default_float
from tcdsl.ops.table import publish
from tcdsl.tensors.creation import Place, finished, type_of_number
from tcdsl.tensors.devices import place_of
from tcdsl.tensors.types import promote_types

__all__ = ["as_tensor", "asarray", "from_numpy", "frombuffer", "tensor"]

_OF_PYTHON = {bool, int, float}


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
        arrays, tensors and NumPy's numbers their own.
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
    return finished(made, requires_grad)


def _copied(data: Any, dtype: DType | None) -> Tensor:
    if isinstance(data, Tensor):
        plain = data.detach()
        copied: Tensor = plain.clone() if dtype in (None, plain.dtype) else plain.to(dtype)
        return copied
    if type(data) in (bool, int, float):
        made = core.empty((), type_of_number(data) if dtype is None else dtype)
        return made.fill_(data)
    array = _array_of(data, dtype)
    return core.from_numpy(array)


def _array_of(data: Any, dtype: DType | None) -> np.ndarray[Any, Any]:
    """Return numbers as an array of its own, of a type that tensors have."""
    is_array = isinstance(data, np.ndarray | np.generic) or hasattr(data, "__array_interface__")
    seen: set[Any] = set()
    if not is_array:
        data = _plain(data, seen)
    try:
        array = np.array(data, order="C")
    except ValueError as error:
        raise ValueError(_ragged(data) or str(error)) from None
    if array.dtype.kind not in "biuf" and dtypes.dtype_of(array.dtype) is None:
        if array.dtype.kind == "U":
            if array.ndim:
                raise ValueError("too many dimensions 'str'")
            raise TypeError("new(): invalid data type 'str'")
        if array.dtype.kind == "O" and not is_array:
            found = next((x for x in array.flat if not isinstance(x, int)), None)
            raise RuntimeError(f"Could not infer dtype of {type(found).__name__}")
        raise TypeError(f"can't convert an array of {array.dtype} to a tensor")
    if dtype is not None:
        if array.dtype.kind in "iu" and array.size and not is_array:
            _check_fit(int(array.min()), int(array.max()), dtypes.dtype_meant(dtype))
        return array.astype(dtypes.dtype_meant(dtype).numpy, copy=False)
    if not is_array and not seen <= _OF_PYTHON and None not in seen:
        return array.astype(_joint(seen).numpy, copy=False)
    if not is_array and (array.dtype.kind == "f" or array.size == 0):
        return array.astype(default_float().numpy, copy=False)
    if not is_array and array.dtype == np.uint64:
        raise ValueError("Overflow when unpacking long long")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _check_fit(low: int, high: int, dtype: DType) -> None:
    """Refuse numbers that a type does not hold; unsigned ones may wrap, as PyTorch lets them."""
    if dtype.category != 1:
        return
    limits = np.iinfo(dtype.numpy)
    if high > limits.max or low < (limits.min or -int(limits.max)):
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")


def _ragged(data: Any, dim: int = 0) -> str:
    """Return which of sequences in sequences has another length than the first beside it."""
    sizes = [len(x) if isinstance(x, Sequence) else -1 for x in data]
    for n in sizes:
        if n != sizes[0]:
            if n < 0 or sizes[0] < 0:
                if sizes[0] >= 0:
                    raise TypeError("not a sequence")
                kind = type(data[sizes.index(n)]).__name__
                raise TypeError(f"'{kind}' object cannot be interpreted as an integer")
            return f"expected sequence of length {sizes[0]} at dim {dim + 1} (got {n})"
    if not sizes or sizes[0] < 0:
        return ""
    return next((found for x in data if (found := _ragged(x, dim + 1))), "")


def _plain(data: Any, seen: set[Any]) -> Any:
    """Return sequences in which tensors are the numbers that they hold; see which types there are.

    seen: gets types of Python's numbers, and the dtypes of others.
    """
    if isinstance(data, Tensor):
        seen.add(data.dtype)
        return data.detach().cpu().numpy() if data.ndim else data.item()
    if isinstance(data, list | tuple | range):
        kinds = {*map(type, data)}
        if not kinds <= _OF_PYTHON:
            return [_plain(x, seen) for x in data]
        seen |= kinds
    else:
        seen.add(type(data) if type(data) in _OF_PYTHON else _dtype_of(data))
    return data


def _dtype_of(data: Any) -> DType | None:
    return dtypes.dtype_of(data.dtype) if isinstance(data, np.ndarray | np.generic) else None


def _joint(seen: set[Any]) -> DType:
    """Return the type of a tensor of numbers of several types."""
    own = {bool: dtypes.bool_, int: dtypes.int64, float: default_float()}
    return reduce(promote_types, (own.get(kind, kind) for kind in seen))


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


def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Place = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return data as a tensor, over its memory where that can be.

    Parameters
    ----------
    obj : Tensor, array, number or nested sequence of numbers
    dtype, device, requires_grad
        As of `tensor`.
    copy : bool, optional
        True copies always, False never.

    Raises
    ------
    ValueError
        If `copy` is False and there is no memory to share.
    """
    if isinstance(obj, np.generic):
        obj = obj.item() if obj.dtype.kind in "bi" else np.asarray(obj)
    if copy:
        made = tensor(obj, dtype, device)
    else:
        made = as_tensor(obj, dtype, device)
        is_shared = made is obj or (
            isinstance(obj, np.ndarray) and np.shares_memory(obj, made.detach()._array())
        )
        if copy is False and not is_shared:
            raise ValueError("can't alias arbitrary object into a tensor, or one of another type")
    return finished(made.detach(), True) if requires_grad else made


def frombuffer(
    buffer: Any,
    *,
    dtype: DType,
    count: int = -1,
    offset: int = 0,
    requires_grad: bool = False,
) -> Tensor:
    """Return a row of elements over the memory of an object with a buffer.

    Parameters
    ----------
    buffer : object with Python's buffer protocol
    dtype : dtype
    count : int
        Of elements; all below 0.
    offset : int
        Of the first element, in bytes.
    requires_grad : bool
    """
    kind = dtypes.dtype_meant(dtype)
    length = memoryview(buffer).nbytes
    if not length or not count:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({length} bytes) minus 1"
        )
    if count < 0 and (length - offset) % kind.itemsize:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a "
            f"multiple of element size ({kind.itemsize})"
        )
    if count > 0 and count * kind.itemsize > length - offset:
        raise ValueError(
            f"requested buffer length ({count} * {kind.itemsize} bytes) after offset ({offset} "
            f"bytes) must not be greater than actual buffer length ({length} bytes)"
        )
    return finished(from_numpy(np.frombuffer(buffer, kind.numpy, count, offset)), requires_grad)


for _name in __all__:
    publish(globals()[_name], (_name,), on=("torch",))
