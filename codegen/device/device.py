"""What a GPU does for us: all that stands above knows a device by this."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from tcdsl.codegen.machine.gpu import Gpu

Shape = tuple[int, ...]
HostArray = np.ndarray[Any, np.dtype[Any]]
# address, shape, strides in bytes, element type, number of the device
Place = tuple[int, Shape, Shape, np.dtype[Any], int]


class Memory(Protocol):
    """Memory that goes back when its last reference does.

    It may be given to others at once then: work that was started on the same stream before has it
    first, as the streams' order goes.
    """

    @property
    def address(self) -> int:
        """Where it begins."""
        ...


class Function(Protocol):
    """A kernel, loaded on a device."""

    def launch(
        self, blocks: int, threads: int, shared_bytes: int, arguments: int, stream: int
    ) -> None:
        """Start a linear grid of linear blocks, and return without waiting for it.

        Parameters
        ----------
        shared_bytes : int
            Dynamic shared memory of a block, at most what `Module.function` was asked for.
        arguments : int
            Address of an array that holds, per parameter, the address of its value, which has
            eight bytes. The values are copied before this returns (`cuLaunchKernel` has it so).
        stream : int
            As CUDA writes it: 0 is the default stream.
        """
        ...


class Module(Protocol):
    """The kernels of one text, loaded on a device."""

    def function(self, name: str, shared_bytes: int = 0, parameters: int = 0) -> Function:
        """Return a kernel of so many parameters and at most so much dynamic shared memory."""
        ...


class Event(Protocol):
    """A point in the work of a stream."""

    def milliseconds_since(self, start: Event) -> float:
        """Wait for this point and return the time that the device took from another to it."""
        ...


class Device(Protocol):
    """A GPU.

    Attributes
    ----------
    number : int
        As CUDA counts devices.
    gpu : Gpu
        What schedules need to know of it.
    array_type : type
        Arrays of the library that serves it (`cupy.ndarray`): what `empty` returns and `place`
        takes. They have ``__dlpack__`` and ``__cuda_array_interface__``.
    """

    number: int
    gpu: Gpu
    array_type: type

    def active(self) -> AbstractContextManager[object]:
        """Return a context in which this is the thread's current device; all else needs it."""
        ...

    def load(self, text: str, name: str) -> Module:
        """Return the kernels of an emitted text, compiled unless the cache has them.

        Raises
        ------
        CompileError
            If there is no compiler for the device, or it refuses the text.
        """
        ...

    def raw(self, text: str, name: str, function: str, shared_bytes: int = 0) -> Any:
        """Return a kernel of a text, by `load`'s own machine code, as CuPy's `RawKernel`."""
        ...

    # ---- streams

    def stream(self) -> int:
        """Return the thread's current stream on this device."""
        ...

    def is_capturing(self, stream: int) -> bool:
        """Whether what a stream is given now is recorded for a CUDA graph, and does not run."""
        ...

    def wait(self, stream: int, other: int) -> None:
        """Let what a stream is given from now on begin after what another was given so far."""
        ...

    def synchronize(self, stream: int | None = None) -> None:
        """Wait until a stream, or without one the device, has done all it was given."""
        ...

    def event(self, stream: int) -> Event:
        """Return a mark behind what a stream was given so far."""
        ...

    # ---- memory

    def allocate(self, size_bytes: int) -> Memory:
        """Return memory of the device for the current stream, at a multiple of 256 bytes."""
        ...

    def pinned(self, size_bytes: int) -> Memory:
        """Return zeroed memory of the host that kernels reach by the same address."""
        ...

    def upload(self, address: int, source: HostArray, stream: int) -> None:
        """Copy an array in C order to the device; it may be changed as soon as this returns."""
        ...

    def download(self, target: HostArray, address: int, stream: int) -> None:
        """Fill an array in C order from the device, after what the stream was given so far."""
        ...

    def owns(self, address: int) -> bool:
        """Whether an address is in this device's memory."""
        ...

    def fill(self, address: int, byte: int, size_bytes: int, stream: int) -> None:
        """Set every byte of memory of the device."""
        ...

    # ---- arrays

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Any:
        """Return a new array in C order, of `array_type`, for the current stream."""
        ...

    def place(self, array: Any) -> Place:
        """Return where and how an `array_type` of any device lies."""
        ...
