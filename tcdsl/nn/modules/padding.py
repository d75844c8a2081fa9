"""Layers that put elements around the last dimensions."""

from __future__ import annotations

from tcdsl.core import Tensor
from tcdsl.nn import functional
from tcdsl.nn.modules.module import Module
from tcdsl.ops.arguments import several

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    """Elements before and behind the last dimensions.

    Parameters
    ----------
    padding : int or tuple
        How many: before and behind the last dimension, then the one before it. Constants may be
        before and behind fewer dimensions, or more.
    """

    dims = 0
    mode = "constant"
    value: float = 0

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        count = 2 * self.dims
        self.padding = several(padding, count)
        if self.mode != "constant" and len(self.padding) != count:
            raise ValueError(f"expected one number or {count}, got {self.padding}")

    def forward(self, input: Tensor) -> Tensor:
        """Pad the last dimensions."""
        return functional.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        """Return how many."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """One number before and behind the last dimensions.

    Parameters
    ----------
    padding : int or tuple
        How many: before and behind the last dimension, then the one before it.
    value : float
        The number.
    """

    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        """Return how many, and of what."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    __doc__ = _ConstantPad.__doc__
    dims = 1


class ConstantPad2d(_ConstantPad):
    __doc__ = _ConstantPad.__doc__
    dims = 2


class ConstantPad3d(_ConstantPad):
    __doc__ = _ConstantPad.__doc__
    dims = 3


class ZeroPad1d(_Pad):
    __doc__ = (_Pad.__doc__ or "").replace("Elements", "Zeros")
    dims = 1


class ZeroPad2d(_Pad):
    __doc__ = ZeroPad1d.__doc__
    dims = 2


class ZeroPad3d(_Pad):
    __doc__ = ZeroPad1d.__doc__
    dims = 3


class ReflectionPad1d(_Pad):
    __doc__ = (_Pad.__doc__ or "").replace("Elements", "Elements mirrored at the border,")
    dims = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    __doc__ = ReflectionPad1d.__doc__
    dims = 2
    mode = "reflect"


class ReflectionPad3d(_Pad):
    __doc__ = ReflectionPad1d.__doc__
    dims = 3
    mode = "reflect"


class ReplicationPad1d(_Pad):
    __doc__ = (_Pad.__doc__ or "").replace("Elements", "Copies of the border's elements")
    dims = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    __doc__ = ReplicationPad1d.__doc__
    dims = 2
    mode = "replicate"


class ReplicationPad3d(_Pad):
    __doc__ = ReplicationPad1d.__doc__
    dims = 3
    mode = "replicate"


class CircularPad1d(_Pad):
    __doc__ = (_Pad.__doc__ or "").replace("Elements", "Elements of the other end")
    dims = 1
    mode = "circular"


class CircularPad2d(_Pad):
    __doc__ = CircularPad1d.__doc__
    dims = 2
    mode = "circular"


class CircularPad3d(_Pad):
    __doc__ = CircularPad1d.__doc__
    dims = 3
    mode = "circular"
