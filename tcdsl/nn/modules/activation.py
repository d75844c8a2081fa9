"""Functions of single elements, and softmax, as layers."""

from __future__ import annotations

import warnings
from typing import Any

from tcdsl import library
from tcdsl.core import Tensor
from tcdsl.nn import functional
from tcdsl.nn.init import constant_
from tcdsl.nn.modules.module import Module
from tcdsl.nn.parameter import Parameter
from tcdsl.nn.placed import blank, placed

__all__ = [
    "CELU",
    "ELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class Threshold(Module):
    """``x > threshold ? x : value``."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"threshold={self.threshold}, value={self.value}" + _inplace(self)


class ReLU(Module):
    """``max(x, 0)``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.relu(input, self.inplace)

    def extra_repr(self) -> str:
        """Return whether it writes its input."""
        return "inplace=True" if self.inplace else ""


class RReLU(Module):
    """``x > 0 ? x : a x``, a drawn from [lower, upper] in training, else their mean."""

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"lower={self.lower}, upper={self.upper}" + _inplace(self)


_OLDER = "keyword argument `{0}_value` is deprecated and rename to `{0}_val`"


class Hardtanh(Module):
    """``min(max(x, min_val), max_val)``."""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        if min_value is not None:
            warnings.warn(_OLDER.format("min"), FutureWarning, stacklevel=2)
            min_val = min_value
        if max_value is not None:
            warnings.warn(_OLDER.format("max"), FutureWarning, stacklevel=2)
            max_val = max_value
        if not max_val > min_val:
            raise AssertionError(f"expected max_val > min_val, got {max_val} and {min_val}")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"min_val={self.min_val}, max_val={self.max_val}" + _inplace(self)


class ReLU6(Hardtanh):
    """``min(max(x, 0), 6)``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """Return whether it writes its input."""
        return "inplace=True" if self.inplace else ""


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return library.sigmoid(input)


class Tanh(Module):
    """``tanh(x)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return library.tanh(input)


class ELU(Module):
    """``x > 0 ? x : alpha (exp(x) - 1)``."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"alpha={self.alpha}" + _inplace(self)


class CELU(Module):
    """``x > 0 ? x : alpha (exp(x / alpha) - 1)``."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"alpha={self.alpha}" + _inplace(self)


class SELU(Module):
    """An ELU whose scales keep mean 0 and variance 1.

    References
    ----------
    Klambauer et al., "Self-normalizing neural networks", 2017.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.selu(input, self.inplace)

    def extra_repr(self) -> str:
        """Return whether it writes its input."""
        return "inplace=True" if self.inplace else ""


class GLU(Module):
    """``a * sigmoid(b)``, a and b the halves of a dimension."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Halve the dimension."""
        return functional.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim}"


class Hardshrink(Module):
    """``|x| > lambd ? x : 0``."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return lambd."""
        return f"{self.lambd}"


class Softshrink(Module):
    """``x`` nearer to 0 by lambd, but not beyond."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return lambd."""
        return f"{self.lambd}"


class LeakyReLU(Module):
    """``x > 0 ? x : negative_slope x``."""

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"negative_slope={self.negative_slope}" + _inplace(self)


class LogSigmoid(Module):
    """``log(1 / (1 + exp(-x)))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.logsigmoid(input)


class Softplus(Module):
    """``log(1 + exp(beta x)) / beta``, and x itself where beta x is above threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """``x > 0 ? x : weight x`` with one weight, or one a channel.

    Parameters
    ----------
    num_parameters : int
        1, or the extent of dimension 1.
    init : float
        What the weights begin as.
    """

    @placed
    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.weight = Parameter(blank(num_parameters))
        self.init = init
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Begin anew."""
        constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return how many weights there are."""
        return f"num_parameters={self.num_parameters}"


class Softsign(Module):
    """``x / (1 + |x|)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Compute each element."""
        return functional.tanhshrink(input)


class Softmin(Module):
    """``exp(-x) / sum exp(-x)`` along a dimension."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Compute along the dimension."""
        return functional.softmin(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim}"


class Softmax(Module):
    """``exp(x) / sum exp(x)`` along a dimension."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Compute along the dimension."""
        return functional.softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim}"


class Softmax2d(Module):
    """Softmax over the channels of each place, shape (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """Compute along the channels."""
        if input.dim() not in (3, 4):
            raise ValueError(f"expected a tensor of 3 or 4 dimensions, got {input.dim()}")
        return functional.softmax(input, -3)


class LogSoftmax(Module):
    """``x - log(sum exp(x))`` along a dimension."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Compute along the dimension."""
        return functional.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim}"


def _inplace(module: Module) -> str:
    return ", inplace=True" if module.inplace else ""
