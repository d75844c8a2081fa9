"""GPUs served by CuPy, the only module that loads it: memory, streams, the start of kernels."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import threading
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import numpy as np

from tcdsl.codegen.device.device import HostArray, Memory, Place, Shape
from tcdsl.codegen.device.facts import describe
from tcdsl.codegen.device.failures import Failures
from tcdsl.codegen.device.module import STATIC_SHARED, CupyModule
from tcdsl.codegen.toolchain.cubins import cached_cubin, cubin_file
from tcdsl.codegen.toolchain.nvrtc import CudaSource
from tcdsl.grammar.text.errors import DeviceError, NoDeviceError

INSTALL = 'pip install "tcdsl[cuda13]", or "tcdsl[cuda12]" where the driver is older than 580'
_OLDEST = 75  # compute capability: what a driver and an NVRTC of today both serve
_HOST_TO_DEVICE, _DEVICE_TO_HOST = 1, 2  # cudaMemcpyKind
_NO_TIMING = 2  # cudaEventDisableTiming
_HERE: AbstractContextManager[object] = contextlib.nullcontext()


@functools.cache
def load_cupy() -> ModuleType:
    """Return the module cupy.

    Raises
    ------
    NoDeviceError
        If it is not installed or cannot be loaded.
    """
    try:
        import cupy
    except ImportError as error:
        raise NoDeviceError(
            f"kernels on a GPU need CuPy, which cannot be loaded: {error}\n  {INSTALL}"
        ) from error
    module: ModuleType = cupy
    return module


def device_count() -> int:
    """Return how many GPUs there are.

    Raises
    ------
    DeviceError
        If CuPy or the driver is missing, with the cure.
    """
    cupy = load_cupy()
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(
            f"no GPU can be used: {error}\n"
            "  nvidia-smi shows the driver; containers need to be started with their GPUs"
        ) from error


def driver_version() -> tuple[int, int]:
    """Return the CUDA that the driver serves."""
    version = int(load_cupy().cuda.runtime.driverGetVersion())
    return version // 1000, version % 1000 // 10


def device_of(address: int) -> int:
    """Return the number of the device that an address belongs to.

    Raises
    ------
    DeviceError
        If it is no memory that CUDA knows.
    """
    runtime = load_cupy().cuda.runtime
    try:
        return int(runtime.pointerGetAttributes(address).device)
    except runtime.CUDARuntimeError as error:
        raise DeviceError(f"{address:#x} is no memory of a GPU: {error}") from error


class CupyDevice:
    """A GPU through CuPy; `tcdsl.codegen.device.device.Device` says what each method does."""

    def __init__(self, number: int) -> None:
        count = device_count()
        if not 0 <= number < count:
            raise DeviceError(f"there is no GPU {number}: this machine has {count}")
        self.number = number
        self._cupy = cupy = load_cupy()
        self._runtime = cupy.cuda.runtime
        self._failures = Failures(number, cupy)
        self._thread = threading.local()
        self.array_type: type = cupy.ndarray
        with self._failures.of("does not say what it is"):
            self.gpu = describe(self._runtime, number)
        if self.gpu.capability < _OLDEST:
            raise DeviceError(
                f"GPU {number}, {self.gpu.name}, is {self.gpu.arch}; sm_{_OLDEST} or newer is "
                "needed"
            )

    def active(self) -> AbstractContextManager[object]:
        """Return a context in which this is the current device, and the thread has its context."""
        try:
            current = self._runtime.getDevice()
        except self._failures.kinds as error:
            raise self._failures.error("cannot be used", error) from error
        if current != self.number:
            return _Elsewhere(self)
        if not hasattr(self._thread, "has_context"):
            self.take_context()
        return _HERE

    def take_context(self) -> None:
        """Give the thread the current device's context, which the driver's calls need.

        A new thread has none, and to ask for the current device does not make one; a call of the
        runtime that needs a context does, here as in CuPy's own launches.
        """
        with self._failures.of("cannot be used"):
            self._runtime.memGetInfo()
        self._thread.has_context = True

    def load(self, text: str, name: str) -> CupyModule:
        """Return the kernels of a text."""
        cubin = cached_cubin(CudaSource(name, text), self.gpu.arch).data
        return CupyModule(self._cupy, cubin, self._failures)

    def raw(self, text: str, name: str, function: str, shared_bytes: int = 0) -> Any:
        """Return a kernel as a `cupy.RawKernel`."""
        path = cubin_file(CudaSource(name, text), self.gpu.arch)
        with self._failures.of(f"does not load '{function}'"):
            kernel = self._cupy.RawModule(path=str(path)).get_function(function)
            if shared_bytes > STATIC_SHARED:
                kernel.max_dynamic_shared_size_bytes = shared_bytes
        return kernel

    # ---- streams

    def stream(self) -> int:
        """Return the current stream."""
        pointer: int = self._cupy.cuda.get_current_stream().ptr
        return pointer

    def is_capturing(self, stream: int) -> bool:
        """Return whether a stream is captured."""
        with self._failures.of("does not say whether a stream is captured"):
            return bool(self._runtime.streamIsCapturing(stream))

    def wait(self, stream: int, other: int) -> None:
        """Let a stream wait for another."""
        runtime = self._runtime
        with self._failures.of("cannot let streams wait"):
            event = runtime.eventCreateWithFlags(_NO_TIMING)
            try:
                runtime.eventRecord(event, other)
                runtime.streamWaitEvent(stream, event)
            finally:
                runtime.eventDestroy(event)  # the driver keeps it until it has happened

    def synchronize(self, stream: int | None = None) -> None:
        """Wait for a stream or the device."""
        with self._failures.of("did not end its work"):
            if stream is None:
                self._runtime.deviceSynchronize()
            else:
                self._runtime.streamSynchronize(stream)

    def event(self, stream: int) -> CupyEvent:
        """Return a mark in a stream."""
        return CupyEvent(self._runtime, stream, self._failures)

    # ---- memory

    def allocate(self, size_bytes: int) -> Memory:
        """Return memory of CuPy's pool."""
        try:
            return _Held(self._cupy.cuda.alloc(size_bytes))
        except self._failures.kinds as error:
            raise self._failures.no_memory(size_bytes, error) from error

    def pinned(self, size_bytes: int) -> Memory:
        """Return page-locked memory, which is mapped at its own address on every device."""
        try:
            held = _Held(self._cupy.cuda.alloc_pinned_memory(size_bytes))
        except self._failures.kinds as error:
            raise self._failures.no_memory(size_bytes, error, "page-locked ") from error
        ctypes.memset(held.address, 0, size_bytes)
        return held

    def upload(self, address: int, source: HostArray, stream: int) -> None:
        """Copy to the device."""
        self._copy(address, source.ctypes.data, source.nbytes, _HOST_TO_DEVICE, stream)

    def download(self, target: HostArray, address: int, stream: int) -> None:
        """Copy from the device."""
        self._copy(target.ctypes.data, address, target.nbytes, _DEVICE_TO_HOST, stream)

    def _copy(self, target: int, source: int, size_bytes: int, kind: int, stream: int) -> None:
        if size_bytes:
            way = "to the GPU" if kind == _HOST_TO_DEVICE else "from the GPU"
            with self._failures.of(f"did not copy {size_bytes:,} bytes {way}"):
                self._runtime.memcpyAsync(target, source, size_bytes, kind, stream)
                self._runtime.streamSynchronize(stream)

    def owns(self, address: int) -> bool:
        """Whether the device has an address."""
        return device_of(address) == self.number

    def fill(self, address: int, byte: int, size_bytes: int, stream: int) -> None:
        """Set bytes."""
        if size_bytes:
            with self._failures.of(f"did not fill {size_bytes:,} bytes"):
                self._runtime.memsetAsync(address, byte, size_bytes, stream)

    # ---- arrays

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Any:
        """Return a new array."""
        try:
            return self._cupy.ndarray(shape, dtype)
        except self._failures.kinds as error:
            size_bytes = math.prod(shape) * dtype.itemsize
            raise self._failures.no_memory(size_bytes, error) from error

    def place(self, array: Any) -> Place:
        """Return where an array lies."""
        memory = array.data
        return memory.ptr, array.shape, array.strides, array.dtype, memory.device_id


class _Elsewhere:
    """A context in which another device than the thread's is its current one."""

    def __init__(self, device: CupyDevice) -> None:
        self._device = device
        self._inside = load_cupy().cuda.Device(device.number)

    def __enter__(self) -> None:
        self._inside.__enter__()
        try:
            self._device.take_context()
        except BaseException:
            self._inside.__exit__(None, None, None)
            raise

    def __exit__(self, *error: object) -> None:
        self._inside.__exit__(*error)


class CupyEvent:
    """An event of CUDA's, recorded."""

    def __init__(self, runtime: Any, stream: int, failures: Failures) -> None:
        self._runtime, self._failures = runtime, failures
        self._event = 0
        with failures.of("cannot mark a point in a stream"):
            self._event = runtime.eventCreate()
            runtime.eventRecord(self._event, stream)

    def milliseconds_since(self, start: Any) -> float:
        """Wait, and return the time between two events."""
        with self._failures.of("did not end its work"):
            self._runtime.eventSynchronize(self._event)
            return float(self._runtime.eventElapsedTime(start._event, self._event))

    def __del__(self) -> None:
        if self._event:
            with contextlib.suppress(self._runtime.CUDARuntimeError):  # on a GPU that is lost
                self._runtime.eventDestroy(self._event)


class _Held:
    """Memory, as CuPy holds it."""

    __slots__ = ("_held", "address")

    def __init__(self, held: Any) -> None:
        self._held = held
        self.address: int = held.ptr
