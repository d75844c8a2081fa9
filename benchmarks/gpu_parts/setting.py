"""The device that all sections run on, and memory on it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from operands import Array, rand

from tcdsl.autotune.targets.cuda.bench import DeviceSampler
from tcdsl.autotune.targets.cuda.margins import DeviceOperand
from tcdsl.autotune.worker.case import Operand
from tcdsl.calls.operands.device_arrays import DeviceArray
from tcdsl.codegen.device import devices
from tcdsl.codegen.device.device import Device, Memory
from tcdsl.codegen.toolchain.nvrtc import find_nvrtc
from tcdsl.grammar.text.errors import TCError


class NoDeviceError(Exception):
    """There is no GPU to run on."""


@dataclass(frozen=True)
class Setting:
    """What sections need to know; sizes are tiny where the device is simulated."""

    device: Device
    is_simulated: bool
    commit: str | None

    @property
    def slug(self) -> str:
        """The device's name, for a file."""
        name = "simulated" if self.is_simulated else self.device.gpu.name
        return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")

    @functools.cached_property
    def torch(self) -> Any:
        """Torch with a GPU, or None."""
        if self.is_simulated:
            return None
        try:
            import torch
        except ImportError:
            return None
        if not torch.cuda.is_available():
            return None
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        return torch

    @functools.cached_property
    def _other(self) -> Memory:
        """What is written to have nothing else in level 2."""
        with self.device.active():
            return self.device.allocate(2 * self.device.gpu.l2_bytes)

    def place(self, name: str, values: Array, role: Any = "in") -> Placed:
        """Return an array in memory of the device between margins, with the strides it has."""
        return Placed(self.device, name, values, role)

    def sampler(self, call: Callable[[], object], *, is_warm: bool = False) -> DeviceSampler:
        """Return a call that starts work on the default stream as what is timed."""
        device = self.device
        with device.active():
            stream = device.stream()
        size_bytes = 0 if is_warm else 2 * device.gpu.l2_bytes
        other = self._other

        def sample(repeats: int) -> tuple[Any, Any]:
            if size_bytes:
                device.fill(other.address, 0, size_bytes, stream)
            begun = device.event(stream)
            for _ in range(repeats):
                call()
            return begun, device.event(stream)

        return DeviceSampler(device, sample, 20_000 if is_warm else 0)


class Placed:
    """An array of the host's in memory of the device.

    view is what kernels are called with.
    """

    def __init__(self, device: Device, name: str, values: Array, role: Any) -> None:
        steps = tuple(s // values.itemsize for s in values.strides)
        operand = Operand(name, values.dtype.name, values.shape, steps, role)
        with device.active():
            stream = device.stream()
            data = None if role == "out" else values
            self._memory = DeviceOperand(device, stream, operand, data, shift=0)
        self._device = device
        self.view = DeviceArray(
            self._memory.address,
            values.shape,
            values.strides,
            values.dtype,
            device.number,
            self._memory,
        )

    def read(self) -> tuple[Array, str | None]:
        """Return what it holds, and what was written that should not have been."""
        with self._device.active():
            self._device.synchronize()
            return self._memory.values(POISON)


POISON = 0xFF  # of outputs before a call


def open_setting(*, simulate: bool, commit: str | None) -> Setting:
    """Return the first GPU, or the simulated one.

    Raises
    ------
    NoDeviceError
        If there is none, or no compiler for it, with what to do.
    """
    try:
        find_nvrtc()
        if simulate:
            from tests.autotune.sim_gpu import SimDevice

            devices.register(SimDevice(0))
        return Setting(devices.device(0), simulate, commit)
    except TCError as error:
        raise NoDeviceError(
            f"{error}\n  python benchmarks/gpu.py --simulate runs without a GPU"
        ) from error


def random_array(*shape: int, dtype: str = "float32") -> Array:
    """Return normal numbers, the same for a shape in every run."""
    return rand(*shape).astype(dtype)
