"""Settings that programs for PyTorch make, and what they mean here."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

__all__ = [
    "are_deterministic_algorithms_enabled",
    "compile",
    "get_float32_matmul_precision",
    "set_float32_matmul_precision",
    "use_deterministic_algorithms",
]

_precision = "highest"
_deterministic = False


def compile(model: Any = None, **settings: Any) -> Any:
    """Return a model or function as it is: its operations are compiled kernels already.

    Without a model a decorator is returned. What is to be one kernel is written as one: `nn.TC`.
    """
    if model is None:
        return lambda function: function
    if not callable(model):
        raise RuntimeError(f"torch.compile() expects a callable, got {type(model).__name__}")
    return model


def set_float32_matmul_precision(precision: str) -> None:
    """Take "highest", "high" or "medium"; products of float32 are of float32 whatever it is."""
    global _precision
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current setting is "
            f"'{_precision}'"
        )
    _precision = precision


def get_float32_matmul_precision() -> str:
    """Return what `set_float32_matmul_precision` has set."""
    return _precision


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Take what every call here is: the same inputs give the same bits."""
    global _deterministic
    _deterministic = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    """Return what `use_deterministic_algorithms` has set."""
    return _deterministic


class autocast:  # noqa: N801  (the name of PyTorch)
    """A block in which PyTorch computes in halves: here a block that changes nothing, or a refusal.

    Parameters
    ----------
    device_type : str
        For "cuda" without a GPU it warns and changes nothing, as PyTorch does.
    dtype : DType, optional
    enabled : bool
    cache_enabled : bool, optional

    Raises
    ------
    NotImplementedError
        If it is enabled for a device that is there.
    """

    def __init__(
        self,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if device_type not in ("cpu", "cuda"):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        if enabled and device_type == "cuda" and not _has_gpu():
            warnings.warn(
                "User provided device_type of 'cuda', but CUDA is not available. Disabling",
                UserWarning,
                stacklevel=2,
            )
        elif enabled:
            raise NotImplementedError(
                "autocast: operations do not choose their types here. Say autocast(enabled=False) "
                "and make the model and its inputs of one type, by model.to(torch.bfloat16)"
            )

    def __enter__(self) -> None:
        """Change nothing."""

    def __exit__(self, *exception: object) -> None:
        """Change nothing."""

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function."""
        return function


def _has_gpu() -> bool:
    from tcdsl.codegen.device import devices  # late: looking for GPUs takes time

    return devices.count() > 0
