"""The same elements, lying otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def layouts(x: Array) -> Iterator[Array]:
    """Yield arrays with the elements of x that lie otherwise."""
    yield x
    yield np.asfortranarray(x)
    if x.ndim:
        yield np.repeat(x, 2, -1)[..., ::2]
        yield np.repeat(x, 3, 0)[::3]
        yield np.ascontiguousarray(x[..., ::-1])[..., ::-1]
        yield np.concatenate([x, x[..., :1]], -1)[..., : x.shape[-1]]
        yield np.ascontiguousarray(x.swapaxes(0, -1)).swapaxes(0, -1)
