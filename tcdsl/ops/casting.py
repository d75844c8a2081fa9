"""Autocast: in which type calls compute in blocks where operations choose it, per thread.

Three ways, each a decorator of a function or of an op: `lower` (the block's type: products and
convolutions), `wide` (float32: losses, decompositions), `like` (the type of one argument). What is
decorated by none takes its arguments as they are. A call that was cast casts nothing within.

References
----------
PyTorch 2.13, the lists of operations of "Automatic mixed precision" for CPUs.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, cast

from tcdsl.core import Op, Tensor, dtypes, is_grad_enabled, set_casting
from tcdsl.core.dtypes import DType
from tcdsl.ops.arguments import faced

F = TypeVar("F", bound=Callable[..., Any])


class _State(threading.local):
    """What a thread has set: per kind of device whether blocks cast, and to which type."""

    def __init__(self) -> None:
        self.enabled = {"cpu": False, "cuda": False}
        self.dtypes = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}
        self.caches = True
        self.depth = 0
        self.cache: dict[int, tuple[weakref.ref[Tensor], tuple[Any, ...], Tensor]] = {}


state = _State()


def enable(device_type: str, on: bool) -> None:
    """Let operations of this thread choose their types from now on, or not."""
    state.enabled[device_type] = on
    if device_type == "cpu":
        set_casting(on)


def lowered(value: Any) -> Any:
    """Return an argument in the block's type; a trained leaf's copy is kept within blocks."""
    dtype = state.dtypes["cpu"]
    if not _is_cast(value, dtype):
        return value
    if not (
        state.caches
        and state.depth
        and value.requires_grad
        and value.is_leaf
        and value._base is None
        and not value.is_inference()
        and value.dtype is dtypes.float32
    ):
        return value.to(dtype)
    form = (value._version, dtype, is_grad_enabled())  # what was written since is cast again
    known = state.cache.get(id(value))
    if known is not None and known[0]() is value and known[1] == form:
        return known[2]
    made = value.to(dtype)
    state.cache[id(value)] = (weakref.ref(value), form, made)
    return made


def widened(value: Any) -> Any:
    """Return an argument in float32."""
    return value.to(dtypes.float32) if _is_cast(value, dtypes.float32) else value


def _is_cast(value: Any, dtype: DType) -> bool:
    """Whether an argument has another type: floats on the host of at most 32 bits are cast."""
    return (
        isinstance(value, Tensor)
        and value.dtype.is_floating_point
        and value.dtype is not dtypes.float64
        and value.dtype is not dtype
        and not value._device
    )


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(change(v) for v in value)
    return change(value)


def _decorated(function: F, change: Callable[[Any], Any]) -> F:
    made = function if isinstance(function, Op) else faced(function)

    def chosen(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("out") is not None:  # which says the type
            return _uncast(made, args, kwargs)
        named = {k: _each(change, v) for k, v in kwargs.items()}
        return _uncast(made, [_each(change, a) for a in args], named)

    made.cast = chosen
    return cast(F, made)


def _uncast(function: Any, args: Any, kwargs: Any) -> Any:
    before = set_casting(False)
    try:
        return function(*args, **kwargs)
    finally:
        set_casting(before)


def lower(function: F) -> F:
    """Let calls compute in the type of the block."""
    return _decorated(function, lowered)


def wide(function: F) -> F:
    """Let calls compute in float32."""
    return _decorated(function, widened)


def like(at: int) -> Callable[[F], F]:
    """Let calls compute in the type of their argument at a place."""

    def decorated(function: F) -> F:
        def chosen(*args: Any, **kwargs: Any) -> Any:
            dtype = args[at].dtype
            return _uncast(
                function, [a.to(dtype) if _is_cast(a, dtype) else a for a in args], kwargs
            )

        function.cast = chosen  # type: ignore[attr-defined]
        return function

    return decorated
