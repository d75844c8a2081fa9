"""Subscripts of tensors: views where numbers and slices stand, kernels where data does.

A subscript is one view of what numbers, slices, None and `...` choose, and then, where tensors of
integers or masks stand, one kernel that looks elements up. Their dimensions come where the first of
them stands if they stand side by side, else first, as in NumPy.
"""

from __future__ import annotations

from typing import Any

from tcdsl.core import FORM, Tensor, dtypes, made_by
from tcdsl.ops.indexing import number_for, with_nothing_written
from tcdsl.ops.masks import masked_select, true_places
from tcdsl.ops.rules import NAMES
from tcdsl.ops.table import publish
from tcdsl.ops.view_parts import of_part
from tcdsl.ops.views import ARGUMENTS, MOST_DIMS, Shape, plain, viewed
from tcdsl.ops.writing import any_recorded
from tcdsl.tensors.data import as_tensor
from tcdsl.tensors.lookups import kept, lookup, putting
from tcdsl.tensors.subscripts import check_alike, known, split

__all__ = ["add_at", "getitem", "setitem"]


@viewed("SliceBackward0", "subscripted", of_part, FORM, ARGUMENTS)
def getitem(x: Tensor, key: Any) -> Any:
    """Return the elements of a subscript; a view where no data stands in it."""
    key = _alone(key)
    if isinstance(key, Tensor) and key.dtype is dtypes.int64 and key.ndim and x.ndim:
        return lookup(x.ndim, (0,))(x, key)  # the most usual by far
    if isinstance(key, Tensor) and key.dtype is dtypes.bool_ and key.shape == x.shape and x.ndim:
        return made_by(masked_select(x, key), "IndexBackward0")
    base, dims, tensors = _parted(x, key)
    if not tensors:
        return base
    check_alike(tensors)
    return lookup(base.ndim, dims)(base, *tensors)


def _parted(x: Tensor, key: Any) -> tuple[Tensor, Shape, list[Tensor]]:
    """Return the view of what is no data, which dimensions of it data looks up, and the data."""
    found = known(x, key)
    if found is not None:
        part, dims, tensors = found
        base = x if part is None else plain(getitem, x, part)
        if base is not None:
            return base, dims, tensors
    part, dims, tensors = split(x, key)
    base = x if part is None else plain(getitem, x, part)
    if base is None:
        raise IndexError(f"a tensor has at most {MOST_DIMS} dimensions")
    return base, dims, tensors


def setitem(x: Tensor, key: Any, value: Any) -> None:
    """Write the elements of a subscript; a value broadcasts to them."""
    key = _alone(key)
    is_mask = isinstance(key, Tensor) and key.dtype is dtypes.bool_
    if is_mask and tuple(key.shape) == tuple(x.shape) and not isinstance(value, Tensor):
        x.masked_fill_(key, value)
        return
    if is_mask and _put_masked(x, key, value):
        return
    if _put_plainly(x, key, value, "="):
        return
    base = plain(getitem, x, key)
    if base is not None:
        _assign(base, value)
        return
    base, dims, tensors = _parted(x, key)
    if not tensors:
        _assign(base, value)
    elif isinstance(value, bool | int | float):
        _put_number(base, dims, tensors, value)
    else:
        _put(base, dims, tensors, value if isinstance(value, Tensor) else _tensor(value, base))


def _alone(key: Any) -> Any:
    """Return a tensor that stands alone in a tuple, else the subscript as it is."""
    return key[0] if type(key) is tuple and len(key) == 1 and type(key[0]) is Tensor else key


def _put_plainly(x: Tensor, key: Any, value: Any, how: str) -> bool:
    """Write rows or points, or add to them, where nothing has to be seen to; whether it was so."""
    if _is_of_rows(x, key, value):
        wanted = (*key.shape, *x.shape[1:])
        rows = value if value.shape == wanted else value.expand(wanted)
        putting(x.ndim, (0,), False, how)(x, key, rows)
        return True
    if _is_of_points(x, key, value):
        putting(x.ndim, tuple(range(x.ndim)), False, how)(x, *key, value)
        return True
    return False


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
    putting(1, (0,), False)(row, places, value.expand(places.shape))
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


def _put_number(base: Tensor, dims: Shape, tensors: list[Tensor], value: float) -> None:
    """Write a number where data says."""
    check_alike(tensors)
    if all(t.numel() for t in tensors):
        putting(base.ndim, dims, True)(base, *tensors, number_for(base, value))


def add_at(x: Tensor, key: Any, value: Tensor) -> None:
    """Add a value where data says; places that are named twice get both."""
    key = _alone(key)
    if _put_plainly(x, key, value, "+="):
        return
    base, dims, tensors = _parted(x, key)
    _put(base, dims, tensors, value, "+=")


def _put(base: Tensor, dims: Shape, tensors: list[Tensor], value: Tensor, how: str = "=") -> None:
    """Write a value where data says, or add it; where places meet the last one counts."""
    shape = check_alike(tensors)
    before, behind = kept(base.ndim, dims)
    sizes = (*(base.shape[d] for d in before), *shape, *(base.shape[d] for d in behind))
    if value.dtype is base.dtype and value.shape == sizes and value.numel():
        putting(base.ndim, dims, False, how)(base, *tensors, value)
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
    putting(base.ndim, dims, False, how)(base, *tensors, values)


publish(getitem, ("__getitem__",), on=("Tensor",))
publish(setitem, ("__setitem__",), on=("Tensor",))
