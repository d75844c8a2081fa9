"""A `Device` whose kernels run in the simulator, and arrays in its memory."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tcdsl.calls.operands.dlpack import Relabelled
from tcdsl.codegen.device.device import Place, Shape
from tcdsl.codegen.machine.gpu import Gpu, gpu_of
from tcdsl.grammar.text.errors import DeviceError
from tests.cusim.harness import Block, on_device
from tests.cusim.simulator import Access, Array, Module, Order, Simulator

_CUDA = 2  # kDLCUDA
_current = threading.local()


def current_device() -> int:
    """Return the number of the thread's current device."""
    number: int = getattr(_current, "device", 0)
    return number


@contextlib.contextmanager
def _current_device(number: int) -> Iterator[None]:
    before = current_device()
    _current.device = number
    try:
        yield
    finally:
        _current.device = before


class SimArray:
    """An array in the memory of a simulated device, with the interfaces that a GPU's have."""

    def __init__(self, device: SimDevice, values: Array, keep: object) -> None:
        self.device = device
        self.values = values  # the simulator's memory is the host's
        self._keep = keep

    @property
    def shape(self) -> Shape:
        shape: Shape = self.values.shape
        return shape

    @property
    def ndim(self) -> int:
        return self.values.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def view(self, dtype: Any) -> SimArray:
        return SimArray(self.device, self.values.view(dtype), self)

    def __getitem__(self, at: Any) -> SimArray:
        return SimArray(self.device, self.values[at], self)

    @property
    def T(self) -> SimArray:  # noqa: N802  (NumPy's name)
        return SimArray(self.device, self.values.T, self)

    def get(self) -> Array:
        """Return a copy on the host."""
        return self.values.copy()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.values.__array_interface__

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self.device.number

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> Any:
        """Return a capsule that says CUDA; the stream that will read it waits for ours."""
        self.device.wait(stream or 0, self.device.stream())
        if self.dtype.name == "bfloat16":
            return Relabelled(self.view(np.uint16), 1, 4).__dlpack__(stream=stream)
        return _as_cuda(self.values.__dlpack__(), self.device.number)


def _as_cuda(capsule: Any, number: int) -> Any:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    kind = (ctypes.c_int32 * 2).from_address(pointer(capsule, b"dltensor") + 8)
    kind[:] = [_CUDA, number]
    return capsule


class SimMemory:
    """Memory that the simulator knows until the last reference goes."""

    def __init__(self, device: SimDevice, block: Block, access: Access, name: str) -> None:
        self.bytes = block.bytes
        self.address: int = block.bytes.ctypes.data
        number = device.remember(name, block, access)
        weakref.finalize(self, device.forget, number)


class SimEvent:
    """A count of launches, in place of a time."""

    def __init__(self, launches: int) -> None:
        self._launches = launches

    def milliseconds_since(self, start: Any) -> float:
        return float(self._launches - start._launches)


class SimModule:
    """The kernels of a text."""

    def __init__(self, device: SimDevice, text: str) -> None:
        self._device = device
        self._module = Module(text)

    def function(self, name: str, shared_bytes: int = 0, parameters: int = 0) -> SimFunction:
        return SimFunction(self._device, self._module, name, shared_bytes)


class SimFunction:
    """A kernel of a text."""

    def __init__(self, device: SimDevice, module: Module, name: str, shared_bytes: int) -> None:
        self._device, self._module = device, module
        self._name, self._most_shared = name, shared_bytes

    def launch(
        self, blocks: int, threads: int, shared_bytes: int, arguments: int, stream: int
    ) -> None:
        assert shared_bytes <= self._most_shared
        self._device.start(
            self._module, self._name, (blocks, threads, shared_bytes), arguments, stream
        )


class SimRawKernel:
    """A kernel as a `cupy.RawKernel` is called: arrays by their address, numbers by value."""

    def __init__(self, device: SimDevice, text: str, name: str, shared_bytes: int) -> None:
        self._device, self.name = device, name
        self._start = SimModule(device, text).function(name, shared_bytes).launch

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: tuple[Any, ...],
        *,
        shared_mem: int = 0,
    ) -> None:
        slots = np.zeros(max(1, len(args)), np.uint64)
        for i, value in enumerate(args):
            if isinstance(value, SimArray):
                slots[i] = value.values.ctypes.data
            else:
                assert isinstance(value, np.generic), "a number without a type"
                slots[i : i + 1].view(np.uint8)[: value.nbytes] = np.frombuffer(
                    value.tobytes(), np.uint8
                )
        table = slots.ctypes.data + 8 * np.arange(slots.size, dtype=np.uint64)
        stream = self._device.stream()
        self._start(grid[0], block[0], shared_mem, table.ctypes.data, stream)


class SimDevice:
    """A device whose launches have ended when they return; everything else is as on a GPU.

    Attributes
    ----------
    starts : list of (kernel, stream)
    waits : list of (stream, stream)
        Which stream was told to wait for which.
    captured : set of int
        Streams that are captured for a graph: while there is one, nothing may wait, and neither
        page-locked memory nor machine code is to be had.
    live_bytes : int
        Allocated and not given back.
    """

    array_type: type = SimArray

    def __init__(self, number: int = 0, gpu: Gpu | None = None, order: Order = "forward") -> None:
        self.number = number
        self.gpu = gpu or gpu_of("sm_90")
        self.simulator = Simulator(order)
        self.starts: list[tuple[str, int]] = []
        self.waits: list[tuple[int, int]] = []
        self.synchronized: list[int | None] = []
        self.captured: set[int] = set()
        self.live_bytes = 0
        self._streams = threading.local()
        self._lock = threading.RLock()
        self._blocks: dict[int, Block] = {}

    # ---- for tests

    def array(self, values: Array) -> SimArray:
        """Return a copy of an array in the device's memory, a view as a view."""
        block, view = on_device(values)
        return SimArray(self, view, SimMemory(self, block, "update", "an array"))

    @contextlib.contextmanager
    def on_stream(self, stream: int) -> Iterator[None]:
        """Make a stream the thread's current one."""
        before = self.stream()
        self._streams.current = stream
        try:
            yield
        finally:
            self._streams.current = before

    def assert_clean(self) -> None:
        """Fail if the simulator found something, or bytes around memory have changed."""
        self.simulator.report.assert_clean()
        with self._lock:
            assert all(b.is_intact for b in self._blocks.values())

    # ---- memory that the simulator knows

    def remember(self, name: str, block: Block, access: Access) -> int:
        memory = block.bytes
        with self._lock:
            at = memory.ctypes.data
            number = self.simulator.add(name, at, memory.nbytes, access, granule=1)
            self._blocks[number] = block
            self.live_bytes += memory.nbytes
        return number

    def forget(self, number: int) -> None:
        with self._lock:
            block = self._blocks.pop(number)
            assert block.is_intact, "wrote around memory"
            self.live_bytes -= block.bytes.nbytes
            self.simulator.remove(number)

    def _holds(self, address: int) -> int | None:
        """Return the number of the memory that has an address."""
        with self._lock:
            for number, block in self._blocks.items():
                start = block.bytes.ctypes.data
                if start <= address < start + max(1, block.bytes.nbytes):
                    return number
        return None

    def _was_filled(self, address: int) -> None:
        number = self._holds(address)
        assert number is not None, "no memory of this device"
        self.simulator.fill(number)

    def start(
        self,
        module: Module,
        name: str,
        grid: tuple[int, int, int],
        arguments: int,
        stream: int,
    ) -> None:
        self._assert_active()
        blocks, threads, shared_bytes = grid
        with self._lock:
            self.starts.append((name, stream))
            self.simulator.run(module, name, blocks, threads, arguments, shared_bytes)

    # ---- Device

    def active(self) -> AbstractContextManager[Any]:
        return _current_device(self.number)

    def _assert_active(self) -> None:
        if current_device() != self.number:
            raise DeviceError(f"device {self.number} is not the current one")

    def load(self, text: str, name: str) -> SimModule:
        self._assert_active()
        self._assert_nothing_captured()
        return SimModule(self, text)

    def raw(self, text: str, name: str, function: str, shared_bytes: int = 0) -> SimRawKernel:
        self._assert_active()
        return SimRawKernel(self, text, function, shared_bytes)

    def stream(self) -> int:
        number: int = getattr(self._streams, "current", 0)
        return number

    def is_capturing(self, stream: int) -> bool:
        self._assert_active()
        return stream in self.captured

    def _assert_nothing_captured(self) -> None:
        if self.captured:
            raise DeviceError("operation not permitted when stream is capturing")

    def wait(self, stream: int, other: int) -> None:
        self.waits.append((stream, other))

    def synchronize(self, stream: int | None = None) -> None:
        self._assert_active()
        self._assert_nothing_captured()
        self.synchronized.append(stream)

    def event(self, stream: int) -> SimEvent:
        return SimEvent(len(self.starts))

    def allocate(self, size_bytes: int) -> SimMemory:
        self._assert_active()
        return SimMemory(self, Block.of(size_bytes), "write", "memory")

    def pinned(self, size_bytes: int) -> SimMemory:
        self._assert_nothing_captured()
        return SimMemory(self, Block.of(size_bytes, fill=0), "update", "pinned memory")

    def upload(self, address: int, source: Array, stream: int) -> None:
        self._assert_active()
        self._assert_nothing_captured()
        ctypes.memmove(address, source.ctypes.data, source.nbytes)
        self._was_filled(address)

    def download(self, target: Array, address: int, stream: int) -> None:
        self._assert_active()
        self._assert_nothing_captured()
        ctypes.memmove(target.ctypes.data, address, target.nbytes)

    def owns(self, address: int) -> bool:
        return self._holds(address) is not None

    def fill(self, address: int, byte: int, size_bytes: int, stream: int) -> None:
        self._assert_active()
        ctypes.memset(address, byte, size_bytes)
        self._was_filled(address)

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> SimArray:
        size = int(np.prod(shape)) * dtype.itemsize
        memory = self.allocate(size)
        return SimArray(self, memory.bytes.view(dtype).reshape(shape), memory)

    def place(self, array: Any) -> Place:
        v = array.values
        return v.ctypes.data, v.shape, v.strides, v.dtype, array.device.number
