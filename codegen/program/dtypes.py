"""Types of values as NumPy has them, and what reductions over them start from."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tcdsl.grammar.types.dtypes import DType


@cache
def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """Return the NumPy type that stores dtype."""
    if dtype.name == "bfloat16":
        import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(dtype.name)


def identity(op: str, dtype: np.dtype[Any]) -> Any:
    """Return the identity of an assignment operator: what `op=!` starts from, 0 for `=`."""
    match op:
        case "*=":
            return dtype.type(1)
        case "min=":
            return _extreme(dtype, highest=True)
        case "max=":
            return _extreme(dtype, highest=False)
        case _:
            return dtype.type(0)


def _extreme(dtype: np.dtype[Any], *, highest: bool) -> Any:
    if dtype.kind == "b":
        return highest
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.max if highest else info.min
    return dtype.type(np.inf if highest else -np.inf)
