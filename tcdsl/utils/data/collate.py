"""Samples become a batch."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from tcdsl import library
from tcdsl.core import Tensor

__all__ = ["default_collate", "default_convert"]


def default_collate(batch: Sequence[Any]) -> Any:
    """Join samples to a batch along a new first dimension.

    Tensors are stacked; NumPy's arrays and numbers become tensors of their type, Python's ints
    int64, its floats float64. Mappings, named tuples and sequences are joined member by member,
    and keep their type where that can be made so; tuples become lists. Strings and bytes stay in a
    list.

    Parameters
    ----------
    batch : sequence
        Samples of one structure; at least one.

    Returns
    -------
    Tensor, list, mapping or tuple

    Raises
    ------
    TypeError
        If a sample holds something else.
    RuntimeError
        If tensors differ in shape, or sequences in length.
    """
    first = batch[0]
    match first:
        case Tensor():
            return library.stack(list(batch), 0)
        case np.ndarray() if first.ndim:
            _check_numbers(first)
            return library.stack([library.from_numpy(np.asarray(a)) for a in batch], 0)
        case bool() | np.generic() | np.ndarray():
            return library.from_numpy(np.asarray(batch))
        case float():
            return library.from_numpy(np.array(batch, np.float64))
        case int():
            return library.from_numpy(np.array(batch, np.int64))
        case str() | bytes():
            return batch
        case Mapping():
            joined = {key: default_collate([sample[key] for sample in batch]) for key in first}
            return _like_mapping(first, joined)
        case tuple() if hasattr(first, "_fields"):
            return type(first)(*map(default_collate, _columns(batch)))
        case tuple():
            return [default_collate(column) for column in _columns(batch)]
        case Sequence():
            return _like_sequence(first, [default_collate(c) for c in _columns(batch)])
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{type(first)}"
    )


def default_convert(data: Any) -> Any:
    """Return a sample with NumPy's arrays and numbers in it as tensors, all else as it is.

    What a loader does to samples that it puts into no batches (``batch_size=None``).
    """
    match data:
        case np.ndarray() | np.generic():
            if re.search("[SaUO]", data.dtype.str):
                return data
            return library.as_tensor(data)
        case str() | bytes() | Tensor():
            return data
        case Mapping():
            return _like_mapping(data, {key: default_convert(data[key]) for key in data})
        case tuple() if hasattr(data, "_fields"):
            return type(data)(*map(default_convert, data))
        case tuple():
            return [default_convert(member) for member in data]
        case Sequence():
            return _like_sequence(data, [default_convert(member) for member in data])
    return data


def _check_numbers(array: Any) -> None:
    if re.search("[SaUO]", array.dtype.str):
        raise TypeError(
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
            f"found {array.dtype}"
        )


def _like_mapping(first: Mapping[Any, Any], members: dict[Any, Any]) -> Any:
    """Return members in a mapping of the type of a sample; in a dict where none can be made."""
    if isinstance(first, MutableMapping):
        made = _or_none(copy.copy, first)
        if made is not None:
            made.update(members)
            return made
    made = _or_none(type(first), members)
    return members if made is None else made


def _like_sequence(first: Sequence[Any], members: list[Any]) -> Any:
    """Return members in a sequence of the type of a sample; in a list where none can be made."""
    if isinstance(first, MutableSequence):
        made = _or_none(copy.copy, first)
        if made is not None:
            made[:] = members
            return made
    made = _or_none(type(first), members)
    return members if made is None else made


def _or_none(make: Callable[[Any], Any], of: Any) -> Any:
    """Return what a type makes of members; None if it takes other arguments than those."""
    try:
        return make(of)
    except TypeError:
        return None


def _columns(batch: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    if len({len(sample) for sample in batch}) > 1:
        raise RuntimeError("each element in list of batch should be of equal size")
    return list(zip(*batch, strict=True))
