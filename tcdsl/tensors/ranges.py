"""Tensors of numbers at equal distances: ranges, and powers of them."""

from __future__ import annotations

import math
from typing import Any

from tcdsl.core import Tensor, dtypes
from tcdsl.core.dtypes import DType
from tcdsl.ops import filling
from tcdsl.ops.rules import default_float
from tcdsl.ops.table import publish
from tcdsl.tensors.creation import Place, blank, empty_at, finished

__all__ = ["arange", "linspace", "logspace", "range"]


def arange(
    *bounds: Any,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    **named: Any,
) -> Tensor:
    """Return numbers from start to below end: ``arange(end)``, ``arange(start, end, step=1)``.

    Parameters
    ----------
    start, end, step : number
    dtype : dtype, optional
        By default int64 where all three are integers.
    out, device, requires_grad
        As of `empty`.

    Raises
    ------
    RuntimeError
        If step is 0, or leads away from end.
    """
    start, end, step = _bounds(bounds, named)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if end < start if step > 0 else end > start:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    whole = isinstance(start, int) and isinstance(end, int) and isinstance(step, int)
    count = -(-(end - start) // step) if whole else math.ceil((end - start) / step)
    kind = (dtypes.int64 if whole else default_float()) if dtype is None else dtype
    made = blank((count,), kind, device, out)
    row = made if made.is_contiguous() else empty_at((count,), made.dtype, made._device)
    if whole:
        filling.arange_of_integers(row, start, step)
    else:
        filling.arange(row, float(start), float(step))
    return finished(made if row is made else made.copy_(row), requires_grad, out)


def _bounds(bounds: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return start, end and step of a range, as numbers of Python."""
    is_usual = not named and 0 < len(bounds) <= 3 and {*map(type, bounds)} <= {int, float}
    if is_usual and all(map(math.isfinite, bounds)):
        return (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    words = ("end",) if len(bounds) == 1 and "end" not in named else ("start", "end", "step")
    if len(bounds) > 3 or not {"start", "end", "step"} >= named.keys():
        raise TypeError("arange() takes end, or start, end and step")
    values = {"start": 0, "step": 1, **dict(zip(words, bounds, strict=False)), **named}
    if "end" not in values:
        raise TypeError("arange() takes end, or start, end and step")
    start, end, step = (_number(values[name]) for name in ("start", "end", "step"))
    if not all(math.isfinite(x) for x in (start, end, step)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    return start, end, step


def _number(value: Any) -> Any:
    """Return a number of Python for one of NumPy's, or a tensor of rank 0."""
    return value.item() if hasattr(value, "item") else value


def range(  # the name that programs say
    start: Any, end: Any = None, step: Any = 1, **settings: Any
) -> Tensor:
    """Return numbers from start to end, which is one of them if a step leads there."""
    low, high = (0, start) if end is None else (start, end)
    count = math.floor((high - low) / step) + 1
    settings.setdefault("dtype", default_float())
    return arange(float(low), float(low + count * step) - 0.5 * step, float(step), **settings)


def linspace(
    start: float,
    end: float,
    steps: int = 100,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return numbers at equal distances from start to end, both among them.

    Parameters
    ----------
    start, end : number
    steps : int
        How many.
    out, dtype, device, requires_grad
        As of `empty`.
    """
    return _spaced(filling.linspace, start, end, steps, (), out, dtype, device, requires_grad)


def logspace(
    start: float,
    end: float,
    steps: int = 100,
    base: float = 10.0,
    out: Tensor | None = None,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return powers of base whose exponents are at equal distances from start to end."""
    more = (float(base),)
    return _spaced(filling.logspace, start, end, steps, more, out, dtype, device, requires_grad)


def _spaced(
    op: Any,
    start: Any,
    end: Any,
    steps: int,
    more: tuple[float, ...],
    out: Tensor | None,
    dtype: DType | None,
    device: Place,
    requires_grad: bool,
) -> Tensor:
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    low, high = float(_number(start)), float(_number(end))
    made = blank((steps,), dtype, device, out)
    if not made.dtype.is_floating_point:
        low, high = float(int(low)), float(int(high))  # PyTorch's, which has them of the type
    if steps == 1:
        high = low
    if op is filling.linspace:
        filling.spaced(made, low, high)
    else:
        op(made, low, high, (high - low) / max(steps - 1, 1), *more)
    return finished(made, requires_grad, out)


for _name in __all__:
    publish(globals()[_name], (_name,), on=("torch",))
