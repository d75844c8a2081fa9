"""Operators of PyTorch 0.4: one type for all operands, and quotients of integers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tcdsl.as_torch.scripts import swap_everywhere, swap_operator
from tcdsl.core import Tensor
from tcdsl.core.dtypes import DType
from tcdsl.ops import pointwise, powers
from tcdsl.ops.table import METHODS, PUBLIC

__all__ = ["cast_to_first", "division", "floor_division", "functions_of_floats", "promotion"]

# What the operands of an op are called behind the first one.
_PARAMS = {
    "pow": ("exponent",),
    "lerp": ("end", "weight"),
    "addcmul": ("tensor1", "tensor2"),
    "addcdiv": ("tensor1", "tensor2"),
}
_PROMOTING = "add sub mul remainder fmod pow atan2 lerp addcmul addcdiv"
_OPERATORS: dict[str, Any] = {
    "add": pointwise.add,
    "sub": pointwise.sub,
    "mul": pointwise.mul,
    "mod": pointwise.remainder,
    "pow": powers.pow,
}
_div_into = pointwise.div.__dict__["inplace"]
_FLOATS = """
    acos asin atan ceil cos cosh erf erfinv exp expm1 floor log log10 log1p log2 reciprocal round
    rsqrt sigmoid sin sinh sqrt tan tanh trunc
"""


def type_name(dtype: DType) -> str:
    """Return PyTorch's name of tensors of a type, as 'torch.FloatTensor'."""
    from tcdsl.tensors.types import TYPE_NAMES

    return "torch." + next(name for name, known in TYPE_NAMES.items() if known is dtype)


def cast_to_first(operands: Sequence[Any], names: Sequence[str]) -> tuple[Any, ...]:
    """Return operands in the type of the first tensor among them.

    Numbers and tensors of rank 0 behind the first one are cast to it.

    Raises
    ------
    RuntimeError
        If another tensor has another type.
    """
    first = next(o for o in operands if isinstance(o, Tensor))
    made: list[Any] = []
    for at, value in enumerate(operands):
        if value is first or not isinstance(value, Tensor | int | float):
            made.append(value)
        elif isinstance(value, Tensor):
            if value.dtype is not first.dtype and value.ndim:
                name = names[min(at, len(names)) - 1]
                raise RuntimeError(
                    f"Expected object of type {type_name(first.dtype)} but found type "
                    f"{type_name(value.dtype)} for argument #{at + 1} '{name}'"
                )
            made.append(value.to(first.dtype))
        else:
            made.append(float(value) if first.dtype.is_floating_point else int(value))
    return tuple(made)


def _of_one_type(name: str, op: Callable[..., Any]) -> Callable[..., Any]:
    """Return an op that takes operands of one type."""
    names = _PARAMS.get(name.rstrip("_"), ("other",))

    @functools.wraps(op)
    def then(*args: Any, **kwargs: Any) -> Any:
        operands = [*args, *(kwargs.pop(n) for n in names if n in kwargs)]
        if not any(isinstance(o, Tensor) for o in operands):
            return op(*args, **kwargs)
        for scale in ("alpha", "value"):
            first = next(o for o in operands if isinstance(o, Tensor))
            if scale in kwargs and not first.dtype.is_floating_point:
                kwargs[scale] = int(kwargs[scale])
        return op(*cast_to_first(operands, names), **kwargs)

    return then


def promotion() -> None:
    """Swap what is done with operands of several types."""
    for name in _PROMOTING.split():
        for each in (name, f"{name}_"):
            op = PUBLIC.get(each, METHODS.get(each))
            if op is not None:
                swap_everywhere(each, _of_one_type(each, op))
    for name, op in _OPERATORS.items():
        swap_operator(f"__{name}__", _of_one_type(name, op), op)
        into = op.__dict__["inplace"] if name != "pow" else powers.pow_
        swap_operator(f"__i{name}__", _of_one_type(name, into), into)


def _divided(input: Any, other: Any, **named: Any) -> Any:
    """Divide; integers towards 0."""
    return _quotient(pointwise.div, input, other, **named)


def _divided_into(input: Any, other: Any) -> Any:
    """Divide in place; integers towards 0."""
    return _quotient(_div_into, input, other)


def _quotient(op: Callable[..., Any], input: Any, other: Any, **named: Any) -> Any:
    if not isinstance(input, Tensor):  # as 0.4: the reciprocal, times the number
        if not other.dtype.is_floating_point:
            raise RuntimeError(f"reciprocal is not implemented for type {type_name(other.dtype)}")
        return op(input, other, **named)
    input, other = cast_to_first((input, other), ("other",))
    if input.dtype.is_floating_point:
        return op(input, other, **named)
    quotient = pointwise.div(input, other, rounding_mode="trunc")
    if op is not pointwise.div:
        return input.copy_(quotient)
    out = named.get("out")
    return quotient if out is None else out.copy_(quotient)


def division() -> None:
    """Swap quotients of integers; what `promotion` swaps of other operators is swapped with it."""
    swap_everywhere("div", _divided)
    swap_everywhere("div_", _divided_into)
    swap_operator("__truediv__", _divided, pointwise.div)
    swap_operator("__itruediv__", _divided_into, _div_into)


def _whole(input: Any, other: Any) -> Any:
    """Divide and round towards 0."""
    quotient = _divided(input, other)
    return quotient.trunc() if quotient.dtype.is_floating_point else quotient


def floor_division() -> None:
    """Swap `//`."""
    swap_operator("__floordiv__", _whole, pointwise.floor_divide)
    swap_everywhere("floor_divide", _whole)


def _of_floats(name: str, op: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(op)
    def then(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else kwargs.get("input")
        if isinstance(given, Tensor) and not given.dtype.is_floating_point:
            raise RuntimeError(
                f"{name.rstrip('_')} is not implemented for type {type_name(given.dtype)}"
            )
        return op(*args, **kwargs)

    return then


def functions_of_floats() -> None:
    """Swap functions that take integers today."""
    for name in _FLOATS.split():
        for each in (name, f"{name}_"):
            swap_everywhere(each, _of_floats(each, PUBLIC.get(each) or METHODS[each]))
