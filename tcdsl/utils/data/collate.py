"""Samples become a batch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tcdsl import library
from tcdsl.core import Tensor

__all__ = ["default_collate"]


def default_collate(batch: Sequence[Any]) -> Any:
    """Join samples to a batch along a new first dimension.

    Tensors are stacked; NumPy's arrays and numbers become tensors of their type, Python's ints
    int64, its floats float64. Mappings, named tuples, tuples and lists are joined member by
    member. Strings and bytes stay in a list.

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
        case np.ndarray():
            if re.search("[SaUO]", first.dtype.str):
                raise TypeError(f"expected an array of numbers in a batch, got dtype {first.dtype}")
            return library.stack([library.from_numpy(np.asarray(a)) for a in batch], 0)
        case bool() | np.generic():
            return library.from_numpy(np.asarray(batch))
        case float():
            return library.from_numpy(np.array(batch, np.float64))
        case int():
            return library.from_numpy(np.array(batch, np.int64))
        case str() | bytes():
            return list(batch)
        case Mapping():
            return {key: default_collate([sample[key] for sample in batch]) for key in first}
        case tuple() if hasattr(first, "_fields"):
            return type(first)(*map(default_collate, _columns(batch)))
        case Sequence():
            return [default_collate(column) for column in _columns(batch)]
    raise TypeError(
        "expected tensors, arrays, numbers, strings, mappings or sequences in a batch, "
        f"got {type(first).__name__}: pass collate_fn= to join such samples"
    )


def _columns(batch: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    lengths = {len(sample) for sample in batch}
    if len(lengths) > 1:
        raise RuntimeError(f"expected samples of one length in a batch, got {sorted(lengths)}")
    return list(zip(*batch, strict=True))
