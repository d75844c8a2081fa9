"""What the operators give for tensors without elements: shapes, types and strides."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch

from tcdsl.calls.operands.abstract import abstract_of
from tcdsl.forms import AbstractArray
from tcdsl.grammar.text.errors import ShapeError, TCTypeError
from tcdsl.grammar.text.nodes import Param
from tcdsl.grammar.types.dtypes import BOOL, FLOAT64, INT64
from tcdsl.kernel import Kernel
from tcdsl.torch.library import LIBRARY, Callee, given, given_out

Shape = tuple[Any, ...]  # of ints and SymInts


def _call(*args: Any) -> list[torch.Tensor]:
    callee, tensors, integers, floats = given(*args)
    kernel, values = callee.kernel, callee.values(tensors, integers, floats)
    found = results_of(callee, values)
    device = _device(kernel, [*zip(kernel.params, values, strict=True)])
    return [torch.empty(s, dtype=d, device=device) for s, d in found]


def _call_out(*args: Any) -> None:
    (callee, tensors, integers, floats), outputs = given_out(*args)
    kernel, values = callee.kernel, callee.values(tensors, integers, floats)
    name = kernel.name
    found = results_of(callee, values)
    if len(outputs) != len(kernel.returns):
        raise TCTypeError(f"{name} has {len(kernel.returns)} returns, got {len(outputs)} outputs")
    named = *zip(kernel.params, values, strict=True), *zip(kernel.returns, outputs, strict=True)
    _device(kernel, named)
    for of, out, (shape, dtype) in zip(kernel.returns, outputs, found, strict=True):
        if out.dtype != dtype:
            raise TCTypeError(f"{name}: expected out '{of}' of type {dtype}, got {out.dtype}")
        if tuple(out.shape) != shape:
            raise ShapeError(f"{name}: expected out '{of}' of shape {shape}, got {(*out.shape,)}")


for operator, function in (("call", _call), ("call_out", _call_out)):
    torch.library.register_fake(f"tcdsl::{operator}", function, lib=LIBRARY)


def results_of(callee: Callee, values: Sequence[Any]) -> list[tuple[Shape, torch.dtype]]:
    """Return shapes and types of the results; extents may be expressions of symbols.

    Raises
    ------
    TCError
        As the call would; also where a check or an extent asks for a size or a number that only
        the elements of a tensor will tell.
    """
    kernel = callee.kernel
    forms = forms_of(kernel, values)
    asked = f"{kernel.name}({', '.join(kernel.params)})"
    try:
        found = kernel.infer(forms, callee.named, least=torch.sym_min, most=torch.sym_max)
    except _unknown() as unknown:
        raise ShapeError(
            f"{asked}: a size comes from data, and the call asks what nobody knows before: is "
            f"{unknown.cond}?\n"
            "  say it before the call: torch._check(x.shape[0] == y.shape[0]) of extents that the "
            "text has equal,\n  torch._check(x.shape[0] != 1) of each that '...' stands for"
        ) from unknown
    return [(form.shape, getattr(torch, form.dtype.name)) for form in found]


def _unknown() -> Any:
    """Return what PyTorch raises where only data tells; nothing before it has loaded symbols.

    They take longer to import than all of ours.
    """
    symbols = sys.modules.get("torch.fx.experimental.symbolic_shapes")
    return () if symbols is None else symbols.GuardOnDataDependentSymNode


def forms_of(kernel: Kernel, values: Sequence[Any]) -> list[AbstractArray]:
    """Return the forms of the arguments of an operator, whose extents may be symbols.

    Raises
    ------
    TCTypeError
        If one is of no type that the language has.
    """
    params = kernel.definition.params
    return [_form_of(v, p) for v, p in zip(values, params, strict=True)]


def _form_of(value: Any, param: Param) -> AbstractArray:
    match value:
        case torch.SymBool():
            return AbstractArray((), BOOL, value)
        case torch.SymInt():
            return AbstractArray((), INT64, value)
        case torch.SymFloat():
            return AbstractArray((), FLOAT64)
    return abstract_of(value, param, {})


def _device(kernel: Kernel, named: Sequence[tuple[str, Any]]) -> torch.device:
    """Return where the results lie: where the arrays do, which numbers in tensors follow.

    Raises
    ------
    TCTypeError
        If arrays lie in two places, or what is not there is to make what is.
    """
    tensors = [(n, v) for n, v in named if isinstance(v, torch.Tensor)]
    if not tensors:
        return torch.device("cpu")
    name, first = next(((n, t) for n, t in tensors if t.ndim), tensors[0])
    for other, t in tensors:
        if t.device != first.device and (t.ndim or _is_meta(t)):
            cure = f"move one of them: {other}.to({str(first.device)!r})"
            if _is_meta(t, first):
                empty = other if _is_meta(t) else name
                cure = f"give {empty} values: a meta tensor has none"
            raise TCTypeError(
                f"{kernel.name}: expected all arguments on one device, "
                f"got {name} on {first.device} and {other} on {t.device}\n  {cure}"
            )
    return first.device


def _is_meta(*tensors: torch.Tensor) -> bool:
    return any(t.device.type == "meta" for t in tensors)
