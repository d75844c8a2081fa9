"""Subscripts of tensors: views where numbers and slices stand, kernels where data does.

A subscript is one view of what numbers, slices, None and `...` choose, and then, where tensors of
integers or masks stand, one kernel that looks elements up. Their dimensions come where the first of
them stands if they stand side by side, else first, as in NumPy.
"""

from __future__ import annotations

import operator
import warnings
from functools import cache
from typing import Any

import numpy as np

from tcdsl.core import FORM, Op, Tensor, dtypes, from_numpy, made_by
from tcdsl.ops.indexing import number_for, with_nothing_written
from tcdsl.ops.masks import masked_select, true_places
from tcdsl.ops.on_device import moved
from tcdsl.ops.rules import NAMES
from tcdsl.ops.table import op_of_text, publish
from tcdsl.ops.view_parts import of_part
from tcdsl.ops.views import ARGUMENTS, MOST_DIMS, Shape, plain, viewed
from tcdsl.ops.writing import any_recorded
from tcdsl.tensors.data import as_tensor

__all__ = ["getitem", "setitem"]

_WHOLE = slice(None)
_LETTERS = "abcdefghijklmnopqrstuvw"
OF_RANK_0 = (
    "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ "
    "to convert a 0-dim tensor to a number"
)
OF_BYTES = (
    "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
)


@viewed("SliceBackward0", "subscripted", of_part, FORM, ARGUMENTS)
def getitem(x: Tensor, key: Any) -> Any:
    """Return the elements of a subscript; a view where no data stands in it."""
    if isinstance(key, Tensor) and key.dtype is dtypes.int64 and key.ndim and x.ndim:
        return _lookup(x.ndim, (0,))(x, key)  # the most usual by far
    if isinstance(key, Tensor) and key.dtype is dtypes.bool_ and key.shape == x.shape and x.ndim:
        return made_by(masked_select(x, key), "IndexBackward0")
    known = _known(x, key)
    if known is None:
        base, found = _split(x, key)
        if not found:
            return base
        dims, tensors = tuple(d for d, _ in found), [t for _, t in found]
        _check_alike(tensors)
    else:
        base, dims, tensors = known
    return _lookup(base.ndim, dims)(base, *tensors)


def _known(x: Tensor, key: Any) -> tuple[Tensor, Shape, list[Tensor]] | None:
    """Return a view of numbers and slices, which dimensions of it data looks up, and the data.

    None where there is more to a subscript, or more to see to.
    """
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
        return x, dims, tensors
    part = tuple(e if type(e) in (int, slice) else _WHOLE for e in entries)
    base = plain(getitem, x, part)
    return None if base is None else (base, dims, tensors)


def _integers(entry: list[Any]) -> Tensor | None:
    """Return a list of integers as a tensor; None where it is anything else."""
    if not entry or type(entry[0]) is not int:
        return None
    array = np.array(entry)
    return from_numpy(array) if array.dtype.char == "l" else None


def setitem(x: Tensor, key: Any, value: Any) -> None:
    """Write the elements of a subscript; a value broadcasts to them."""
    is_mask = isinstance(key, Tensor) and key.dtype is dtypes.bool_
    if is_mask and tuple(key.shape) == tuple(x.shape) and not isinstance(value, Tensor):
        x.masked_fill_(key, value)
        return
    if is_mask and _put_masked(x, key, value):
        return
    if _is_of_rows(x, key, value):
        wanted = (*key.shape, *x.shape[1:])
        _putting(x.ndim, (0,), False)(
            x, key, value if value.shape == wanted else value.expand(wanted)
        )
        return
    if _is_of_points(x, key, value):
        _putting(x.ndim, tuple(range(x.ndim)), False)(x, *key, value)
        return
    base = plain(getitem, x, key)
    if base is not None:
        _assign(base, value)
        return
    known = _known(x, key)
    if known is None:
        base, found = _split(x, key)
        if not found:
            _assign(base, value)
            return
        dims, tensors = tuple(d for d, _ in found), [t for _, t in found]
    else:
        base, dims, tensors = known
    if isinstance(value, bool | int | float):
        _put_number(base, dims, tensors, value)
    else:
        _put(base, dims, tensors, value if isinstance(value, Tensor) else _tensor(value, base))


def _is_of_rows(x: Tensor, key: Any, value: Any) -> bool:
    """Whether all that is said is which rows are which: nothing has to be looked at then."""
    return (
        isinstance(key, Tensor)
        and isinstance(value, Tensor)
        and key.dtype is dtypes.int64
        and value.dtype is x.dtype
        and key.ndim > 0
        and x.ndim > 0
        and value.ndim < key.ndim + x.ndim
        and key.numel() > 0
        and x.numel() > 0
        and value.numel() > 0
        and key._device == x._device == value._device
    )


def _put_masked(x: Tensor, mask: Tensor, value: Tensor) -> bool:
    """Write a row where a mask of all elements is true; whether nothing else had to be seen to."""
    if (
        not isinstance(value, Tensor)
        or value.dtype is not x.dtype
        or value.ndim > 1
        or mask.shape != x.shape
        or not (x.ndim and x.is_contiguous())
        or x._device
        or any_recorded((x, value))
    ):
        return False
    places = true_places(mask)
    if not places.numel() or (value.ndim and value.shape[0] not in (1, places.shape[0])):
        return False
    row = x if x.ndim == 1 else x.view(-1)
    _putting(1, (0,), False)(row, places, value.expand(places.shape))
    return True


def _is_of_points(x: Tensor, key: Any, value: Any) -> bool:
    """Whether a subscript is a place for each element of a value, and nothing has to be seen to."""
    if (
        type(key) is not tuple
        or len(key) != x.ndim
        or not isinstance(value, Tensor)
        or value.dtype is not x.dtype
        or value._device
        or x._device
        or not value.numel()
    ):
        return False
    shape = value.shape
    for k in key:
        if type(k) is not Tensor or k.dtype is not dtypes.int64 or k.shape != shape or k._device:
            return False
    return bool(shape)


def _assign(base: Tensor, value: Any) -> None:
    if isinstance(value, Tensor):
        while value.ndim > base.ndim and value.shape[0] == 1:
            value = value.select(0, 0)
        base.copy_(value if value.ndim > base.ndim else value.expand(base.shape))
    elif isinstance(value, bool | int | float):
        base.fill_(value)
    else:
        base.copy_(_tensor(value, base))


def _tensor(value: Any, like: Tensor) -> Tensor:
    if value is None or isinstance(value, str):
        kind = f"torch.{NAMES[like.dtype.name]}Tensor"
        raise TypeError(f"can't assign a {type(value).__name__} to a {kind}")
    return as_tensor(value, like.dtype)


# ---- what a subscript says


def _entries(x: Tensor, key: Any) -> list[Any]:
    """Return the entries of a subscript: int, slice, None, or a tensor of integers or a mask."""
    entries = list(key) if isinstance(key, tuple) else [key]
    if isinstance(key, list) and any(
        e is None or e is Ellipsis or isinstance(e, slice) for e in key
    ):
        entries = key
    entries = [_entry(e) for e in entries]
    taken = sum(_dims_of(e) for e in entries)
    if taken > x.ndim:
        if not x.ndim and isinstance(key, int):
            raise IndexError(OF_RANK_0)
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
    dots = [i for i, e in enumerate(entries) if e is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    at = dots[0] if dots else len(entries)
    entries[at : at + len(dots)] = [slice(None)] * (x.ndim - taken)
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
            warnings.warn(OF_BYTES, UserWarning, stacklevel=5)
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


def _split(x: Tensor, key: Any) -> tuple[Tensor, list[tuple[int, Tensor]]]:
    """Return the view of what is no data, and the tensors that look up its dimensions."""
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
    if found and all(e is _WHOLE for e in part):
        return x, found
    base = plain(getitem, x, tuple(part))
    if base is None:
        raise IndexError(f"a tensor has at most {MOST_DIMS} dimensions")
    return base, found


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


# ---- looking up


def _check_alike(tensors: list[Tensor]) -> Shape:
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


def _written(rank: int, dims: Shape) -> str:
    """Return the subscripts of a result: `...` of the data, in the place of what it looks up."""
    before, behind = _kept(rank, dims)
    return ", ".join([*(_LETTERS[d] for d in before), "...", *(_LETTERS[d] for d in behind)])


@cache
def _kept(rank: int, dims: Shape) -> tuple[Shape, Shape]:
    """Return the dimensions that no data looks up: those before it in a result, those behind it."""
    kept = tuple(d for d in range(rank) if d not in dims)
    side_by_side = dims == tuple(range(dims[0], dims[0] + len(dims)))
    before = sum(d < dims[0] for d in kept) if side_by_side else 0
    return kept[:before], kept[before:]


@cache
def _lookup(rank: int, dims: Shape) -> Op:
    """Return the op that looks up these dimensions of a tensor by as many tensors."""
    read = _from_the_end(rank, dims)
    written = _written(rank, dims)
    extents = ", ".join(_LETTERS[d].upper() for d in range(rank))
    data = "".join(f", int64(...) i{n}" for n in range(len(dims)))
    return op_of_text(
        f"def index<T>(T({extents}) x{data}) -> (T({_extents(written)}) y) "
        f"{{\n  y({written}) = x({read})\n}}"
    )


def _put_number(base: Tensor, dims: Shape, tensors: list[Tensor], value: float) -> None:
    """Write a number where data says."""
    _check_alike(tensors)
    if all(t.numel() for t in tensors):
        _putting(base.ndim, dims, True)(base, *tensors, number_for(base, value))


def _put(base: Tensor, dims: Shape, tensors: list[Tensor], value: Tensor) -> None:
    """Write a value where data says; where places meet the last one counts."""
    shape = _check_alike(tensors)
    before, behind = _kept(base.ndim, dims)
    sizes = (*(base.shape[d] for d in before), *shape, *(base.shape[d] for d in behind))
    if value.dtype is base.dtype and value.shape == sizes and value.numel():
        _putting(base.ndim, dims, False)(base, *tensors, value)
        return
    while value.ndim > len(sizes) and value.shape[0] == 1:
        value = value.select(0, 0)
    if value.dtype.category > base.dtype.category:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{NAMES[base.dtype.name]} for the destination and {NAMES[value.dtype.name]} for the "
            f"source. Round it first, as in value.to({base.dtype})."
        )
    try:
        values = value.expand(sizes).to(base.dtype)
    except RuntimeError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to "
            f"indexing result of shape {list(sizes)}"
        ) from None
    if not values.numel():
        with_nothing_written(base, values, writes=True)
        return
    _putting(base.ndim, dims, False)(base, *tensors, values)


@cache
def _putting(rank: int, dims: Shape, is_number: bool) -> Op:
    """Return the op that writes these dimensions of a tensor by as many tensors."""
    written = _written(rank, dims)
    letters = ", ".join(_LETTERS[d] for d in range(rank))
    extents = letters.upper()
    data = "".join(f", int64(...) i{n}" for n in range(len(dims)))
    target = _from_the_end(rank, dims)
    value, v = ("T v", "v") if is_number else (f"T({_extents(written)}) v", f"v({written})")
    return op_of_text(
        f"def index_put<T>(T({extents}) x{data}, {value}) -> (T({extents}) y) {{\n"
        f"  y({letters}) = x({letters})\n"
        f"  y({target}) = {v}\n}}",
        writes=True,
    )


def _from_the_end(rank: int, dims: Shape) -> str:
    """Return subscripts, those of these dimensions by data that may count from the end."""
    names = {d: f"i{n}(...)" for n, d in enumerate(dims)}
    return ", ".join(
        f"{name} < 0 ? {name} + {_LETTERS[d].upper()} : {name}"
        if (name := names.get(d))
        else _LETTERS[d]
        for d in range(rank)
    )


def _extents(written: str) -> str:
    return ", ".join(w if w == "..." else w.upper() for w in written.split(", "))


publish(getitem, ("__getitem__",), on=("Tensor",))
publish(setitem, ("__setitem__",), on=("Tensor",))
