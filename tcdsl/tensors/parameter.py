"""A tensor that a module trains, and one that it keeps."""

from __future__ import annotations

from typing import Any

from tcdsl.core import Tensor, dtypes, empty

__all__ = ["Buffer", "Parameter"]


class Parameter(Tensor):
    """A tensor that a module, to which it is assigned, counts among its parameters.

    Parameters
    ----------
    data : Tensor
        Its memory is shared.
    requires_grad : bool
        Whether backward passes find its gradient.
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        """Make a parameter of a tensor, or an empty one."""
        made: Any = (empty((0,), dtypes.float32) if data is None else data).detach()
        return made._as_subclass(cls, requires_grad)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    __str__ = __repr__


class Buffer(Tensor):
    """A tensor that a module, to which it is assigned, counts among its buffers.

    Parameters
    ----------
    data : Tensor
        Its memory is shared.
    persistent : bool
        Whether `state_dict` has it.
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        """Make a buffer of a tensor, or an empty one."""
        made: Any = (empty((0,), dtypes.float32) if data is None else data).detach()
        buffer: Buffer = made._as_subclass(cls, False)
        buffer.persistent = persistent
        return buffer
