"""Arguments of calls inside transforms: what is known of them, and numbers among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor

from tcdsl.calls.arguments import Arguments
from tcdsl.calls.operands.abstract import abstract_of
from tcdsl.calls.operands.arguments import check_integer
from tcdsl.forms import AbstractArray
from tcdsl.grammar.text.nodes import Def, Param
from tcdsl.grammar.types.dtypes import BY_NAME, DType
from tcdsl.text.names import generic_values
from tcdsl.torch.dtypes import language_type, torch_type

if TYPE_CHECKING:
    from tcdsl.kernel import Kernel

Tensor = torch.Tensor


def form(value: Any, param: Param, generics: Mapping[str, Any]) -> AbstractArray:
    """Return what the meaning of a call depends on: an argument's type and shape; an integer."""
    found = abstract_of(value, param, generics)
    is_number = isinstance(value, Tensor) and not value.ndim and not value.is_floating_point()
    return replace(found, value=_number(value)) if is_number else found


def numbers_of_elements(of: Kernel, forms: Sequence[AbstractArray]) -> list[str]:
    """Return the integers of a call inside vmap of which each element of a batch has its own.

    Raises
    ------
    TCTypeError
        If ranges depend on one of them.
    """
    found = [
        name
        for name, form in zip(of.params, forms, strict=True)
        if form.value is None and not form.shape and not form.dtype.is_float
    ]
    if found:
        of.batched(dict.fromkeys(found, 0))
    return found


def known_number(value: Any) -> Any:
    """Return the integer in a tensor of rank 0, on which the turns of a loop may depend."""
    is_one = type(value) is Tensor and not value.ndim and not value.dtype.is_floating_point
    if not is_one or value.is_meta or is_functorch_wrapped_tensor(value):
        return value
    return int(value)


def _number(value: Tensor) -> int | None:
    """Return the value of a tensor of rank 0, whatever wraps it; None for a batch of them."""
    plain = _unwrapped(value)
    return None if plain.ndim else int(plain)


def _unwrapped(value: Tensor) -> Tensor:
    """Return what transforms have wrapped; batches are dimensions of it."""
    while is_functorch_wrapped_tensor(value):
        value = get_unwrapped(value)
    return value


def _is_number(param: Param) -> bool:
    return param.type is not None and not param.type.dims


def with_float_numbers(definition: Def, given: Arguments) -> list[Any]:
    """Return arguments with tensors for float parameters of rank 0 in the type of these.

    A call converts numbers; here torch does, so that derivatives come back in the type given. A
    type variable is what the arrays make it.
    """
    params, values = definition.params, given.values
    names = [p.type.name if p.type is not None else "" for p in params]
    types: dict[str, object] = {**BY_NAME, **generic_values(definition, given.generics)}
    for value, name, param in zip(values, names, params, strict=True):
        if isinstance(value, Tensor) and not _is_number(param):
            types.setdefault(name, language_type(value.dtype))
    return [
        v.to(torch_type(t))
        if isinstance(v, Tensor)
        and _is_number(p)
        and isinstance(t := types.get(n), DType)
        and t.is_float
        else v
        for v, n, p in zip(values, names, params, strict=True)
    ]


def batch(value: Tensor, param: Param) -> Tensor:
    """Return a batch of arguments; of numbers in the declared type, to which a call converts one.

    Raises
    ------
    NumberError
        If an integer is none of that type.
    """
    declared = BY_NAME.get(param.type.name) if param.type is not None else None
    if not _is_number(param) or declared is None or value.is_floating_point():
        return value
    dtype = torch_type(declared)
    if declared.is_integer and value.dtype not in (dtype, torch.bool):
        low, high = declared.limits
        held = torch.iinfo(value.dtype)
        plain = _unwrapped(value)
        if (held.min < low or held.max > high) and plain.numel():
            for number in (plain.min(), plain.max()):
                check_integer(int(number), param.name, declared)
    return value.to(dtype)
