"""Orders: NumPy finds them, kernels fetch the elements, so that gradients follow.

What is no longer than 32 bits is sorted as integers that hold a place too (`sorting.tc`): that
finds both at once. The first few of an order need no sort: a kernel finds them one after the other.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tcdsl.core import Op, Tensor, dtypes, from_numpy, made_by, retyped
from tcdsl.ops.embeddings import counts
from tcdsl.ops.indexing import gather, index_select
from tcdsl.ops.masks import nonzero
from tcdsl.ops.on_device import moved
from tcdsl.ops.over import op_over
from tcdsl.ops.results import named, result
from tcdsl.ops.rules import first
from tcdsl.ops.table import Family, publish
from tcdsl.ops.underived import underived
from tcdsl.ops.views import dim_of

ops = Family(__file__)
_HALVES = (dtypes.bfloat16, dtypes.float16)
_BITS = dtypes.int32.number  # the type of the bits of floats of 32 bits
_LONG = (dtypes.int64, dtypes.float64)  # beside some elements of which no place fits
_FEW = 500  # elements, which are sorted sooner than parted
_SHORT_BITS = 30  # of how far integers are apart, and of a place, which are sorted as int32
_ONE_BY_ONE = 16  # of an order that are found one after the other
Sorted = result("sort", "values", "indices")

_extent = ops.op("extent", vjp=None)
_fits = ops.op("fits", vjp=None)


def is_long(input: Tensor) -> bool:
    """Whether there are elements beside which no place fits."""
    if input.dtype not in _LONG:
        return False
    if input.dtype is dtypes.float64 or input._device or not input.numel():
        return True
    return not _fits(input).item()


def array_of(input: Tensor) -> np.ndarray[Any, Any]:
    """Return elements on the host, halves as float32."""
    found = moved(input.detach(), 0)._array()
    return found.astype(np.float32) if input.dtype in _HALVES else found


def placed(like: Tensor, array: np.ndarray[Any, Any]) -> Tensor:
    """Return an array as a tensor where another lies."""
    return moved(from_numpy(array), like._device)


def _op(rank: int, dim: int, name: str, *calls: str, vjp: str | None = None) -> Op:
    """Return the op of a definition along a dimension."""
    return op_over(ops, name, rank, (dim,), calls=calls, types=first, vjp=vjp)


@cache
def key_ops(rank: int, dim: int, are_bits: bool) -> tuple[Op, Op, Op]:
    """Return the ops of keys, of the first of them, and of what is in that order."""
    keys, top = ("keys_of_bits", "top_of_bits") if are_bits else ("keys", "top_of")
    top_of = _op(rank, dim, top, keys, "top")
    ordered = _op(rank, dim, "ordered", vjp="derived")
    return _op(rank, dim, keys), top_of, ordered


@cache
def _short_ops(rank: int, dim: int) -> tuple[Op, Op, Op]:
    """Return the same ops of integers that are near each other."""
    top_of = _op(rank, dim, "top_of_short", "short_keys")
    ordered = _op(rank, dim, "ordered_short", vjp="derived")
    return _op(rank, dim, "short_keys"), top_of, ordered


def _near(input: Tensor, dim: int, k: int, descending: bool) -> Any:
    """Return the first k elements of an order of integers near each other; None of others."""
    if input.dtype.category == 2 or input._device:
        return None
    n = input.shape[dim]
    bits = (n - 1).bit_length()
    if bits >= _SHORT_BITS or not input.numel():
        return None
    low, high = bounds(input)
    if bits + (high - low).bit_length() > _SHORT_BITS:
        return None
    keys_of, top_of, ordered = _short_ops(input.ndim, dim)
    end = high if descending else low
    if 0 < k <= _ONE_BY_ONE and k < n:
        return ordered(input, top_of(input, end, bits, k), bits)
    return ordered(input, _sorted_keys(keys_of(input, end, bits), dim, k), bits)


def _sorted_keys(keys: Tensor, dim: int, k: int) -> Tensor:
    """Return the first k of some keys along a dimension, in order."""
    array = keys._array()
    if array.shape[dim] > _FEW and 0 < k < array.shape[dim] // 4:  # these alone are ordered
        array.partition(k - 1, axis=dim)
        keys = keys.narrow(dim, 0, k)
        array = keys._array()
    array.sort(axis=dim)
    return keys.narrow(dim, 0, k) if k < array.shape[dim] else keys


def _first(input: Tensor, dim: int, k: int, descending: bool) -> Any:
    """Return the first k elements of an order along a dimension, of a short type."""
    turn, n = -1 if descending else 0, input.size(dim)
    rows, are_bits = comparable(input)
    keys_of, top_of, ordered = key_ops(input.ndim, dim, are_bits)
    if 0 < k <= _ONE_BY_ONE and k < n:
        keys = top_of(rows, turn, k)
    else:
        keys = _sorted_keys(keys_of(rows, turn), dim, k)
    found: Any = ordered(input, moved(keys, input._device) if input._device else keys)
    return found


def said(name: str, found: Any, number: int = 0) -> Any:
    """Return values and places, said to be made by a function of PyTorch's."""
    made_by(found[0], f"{name}Backward{number}")
    return found


def bounds(rows: Tensor) -> tuple[int, int]:
    """Return bounds of some integers: those of a type where it is short, else the outermost two."""
    kind = rows.dtype
    if kind.itemsize < 4:
        if not kind.category:
            return 0, 1
        limits = np.iinfo(kind.numpy)
        return int(limits.min), int(limits.max)
    low, high = _extent(rows)
    return low.item(), high.item()


def comparable(input: Tensor) -> tuple[Tensor, bool]:
    """Return what keys are made of, on the host, and whether it is the bits of floats."""
    rows = moved(input.detach(), 0) if input._device or input.requires_grad else input
    kind = rows.dtype
    if kind.category != 2:
        return rows, False
    floats = rows if kind is dtypes.float32 else rows.to(dtypes.float32)
    return retyped(floats, _BITS, floats.shape, floats.stride()), True


def fetched(input: Tensor, dim: int, order: np.ndarray[Any, Any]) -> Any:
    """Return the elements in an order, and their places."""
    indices = placed(input, np.ascontiguousarray(order, np.int64))
    return Sorted(gather(input, dim, indices), indices)


def _descending(array: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    """Return a stable order from the largest on; NaN counts as the largest."""
    flipped = np.flip(array, axis)
    order = np.flip(np.argsort(flipped, axis=axis, kind="stable"), axis)
    return array.shape[axis] - 1 - order


def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Return the elements along a dimension in order, and where they were; NaN is the largest."""
    if not input.ndim:
        dim_of(dim, 0)
        return Sorted(input.clone(), placed(input, np.zeros((), np.int64)))
    dim = dim_of(dim, input.ndim)
    if (near := _near(input, dim, input.shape[dim], descending)) is not None:
        return Sorted(*near)
    if not is_long(input):
        return Sorted(*said("Sort", _first(input, dim, input.size(dim), descending)))
    array = array_of(input)
    order = _descending(array, dim) if descending else np.argsort(array, axis=dim, kind="stable")
    return said("Sort", fetched(input, dim, order))


def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Return where the elements along a dimension are, in their order."""
    found: Tensor = sort(input.detach(), dim, descending).indices
    return found


@named
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Return the k largest elements along a dimension, or the least, in order, and their places."""
    if not input.ndim:
        return Sorted(input.clone(), placed(input, np.zeros((), np.int64)))
    dim = dim_of(dim, input.ndim)
    if not 0 <= k <= input.shape[dim]:
        raise RuntimeError("selected index k out of range")
    if (near := _near(input, dim, k, largest)) is not None:
        return near
    if not is_long(input):
        return said("Topk", _first(input, dim, k, largest))
    array, n = array_of(input), input.shape[dim]
    some = None
    if n > _FEW and k < n // 4:  # these alone are ordered; NaN is the largest here too
        parted = np.argpartition(array, n - 1 - k if largest else k, axis=dim)
        ends = slice(n - k, None) if largest else slice(k)
        some = np.sort(along(parted, dim, ends), axis=dim)
        array = np.take_along_axis(array, some, dim)
    order = _descending(array, dim) if largest else np.argsort(array, axis=dim, kind="stable")
    order = along(order, dim, slice(k))
    places = order if some is None else np.take_along_axis(some, order, dim)
    return said("Topk", fetched(input, dim, places))


def along(array: np.ndarray[Any, Any], dim: int, some: slice) -> np.ndarray[Any, Any]:
    """Return a part of a dimension."""
    return array[(*[slice(None)] * dim, some)]


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the different elements in order; on request where each went, and how often it came.

    With `dim` parts of that dimension take the place of elements: they are in the order of their
    first elements, among equals of their second ones, and so on.
    """
    if dim is not None:
        at = dim_of(dim, input.ndim)
        found = _unique_parts(input.detach(), at, return_inverse, return_counts)
        underived("unique_dim", (input,), (found[0] if isinstance(found, tuple) else found,))
        return found
    flat = moved(input.detach(), 0).reshape(-1)
    counted = _counted(flat)
    if counted is None:
        asked: Any = {"return_inverse": return_inverse, "return_counts": return_counts}
        found = np.unique(flat._array(), equal_nan=False, **asked)
        parts = list(found) if isinstance(found, tuple) else [found]
        results = [from_numpy(p) for p in parts]
    else:
        low, times = counted
        places = nonzero(times).reshape(-1)
        results = [(places + low).to(input.dtype)]
        if return_inverse:
            results.append(((times > 0).cumsum(0) - 1).take(flat.to(dtypes.int64) - low))
        if return_counts:
            results.append(times.take(places))
    if return_inverse:
        results[1] = results[1].reshape(input.shape)
    results = [moved(r, input._device) for r in results]
    underived("_unique2", (input,), results[:1])
    return results[0] if len(results) == 1 else tuple(results)


def _unique_parts(input: Tensor, dim: int, inverse: bool, times: bool) -> Any:
    """Return the different parts of a dimension, where each went, and how often it came."""
    if 0 in input.shape[:dim] + input.shape[dim + 1 :]:
        raise RuntimeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )
    parts = np.moveaxis(array_of(input), dim, 0)
    rows = parts.reshape(len(parts), -1) if len(parts) else parts.reshape(0, 1)
    order = np.lexsort(rows.T[::-1])  # the last key counts first
    ordered = rows[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (ordered[1:] != ordered[:-1]).any(1)
    places = np.flatnonzero(begins)
    results = [index_select(input, dim, placed(input, order[places]))]
    if inverse:
        went = np.empty(len(order), np.int64)
        went[order] = begins.cumsum() - 1
        results.append(placed(input, went))
    if times:
        results.append(placed(input, np.diff(np.append(places, len(order)))))
    return results[0] if len(results) == 1 else tuple(results)


def _counted(flat: Tensor) -> tuple[int, Tensor] | None:
    """Return the least of some integers and how often it and each above it comes.

    None where they are no integers, or so far apart that most would come never.
    """
    count = flat.numel()
    if flat.dtype.category != 1 or not count:
        return None
    low = int(flat.min().item())
    span = int(flat.max().item()) - low + 1
    if span > 4 * count + 1024:
        return None
    return low, counts(flat.to(dtypes.int64) - low, span)


for _function in (sort, argsort, topk, unique):
    publish(_function, (_function.__name__,))
