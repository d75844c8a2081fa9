"""Functions with a way back of their own, under autocast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

from tcdsl.core import Tensor, dtypes
from tcdsl.core.dtypes import DType
from tcdsl.library.autocast_mode import autocast, get_autocast_dtype, is_autocast_enabled

__all__ = ["custom_bwd", "custom_fwd", "is_autocast_available"]


def is_autocast_available(device_type: str) -> bool:
    """Whether there are blocks of this kind of device in which operations choose their types."""
    return device_type in ("cpu", "cuda")


def _cast(value: Any, device_type: str, dtype: DType) -> Any:
    """Return what was given with its tensors of floats of up to 32 bits in a type."""
    if isinstance(value, Tensor):
        is_cast = (
            value.is_floating_point()
            and value.device.type == device_type
            and value.dtype is not dtypes.float64
        )
        return value.to(dtype) if is_cast else value
    if isinstance(value, Mapping):
        return {k: _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_cast(v, device_type, dtype) for v in value)
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: DType | None = None
) -> Callable[..., Any]:
    """Let a Function's `forward` know whether it is called under autocast.

    Parameters
    ----------
    fwd : callable (ctx, *args), optional
        Without it a decorator is returned.
    device_type : str
    cast_inputs : DType, optional
        Under autocast: the type in which it gets its floats; autocast is off within. None: autocast
        goes on within.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    function = fwd

    @wraps(function)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._dtype = get_autocast_dtype(device_type)
        is_on = is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = is_on and cast_inputs is None
        if not is_on or cast_inputs is None:
            return function(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return function(
                ctx,
                *_cast(args, device_type, cast_inputs),
                **_cast(kwargs, device_type, cast_inputs),
            )

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Let a Function's `backward` run under the autocast that its `forward` ran under.

    Parameters
    ----------
    bwd : callable (ctx, *gradients), optional
        Without it a decorator is returned.
    device_type : str
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return partial(custom_bwd, device_type=device_type)
    function = bwd

    @wraps(function)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, dtype=ctx._dtype, enabled=ctx._fwd_used_autocast):
            return function(ctx, *args, **kwargs)

    return backward
