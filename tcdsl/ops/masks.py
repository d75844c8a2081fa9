"""Masks: what is chosen or written where they are true; tensors as if of one dimension."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tcdsl.core import Tensor, dtypes, empty, from_numpy, made_by
from tcdsl.ops import pointwise
from tcdsl.ops.indexing import (
    index_copy,
    index_copy_,
    index_select,
    integers,
    number_for,
)
from tcdsl.ops.on_device import moved
from tcdsl.ops.rules import C_NAMES, NAMES, Operands, broadcast_shape, first
from tcdsl.ops.strides import in_c_order
from tcdsl.ops.table import Family, in_place, publish
from tcdsl.ops.writing import any_recorded
from tcdsl.plain.kernel import PlainKernel

ops = Family(__file__)
_SCANNED = 1 << 14  # elements of which a scan tells which of a source they take, and NumPy is quick


def _of_filling(operands: Operands) -> None:
    """Refuse a mask that does not go with what is filled: PyTorch names the mask first."""
    input, mask = operands[:2]
    broadcast_shape([tuple(mask.shape), tuple(input.shape)])


begins = ops.op("begins", vjp=None)
_take = ops.op("take")
_masked_fill = ops.op("masked_fill", types=first, shape=_of_filling, layout=in_c_order)
_masked_fill_into = ops.op("masked_fill", types=first, shape=_of_filling, writes=True)
_masked_scatter = ops.op("masked_scatter")
_masked_scatter_into = ops.op("masked_scatter", writes=True)
_PUTTING = {n: (ops.op(n), ops.op(n, writes=True)) for n in ("put", "put_added")}
_row_and_column = ops.op("row_and_column", vjp=None)


def _mask(mask: Tensor, name: str) -> Tensor:
    """Return a mask, which is one of bools."""
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(
            f"{name} only supports boolean masks, but got mask with dtype "
            f"{C_NAMES[mask.dtype.name]}"
        )
    return mask


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """Return a copy that holds one value where a mask is true."""
    made: Tensor = _masked_fill(input, _mask(mask, "masked_fill_"), number_for(input, value))
    return made


def masked_fill_(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """Write one value where a mask is true."""
    made: Tensor = _masked_fill_into(input, _mask(mask, "masked_fill_"), number_for(input, value))
    return made


def true_places(mask: Tensor, shape: tuple[int, ...] | None = None) -> Tensor:
    """Return the flat places at which a mask, broadcast to a shape if one is given, is true."""
    array = moved(mask.detach(), 0)._array().astype(bool, copy=False)
    if shape is not None and array.shape != shape:
        array = np.broadcast_to(array, shape)
    (places,) = array.ravel().nonzero()
    return moved(from_numpy(places.astype(np.int64, copy=False)), mask._device)


@cache
def _run_kernel() -> PlainKernel:
    return PlainKernel(ops.session, ops.session.definition("first_of_runs"))


def first_of_runs(row: Tensor) -> Tensor:
    """Return the first of each run of equal elements, without a record.

    Of many in one pass, which writes as it counts.
    """
    if row.numel() <= _SCANNED:
        return from_numpy(row._array()[begins(row)._array()])
    made, many = empty((row.numel(),), row.dtype), empty((), dtypes.int64)
    into = made._array()
    _run_kernel()(into, row._array(), out=(into, many._array()))
    count = int(many.item())
    if 2 * count < row.numel():
        return made.narrow(0, 0, count).clone()  # the rest of the memory is free again
    made.resize_(count)
    return made


def repeated_places(often: Tensor) -> Tensor:
    """Return each place of a row as often as it says.

    Raises
    ------
    RuntimeError
        If it says so of a number below 0.
    """
    counts = moved(often.detach(), 0)._array().reshape(-1)
    if (counts < 0).any():
        raise RuntimeError("repeats can not be negative")
    places = np.arange(len(counts), dtype=np.int64).repeat(counts)
    return moved(from_numpy(places), often._device)


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """Return the elements at which a mask is true, shape (K,)."""
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_shape([tuple(mask.shape), tuple(input.shape)])
    wide = input if tuple(input.shape) == shape else input.expand(shape)
    chosen_here = index_select(wide.reshape(-1), 0, true_places(mask, shape))
    return made_by(chosen_here, "MaskedSelectBackward0")


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return a copy with the first elements of a source, in order, where a mask is true."""
    row, chosen = _row_and_mask(input, mask, source)
    made: Tensor = (
        index_copy(row, 0, *_places_and_source(chosen, source))
        if _is_compacted(row, source)
        else _masked_scatter(row, chosen, source.reshape(-1))
    )
    return made_by(made if input.ndim == 1 else made.view(input.shape), "MaskedScatterBackward0")


_masked_scatter_apart = in_place(masked_scatter)


def masked_scatter_(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Write the first elements of a source, in order, where a mask is true."""
    if any_recorded((input, source)):
        return _masked_scatter_apart(input, mask, source)
    is_row = input.ndim == 1 == source.ndim and input.shape == mask.shape
    is_typed = mask.dtype is dtypes.bool_ and source.dtype is input.dtype
    if is_row and is_typed and not _is_compacted(input, source):
        _masked_scatter_into(input, mask, source)
        return input
    if not input.is_contiguous():
        return _masked_scatter_apart(input, mask, source)
    row, chosen = _row_and_mask(input, mask, source)
    if not _is_compacted(row, source):
        _masked_scatter_into(row, chosen, source.reshape(-1))
    elif source._storage is input._storage:
        return _masked_scatter_apart(input, mask, source)
    else:
        index_copy_(row, 0, *_places_and_source(chosen, source))
    return input


def _is_compacted(row: Tensor, source: Tensor) -> bool:
    """Whether the places of what is true are listed: of many, where scans take more memory."""
    return row.numel() > _SCANNED or not source.numel()


def _places_and_source(mask: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """Return where a mask is true, and what comes there."""
    places = true_places(mask)
    count = places.numel()
    if count > source.numel():
        raise RuntimeError("Number of elements of source < number of ones in mask")
    return places, source.reshape(-1).narrow(0, 0, count)


def _row_and_mask(input: Tensor, mask: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """Return a tensor and a mask of it as rows.

    Raises
    ------
    RuntimeError
        If the mask is none, or the source of another type.
    """
    _mask(mask, "masked_scatter_")
    if source.dtype is not input.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got"
            f"{NAMES[input.dtype.name]} and {NAMES[source.dtype.name]}"
        )
    if mask.shape != input.shape:
        mask = mask.expand(input.shape)
    return (input, mask) if input.ndim == 1 else (input.reshape(-1), mask.reshape(-1))


def take(input: Tensor, index: Tensor) -> Tensor:
    """Return elements of a tensor as if it had one dimension, in the index's shape."""
    made: Tensor = _take(input.reshape(-1), integers(index, "take"))
    return made


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return a copy with elements written as if it had one dimension."""
    op = _PUTTING["put_added" if accumulate else "put"][0]
    made = _put(op, input, index, source)
    return made_by(made if input.ndim == 1 else made.view(input.shape), "PutBackward0")


_put_apart = in_place(put)


def put_(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Write elements as if the tensor had one dimension."""
    if not input.is_contiguous() or any_recorded((input, source)):
        return _put_apart(input, index, source, accumulate)
    _put(_PUTTING["put_added" if accumulate else "put"][1], input, index, source)
    return input


def _put(op: Any, input: Tensor, index: Tensor, source: Tensor) -> Tensor:
    places = integers(index, "put_")
    if places.numel() != source.numel():
        raise IndexError(
            f"put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.numel()}, index.numel() = {places.numel()}"
        )
    made: Tensor = op(*(t if t.ndim == 1 else t.reshape(-1) for t in (input, places, source)))
    return made


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """Return elements of one tensor where a condition is true, else of another.

    With a condition alone the places where it is true, a tensor a dimension.
    """
    if input is None:
        return nonzero(condition, as_tuple=True)
    if condition.dtype not in (dtypes.bool_, dtypes.uint8):  # bytes were masks once
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{NAMES[condition.dtype.name]}"
        )
    return pointwise.where(condition, input, other)


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Return the subscripts of elements that are not 0, shape (K, rank)."""
    array = moved(input.detach(), 0)._array()
    if not array.ndim:  # as of one element, whose place has no subscripts
        count = int(array != 0)
        return (
            nonzero(input.reshape(1), as_tuple=True)
            if as_tuple
            else input.new_empty((count, 0), dtype=dtypes.int64)
        )
    if array.ndim == 2 and array.flags.c_contiguous and not as_tuple:
        (flat,) = array.ravel().nonzero()
        made: Tensor = _row_and_column(from_numpy(flat), max(1, array.shape[1]))
        return moved(made, input._device)
    places = array.nonzero()
    if as_tuple:
        return tuple(
            moved(from_numpy(p.astype(np.int64, copy=False)), input._device) for p in places
        )
    listed = (
        places[0].reshape(-1, 1)
        if len(places) == 1
        else np.stack(places, 1).reshape(-1, input.ndim)
    )
    return moved(from_numpy(listed), input._device)


for _function in (masked_fill, masked_select, masked_scatter, take, put, nonzero):
    publish(_function, (_function.__name__,))
for _writing in (masked_fill_, masked_scatter_, put_):
    publish(_writing, (_writing.__name__,), on=("Tensor",))
publish(where, ("where",), on=("torch",))
publish(lambda self, condition, other: where(condition, self, other), ("where",), on=("Tensor",))
