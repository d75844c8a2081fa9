"""CuPy as far as `codegen/device/cuda.py` needs it, with CUDA's rules of contexts and failures.

Nothing is computed: launches are kept. A thread has no context until a call of the runtime that
needs one; to ask for the current device does not make one. After a fatal failure everything fails.
"""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

INVALID_CONTEXT, ILLEGAL_ADDRESS, NO_MEMORY, INVALID_VALUE = 201, 700, 2, 1
NAMES = {
    INVALID_CONTEXT: "INVALID_CONTEXT: invalid device context",
    ILLEGAL_ADDRESS: "ILLEGAL_ADDRESS: an illegal memory access was encountered",
    NO_MEMORY: "OUT_OF_MEMORY: out of memory",
    INVALID_VALUE: "INVALID_VALUE: invalid argument",
}


class _Error(RuntimeError):
    def __init__(self, status: int) -> None:
        super().__init__(f"CUDA_ERROR_{NAMES[status]}")
        self.status = status


class CUDARuntimeError(_Error):
    pass


class CUDADriverError(_Error):
    pass


class OutOfMemoryError(MemoryError):
    pass


class FakeArray:
    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape


class FakeCupy:
    """What `load_cupy` returns.

    Attributes
    ----------
    launches : list of (blocks, threads, shared bytes, stream, values of the arguments)
    fails : status that the next call of the device ends with, or None
    broken : whether the context was lost
    free_bytes : what allocations may take
    """

    def __init__(self, *, devices: int = 1, gives_launch: bool = True, parameters: int = 2) -> None:
        self.launches: list[tuple[Any, ...]] = []
        self.fails: int | None = None
        self.broken = False
        self.free_bytes = 1 << 20
        self.loaded: list[bytes] = []
        self._parameters = parameters
        self._thread = threading.local()
        self.__version__ = "0"
        self.ndarray = self._array
        runtime = SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError,
            getDeviceCount=lambda: devices,
            getDevice=lambda: getattr(self._thread, "device", 0),
            memGetInfo=lambda: self._runtime_call((1, 1)),
            deviceGetAttribute=lambda a, n: {75: 9, 76: 0}.get(a, 1),
            getDeviceProperties=lambda n: {"name": b"fake"},
            driverGetVersion=lambda: 13000,
            deviceSynchronize=lambda: self._runtime_call(None),
            streamIsCapturing=lambda s: self._runtime_call(s == 6),
            streamSynchronize=lambda s: self._runtime_call(None),
            memcpyAsync=lambda *a: self._runtime_call(None),
            memsetAsync=lambda *a: self._runtime_call(None),
            eventCreate=lambda: self._runtime_call(7),
            eventCreateWithFlags=lambda f: self._runtime_call(7),
            eventRecord=lambda e, s: self._runtime_call(None),
            streamWaitEvent=lambda s, e: self._runtime_call(None),
            eventDestroy=lambda e: self._runtime_call(None),
            eventSynchronize=lambda e: self._runtime_call(None),
            eventElapsedTime=lambda a, b: self._runtime_call(1.0),
        )
        driver = SimpleNamespace(
            CUDADriverError=CUDADriverError,
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
            funcSetAttribute=lambda f, a, v: self._driver_call(),
        )
        if gives_launch:
            driver.launchKernel = self._launch_kernel
        self.cuda = SimpleNamespace(
            runtime=runtime,
            driver=driver,
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            function=SimpleNamespace(Module=lambda: _Module(self)),
            alloc=self._allocate,
            alloc_pinned_memory=self._allocate,
            get_current_stream=lambda: SimpleNamespace(ptr=5),
            Device=lambda number: _Device(self, number),
        )
        self.RawModule = lambda path: _RawModule(self, Path(path))

    def _fail(self, kind: type[_Error]) -> None:
        status, self.fails = self.fails, None
        if status == ILLEGAL_ADDRESS:
            self.broken = True
        if self.broken:
            raise kind(ILLEGAL_ADDRESS)
        if status is not None:
            raise kind(status)

    def _runtime_call(self, result: Any) -> Any:
        self._fail(CUDARuntimeError)
        self._thread.has_context = True
        return result

    def _driver_call(self) -> None:
        if not hasattr(self._thread, "has_context"):
            raise CUDADriverError(INVALID_CONTEXT)
        self._fail(CUDADriverError)

    def _array(self, shape: tuple[int, ...], dtype: Any) -> FakeArray:
        self._allocate(int(np.prod(shape)) * np.dtype(dtype).itemsize)
        return FakeArray(shape, dtype)

    def _allocate(self, size: int) -> Any:
        self._fail(CUDARuntimeError)
        if size > self.free_bytes:
            raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes")
        held = (ctypes.c_char * max(1, size))()
        return SimpleNamespace(ptr=ctypes.addressof(held), keep=held)

    def _launch_kernel(
        self, f: int, bx: int, by: int, bz: int, tx: int, ty: int, tz: int,
        shared: int, stream: int, arguments: int, extra: int,
    ) -> None:  # fmt: skip
        self._driver_call()
        assert (by, bz, ty, tz, extra) == (1, 1, 1, 1, 0)
        table = (ctypes.c_uint64 * self._parameters).from_address(arguments)
        values = [ctypes.c_uint64.from_address(a).value for a in table]
        self.launches.append((bx, tx, shared, stream, values))

    def call(
        self, grid: Any, block: Any, args: Any, shared_mem: int = 0, stream: Any = None
    ) -> None:
        """Do what `cupy.cuda.Function.__call__` does: see to the context, pack, launch."""
        self._runtime_call(None)
        self._driver_call()
        assert all(type(a) is np.uint64 for a in args)
        self.launches.append((grid[0], block[0], shared_mem, stream.ptr, [int(a) for a in args]))


class _Device:
    def __init__(self, cupy: FakeCupy, number: int) -> None:
        self._cupy, self._number = cupy, number

    def __enter__(self) -> None:
        self._before = self._cupy.cuda.runtime.getDevice()
        self._cupy._thread.device = self._number

    def __exit__(self, *error: object) -> None:
        self._cupy._thread.device = self._before


class _Module:
    def __init__(self, cupy: FakeCupy) -> None:
        self._cupy = cupy

    def load(self, cubin: bytes) -> None:
        self._cupy._runtime_call(None)
        self._cupy._driver_call()
        self._cupy.loaded.append(cubin)

    def get_function(self, name: str) -> Any:
        cupy = self._cupy

        class Function:
            ptr = 11

            def __call__(self, *args: Any, **keywords: Any) -> None:
                cupy.call(*args, **keywords)

        return Function()


class _RawModule:
    def __init__(self, cupy: FakeCupy, path: Path) -> None:
        self._cupy, self.cubin = cupy, path.read_bytes()

    def get_function(self, name: str) -> Any:
        self._cupy._runtime_call(None)
        return SimpleNamespace(name=name, cubin=self.cubin, max_dynamic_shared_size_bytes=0)
