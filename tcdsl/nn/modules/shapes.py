"""Layers that move elements: flattening, shuffled pixels and channels, other resolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcdsl.core import Tensor
from tcdsl.nn import functional
from tcdsl.nn.modules.module import Module
from tcdsl.ops.arguments import listed

__all__ = [
    "ChannelShuffle",
    "Flatten",
    "PixelShuffle",
    "PixelUnshuffle",
    "Unflatten",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class Flatten(Module):
    """Dimensions from start_dim to end_dim as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the input in another shape."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


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


class PixelShuffle(Module):
    """Channels become pixels, (N, C r r, H, W) to (N, C, H r, W r).

    References
    ----------
    Shi et al., "Real-time single image and video super-resolution using an efficient sub-pixel
    convolutional neural network", 2016.
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Put the channels of a place beside each other."""
        return functional.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """Return r."""
        return f"upscale_factor={self.upscale_factor}"


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


class Upsample(Module):
    """Another resolution of the last dimensions, shape (N, C, ...).

    Parameters
    ----------
    size : int or tuple, optional
        The extents wanted; or
    scale_factor : int, float or tuple, optional
        how many times those of the input.
    mode : str
        One of `functional.interpolate`.
    align_corners : bool, optional
        Whether the middles of corner pixels stay where they are; for linear and cubic modes.
    recompute_scale_factor : bool, optional
        As of `functional.interpolate`.
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size, scale_factor = listed(size), listed(scale_factor)
        if isinstance(scale_factor, tuple):
            scale_factor = tuple(float(f) for f in scale_factor)
        self.scale_factor = float(scale_factor) if isinstance(scale_factor, int) else scale_factor
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Compute the elements of the other resolution."""
        return functional.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        """Return the settings."""
        name = "size" if self.scale_factor is None else "scale_factor"
        return f"{name}={getattr(self, name)}, mode='{self.mode}'"


class UpsamplingNearest2d(Upsample):
    """An `Upsample` of images by their nearest pixels."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """An `Upsample` of images between pixels, whose corners stay where they are."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", align_corners=True)
