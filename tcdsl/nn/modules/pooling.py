"""Pools: windows that slide, and windows of as many outputs as are wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcdsl.core import Tensor
from tcdsl.nn import functional
from tcdsl.nn.modules.module import Module
from tcdsl.ops.arguments import several

__all__ = [
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]

Size = int | tuple[int, ...]


class _MaxPool(Module):
    """The largest element of each window; shape (N, C, ...) or (C, ...).

    Parameters
    ----------
    kernel_size : int or tuple
        Extents of the window.
    stride : int or tuple, optional
        Steps of the window; by default its extents.
    padding : int or tuple
        Elements of -inf before and behind each dimension.
    dilation : int or tuple
        Steps within the window.
    return_indices : bool
        Return the places of the elements as well, flat within their channel.
    ceil_mode : bool
        Whether a last window that is not full counts.
    """

    _pool: Callable[..., Any]

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        """Slide the window."""
        return self._pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    __doc__ = _MaxPool.__doc__
    _pool = staticmethod(functional.max_pool1d)


class MaxPool2d(_MaxPool):
    __doc__ = _MaxPool.__doc__
    _pool = staticmethod(functional.max_pool2d)


class MaxPool3d(_MaxPool):
    __doc__ = _MaxPool.__doc__
    _pool = staticmethod(functional.max_pool3d)


class _MaxUnpool(Module):
    """Put elements where a max pool has found them; 0 elsewhere.

    Parameters
    ----------
    kernel_size, stride, padding : int or tuple
        Of the pool.
    """

    _dims = 1
    _pool: Callable[..., Tensor]

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        super().__init__()
        self.kernel_size = several(kernel_size, self._dims)
        self.stride = several(kernel_size if stride is None else stride, self._dims)
        self.padding = several(padding, self._dims)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Put the elements of input at indices; output_size tells sizes that pool to the same."""
        return self._pool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    __doc__ = _MaxUnpool.__doc__
    _pool = staticmethod(functional.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    __doc__ = _MaxUnpool.__doc__
    _dims = 2
    _pool = staticmethod(functional.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    __doc__ = _MaxUnpool.__doc__
    _dims = 3
    _pool = staticmethod(functional.max_unpool3d)


class _AvgPool(Module):
    """The mean of each window; shape (N, C, ...) or (C, ...).

    Parameters
    ----------
    kernel_size : int or tuple
        Extents of the window.
    stride : int or tuple, optional
        Steps of the window; by default its extents.
    padding : int or tuple
        Zeros before and behind each dimension.
    ceil_mode : bool
        Whether a last window that is not full counts.
    count_include_pad : bool
        Whether a mean is over padding, too.
    divisor_override : int, optional
        What sums are divided by; not of AvgPool1d.
    """

    _pool: Callable[..., Tensor]

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.divisor_override = divisor_override
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """Slide the window."""
        return self._pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    __doc__ = _AvgPool.__doc__
    _pool = staticmethod(functional.avg_pool1d)

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        step = kernel_size if stride is None else stride
        k, s, p = (several(size) for size in (kernel_size, step, padding))
        super().__init__(k, s, p, ceil_mode, count_include_pad)


class AvgPool2d(_AvgPool):
    __doc__ = _AvgPool.__doc__
    _pool = staticmethod(functional.avg_pool2d)


class AvgPool3d(_AvgPool):
    __doc__ = _AvgPool.__doc__
    _pool = staticmethod(functional.avg_pool3d)


class _LPPool(Module):
    """The norm of each window, ``(sum x ** norm_type) ** (1 / norm_type)``.

    Parameters
    ----------
    norm_type : float
    kernel_size : int or tuple
        Extents of the window.
    stride : int or tuple, optional
        Steps of the window; by default its extents.
    ceil_mode : bool
        Whether a last window that is not full counts.
    """

    _pool: Callable[..., Tensor]

    def __init__(
        self,
        norm_type: float,
        kernel_size: Size,
        stride: Size | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Slide the window."""
        return self._pool(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    __doc__ = _LPPool.__doc__
    _pool = staticmethod(functional.lp_pool1d)


class LPPool2d(_LPPool):
    __doc__ = _LPPool.__doc__
    _pool = staticmethod(functional.lp_pool2d)


class LPPool3d(_LPPool):
    __doc__ = _LPPool.__doc__
    _pool = staticmethod(functional.lp_pool3d)
