"""The simulator as the tuner's device: kernels run on the CPU, and what it finds breaks the GPU."""

from __future__ import annotations

import contextlib
import ctypes
import time
import weakref
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np

from tcdsl.codegen.gpu import Gpu, gpu_of
from tcdsl.grammar.errors import DeviceError
from tests.cusim.simulator import Array, Module, Simulator


class SimMemory:
    """Memory that the simulator knows until its last reference goes."""

    def __init__(self, simulator: Simulator, size_bytes: int) -> None:
        raw = np.zeros(size_bytes + 256, np.uint8)
        start = -raw.ctypes.data % 256
        self.bytes = raw[start : start + size_bytes]
        self.address = raw.ctypes.data + start
        self.number = simulator.add("memory", self.address, size_bytes, is_set=False)
        weakref.finalize(self, simulator.remove, self.number)


class SimEvent:
    def __init__(self, device: SimDevice) -> None:
        device.synchronize()
        self._spent_s = device.spent_s

    def milliseconds_since(self, start: Any) -> float:
        return float(self._spent_s - start._spent_s) * 1e3


class SimModule:
    def __init__(self, device: SimDevice, text: str) -> None:
        self.device, self.module = device, Module(text)

    def function(self, name: str, shared_bytes: int = 0) -> SimFunction:
        return SimFunction(self, name)


class SimFunction:
    def __init__(self, module: SimModule, name: str) -> None:
        self._module, self._name = module, name

    def launch(
        self, blocks: int, threads: int, shared_bytes: int, arguments: int, stream: int
    ) -> None:
        device, module = self._module.device, self._module.module
        begun = time.perf_counter()
        device.simulator.run(module, self._name, blocks, threads, arguments, shared_bytes)
        device.spent_s += time.perf_counter() - begun


class SimDevice:
    """A `tcdsl.codegen.device.Device`; its time is that of the simulation."""

    array_type: type = np.ndarray

    def __init__(self, number: int) -> None:
        self.number = number
        # Overwriting level 2 takes no longer than a small kernel.
        self.gpu: Gpu = replace(gpu_of("sm_90"), l2_bytes=1 << 16)
        self.simulator = Simulator(checked=True)
        self.spent_s = 0.0
        self._memory: weakref.WeakValueDictionary[int, SimMemory] = weakref.WeakValueDictionary()

    def active(self) -> AbstractContextManager[object]:
        return contextlib.nullcontext()

    def load(self, text: str, name: str) -> SimModule:
        return SimModule(self, text)

    def stream(self) -> int:
        return 0

    def wait(self, stream: int, other: int) -> None:
        pass

    def synchronize(self, stream: int | None = None) -> None:
        if self.simulator.report.findings:
            raise DeviceError(str(self.simulator.report.findings[0]))

    def event(self, stream: int) -> SimEvent:
        return SimEvent(self)

    def allocate(self, size_bytes: int) -> SimMemory:
        memory = SimMemory(self.simulator, max(size_bytes, 1))
        self._memory[memory.address] = memory
        return memory

    def pinned(self, size_bytes: int) -> SimMemory:
        memory = self.allocate(size_bytes)
        self.simulator.fill(memory.number)
        return memory

    def upload(self, address: int, source: Array, stream: int) -> None:
        ctypes.memmove(address, source.ctypes.data, source.nbytes)

    def download(self, target: Array, address: int, stream: int) -> None:
        self.synchronize()
        ctypes.memmove(target.ctypes.data, address, target.nbytes)

    def owns(self, address: int) -> bool:
        return any(m.address <= address < m.address + m.bytes.size for m in self._memory.values())

    def fill(self, address: int, byte: int, size_bytes: int, stream: int) -> None:
        ctypes.memset(address, byte, size_bytes)
        self.simulator.fill(self._memory[address].number)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return np.empty(shape, dtype)

    def place(self, array: Any) -> Any:
        return array.ctypes.data, array.shape, array.strides, array.dtype, self.number
