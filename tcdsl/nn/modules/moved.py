"""Parameters and buffers of a model given another type or another place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from tcdsl.core import Tensor
from tcdsl.core.dtypes import dtype_meant
from tcdsl.nn.modules.walked import Walked
from tcdsl.tensors.types import destination

__all__ = ["Moved"]


class Moved(Walked):
    """What gives all tensors of a module, and of those below it, a type or a place."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Put what a function makes of them in place of all parameters, gradients and buffers."""
        for child in self.children() if recurse else ():
            child._apply(fn)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            parameter.data = fn(parameter.data)  # stays the object that optimizers hold
            if parameter.grad is not None:
                parameter.grad.data = fn(parameter.grad.data)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters and buffers to a device, a floating type, or where another tensor is.

        `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`; integers keep their type.
        With `memory_format` parameters and buffers of 4 or 5 dimensions lie in that order.
        """
        memory_format = kwargs.pop("memory_format", None)
        device, dtype = destination(args, kwargs)
        dtype = None if dtype is None else dtype_meant(dtype)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )

        def move(t: Tensor) -> Tensor:
            kind = dtype if dtype is not None and t.is_floating_point() else None
            laid = memory_format if t.ndim in (4, 5) else None
            moved: Tensor = t.to(device or t.device, kind or t.dtype, memory_format=laid)
            return moved

        return self._apply(move)

    def type(self, dst_type: Any) -> Self:
        """Give all parameters and buffers a type."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Self:
        """Make floating parameters and buffers float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Self:
        """Make floating parameters and buffers float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Self:
        """Make floating parameters and buffers float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Self:
        """Make floating parameters and buffers bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def cpu(self) -> Self:
        """Move parameters and buffers to the host's memory."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Move parameters and buffers to a GPU's memory."""
        return self._apply(lambda t: t.cuda(device))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move parameters and buffers without their contents, which are undefined then."""
        return self._apply(lambda t: _blank(t, device), recurse)

    def share_memory(self) -> Self:
        """Let parameters and buffers lie where processes that are started later can share them."""
        return self._apply(lambda t: t.share_memory_())


def _blank(value: Tensor, device: Any) -> Tensor:
    """Return a tensor of undefined contents in the shape and type of another."""
    from tcdsl import library  # late: modules are made, and go through, without the library

    made: Tensor = library.empty_like(value, device=device)
    return made
