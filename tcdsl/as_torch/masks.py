"""What is true or false in PyTorch 0.4: bytes."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from tcdsl.as_torch.arithmetic import cast_to_first
from tcdsl.as_torch.scripts import for_scripts, swap_everywhere, swap_operator
from tcdsl.core import Tensor
from tcdsl.core.dtypes import bool_, uint8
from tcdsl.ops import bits
from tcdsl.ops.table import METHODS, PUBLIC
from tcdsl.tensors import subscripts as said

__all__ = ["comparisons", "inversion", "of_bytes", "scalar_words", "subscripts"]

_TWO = ("eq", "ne", "lt", "le", "gt", "ge")


def _compared(op: Callable[..., Any], *, of_two: bool) -> Callable[..., Any]:
    @functools.wraps(op)
    def then(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        operands = [*args, *kwargs.values()]
        if of_two and len(operands) == 2:
            operands = [*cast_to_first(operands, ("other",))]
        made = op(*operands)
        if not isinstance(made, Tensor) or made.dtype is not bool_:
            return made
        made = made.to(uint8)
        return made if out is None else out.copy_(made)

    return then


def comparisons() -> None:
    """Swap the type of what comparisons give."""
    for name in _TWO:
        op = PUBLIC[name]
        swap_everywhere(name, _compared(op, of_two=True))
        setattr(Tensor, f"__{name}__", for_scripts(_compared(op, of_two=True), op))
    for name in ("isnan", "isinf", "isfinite"):
        swap_everywhere(name, _compared(PUBLIC[name], of_two=False))


def _inverted(input: Tensor) -> Tensor:
    """Return 1 - x of bytes."""
    if input.dtype is not uint8:
        raise TypeError("~ (operator.invert) is only implemented on byte tensors")
    made: Tensor = 1 - input
    return made


def inversion() -> None:
    """Swap `~`."""
    swap_operator("__invert__", _inverted, bits.bitwise_not)


def _masked(op: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(op)
    def then(input: Tensor, mask: Tensor, *args: Any, **kwargs: Any) -> Any:
        return op(input, mask.to(bool_) if mask.dtype is uint8 else mask, *args, **kwargs)

    return then


def of_bytes() -> None:
    """Swap the type of masks."""
    for name in ("masked_fill", "masked_select", "masked_scatter"):
        for each in (name, f"{name}_"):
            if each in METHODS:
                swap_everywhere(each, _masked(PUBLIC.get(each, METHODS[each])))


def subscripts() -> None:
    """Swap the warning of subscripts that are masks of bytes."""
    warnings.filterwarnings("ignore", "indexing with dtype torch.uint8 is now deprecated")


def scalar_words() -> None:
    """Swap the words in which `x[0]` of rank 0 is refused."""
    said.OF_RANK_0 = (
        "invalid index of a 0-dim tensor. Use tensor.item() to convert a 0-dim tensor to a Python "
        "number"
    )
