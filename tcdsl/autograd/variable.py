"""`Variable`, by which programs of before PyTorch 0.4 say that gradients are recorded."""

from __future__ import annotations

import warnings
from typing import Any

from tcdsl.core import Tensor

__all__ = ["Variable"]


class _Kind(type):
    """The class of `Variable`: every tensor is an instance of it."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)

    def __call__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Tensor:
        """Return a tensor over the memory of another.

        Parameters
        ----------
        data : Tensor
            Whose memory is shared.
        requires_grad : bool
        volatile : bool
            Without effect; `no_grad` is what it was for.
        """
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        if volatile:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                UserWarning,
                stacklevel=2,
            )
        made = data.detach()
        return made.requires_grad_() if requires_grad else made


class Variable(metaclass=_Kind):
    """A tensor; ``Variable(x, requires_grad=True)`` records what is computed of it."""


def _volatile(self: Tensor) -> bool:
    warnings.warn(
        "volatile was removed (Variable.volatile is always False)", UserWarning, stacklevel=2
    )
    return False


Tensor.volatile = property(_volatile)  # type: ignore[attr-defined]
