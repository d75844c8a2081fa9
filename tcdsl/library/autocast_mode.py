"""Blocks in which operations choose their types, and what a thread has set for them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

from tcdsl.core import dtypes
from tcdsl.core.dtypes import DType
from tcdsl.ops.casting import enable, state

__all__ = [
    "autocast",
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "clear_autocast_cache",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_gpu_dtype",
]
_HALVES = (dtypes.bfloat16, dtypes.float16)


def _known(device_type: str) -> str:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if device_type not in state.enabled:
        raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
    return device_type


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether operations on this kind of device choose their types, in this thread."""
    return state.enabled[_known(device_type)]


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Let operations of this thread choose their types, or not, until it is said again.

    Raises
    ------
    NotImplementedError
        For "cuda", where a GPU is there.
    """
    if enabled is None:
        device_type, enabled = "cuda", device_type
    if enabled and _known(device_type) == "cuda":
        _refuse_gpu()
    enable(_known(device_type), bool(enabled))


def get_autocast_dtype(device_type: str) -> DType:
    """Return the type that products are lowered to on this kind of device, in this thread."""
    return state.dtypes[_known(device_type)]


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Let products be lowered to this type, in blocks that say none."""
    state.dtypes[_known(device_type)] = dtype


def is_autocast_cpu_enabled() -> bool:
    """Whether operations on the CPU choose their types, in this thread."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Let operations on the CPU choose their types, or not."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> DType:
    """Return the type that products on the CPU are lowered to."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """Let products on the CPU be lowered to this type."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> DType:
    """Return the type that products on a GPU are lowered to."""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: DType) -> None:
    """Let products on a GPU be lowered to this type."""
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether lowered copies of trained leaves are kept within blocks."""
    return state.caches


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Let lowered copies of trained leaves be kept within blocks, or not."""
    state.caches = bool(enabled)


def clear_autocast_cache() -> None:
    """Forget the lowered copies."""
    state.cache.clear()


def autocast_increment_nesting() -> int:
    """Enter a block; return how many there are around this point."""
    state.depth += 1
    return state.depth


def autocast_decrement_nesting() -> int:
    """Leave a block; return how many there still are."""
    state.depth -= 1
    return state.depth


class autocast:  # noqa: N801  (the name of PyTorch)
    """A block, or a function's calls, in which operations choose the type that they compute in.

    Products, convolutions and attention compute in `dtype`, losses and decompositions in float32,
    all else in the type of its arguments. What is float64 stays.

    Parameters
    ----------
    device_type : {"cpu", "cuda"}
        For "cuda" without a GPU it warns and changes nothing, as PyTorch does.
    dtype : DType, optional
        bfloat16 or float16; by default what `set_autocast_dtype` has set, at first bfloat16.
    enabled : bool
        False ends, within the block, what a block around it began.
    cache_enabled : bool, optional
        Whether the lowered copy of a leaf that requires grad is kept until the outermost block
        ends. A leaf that was written since is lowered again.

    Raises
    ------
    NotImplementedError
        If it is enabled for a GPU that is there.

    Examples
    --------
    >>> import tcdsl
    >>> x = tcdsl.ones(2, 2)
    >>> with autocast("cpu", dtype=tcdsl.bfloat16):
    ...     (x @ x).dtype
    torch.bfloat16
    """

    def __init__(
        self,
        device_type: str,
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        self.device = _known(device_type)
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        if enabled and device_type == "cuda":
            _refuse_gpu()
            warnings.warn(
                "CUDA is not available or torch_xla is imported. Disabling autocast.",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        elif enabled and self.fast_dtype not in _HALVES:
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"CPU Autocast only supports dtypes of {', '.join(map(str, _HALVES))} currently.",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._caches = cache_enabled
        self._before: list[tuple[bool, DType, bool]] = []

    def __enter__(self) -> autocast:
        """Begin the block."""
        at = self.device
        self._before.append((state.enabled[at], state.dtypes[at], state.caches))
        state.dtypes[at] = self.fast_dtype
        if self._caches is not None:
            state.caches = self._caches
        autocast_increment_nesting()
        enable(at, self._enabled)
        return self

    def __exit__(self, *exception: object) -> None:
        """Let all be as it was."""
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        on, state.dtypes[self.device], state.caches = self._before.pop()
        enable(self.device, on)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose calls are such blocks."""
        if not callable(function):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(function).__name__}. Did you "
                "mean to use autocast as a context manager? For example:\n"
                "    with torch.autocast(device_type=...):\n        output = model(input)"
            )

        @wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return within


def _refuse_gpu() -> None:
    from tcdsl.codegen.device import devices  # late: looking for GPUs takes time

    if devices.count() > 0:
        raise NotImplementedError(
            "autocast: operations on a GPU do not choose their types here. Say "
            "autocast('cuda', enabled=False) and make the model and its inputs of one type, by "
            "model.to(torch.bfloat16)"
        )
