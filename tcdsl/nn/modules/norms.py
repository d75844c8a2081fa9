"""Normalisations by the numbers at hand: of a layer, of groups of channels, of neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcdsl.core import Tensor
from tcdsl.nn import functional, init
from tcdsl.nn.modules.module import Module
from tcdsl.nn.parameter import Parameter
from tcdsl.nn.placed import blank, placed
from tcdsl.ops.arguments import several

__all__ = ["GroupNorm", "LayerNorm", "LocalResponseNorm"]


class _Affine(Module):
    """A norm behind which elements may be scaled and shifted by parameters."""

    weight: Parameter | None
    bias: Parameter | None

    def reset_parameters(self) -> None:
        """Begin anew: no scale, no shift."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_Affine):
    """Normalise the last dimensions.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        Extents of these dimensions.
    eps : float
        Added to the variance.
    elementwise_affine : bool
        Whether elements are scaled and shifted by parameters.
    bias : bool
        Whether they are shifted.

    Attributes
    ----------
    weight, bias : Parameter, shape normalized_shape, or None
        At first 1 and 0.
    """

    @placed
    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = several(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, is_there in (("weight", True), ("bias", bias)):
            has = elementwise_affine and is_there
            self.register_parameter(name, Parameter(blank(self.normalized_shape)) if has else None)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Normalise, shape (..., *normalized_shape)."""
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class GroupNorm(_Affine):
    """Normalise groups of channels of each sample.

    Parameters
    ----------
    num_groups, num_channels : int
        The first divides the second.
    eps : float
        Added to the variance.
    affine : bool
        Whether channels are scaled and shifted by parameters.
    bias : bool
        Whether they are shifted too.

    Attributes
    ----------
    weight, bias : Parameter, shape (num_channels,), or None
        At first 1 and 0.

    References
    ----------
    Wu and He, "Group normalization", 2018.
    """

    @placed
    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, is_there in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(name, Parameter(blank(num_channels)) if is_there else None)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Normalise, shape (N, num_channels, ...)."""
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Divide each channel by a power of the mean square of the channels beside it.

    Parameters
    ----------
    size : int
        Channels of a mean.
    alpha, beta, k : float
        ``x / (k + alpha * mean) ** beta``.

    References
    ----------
    Krizhevsky et al., "ImageNet classification with deep convolutional neural networks", 2012.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Normalise, shape (N, C, ...)."""
        return functional.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
