"""What `torch.accelerator` says of the GPU of this machine, if it has one."""

from __future__ import annotations

from typing import Any

from tcdsl import cuda
from tcdsl.tensors.devices import Device

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "device_count",
    "is_available",
    "set_device_idx",
    "set_device_index",
    "synchronize",
]

is_available = cuda.is_available
device_count = cuda.device_count
current_device_index = current_device_idx = cuda.current_device
set_device_index = set_device_idx = cuda.set_device


def current_accelerator(check_available: bool = False) -> Device | None:
    """Return 'cuda' as a device where there is a GPU, else None."""
    return Device("cuda") if is_available() else None


def synchronize(device: Any = None) -> None:
    """Wait for the work of a GPU."""
    cuda.synchronize(device)
