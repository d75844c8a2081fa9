"""Pools whose outputs have a size: the windows follow from it, or are drawn by chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcdsl.core import Tensor
from tcdsl.nn import functional
from tcdsl.nn.modules.module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "FractionalMaxPool2d",
]


class FractionalMaxPool2d(Module):
    """The largest element of each window, whose places chance draws at each call.

    Parameters
    ----------
    kernel_size, output_size, output_ratio, return_indices
        As of `nn.functional.fractional_max_pool2d`.
    """

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.output_size = output_size
        self.output_ratio = output_ratio
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                "FractionalMaxPool2d requires specifying either an output size, or a pooling ratio"
            )

    def forward(self, input: Tensor) -> Any:
        """Draw the windows and pool."""
        return functional.fractional_max_pool2d(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            self._random_samples,
        )


class _AdaptiveMaxPool(Module):
    """The largest element of each of as many windows as outputs are wanted.

    Parameters
    ----------
    output_size : int or tuple
        Outputs of each dimension; None in a tuple: those of the input.
    return_indices : bool
        Return the places of the elements as well, flat within their channel.
    """

    _pool: Callable[..., Any]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """Divide each dimension into windows of nearly the same extent."""
        return self._pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """Return the output's size."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    __doc__ = _AdaptiveMaxPool.__doc__
    _pool = staticmethod(functional.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    __doc__ = _AdaptiveMaxPool.__doc__
    _pool = staticmethod(functional.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    __doc__ = _AdaptiveMaxPool.__doc__
    _pool = staticmethod(functional.adaptive_max_pool3d)


class _AdaptiveAvgPool(Module):
    """The mean of each of as many windows as outputs are wanted.

    Parameters
    ----------
    output_size : int or tuple
        Outputs of each dimension; None in a tuple: those of the input.
    """

    _pool: Callable[..., Tensor]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """Divide each dimension into windows of nearly the same extent."""
        return self._pool(input, self.output_size)

    def extra_repr(self) -> str:
        """Return the output's size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    __doc__ = _AdaptiveAvgPool.__doc__
    _pool = staticmethod(functional.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    __doc__ = _AdaptiveAvgPool.__doc__
    _pool = staticmethod(functional.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    __doc__ = _AdaptiveAvgPool.__doc__
    _pool = staticmethod(functional.adaptive_avg_pool3d)
