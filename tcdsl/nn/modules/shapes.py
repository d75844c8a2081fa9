"""Layers that move elements: padding, flattening, shuffled pixels, other resolutions."""

from __future__ import annotations

from typing import Any

from tcdsl.core import Tensor
from tcdsl.nn import functional
from tcdsl.nn.modules.module import Module

__all__ = [
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Flatten",
    "PixelShuffle",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
    "ZeroPad2d",
]


class _Pad(Module):
    """Elements before and behind the last dimensions.

    Parameters
    ----------
    padding : int or tuple
        How many: before and behind the last dimension, then the one before it.
    """

    dims = 0
    mode = "constant"
    value: float = 0

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        count = 2 * self.dims
        self.padding = (padding,) * count if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != count:
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


class ZeroPad2d(_Pad):
    __doc__ = (_Pad.__doc__ or "").replace("Elements", "Zeros")
    dims = 2


class ReflectionPad1d(_Pad):
    __doc__ = (_Pad.__doc__ or "").replace("Elements", "Elements mirrored at the border,")
    dims = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    __doc__ = ReflectionPad1d.__doc__
    dims = 2
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
        self.size = size
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
