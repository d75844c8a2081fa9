"""Orders: NumPy finds them, kernels fetch the elements, so that gradients follow."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from tcdsl.core import Tensor, dtypes, from_numpy
from tcdsl.ops.indexing import gather
from tcdsl.ops.on_device import moved
from tcdsl.ops.table import publish
from tcdsl.ops.views import dim_of

_HALVES = (dtypes.bfloat16, dtypes.float16)
_FEW = 500  # elements, which are sorted sooner than parted
Sorted = namedtuple("Sorted", ("values", "indices"))  # as torch's results are


def _array(input: Tensor) -> np.ndarray[Any, Any]:
    found = moved(input.detach(), 0)._array()
    return found.astype(np.float32) if input.dtype in _HALVES else found


def _placed(like: Tensor, array: np.ndarray[Any, Any]) -> Tensor:
    """Return an array as a tensor where another lies."""
    return moved(from_numpy(array), like._device)


def _fetched(input: Tensor, dim: int, order: np.ndarray[Any, Any]) -> Any:
    indices = _placed(input, np.ascontiguousarray(order, np.int64))
    return Sorted(gather(input, dim, indices), indices)


def _descending(array: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    """Return a stable order from the largest on; NaN counts as the largest."""
    flipped = np.flip(array, axis)
    order = np.flip(np.argsort(flipped, axis=axis, kind="stable"), axis)
    return array.shape[axis] - 1 - order


def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Return the elements along a dimension in order, and where they were; NaN is the largest."""
    if not input.ndim:
        return Sorted(input.clone(), _placed(input, np.zeros((), np.int64)))
    dim = dim_of(dim, input.ndim)
    array = _array(input)
    order = _descending(array, dim) if descending else np.argsort(array, axis=dim, kind="stable")
    return _fetched(input, dim, order)


def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Return where the elements along a dimension are, in their order."""
    found: Tensor = sort(input.detach(), dim, descending).indices
    return found


def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Return the k largest elements along a dimension, or the least, in order, and their places."""
    if not input.ndim:
        return Sorted(input.clone(), _placed(input, np.zeros((), np.int64)))
    dim = dim_of(dim, input.ndim)
    if not 0 <= k <= input.shape[dim]:
        raise RuntimeError("selected index k out of range")
    array, n = _array(input), input.shape[dim]
    some = None
    if n > _FEW and k < n // 4:  # these alone are ordered; NaN is the largest here too
        parted = np.argpartition(array, n - 1 - k if largest else k, axis=dim)
        ends = slice(n - k, None) if largest else slice(k)
        some = np.sort(_along(parted, dim, ends), axis=dim)
        array = np.take_along_axis(array, some, dim)
    order = _descending(array, dim) if largest else np.argsort(array, axis=dim, kind="stable")
    order = _along(order, dim, slice(k))
    return _fetched(input, dim, order if some is None else np.take_along_axis(some, order, dim))


def _along(array: np.ndarray[Any, Any], dim: int, some: slice) -> np.ndarray[Any, Any]:
    """Return a part of a dimension."""
    return array[(*[slice(None)] * dim, some)]


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the k-th least element along a dimension, k from 1 on, and where it is."""
    dim = dim_of(dim, input.ndim)
    extent = input.shape[dim] if input.ndim else 1
    if not 1 <= k <= extent:
        raise RuntimeError("kthvalue(): selected number k out of range for dimension")
    return _one(sort(input, dim), k - 1, dim, keepdim)


def _one(found: Any, place: int, dim: int, keepdim: bool) -> Any:
    if not found.values.ndim:
        return found
    both = [t.narrow(dim, place, 1) for t in found]
    return Sorted(*(t if keepdim else t.squeeze(dim) for t in both))


def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the lower of the middle elements: of all, or along a dimension, and where it is.

    NaN where there is one.
    """
    if dim is None:
        flat = input.reshape(-1)
        return median(flat, 0).values
    dim = dim_of(dim, input.ndim)
    extent = input.shape[dim] if input.ndim else 1
    array = _array(input)
    order = np.argsort(array, axis=dim, kind="stable") if input.ndim else np.zeros((), np.int64)
    if not input.ndim:
        return Sorted(input.clone(), _placed(input, order))
    middle = np.full(
        tuple(1 if d == dim else n for d, n in enumerate(array.shape)), (extent - 1) // 2
    )
    if array.dtype.kind == "f":
        nans = np.isnan(array)
        first = np.expand_dims(np.argmax(nans, axis=dim), dim)
        place = np.where(
            np.expand_dims(nans.any(axis=dim), dim), first, np.take_along_axis(order, middle, dim)
        )
    else:
        place = np.take_along_axis(order, middle, dim)
    found = _fetched(input, dim, place)
    return found if keepdim else Sorted(*(t.squeeze(dim) for t in found))


def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the element that comes most often along a dimension, the least of several."""
    if not input.ndim:
        return Sorted(input.clone(), _placed(input, np.zeros((), np.int64)))
    dim = dim_of(dim, input.ndim)
    rows = np.moveaxis(_array(input), dim, -1)
    places = np.zeros(rows.shape[:-1], np.int64)
    for at in np.ndindex(places.shape):
        values, counts = np.unique(rows[at], return_counts=True)
        places[at] = np.flatnonzero(rows[at] == values[counts.argmax()])[-1]
    found = _fetched(input, dim, np.expand_dims(places, dim))
    return found if keepdim else Sorted(*(t.squeeze(dim) for t in found))


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """Return the different elements in order; on request where each went, and how often it came."""
    found = np.unique(
        moved(input.detach(), 0)._array(),
        return_inverse=True,
        return_counts=True,
    )
    values, inverse, counts = found
    results = [_placed(input, values)]
    if return_inverse:
        results.append(_placed(input, inverse.reshape(tuple(input.shape)).astype(np.int64)))
    if return_counts:
        results.append(_placed(input, counts.astype(np.int64)))
    return results[0] if len(results) == 1 else tuple(results)


for _function in (sort, argsort, topk, kthvalue, median, mode, unique):
    publish(_function, (_function.__name__,))
