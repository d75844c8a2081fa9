"""Layers that move elements and came after PyTorch 0.4: windows as columns, other paddings."""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.core import Tensor
from tcdsl.nn import functional
from tcdsl.nn.modules.module import Module
from tcdsl.nn.modules.shapes import _Pad

__all__ = [
    "ChannelShuffle",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "Fold",
    "PixelUnshuffle",
    "ReflectionPad3d",
    "Unflatten",
    "Unfold",
    "ZeroPad1d",
    "ZeroPad3d",
]

Pair = int | Sequence[int]


class Unflatten(Module):
    """One dimension as several.

    Parameters
    ----------
    dim : int
    unflattened_size : sequence of int
        One may be -1.
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError("unflattened_size must be a tuple or list of ints, and dim an int")
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """Return a view."""
        made: Tensor = input.unflatten(self.dim, self.unflattened_size)
        return made

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Unfold(Module):
    """Windows of images as columns; see `functional.unfold`."""

    def __init__(
        self, kernel_size: Pair, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Return the columns."""
        return functional.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Fold(Unfold):
    """Images of which columns are the windows; see `functional.fold`."""

    def __init__(
        self,
        output_size: Pair,
        kernel_size: Pair,
        dilation: Pair = 1,
        padding: Pair = 0,
        stride: Pair = 1,
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """Return the images."""
        settings = (self.kernel_size, self.dilation, self.padding, self.stride)
        return functional.fold(input, self.output_size, *settings)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"output_size={self.output_size}, {super().extra_repr()}"


class PixelUnshuffle(Module):
    """Blocks of pixels as channels."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Move the pixels."""
        return functional.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """Return the factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Channels in the order in which each group's first comes first."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Move the channels."""
        return functional.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Return the number of groups."""
        return f"groups={self.groups}"


class ReflectionPad3d(_Pad):
    __doc__ = _Pad.__doc__
    dims = 3
    mode = "reflect"


class ZeroPad1d(_Pad):
    __doc__ = _Pad.__doc__
    dims = 1


class ZeroPad3d(_Pad):
    __doc__ = _Pad.__doc__
    dims = 3


class CircularPad1d(_Pad):
    __doc__ = _Pad.__doc__
    dims = 1
    mode = "circular"


class CircularPad2d(_Pad):
    __doc__ = _Pad.__doc__
    dims = 2
    mode = "circular"


class CircularPad3d(_Pad):
    __doc__ = _Pad.__doc__
    dims = 3
    mode = "circular"
