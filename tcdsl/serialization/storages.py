"""What references to storages say, and the elements of these in this machine's order of bytes."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np

from tcdsl.core.dtypes import DType

__all__ = ["described", "elements"]


def described(pid: Any) -> tuple[DType, str, str, int]:
    """Return what a reference says of a storage: type, name, place, elements."""
    if (
        not isinstance(pid, tuple)
        or len(pid) < 5
        or pid[0] != "storage"
        or not isinstance(pid[1], DType)
        or not all(isinstance(word, str) for word in pid[2:4])
        or type(pid[4]) is not int
        or pid[4] < 0
    ):
        raise pickle.UnpicklingError(f"the file refers to no storage: {pid!r:.80}")
    return pid[1], pid[2], pid[3], pid[4]


def elements(raw: bytearray, kind: DType, count: int, order: str) -> np.ndarray[Any, Any]:
    """Return the elements of a storage in this machine's order of bytes."""
    if len(raw) < count * kind.itemsize:
        raise RuntimeError(
            f"the file is damaged: a storage of {count} {kind.name} has {len(raw)} bytes"
        )
    array = np.frombuffer(raw, np.uint8, count * kind.itemsize).view(kind.numpy)
    return array if order == sys.byteorder else array.view().byteswap(inplace=True)
