"""Whether arrays, or the elements of one, meet in memory."""

from __future__ import annotations

import numpy as np

from tcdsl.calls.operands.arguments import Operand
from tcdsl.calls.operands.device_arrays import DeviceArray, may_overlap

_MOST_COMPARED = 1 << 22  # elements of which every place is looked at


def may_share(a: Operand, b: Operand) -> bool:
    """Whether the memory between the first and last bytes of two arrays meets."""
    if isinstance(a, DeviceArray) or isinstance(b, DeviceArray):
        return isinstance(a, DeviceArray) and isinstance(b, DeviceArray) and may_overlap(a, b)
    return np.may_share_memory(a, b)


def is_same_view(a: Operand, b: Operand) -> bool:
    """Whether two arrays have the same elements at the same places."""
    return (
        _address(a) == _address(b)
        and a.shape == b.shape
        and a.strides == b.strides
        and a.dtype == b.dtype
    )


def meets_itself(a: Operand) -> bool:
    """Whether two elements of an array share bytes; of a large one with odd strides, maybe.

    They do not where each stride steps over all that the smaller ones reach. Else places are
    compared one by one.
    """
    if a.size < 2:
        return False
    steps = sorted((abs(s), n) for s, n in zip(a.strides, a.shape, strict=True) if n > 1)
    reach = a.itemsize
    for step, extent in steps:
        if step < reach:
            break
        reach += step * (extent - 1)
    else:
        return False
    if a.size > _MOST_COMPARED:
        return True
    places = np.zeros(1, np.int64)
    for step, extent in steps:
        places = np.add.outer(places, step * np.arange(extent)).ravel()
    return bool((np.diff(np.sort(places)) < a.itemsize).any())


def _address(a: Operand) -> int:
    return a.address if isinstance(a, DeviceArray) else a.ctypes.data
