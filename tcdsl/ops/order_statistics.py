"""Single elements of an order: the k-th one, medians, what comes most often.

None of the first needs an order: kernels find what is sought bit by bit, where rows are not short.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np

from tcdsl.core import GRAD, OUTPUT, Op, Recipe, Tensor, dtypes, is_grad_enabled, record
from tcdsl.ops.indexing import gather
from tcdsl.ops.on_device import moved
from tcdsl.ops.over import op_over
from tcdsl.ops.reductions import not_empty
from tcdsl.ops.results import named
from tcdsl.ops.rules import first
from tcdsl.ops.sorting import (
    Sorted,
    along,
    argsort,
    array_of,
    bounds,
    comparable,
    fetched,
    is_long,
    key_ops,
    placed,
    said,
    sort,
)
from tcdsl.ops.table import Family, publish
from tcdsl.ops.views import dim_of

ops = Family(__file__)
_SHORT = 100  # elements, of which one is sooner found by parting keys than bit for bit
_BY_TWOS = 200  # elements, of which one is sooner found by two bits at once
_ranks_of_bits = ops.op("ranks_of_bits", vjp=None)
_any_nan = ops.op("any_nan", vjp=None)
_element = ops.op("element", types=first)


def _squeezed(found: Any, dim: int) -> Any:
    values, indices = found
    return values.squeeze(dim), indices.squeeze(dim)


def _kth(input: Tensor, dim: int, k: int, keepdim: bool, *, nan_wins: bool = False) -> Any:
    """Return the element of a place in the order along a dimension; NaN, where there is one, if so.

    Of long elements NaN is the last.
    """
    if not nan_wins and input.shape[dim] < _SHORT and not is_long(input):
        rows, are_bits = comparable(input)
        keys_of, _, ordered = key_ops(input.ndim, dim, are_bits)
        keys = keys_of(rows, 0)
        keys._array().partition(k, axis=dim)
        found = ordered(input, moved(keys.narrow(dim, k, 1), input._device))
    elif (place := _place(input, dim, k, nan_wins=nan_wins)) is not None:
        return _taken(input, dim, place, keepdim)
    else:
        order = np.argpartition(array_of(input), k, axis=dim)
        found = fetched(input, dim, along(order, dim, slice(k, k + 1)))
    return found if keepdim else _squeezed(found, dim)


def _place(input: Tensor, dim: int, k: int, *, nan_wins: bool) -> Tensor | None:
    """Return where the element of a place in the order is; None of long elements, or of none."""
    kind, rank = input.dtype, input.ndim
    if kind is dtypes.float64 or not input.numel():
        return None
    if kind.is_floating_point:
        bits = comparable(input)[0]
        by_twos = input.shape[dim] >= _BY_TWOS
        found: Tensor = _finding_of_bits("place", rank, dim, by_twos)(bits, k, nan_wins)
        return found
    rows = moved(input.detach(), 0) if input._device or input.requires_grad else input
    low, high = bounds(rows)
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
    return op_over(ops, "taken", rank, (dim,), types=first)


def _middle_of_known(input: Tensor, dim: int) -> Tensor:
    """Return where the middle of what is not NaN is along a dimension, of short floats."""
    bits = comparable(input)[0]
    by_twos = input.shape[dim] >= _BY_TWOS
    found: Tensor = _finding_of_bits("middle", input.ndim, dim, by_twos)(bits)
    return found


@cache
def _finding(rank: int, dim: int) -> Op:
    """Return the op of the place of an element in an order of integers."""
    return op_over(ops, "kth_of_integers", rank, (dim,), types=first, vjp=None)


@cache
def _finding_of_bits(wanted: Literal["place", "middle"], rank: int, dim: int, by_twos: bool) -> Op:
    """Return the op of where an element of an order of floats is: of a place, or in the middle."""
    how = "_by_twos" if by_twos else ""
    name, calls = f"{wanted}_of_bits{how}", (f"ranks_to_{wanted}", "ranks_of_bits", f"kth{how}")
    return op_over(ops, name, rank, (dim,), calls=calls, types=first, vjp=None)


@cache
def _of_runs(name: str, rank: int, dim: int) -> Op:
    """Return the op of what comes most often in an order."""
    return op_over(ops, name, rank, (dim,), True, types=first, vjp=None)


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
    return said("Kthvalue", _kth(input, dim, k - 1, keepdim))


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
    shared: Tensor = share.masked_fill(is_like.logical_not(), 0)
    return shared


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
        return Sorted(input.clone(), placed(input, np.zeros((), np.int64)))
    middle = (input.shape[dim] - 1) // 2
    is_double = input.dtype is dtypes.float64
    if not is_double or not _any_nan(input.detach()).item():
        return said("Median", _kth(input, dim, middle, keepdim, nan_wins=True), 1)
    array = array_of(input)
    order = along(np.argpartition(array, middle, axis=dim), dim, slice(middle, middle + 1))
    nans = np.isnan(array)
    first = np.expand_dims(np.argmax(nans, axis=dim), dim)
    chosen = np.where(np.expand_dims(nans.any(axis=dim), dim), first, order)
    found = fetched(input, dim, chosen)
    return said("Median", found if keepdim else _squeezed(found, dim), 1)


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
        return said("Nanmedian", _taken(input, dim, place, keepdim), 1)
    return said("Nanmedian", found if keepdim else _squeezed(found, dim), 1)


def _of_nothing(input: Tensor) -> Tensor:
    """Return the median of no element: NaN, or the least integer."""
    kind = input.dtype.numpy
    value = np.nan if input.dtype.is_floating_point else np.iinfo(kind).min
    return placed(input, np.full((), value, kind))


@named
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the element that comes most often along a dimension, the least of several."""
    if not input.ndim:
        return Sorted(input.clone(), placed(input, np.zeros((), np.int64)))
    dim = dim_of(dim, input.ndim)
    not_empty("mode", input, dim)
    if is_long(input):
        values, order = sort(input.detach(), dim)
        places = gather(order, dim, _of_runs("longest_run", input.ndim, dim)(values))
        found = Sorted(gather(input, dim, places), places)
    else:
        rows, are_bits = comparable(input)
        rank = _ranks_of_bits(rows) if are_bits else rows.to(dtypes.int32)
        order = rank.clone()
        order._array().sort(axis=dim)
        place = _of_runs("most_often", input.ndim, dim)(order, rank)
        found = key_ops(input.ndim, dim, True)[2](input, moved(place, input._device))
    return said("Mode", found if keepdim else _squeezed(found, dim))


for _function in (kthvalue, median, nanmedian, mode):
    publish(_function, (_function.__name__,))
