"""A device that does nothing at once: what is left of a call is the host's work."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tcdsl.calls.operands.device_arrays import dense_strides
from tcdsl.codegen.device.device import Place, Shape
from tests.tcdsl.calls.gpu.sim import SimDevice

_HERE: AbstractContextManager[Any] = contextlib.nullcontext()


class NullArray:
    """Address, shape, strides and type, at hand as in CuPy's arrays."""

    __slots__ = ("dtype", "facts", "ndim", "shape")

    def __init__(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype, self.ndim = shape, dtype, len(shape)
        strides = dense_strides(shape, dtype.itemsize)
        self.facts: Place = (0x7F0000000000, shape, strides, dtype, 9)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 9

    def __dlpack__(self, **_: Any) -> Any:
        raise NotImplementedError


class NullDevice(SimDevice):
    """A simulated device that never starts a kernel."""

    array_type: type = NullArray

    def active(self) -> AbstractContextManager[Any]:
        return _HERE

    def _assert_active(self) -> None:
        pass

    def stream(self) -> int:
        return 0

    def load(self, text: str, name: str) -> Any:
        return self

    def function(self, name: str, shared_bytes: int = 0, parameters: int = 0) -> Any:
        return self

    def launch(
        self, blocks: int, threads: int, shared_bytes: int, arguments: int, stream: int
    ) -> None:
        pass

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Any:
        return NullArray(shape, dtype)

    def place(self, array: Any) -> Place:
        facts: Place = array.facts
        return facts
