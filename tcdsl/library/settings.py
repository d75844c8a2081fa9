"""Settings that programs for PyTorch make, and what they mean here."""

from __future__ import annotations

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
