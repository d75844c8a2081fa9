"""GPUs served by CuPy, the only module that loads it: memory, streams, the start of kernels."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from contextlib import AbstractContextManager
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from tcdsl.codegen.cubins import cached_cubin
from tcdsl.codegen.device import HostArray, Memory, Place, Shape
from tcdsl.codegen.gpu import KNOWN, Gpu
from tcdsl.codegen.nvrtc import CudaSource
from tcdsl.grammar.errors import DeviceError

INSTALL = 'pip install "tcdsl[cuda13]", or "tcdsl[cuda12]" where the driver is older than 580'
_OLDEST = 75  # compute capability: what a driver and an NVRTC of today both serve
_STATIC_SHARED = 48 << 10  # bytes; a kernel that wants more of shared memory has to say so
_HOST_TO_DEVICE, _DEVICE_TO_HOST = 1, 2  # cudaMemcpyKind
_NO_TIMING = 2  # cudaEventDisableTiming
_HERE: AbstractContextManager[object] = contextlib.nullcontext()


@functools.cache
def load_cupy() -> ModuleType:
    """Return the module cupy.

    Raises
    ------
    DeviceError
        If it is not installed or cannot be loaded.
    """
    try:
        import cupy
        import cupy_backends.cuda.api.driver
    except ImportError as error:
        raise DeviceError(
            f"kernels on a GPU need CuPy, which cannot be loaded: {error}\n  {INSTALL}"
        ) from error
    if not hasattr(cupy_backends.cuda.api.driver, "launchKernel"):
        raise DeviceError(
            f"CuPy {cupy.__version__} does not give out the driver's launchKernel; version 14 "
            f"does\n  {INSTALL}"
        )
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
    """A GPU through CuPy; `tcdsl.codegen.device.Device` says what each method does."""

    def __init__(self, number: int) -> None:
        count = device_count()
        if not 0 <= number < count:
            raise DeviceError(f"there is no GPU {number}: this machine has {count}")
        self.number = number
        self._cupy = cupy = load_cupy()
        self._runtime = cupy.cuda.runtime
        self.array_type: type = cupy.ndarray
        self.gpu = describe(number)
        if self.gpu.capability < _OLDEST:
            raise DeviceError(
                f"GPU {number}, {self.gpu.name}, is {self.gpu.arch}; sm_{_OLDEST} or newer is "
                "needed"
            )

    def active(self) -> AbstractContextManager[object]:
        """Return a context in which this is the current device."""
        if self._runtime.getDevice() == self.number:
            return _HERE
        context: AbstractContextManager[object] = self._cupy.cuda.Device(self.number)
        return context

    def load(self, text: str, name: str) -> CupyModule:
        """Return the kernels of a text."""
        return CupyModule(cached_cubin(CudaSource(name, text), self.gpu.arch).data)

    # ---- streams

    def stream(self) -> int:
        """Return the current stream."""
        pointer: int = self._cupy.cuda.get_current_stream().ptr
        return pointer

    def wait(self, stream: int, other: int) -> None:
        """Let a stream wait for another."""
        runtime = self._runtime
        event = runtime.eventCreateWithFlags(_NO_TIMING)
        runtime.eventRecord(event, other)
        runtime.streamWaitEvent(stream, event)
        runtime.eventDestroy(event)  # the driver keeps it until it has happened

    def synchronize(self, stream: int | None = None) -> None:
        """Wait for a stream or the device."""
        try:
            if stream is None:
                self._runtime.deviceSynchronize()
            else:
                self._runtime.streamSynchronize(stream)
        except self._runtime.CUDARuntimeError as error:
            raise _broken(self, error) from error

    def event(self, stream: int) -> CupyEvent:
        """Return a mark in a stream."""
        return CupyEvent(self._runtime, stream)

    # ---- memory

    def allocate(self, size_bytes: int) -> Memory:
        """Return memory of CuPy's pool."""
        return _Held(self._cupy.cuda.alloc(size_bytes))

    def pinned(self, size_bytes: int) -> Memory:
        """Return page-locked memory, which is mapped at its own address on every device."""
        held = _Held(self._cupy.cuda.alloc_pinned_memory(size_bytes))
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
            self._runtime.memcpyAsync(target, source, size_bytes, kind, stream)
            self.synchronize(stream)

    def owns(self, address: int) -> bool:
        """Whether the device has an address."""
        return device_of(address) == self.number

    def fill(self, address: int, byte: int, size_bytes: int, stream: int) -> None:
        """Set bytes."""
        if size_bytes:
            self._runtime.memsetAsync(address, byte, size_bytes, stream)

    # ---- arrays

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Any:
        """Return a new array."""
        return self._cupy.ndarray(shape, dtype)

    def place(self, array: Any) -> Place:
        """Return where an array lies."""
        memory = array.data
        return memory.ptr, array.shape, array.strides, array.dtype, memory.device_id


class CupyModule:
    """A loaded cubin."""

    def __init__(self, cubin: bytes) -> None:
        cupy = load_cupy()
        self._module = cupy.cuda.function.Module()
        try:
            self._module.load(cubin)
        except cupy.cuda.driver.CUDADriverError as error:
            raise DeviceError(
                f"the driver does not load a kernel that was compiled for it: {error}\n"
                "  tcdsl doctor shows the versions of NVRTC and of the driver"
            ) from error

    def function(self, name: str, shared_bytes: int = 0) -> CupyFunction:
        """Return a kernel."""
        return CupyFunction(self._module, name, shared_bytes)


class CupyFunction:
    """A kernel of a loaded cubin."""

    def __init__(self, module: Any, name: str, shared_bytes: int) -> None:
        from cupy_backends.cuda.api import driver

        self._name = name
        self._function = module.get_function(name)  # holds the module
        self._pointer: int = self._function.ptr
        self._start = driver.launchKernel  # private to CuPy: its own call packs arguments anew
        self._error: type[Exception] = driver.CUDADriverError
        if shared_bytes > _STATIC_SHARED:
            attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.funcSetAttribute(self._pointer, attribute, shared_bytes)

    def launch(
        self, blocks: int, threads: int, shared_bytes: int, arguments: int, stream: int
    ) -> None:
        """Start it."""
        try:
            self._start(
                self._pointer, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, arguments, 0
            )
        except self._error as error:
            raise DeviceError(f"{self._name} cannot be started: {error}") from error


class CupyEvent:
    """An event of CUDA's, recorded."""

    def __init__(self, runtime: Any, stream: int) -> None:
        self._runtime = runtime
        self._event = runtime.eventCreate()
        runtime.eventRecord(self._event, stream)

    def milliseconds_since(self, start: Any) -> float:
        """Wait, and return the time between two events."""
        self._runtime.eventSynchronize(self._event)
        return float(self._runtime.eventElapsedTime(start._event, self._event))

    def __del__(self) -> None:
        self._runtime.eventDestroy(self._event)


class _Held:
    """Memory, as CuPy holds it."""

    __slots__ = ("_held", "address")

    def __init__(self, held: Any) -> None:
        self._held = held
        self.address: int = held.ptr


def _broken(device: CupyDevice, error: Exception) -> DeviceError:
    return DeviceError(
        f"GPU {device.number} failed: {error}\n"
        "  this process cannot use the GPU any more; start a new one"
    )


# ---- what a device is

# cudaDeviceAttr; they stay from one CUDA to the next, unlike the fields of cudaDeviceProp
_CLOCK_KHZ, _SMS, _MEMORY_KHZ, _BUS_BITS, _L2_BYTES = 13, 16, 36, 37, 38
_THREADS_SM, _MAJOR, _MINOR, _SHARED_SM, _REGISTERS_SM = 39, 75, 76, 81, 82
_SHARED_BLOCK, _BLOCKS_SM = 97, 106


def describe(number: int) -> Gpu:
    """Return what a device says of itself; what it does not say is that of its nearest kin."""
    runtime = load_cupy().cuda.runtime

    def ask(attribute: int) -> int:
        return int(runtime.deviceGetAttribute(attribute, number))

    major, minor = ask(_MAJOR), ask(_MINOR)
    kin = nearest(10 * major + minor)
    bandwidth = 2 * ask(_MEMORY_KHZ) * ask(_BUS_BITS) / 8 / 1e6
    return replace(
        kin,
        arch=f"sm_{major}{minor}",
        sms=ask(_SMS),
        registers=ask(_REGISTERS_SM),
        shared_sm=ask(_SHARED_SM),
        shared_block=ask(_SHARED_BLOCK),
        threads_sm=ask(_THREADS_SM),
        blocks_sm=ask(_BLOCKS_SM),
        l2_bytes=ask(_L2_BYTES),
        clock_ghz=ask(_CLOCK_KHZ) / 1e6 or kin.clock_ghz,
        bandwidth_gbs=bandwidth or kin.bandwidth_gbs,
        name=runtime.getDeviceProperties(number)["name"].decode(),
        driver=int(runtime.driverGetVersion()),
    )


def nearest(capability: int) -> Gpu:
    """Return the known architecture that a capability is most like: the newest not above it."""
    known = sorted(KNOWN.values(), key=lambda g: g.capability)
    return [known[0], *(g for g in known if g.capability <= capability)][-1]
