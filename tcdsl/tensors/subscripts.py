"""What a subscript says: the part that numbers and slices choose, and the data that looks up."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tcdsl.calls.process.caller import warn
from tcdsl.core import Tensor, dtypes, from_numpy
from tcdsl.ops.on_device import moved
from tcdsl.ops.views import Shape

Part = tuple[Any, ...]  # int, slice and None: a subscript that is a view
_WHOLE = slice(None)
OF_RANK_0 = (
    "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ "
    "to convert a 0-dim tensor to a number"
)
OF_BYTES = (
    "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
)

OF_SEQUENCES = (
    "Using a non-tuple sequence for multidimensional indexing is deprecated; use x[tuple(seq)] "
    "instead of x[seq]"
)
_SHORT = 32


def known(x: Tensor, key: Any) -> tuple[Part | None, Shape, list[Tensor]] | None:
    """Return a part of numbers and slices, which dimensions of it data looks up, and the data.

    The part is None where it is the whole tensor. None where there is more to a subscript, or more
    to see to.
    """
    if type(key) is list and is_several(key):
        return None
    entries = key if type(key) is tuple else (key,)
    if len(entries) > x.ndim:
        return None
    dims: Shape = ()
    tensors: list[Tensor] = []
    at, is_whole = 0, True
    for entry in entries:
        if type(entry) is slice:
            is_whole = is_whole and entry == _WHOLE
            at += 1
            continue
        if type(entry) is int:
            is_whole = False
            continue
        data = _integers(entry) if type(entry) is list else entry
        if (
            not isinstance(data, Tensor)
            or data.dtype is not dtypes.int64
            or not data.ndim
            or data._device != x._device
            or (tensors and data.shape != tensors[0].shape)
        ):
            return None
        dims += (at,)
        tensors.append(data)
        at += 1
    if not tensors:
        return None
    if is_whole:
        return None, dims, tensors
    return tuple(e if type(e) in (int, slice) else _WHOLE for e in entries), dims, tensors


def _integers(entry: list[Any]) -> Tensor | None:
    """Return a list of integers as a tensor; None where it is anything else."""
    if not entry or type(entry[0]) is not int:
        return None
    array = np.array(entry)
    return from_numpy(array) if array.dtype.char == "l" else None


def is_several(key: list[Any]) -> bool:
    """Whether a list is a subscript for each of several dimensions, as a tuple is.

    PyTorch takes a short one so that has anything but numbers.
    """
    return len(key) < _SHORT and any(
        e is None or e is Ellipsis or isinstance(e, slice | Tensor | Sequence | np.ndarray)
        for e in key
    )


def _entries(x: Tensor, key: Any) -> list[Any]:
    """Return the entries of a subscript: int, slice, None, or a tensor of integers or a mask."""
    entries = [key]
    if isinstance(key, tuple):
        entries = list(key)
    elif isinstance(key, list) and is_several(key):
        warn(OF_SEQUENCES)
        entries = key
    entries = [_entry(e) for e in entries]
    taken = sum(_dims_of(e) for e in entries)
    if taken > x.ndim:
        if not x.ndim and isinstance(key, int):
            raise IndexError(OF_RANK_0)
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
    dots = [i for i, e in enumerate(entries) if e is Ellipsis]
    for again in dots[:0:-1]:  # which stands for nothing more
        del entries[again]
    at = dots[0] if dots else len(entries)
    entries[at : at + len(dots[:1])] = [slice(None)] * (x.ndim - taken)
    return entries


def _dims_of(entry: Any) -> int:
    """Return how many dimensions an entry takes."""
    if entry is None or entry is Ellipsis or isinstance(entry, bool):
        return 0
    return entry.ndim if isinstance(entry, Tensor) and entry.dtype is dtypes.bool_ else 1


def _entry(entry: Any) -> Any:
    if entry is None or entry is Ellipsis or isinstance(entry, slice | bool | int):
        return entry
    if isinstance(entry, Tensor):
        if entry.dtype is dtypes.bool_:
            return entry if entry.ndim else bool(entry.item())
        if entry.dtype is dtypes.uint8:
            warn(OF_BYTES)
            return entry.to(dtypes.bool_)
        if entry.dtype.is_floating_point:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if not entry.ndim:
            return int(entry.item())
        return entry if entry.dtype is dtypes.int64 else entry.to(dtypes.int64)
    if isinstance(entry, list | tuple | range | np.ndarray):
        array = np.asarray(entry)
        if array.size == 0 and array.dtype.kind == "f":
            array = array.astype(np.int64)
        if array.dtype.kind not in "biu":
            raise IndexError(f"expected integers or bools as indices, got {array.dtype}")
        return _entry(from_numpy(np.array(array, bool if array.dtype.kind == "b" else np.int64)))
    if isinstance(entry, str):
        raise TypeError("new(): invalid data type 'str'")
    try:
        return operator.index(entry)
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
            f"valid indices (got {type(entry).__name__})"
        ) from None


def split(x: Tensor, key: Any) -> tuple[Part | None, Shape, list[Tensor]]:
    """Return the part of what is no data, which dimensions of it data looks up, and the data.

    The part is None where it is the whole tensor.
    """
    part: list[Any] = []  # of a subscript that leaves whole what is looked up
    found: list[tuple[int, Tensor]] = []
    at = dim = 0  # of the view, of x
    for entry in _entries(x, key):
        if entry is None or isinstance(entry, bool):
            if entry is not None:
                found.append((at, from_numpy(np.arange(1 if entry else 0))))
            part.append(None)
            at += 1
        elif isinstance(entry, int):
            extent = x.shape[dim]
            if not -extent <= entry < extent:
                raise IndexError(
                    f"index {entry} is out of bounds for dimension {at} with size {extent}"
                )
            part.append(int(entry))
            dim += 1
        elif isinstance(entry, slice):
            part.append(_range(entry, x.shape[dim]))
            at, dim = at + 1, dim + 1
        else:
            places = _places(entry, x, dim) if entry.dtype is dtypes.bool_ else [entry]
            found += [(at + n, moved(place, x._device)) for n, place in enumerate(places)]
            part += [_WHOLE] * len(places)
            at, dim = at + len(places), dim + len(places)
    is_whole = bool(found) and all(e is _WHOLE for e in part)
    return None if is_whole else tuple(part), tuple(d for d, _ in found), [t for _, t in found]


def _range(entry: slice, extent: int) -> slice:
    """Return a slice whose numbers are within an extent."""
    step = 1 if entry.step is None else operator.index(entry.step)
    if step <= 0:
        raise ValueError("step must be greater than zero" if step else "slice step cannot be zero")
    begin, end, step = entry.indices(extent)
    if begin == 0 and end == extent and step == 1:
        return _WHOLE
    return slice(begin, max(begin, end), step)


def _places(mask: Tensor, x: Tensor, dim: int) -> list[Tensor]:
    """Return the subscripts of a mask's true elements, a tensor a dimension."""
    shape = tuple(x.shape[dim : dim + mask.ndim])
    if tuple(mask.shape) != shape:
        at = next(i for i in range(mask.ndim) if mask.shape[i] != shape[i])
        raise IndexError(
            f"The shape of the mask {list(mask.shape)} at index {at} does not match the shape of "
            f"the indexed tensor {list(x.shape)} at index {dim + at}"
        )
    if not mask.ndim:
        return [from_numpy(np.arange(int(mask.item())))]
    return [from_numpy(p) for p in np.nonzero(mask.detach().cpu().numpy())]


def check_alike(tensors: list[Tensor]) -> Shape:
    """Return the shape to which tensors that look up broadcast.

    Raises
    ------
    IndexError
        If they do not.
    """
    first = tuple(tensors[0].shape)
    if all(tuple(t.shape) == first for t in tensors):
        return first
    try:
        return np.broadcast_shapes(*(tuple(t.shape) for t in tensors))
    except ValueError:
        shapes = ", ".join(str(list(t.shape)) for t in tensors)
        raise IndexError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes " + shapes
        ) from None
