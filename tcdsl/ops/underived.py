"""Results that have no gradient though they follow from what has one: their way back raises."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from tcdsl.core import GRAD, Recipe, Tensor, record
from tcdsl.ops.writing import any_recorded


def refuse(name: str, *gradients: Any) -> Any:
    """Say that an operation has no derivative."""
    raise NotImplementedError(f"the derivative for '{name}' is not implemented.")


def underived(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Record new outputs as those of a call whose way back raises, if any input is recorded.

    PyTorch's message is the same. A loss that is but partly of such outputs would else be
    differentiated as if they were constants.
    """
    if any_recorded(inputs):
        needs = sum(x.requires_grad << i for i, x in enumerate(inputs))
        node = "".join(part.title() for part in name.split("_"))
        way = partial(refuse, name)
        record(f"{node}Backward0", _recipe(len(inputs)), way, tuple(inputs), tuple(outputs), needs)


@cache
def _recipe(count: int) -> Recipe:
    return Recipe(refuse, (GRAD,), tuple(range(count)))
