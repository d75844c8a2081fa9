"""Kernels that users define, called with Tensors: they take and give them, and are recorded.

``k = tcdsl.define(text)`` is called with Tensors as with NumPy's arrays. Where one of them requires
grad, the call is that of an op of the same text, with the gradient that the compiler derives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tcdsl.calls.operands.foreign import OwnTensors, use_own
from tcdsl.core import Op, Tensor, from_numpy, is_grad_enabled, written
from tcdsl.core.dtypes import DType
from tcdsl.ops.forms import Forms
from tcdsl.ops.meaning import Meaning, anything
from tcdsl.plain.kernel import PlainKernel


def op_of_kernel(kernel: PlainKernel) -> Op:
    """Return the op of a kernel, the same for the same kernel."""

    def made() -> Op:
        backward = getattr(kernel, "_backward", "")  # a plain kernel has none
        meaning = Meaning(types=anything, backward=backward, is_tunable=True)
        return Forms(kernel.name, kernel.session, kernel.definition, meaning).op

    return kernel.once("op of tensors", made)


def _recorded(kernel: PlainKernel, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
    """Make a call of a kernel on Tensors of which one requires grad or lies on a GPU."""
    op = op_of_kernel(kernel)
    named = {k: v for k, v in keywords.items() if k != "outputs"}
    if "outputs" in keywords:
        named["out"] = keywords["outputs"]
    types = {k: _plain(v) for k, v in named.items()}
    if kernel.recorded is None and not kernel.definition.generics:
        kernel.recorded = op  # from now on the launcher calls it
    return op(*args, **types)


def _plain(value: Any) -> Any:
    return value.name if isinstance(value, DType) else value


def _is_tracked(tensor: Tensor) -> bool:
    return tensor._device > 0 or (is_grad_enabled() and tensor.requires_grad)


use_own(OwnTensors(Tensor, Tensor._array, from_numpy, written, _is_tracked, _recorded))
