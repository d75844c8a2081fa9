"""GPUs, as PyTorch's `torch.cuda` has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tcdsl import random
from tcdsl.calls.gpu.faults import synchronize as _synchronize
from tcdsl.calls.process.places import found_in
from tcdsl.codegen.device import devices
from tcdsl.codegen.device.cuda import load_cupy
from tcdsl.cuda import amp
from tcdsl.tensors.devices import current_gpu, place_of, set_current_gpu

__all__ = [
    "amp",
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
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


max_memory_allocated, max_memory_reserved = memory_allocated, memory_reserved  # peaks are not kept


def reset_peak_memory_stats(device: Any = None) -> None:
    """Do nothing: peaks are not kept."""


def ipc_collect() -> None:
    """Do nothing: no memory of a GPU is shared with other processes."""


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the bytes of a GPU's memory that are free, and all."""
    cupy = load_cupy()
    with cupy.cuda.Device(_number(device)):
        free, whole = cupy.cuda.runtime.memGetInfo()
    return int(free), int(whole)


def is_initialized() -> bool:
    """Whether GPUs can be asked for anything."""
    return is_available()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether a GPU computes in bfloat16."""
    return is_available() and get_device_capability() >= (8, 0)


def get_device_name(device: Any = None) -> str:
    """Return what a GPU is called."""
    name = load_cupy().cuda.runtime.getDeviceProperties(_number(device))["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def get_arch_list() -> list[str]:
    """Return the kinds of GPUs that kernels are compiled for: those that are there."""
    arch = {devices.device(n).gpu.arch for n in range(device_count())}
    return sorted(arch)


def get_rng_state_all() -> list[Any]:
    """Return the state of the source of numbers, once for each GPU."""
    return [get_rng_state() for _ in range(device_count())]


def set_rng_state_all(new_states: Any) -> None:
    """Set the state of the source of numbers to the last of these."""
    for state in new_states:
        set_rng_state(state)


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

found_in(__name__)
