"""Orders: NumPy finds them, kernels fetch the elements, so that gradients follow.

What is no longer than 32 bits is sorted as integers that hold a place too (`sorting.tc`): that
finds both at once. The first few of an order need no sort: a kernel finds them one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tcdsl.core import (
    GRAD,
    OUTPUT,
    Op,
    Recipe,
    Tensor,
    dtypes,
    from_numpy,
    is_grad_enabled,
    made_by,
    record,
    retyped,
)
from tcdsl.ops.embeddings import counts
from tcdsl.ops.indexing import gather, index_select
from tcdsl.ops.masks import nonzero
from tcdsl.ops.on_device import moved
from tcdsl.ops.over import over
from tcdsl.ops.reductions import not_empty
from tcdsl.ops.results import named, result
from tcdsl.ops.rules import first
from tcdsl.ops.table import Family, op_of_text, publish
from tcdsl.ops.underived import underived
from tcdsl.ops.views import dim_of

ops = Family(__file__)
_HALVES = (dtypes.bfloat16, dtypes.float16)
_BITS = dtypes.int32.number  # the type of the bits of floats of 32 bits
_LONG = (dtypes.int64, dtypes.float64)  # beside some elements of which no place fits
_FEW = 500  # elements, which are sorted sooner than parted
_SHORT = 100  # elements, of which one is sooner found by parting keys than bit for bit
_BY_TWOS = 200  # elements, of which one is sooner found by two bits at once
_SHORT_BITS = 30  # of how far integers are apart, and of a place, which are sorted as int32
_ONE_BY_ONE = 16  # of an order that are found one after the other
Sorted = result("sort", "values", "indices")


_extent = ops.op("extent", vjp=None)
_fits = ops.op("fits", vjp=None)


def _is_long(input: Tensor) -> bool:
    """Whether there are elements beside which no place fits."""
    if input.dtype not in _LONG:
        return False
    if input.dtype is dtypes.float64 or input._device or not input.numel():
        return True
    return not _fits(input).item()


def _array(input: Tensor) -> np.ndarray[Any, Any]:
    found = moved(input.detach(), 0)._array()
    return found.astype(np.float32) if input.dtype in _HALVES else found


def _placed(like: Tensor, array: np.ndarray[Any, Any]) -> Tensor:
    """Return an array as a tensor where another lies."""
    return moved(from_numpy(array), like._device)


def _over(names: Sequence[str], rank: int, dim: int, vjp: str | None = None) -> Op:
    """Return the op of the first of some definitions along a dimension; it calls the others."""
    text = over("\n".join(map(ops.text, names)), rank, (dim,))
    return op_of_text(text, names[0], types=first, vjp=vjp)


@cache
def _ops(rank: int, dim: int, are_bits: bool) -> tuple[Op, Op, Op]:
    """Return the ops of keys, of the first of them, and of what is in that order."""
    keys, top = ("keys_of_bits", "top_of_bits") if are_bits else ("keys", "top_of")
    top_of = _over((top, keys, "top"), rank, dim)
    return _over((keys,), rank, dim), top_of, _over(("ordered",), rank, dim, "derived")


@cache
def _short_ops(rank: int, dim: int) -> tuple[Op, Op, Op]:
    """Return the same ops of integers that are near each other."""
    top_of = _over(("top_of_short", "short_keys"), rank, dim)
    ordered = _over(("ordered_short",), rank, dim, "derived")
    return _over(("short_keys",), rank, dim), top_of, ordered


@cache
def _of_runs(name: str, rank: int, dim: int) -> Op:
    """Return the op of what comes most often in an order."""
    return op_of_text(over(ops.text(name), rank, (dim,), True), types=first, vjp=None)


def _near(input: Tensor, dim: int, k: int, descending: bool) -> Any:
    """Return the first k elements of an order of integers near each other; None of others."""
    if input.dtype.category == 2 or input._device:
        return None
    n = input.shape[dim]
    bits = (n - 1).bit_length()
    if bits >= _SHORT_BITS or not input.numel():
        return None
    low, high = _bounds(input)
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
    rows, are_bits = _comparable(input)
    keys_of, top_of, ordered = _ops(input.ndim, dim, are_bits)
    if 0 < k <= _ONE_BY_ONE and k < n:
        keys = top_of(rows, turn, k)
    else:
        keys = _sorted_keys(keys_of(rows, turn), dim, k)
    found: Any = ordered(input, moved(keys, input._device) if input._device else keys)
    return found


def _said(name: str, found: Any, number: int = 0) -> Any:
    """Return values and places, said to be made by a function of PyTorch's."""
    made_by(found[0], f"{name}Backward{number}")
    return found


def _squeezed(found: Any, dim: int) -> Any:
    values, indices = found
    return values.squeeze(dim), indices.squeeze(dim)


def _kth(input: Tensor, dim: int, k: int, keepdim: bool, *, nan_wins: bool = False) -> Any:
    """Return the element of a place in the order along a dimension; NaN, where there is one, if so.

    Of long elements NaN is the last.
    """
    is_short = not nan_wins and input.shape[dim] < _SHORT and not _is_long(input)
    place = None if is_short else _place(input, dim, k, nan_wins=nan_wins)
    if is_short:
        rows, are_bits = _comparable(input)
        keys_of, _, ordered = _ops(input.ndim, dim, are_bits)
        keys = keys_of(rows, 0)
        keys._array().partition(k, axis=dim)
        found = ordered(input, moved(keys.narrow(dim, k, 1), input._device))
    elif place is None:
        order = np.argpartition(_array(input), k, axis=dim)
        found = _fetched(input, dim, _along(order, dim, slice(k, k + 1)))
    else:
        return _taken(input, dim, place, keepdim)
    return found if keepdim else _squeezed(found, dim)


def _place(input: Tensor, dim: int, k: int, *, nan_wins: bool) -> Tensor | None:
    """Return where the element of a place in the order is; None of long elements, or of none."""
    kind, rank = input.dtype, input.ndim
    if kind is dtypes.float64 or not input.numel():
        return None
    if kind.is_floating_point:
        bits = _comparable(input)[0]
        is_long = input.shape[dim] >= _BY_TWOS
        found: Tensor = _finding_of_bits("place", rank, dim, is_long)(bits, k, nan_wins)
        return found
    rows = moved(input.detach(), 0) if input._device or input.requires_grad else input
    low, high = _bounds(rows)
    length = (high - low).bit_length()
    if length > 31:
        return None
    made: Tensor = _finding(rank, dim)(rows, low, length, k)
    return made


def _taken(input: Tensor, dim: int, place: Tensor, keepdim: bool) -> Any:
    """Return the elements of places along a dimension, and the places."""
    at = moved(place, input._device) if input._device else place
    values = _taking(input.ndim, dim)(input, at)
    return (values.unsqueeze(dim), at.unsqueeze(dim)) if keepdim else (values, at)


@cache
def _taking(rank: int, dim: int) -> Op:
    """Return the op of the elements of places along a dimension."""
    return _over(("taken",), rank, dim, "derived")


def _middle_of_known(input: Tensor, dim: int) -> Tensor:
    """Return where the middle of what is not NaN is along a dimension, of short floats."""
    bits = _comparable(input)[0]
    is_long = input.shape[dim] >= _BY_TWOS
    found: Tensor = _finding_of_bits("middle", input.ndim, dim, is_long)(bits)
    return found


def _bounds(rows: Tensor) -> tuple[int, int]:
    """Return bounds of some integers: those of a type where it is short, else the outermost two."""
    kind = rows.dtype
    if kind.itemsize < 4:
        if not kind.category:
            return 0, 1
        limits = np.iinfo(kind.numpy)
        return int(limits.min), int(limits.max)
    low, high = _extent(rows)
    return low.item(), high.item()


@cache
def _finding(rank: int, dim: int) -> Op:
    """Return the op of the place of an element in an order of integers."""
    return _over(("kth_of_integers",), rank, dim)


@cache
def _finding_of_bits(wanted: str, rank: int, dim: int, is_long: bool) -> Op:
    """Return the op of where an element in an order of floats is: at a `place`, or in the `middle`.

    is_long: whether rows are, which are better read less often.
    """
    how = "_by_twos" if is_long else ""
    names = (f"{wanted}_of_bits{how}", f"ranks_to_{wanted}", "ranks_of_bits", f"kth{how}")
    return _over(names, rank, dim)


_ranks_of_bits = ops.op("ranks_of_bits", vjp=None)
_any_nan = ops.op("any_nan", vjp=None)
_element = ops.op("element", types=first)


def _comparable(input: Tensor) -> tuple[Tensor, bool]:
    """Return what keys are made of, on the host, and whether it is the bits of floats."""
    rows = moved(input.detach(), 0) if input._device or input.requires_grad else input
    kind = rows.dtype
    if kind.category != 2:
        return rows, False
    floats = rows if kind is dtypes.float32 else rows.to(dtypes.float32)
    return retyped(floats, _BITS, floats.shape, floats.stride()), True


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
        dim_of(dim, 0)
        return Sorted(input.clone(), _placed(input, np.zeros((), np.int64)))
    dim = dim_of(dim, input.ndim)
    if (near := _near(input, dim, input.shape[dim], descending)) is not None:
        return Sorted(*near)
    if not _is_long(input):
        return Sorted(*_said("Sort", _first(input, dim, input.size(dim), descending)))
    array = _array(input)
    order = _descending(array, dim) if descending else np.argsort(array, axis=dim, kind="stable")
    return _said("Sort", _fetched(input, dim, order))


def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Return where the elements along a dimension are, in their order."""
    found: Tensor = sort(input.detach(), dim, descending).indices
    return found


@named
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Return the k largest elements along a dimension, or the least, in order, and their places."""
    if not input.ndim:
        return Sorted(input.clone(), _placed(input, np.zeros((), np.int64)))
    dim = dim_of(dim, input.ndim)
    if not 0 <= k <= input.shape[dim]:
        raise RuntimeError("selected index k out of range")
    if (near := _near(input, dim, k, largest)) is not None:
        return near
    if not _is_long(input):
        return _said("Topk", _first(input, dim, k, largest))
    array, n = _array(input), input.shape[dim]
    some = None
    if n > _FEW and k < n // 4:  # these alone are ordered; NaN is the largest here too
        parted = np.argpartition(array, n - 1 - k if largest else k, axis=dim)
        ends = slice(n - k, None) if largest else slice(k)
        some = np.sort(_along(parted, dim, ends), axis=dim)
        array = np.take_along_axis(array, some, dim)
    order = _descending(array, dim) if largest else np.argsort(array, axis=dim, kind="stable")
    order = _along(order, dim, slice(k))
    places = order if some is None else np.take_along_axis(some, order, dim)
    return _said("Topk", _fetched(input, dim, places))


def _along(array: np.ndarray[Any, Any], dim: int, some: slice) -> np.ndarray[Any, Any]:
    """Return a part of a dimension."""
    return array[(*[slice(None)] * dim, some)]


@named
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the k-th least element along a dimension, k from 1 on, and where it is."""
    dim = dim_of(dim, input.ndim)
    extent = input.shape[dim] if input.ndim else 1
    not_empty("kthvalue", input, dim)
    if not 1 <= k <= extent:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}")
    if not input.ndim:
        return sort(input, dim)
    return _said("Kthvalue", _kth(input, dim, k - 1, keepdim))


def _shared(row: Tensor, found: Tensor, node: str) -> Tensor:
    """Return an element of a row as made of all elements that are its like, in equal parts."""
    if not row.requires_grad or not is_grad_enabled():
        return found
    record(node, _TO_ALIKE, None, (row,), (found,), 1)
    return found


def _to_alike(gradient: Tensor, row: Tensor, found: Tensor) -> Tensor:
    row, found = row.detach(), found.detach()
    is_like: Tensor = row == found if found == found else row.isnan()  # NaN
    share: Tensor = (gradient / is_like.sum()).expand(row.shape)
    return share.masked_fill(is_like.logical_not(), 0)


_TO_ALIKE = Recipe(_to_alike, (GRAD, 0, OUTPUT), (0,))


@named
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the lower of the middle elements: of all, or along a dimension, and where it is.

    NaN where there is one.
    """
    if dim is None:
        flat = input if input.ndim == 1 else input.reshape(-1)
        count = flat.numel()
        if not count:
            return _of_nothing(input)
        is_recorded = flat.requires_grad
        row = flat.detach() if is_recorded else flat
        place = None if input._device else _place(row, 0, (count - 1) // 2, nan_wins=True)
        found = median(row, 0).values if place is None else _element(row, place)
        return _shared(flat, found, "MedianBackward0") if is_recorded else found
    dim = dim_of(dim, input.ndim)
    not_empty("median", input, dim)
    if not input.ndim:
        return Sorted(input.clone(), _placed(input, np.zeros((), np.int64)))
    middle = (input.shape[dim] - 1) // 2
    is_long = input.dtype is dtypes.float64
    if not is_long or not _any_nan(input.detach()).item():
        return _said("Median", _kth(input, dim, middle, keepdim, nan_wins=True), 1)
    array = _array(input)
    order = _along(np.argpartition(array, middle, axis=dim), dim, slice(middle, middle + 1))
    nans = np.isnan(array)
    first = np.expand_dims(np.argmax(nans, axis=dim), dim)
    chosen = np.where(np.expand_dims(nans.any(axis=dim), dim), first, order)
    found = _fetched(input, dim, chosen)
    return _said("Median", found if keepdim else _squeezed(found, dim), 1)


@named
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the lower of the middle elements that are not NaN, and where it is; else NaN."""
    if dim is None:
        flat = input if input.ndim == 1 else input.reshape(-1)
        if not flat.numel():
            return _of_nothing(input)
        if not input.dtype.is_floating_point:
            return median(flat)
        row = flat.detach() if flat.requires_grad else flat
        if input._device or input.dtype is dtypes.float64:
            return _shared(flat, nanmedian(row, 0).values, "NanmedianBackward0")
        return _shared(flat, _element(row, _middle_of_known(row, 0)), "NanmedianBackward0")
    if not input.dtype.is_floating_point or not input.ndim:
        return median(input, dim, keepdim)
    dim = dim_of(dim, input.ndim)
    not_empty("nanmedian", input, dim)
    if input.dtype is dtypes.float64 or not input.numel():
        known = (input == input).sum(dim, keepdim=True)  # NaN comes last in the order
        middle = ((known - 1) // 2).clamp(min=0)
        order = gather(argsort(input, dim), dim, middle)
        found = Sorted(gather(input, dim, order), order)
    else:
        place = _middle_of_known(input, dim)
        return _said("Nanmedian", _taken(input, dim, place, keepdim), 1)
    return _said("Nanmedian", found if keepdim else _squeezed(found, dim), 1)


def _of_nothing(input: Tensor) -> Tensor:
    """Return the median of no element: NaN, or the least integer."""
    kind = input.dtype.numpy
    value = np.nan if input.dtype.is_floating_point else np.iinfo(kind).min
    return _placed(input, np.full((), value, kind))


@named
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the element that comes most often along a dimension, the least of several."""
    if not input.ndim:
        return Sorted(input.clone(), _placed(input, np.zeros((), np.int64)))
    dim = dim_of(dim, input.ndim)
    not_empty("mode", input, dim)
    if _is_long(input):
        values, order = sort(input.detach(), dim)
        places = gather(order, dim, _of_runs("longest_run", input.ndim, dim)(values))
        found = Sorted(gather(input, dim, places), places)
    else:
        rows, are_bits = _comparable(input)
        rank = _ranks_of_bits(rows) if are_bits else rows.to(dtypes.int32)
        order = rank.clone()
        order._array().sort(axis=dim)
        place = _of_runs("most_often", input.ndim, dim)(order, rank)
        found = _ops(input.ndim, dim, True)[2](input, moved(place, input._device))
    return _said("Mode", found if keepdim else _squeezed(found, dim))


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
    parts = np.moveaxis(_array(input), dim, 0)
    rows = parts.reshape(len(parts), -1) if len(parts) else parts.reshape(0, 1)
    order = np.lexsort(rows.T[::-1])  # the last key counts first
    ordered = rows[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (ordered[1:] != ordered[:-1]).any(1)
    places = np.flatnonzero(begins)
    results = [index_select(input, dim, _placed(input, order[places]))]
    if inverse:
        went = np.empty(len(order), np.int64)
        went[order] = begins.cumsum() - 1
        results.append(_placed(input, went))
    if times:
        results.append(_placed(input, np.diff(np.append(places, len(order)))))
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


for _function in (sort, argsort, topk, kthvalue, median, nanmedian, mode, unique):
    publish(_function, (_function.__name__,))
