"""GPUs, as PyTorch's `torch.cuda` has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tcdsl import random
from tcdsl.calls.gpu.faults import synchronize as _synchronize
from tcdsl.codegen.device import devices
from tcdsl.codegen.device.cuda import load_cupy
from tcdsl.tensors.devices import current_gpu, place_of, set_current_gpu

__all__ = [
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_rng_state",
    "initial_seed",
    "is_available",
    "manual_seed",
    "manual_seed_all",
    "memory_allocated",
    "memory_reserved",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "synchronize",
]


def device_count() -> int:
    """Return how many GPUs there are."""
    return devices.count()


def is_available() -> bool:
    """Whether tensors can lie in the memory of a GPU."""
    return device_count() > 0


def current_device() -> int:
    """Return the number of the GPU that 'cuda' means in this thread."""
    return current_gpu()


def set_device(device: Any) -> None:
    """Let 'cuda' without a number mean this GPU in this thread; a negative number is ignored."""
    if not isinstance(device, int) or device >= 0:
        set_current_gpu(_number(device))


@contextmanager
def device(device: Any) -> Iterator[None]:
    """Let 'cuda' without a number mean this GPU in the body; a negative number changes nothing."""
    before = current_gpu()
    set_device(device)
    try:
        yield
    finally:
        set_current_gpu(before)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return what CUDA calls the compute capability: (9, 0) for sm_90."""
    digits = devices.device(_number(device)).gpu.arch.removeprefix("sm_")
    return int(digits[:-1]), int(digits[-1])


def empty_cache() -> None:
    """Give memory that nothing lies in back to the system."""
    if is_available():
        _pool(None).free_all_blocks()


def memory_allocated(device: Any = None) -> int:
    """Return the bytes of a GPU's memory that something lies in; 0 without a GPU."""
    return int(_pool(device).used_bytes()) if is_available() else 0


def memory_reserved(device: Any = None) -> int:
    """Return the bytes of a GPU's memory that this process holds; 0 without a GPU."""
    return int(_pool(device).total_bytes()) if is_available() else 0


def _pool(device: Any) -> Any:
    cupy = load_cupy()
    with cupy.cuda.Device(_number(device)):
        return cupy.get_default_memory_pool()


def synchronize(device: Any = None) -> None:
    """Wait until a GPU has done all it was given; raise what its kernels found wrong."""
    _number(device)
    _synchronize()


def _number(device: Any) -> int:
    return current_gpu() if device is None else place_of(device) - 1


# Numbers for GPUs come from the one source that those for the host come from.
manual_seed = manual_seed_all = random.manual_seed
seed = seed_all = random.seed
initial_seed, get_rng_state, set_rng_state = (
    random.initial_seed,
    random.get_rng_state,
    random.set_rng_state,
)
