"""Linear maps, of one input and of two."""

from __future__ import annotations

import math
from typing import Any

from tcdsl.core import Tensor
from tcdsl.nn import functional, init
from tcdsl.nn.modules.module import Module
from tcdsl.nn.parameter import Parameter
from tcdsl.nn.placed import blank, placed

__all__ = ["Bilinear", "Identity", "Linear", "NonDynamicallyQuantizableLinear"]


class Identity(Module):
    """Hands its input on."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return the input."""
        return input


class Linear(Module):
    """``y = x W^T + b`` over the last dimension.

    Parameters
    ----------
    in_features, out_features : int
        I and O.
    bias : bool
        Whether b is added.

    Attributes
    ----------
    weight : Parameter, shape (O, I)
        At first uniform in +- 1 / sqrt(I), as bias is.
    bias : Parameter, shape (O,), or None
    """

    weight: Parameter
    bias: Parameter | None

    @placed
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(blank(out_features, in_features))
        self.register_parameter("bias", Parameter(blank(out_features)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Map the last dimension, (..., I) to (..., O)."""
        return functional.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """A `Linear` under the name that PyTorch's attention gives to its last layer."""


class Bilinear(Module):
    """``y[o] = sum_ij x1[i] A[o, i, j] x2[j] + b[o]`` over the last dimensions.

    Parameters
    ----------
    in1_features, in2_features, out_features : int
        I, J and O.
    bias : bool
        Whether b is added.

    Attributes
    ----------
    weight : Parameter, shape (O, I, J)
        At first uniform in +- 1 / sqrt(I), as bias is.
    bias : Parameter, shape (O,), or None
    """

    weight: Parameter
    bias: Parameter | None

    @placed
    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(blank(out_features, in1_features, in2_features))
        self.register_parameter("bias", Parameter(blank(out_features)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Map (..., I) and (..., J) to (..., O)."""
        return functional.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
