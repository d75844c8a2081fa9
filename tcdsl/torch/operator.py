"""Calls under torch.compile, torch.export, fake tensors and dispatch modes: by an operator."""

from __future__ import annotations

from typing import Any

import torch

from tcdsl import kernel
from tcdsl.calls.arguments import Arguments
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.types.dtypes import DType
from tcdsl.text.names import generic_values
from tcdsl.torch import adjoint, counted, fake  # noqa: F401 - they make the operators whole
from tcdsl.torch.library import spelling_of


def call(of: kernel.Kernel, given: Arguments) -> Any:
    """Call a kernel such that torch.compile, torch.export and dispatch modes see it."""
    values = generic_values(of.definition, given.generics)
    generics = " ".join(f"{n}={v.name if isinstance(v, DType) else v}" for n, v in values.items())
    kinds = ""
    tensors: list[torch.Tensor] = []
    integers: list[Any] = []
    floats: list[Any] = []
    for value, name in zip(given.values, of.params, strict=True):
        kind, plain = _plain(value, name)
        kinds += kind
        (tensors if kind == "t" else floats if kind == "f" else integers).append(plain)
    numbers = (kinds, integers or None, floats or None) if len(tensors) < len(kinds) else ()
    spelling = spelling_of(of)
    if given.outputs is None:
        results = torch.ops.tcdsl.call.default(*spelling, generics, tensors, *numbers)
        return results[0] if len(results) == 1 else of.result(tuple(results))
    outputs = [*given.outputs]
    torch.ops.tcdsl.call_out.default(*spelling, generics, tensors, outputs, *numbers)
    return outputs[0] if len(outputs) == 1 else of.result(tuple(outputs))


def _plain(value: Any, name: str) -> tuple[str, Any]:
    """Return an argument as the operators take it, and its kind there."""
    if isinstance(value, torch.Tensor):
        return "t", value
    if getattr(value, "ndim", None) == 0:  # a number of NumPy's
        value = value.item()
    if isinstance(value, float | torch.SymFloat):
        return "f", value
    if isinstance(value, bool | torch.SymInt):
        return "i", value
    if isinstance(value, int):
        return ("u", value - 2**64) if 2**63 <= value < 2**64 else ("i", value)
    raise TCTypeError(
        f"expected a tensor or a number for '{name}', got {type(value).__name__}\n"
        "  where torch.compile, torch.export or a mode sees the call, arrays are tensors"
    )
