"""Elements brought between bounds: numbers, or tensors that broadcast."""

from __future__ import annotations

from typing import Any

from tcdsl.core import Op, Tensor, made_by
from tcdsl.ops.internal import to
from tcdsl.ops.rules import broadcast, broadcast_shape, promote
from tcdsl.ops.table import Family, publish
from tcdsl.ops.writing import any_recorded

ops = Family(__file__)


def _between_numbers(writes: bool) -> dict[str, Op]:
    """Return the ops that clamp by numbers, by the bounds that they have."""
    return {
        bounds: ops.op(f"clamp_{bounds}", types=promote, vjp=f"clamp_{bounds}_vjp", writes=writes)
        for bounds in ("to", "min", "max")
    }


def _between_tensors(writes: bool) -> dict[str, Op]:
    """Return the ops that clamp by tensors, or by a tensor and a number."""

    def op(text: str) -> Op:
        return ops.op(text, types=promote, shape=broadcast, vjp=f"{text}_vjp", writes=writes)

    return {"to": op("clamp_between"), "min": op("clamp_above"), "max": op("clamp_below")}


_by_numbers, _by_numbers_ = _between_numbers(writes=False), _between_numbers(writes=True)
_by_tensors, _by_tensors_ = _between_tensors(writes=False), _between_tensors(writes=True)


def _clamped(ops: dict[str, Op], input: Tensor, low: Any, high: Any, **out: Any) -> Tensor:
    """Call the op that has the given bounds."""
    if low is None and high is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if high is None:
        made: Tensor = ops["min"](input, low, **out)
    elif low is None:
        made = ops["max"](input, high, **out)
    else:
        made = ops["to"](input, low, high, **out)
    return made


def _spread_if_recorded(*values: Any) -> tuple[Any, ...]:
    """Return operands in the shape of the result where gradients are, which then go back to theirs.

    The gradient that stands beside the text gives each of them in the shape of the result.
    """
    shapes = [*dict.fromkeys(tuple(v.shape) for v in values if isinstance(v, Tensor))]
    if len(shapes) == 1 or not any_recorded(values):
        return values
    shape, dtype = broadcast_shape(shapes), promote([v for v in values if v is not None])
    # of the result's type before: what had no dimensions would tell of it else
    return tuple([to(v, dtype).expand(shape) if isinstance(v, Tensor) else v for v in values])


def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: Any = None) -> Tensor:
    """Bring elements between two bounds: numbers, or tensors that broadcast.

    Parameters
    ----------
    input : Tensor, any shape
    min, max : number or Tensor, optional
        One of them at least. Where ``max`` is below ``min``, it wins. A tensor has a gradient where
        it is the result and differs from the input.

    Raises
    ------
    RuntimeError
        Without a bound.
    """
    given = {} if out is None else {"out": out}
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        whole = _spread_if_recorded(input, min, max)
        return made_by(_clamped(_by_tensors, *whole, **given), "ClampBackward0")
    found = _clamped(_by_numbers, input, min, max, **given)
    return found if min is not None and max is not None else made_by(found, "ClampBackward1")


def clamp_(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Bring elements between two bounds, in place."""
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        _, low, high = _spread_if_recorded(input, min, max)
        return _clamped(_by_tensors_, input, low, high)
    return _clamped(_by_numbers_, input, min, max)


publish(clamp, ("clamp", "clip"))
publish(clamp_, ("clamp_", "clip_"))
