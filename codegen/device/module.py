"""Loaded cubins and the start of their kernels, through CuPy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tcdsl.codegen.device.failures import Failures
from tcdsl.grammar.text.errors import DeviceError

STATIC_SHARED = 48 << 10  # bytes; a kernel that wants more of shared memory has to say so


class CupyModule:
    """A loaded cubin."""

    def __init__(self, cupy: Any, cubin: bytes, failures: Failures) -> None:
        self._cupy, self._failures = cupy, failures
        self._module = cupy.cuda.function.Module()
        try:
            self._module.load(cubin)
        except failures.kinds as error:
            found = failures.error("does not load a kernel that was compiled for it", error)
            raise DeviceError(
                f"{found}\n  tcdsl doctor shows the versions of NVRTC and of the driver"
            ) from error

    def function(self, name: str, shared_bytes: int = 0, parameters: int = 0) -> CupyFunction:
        """Return a kernel."""
        with self._failures.of(f"does not give '{name}'"):
            return CupyFunction(
                self._cupy.cuda.driver,
                self._module.get_function(name),
                name,
                shared_bytes,
                parameters,
                self._failures,
            )


class CupyFunction:
    """A kernel of a loaded cubin."""

    def __init__(
        self,
        driver: Any,
        function: Any,
        name: str,
        shared_bytes: int,
        parameters: int,
        failures: Failures,
    ) -> None:
        self._name, self._failures = name, failures
        self._function = function  # holds the module
        self._pointer: int = function.ptr
        self._parameters = parameters
        # The driver's call takes the addresses of values as they lie. It is private to CuPy, whose
        # own call packs values anew: that one serves where a CuPy does not give out the other.
        self._start: Any = getattr(driver, "launchKernel", None) or self._start_by_cupy
        if shared_bytes > STATIC_SHARED:
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
        except self._failures.kinds as error:
            raise self._failures.error(f"does not start '{self._name}'", error) from error

    def _start_by_cupy(
        self,
        _pointer: int,
        blocks: int,
        _y: int,
        _z: int,
        threads: int,
        _thread_y: int,
        _thread_z: int,
        shared_bytes: int,
        stream: int,
        arguments: int,
        _extra: int,
    ) -> None:
        """Start it as `launchKernel` does, by the call that a `cupy.RawKernel` makes.

        Every value lies in eight bytes; the driver reads as many as its parameter has, the first.
        """
        table = (ctypes.c_uint64 * self._parameters).from_address(arguments)
        values = [np.uint64(ctypes.c_uint64.from_address(a).value) for a in table]
        self._function((blocks,), (threads,), values, shared_bytes, _Stream(stream))


class _Stream:
    """A stream as CuPy's calls take one."""

    __slots__ = ("ptr",)

    def __init__(self, pointer: int) -> None:
        self.ptr = pointer
