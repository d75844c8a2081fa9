"""What `torch.utils.dlpack` is: a tensor as a capsule that another library takes, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcdsl import core
from tcdsl.core import Tensor
from tcdsl.tensors import protocols

__all__ = ["from_dlpack", "to_dlpack"]

_HOST = (1, 0)  # DLPack's number of CPUs, and of the first


class _Lent:
    """A capsule as what NumPy asks for: an object that hands it out."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **settings: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _HOST


class _Writable:
    """Memory that NumPy took from a capsule: it calls that read-only, for want of a word in it."""

    def __init__(self, taken: np.ndarray[Any, Any]) -> None:
        self._taken = taken  # which holds the capsule's memory
        described = taken.__array_interface__
        self.__array_interface__ = described | {"data": (described["data"][0], False)}


def to_dlpack(tensor: Tensor) -> Any:
    """Return a DLPack capsule over the same memory; gradients stay behind."""
    return protocols.dlpack(tensor.detach())


def from_dlpack(ext_tensor: Any) -> Tensor:
    """Return a tensor over the memory of a capsule, or of what hands one out."""
    if hasattr(ext_tensor, "__dlpack__"):
        return protocols.from_dlpack(ext_tensor)
    return core.from_numpy(np.asarray(_Writable(np.from_dlpack(_Lent(ext_tensor)))))
