"""Calls of ops by name, with tensors made of arrays."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tcdsl.library  # gives Tensor its methods
import tcdsl.ops
from tcdsl.core import Tensor, dtypes, empty
from tcdsl.ops.table import PUBLIC

FOLDER = Path(tcdsl.ops.__file__).parent
MODULES = [
    importlib.import_module(f"tcdsl.ops.{path.stem}")
    for path in sorted(FOLDER.glob("*.py"))
    if path.with_suffix(".tc").exists()
]


def ours(name: str) -> Callable[..., Any]:
    """Return the library's op of a name."""
    if name in PUBLIC:
        return PUBLIC[name]  # type: ignore[no-any-return]
    found = [getattr(m, name) for m in MODULES if hasattr(m, name)]
    return found[0]  # type: ignore[no-any-return]


def tensor(array: Any, requires_grad: bool = False) -> Tensor:
    """Return a tensor of an array's elements, in its order of memory."""
    kind = dtypes.dtype_of(array.dtype)
    assert kind is not None
    order = sorted(range(array.ndim), key=lambda d: -array.strides[d])
    made = empty(tuple(array.shape[d] for d in order), kind)
    made = made.permute(*(order.index(d) for d in range(array.ndim))) if array.ndim > 1 else made
    made._array()[...] = array
    made.requires_grad = requires_grad
    return made


def each(value: Any, make: Callable[[Any], Any]) -> Any:
    """Make something of every array in arguments."""
    if isinstance(value, np.ndarray):
        return make(value)
    if isinstance(value, list | tuple):
        return type(value)(each(v, make) for v in value)
    if isinstance(value, dict):
        return {k: each(v, make) for k, v in value.items()}
    return value


def leaves(value: Any, kinds: tuple[type, ...] = (Tensor,)) -> Iterator[Any]:
    """Give the tensors of arguments or results."""
    if isinstance(value, list | tuple):
        for v in value:
            yield from leaves(v, kinds)
    elif isinstance(value, dict):
        yield from leaves(list(value.values()), kinds)
    elif isinstance(value, kinds):
        yield value
