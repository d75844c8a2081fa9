"""Layers that came after PyTorch 0.4: smooth and hard activations, RMSNorm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcdsl.core import Tensor
from tcdsl.nn import functional, init
from tcdsl.nn.modules.module import Module
from tcdsl.nn.parameter import Parameter
from tcdsl.nn.placed import blank, placed
from tcdsl.ops.arguments import several

__all__ = ["GELU", "Hardsigmoid", "Hardswish", "Mish", "RMSNorm", "SiLU"]


class GELU(Module):
    """``x (1 + erf(x / sqrt(2))) / 2``, or with ``approximate="tanh"`` what is near to it."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """Return how it is computed."""
        return f"approximate={self.approximate!r}"


class _InPlace(Module):
    """An activation that may write its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return whether it writes its input."""
        return "inplace=True" if self.inplace else ""


class SiLU(_InPlace):
    """``x / (1 + exp(-x))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.silu(input, self.inplace)


class Mish(_InPlace):
    """``x tanh(log(1 + exp(x)))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.mish(input, self.inplace)


class Hardswish(Module):
    """``x`` times ``x / 6 + 1 / 2`` between 0 and 1."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.hardswish(input, self.inplace)


class Hardsigmoid(Module):
    """``x / 6 + 1 / 2`` between 0 and 1."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.hardsigmoid(input, self.inplace)


class RMSNorm(Module):
    """Divide by the root of the mean square over the last dimensions.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        Extents of these dimensions.
    eps : float, optional
        Added to the mean square; by default that of the type.
    elementwise_affine : bool
        Whether elements are scaled by a parameter.

    References
    ----------
    Zhang and Sennrich, "Root mean square layer normalization", 2019.
    """

    weight: Parameter | None

    @placed
    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = several(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        there = Parameter(blank(self.normalized_shape)) if elementwise_affine else None
        self.register_parameter("weight", there)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Begin anew: no scale."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise the last dimensions."""
        return functional.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )
