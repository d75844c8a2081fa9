"""Convolutions over one to three dimensions, and transposed ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tcdsl.core import Tensor
from tcdsl.nn import functional, init
from tcdsl.nn.modules.module import Module
from tcdsl.nn.parameter import Parameter
from tcdsl.nn.placed import blank, placed
from tcdsl.ops.arguments import several

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

Size = int | tuple[int, ...]
MODES = ("zeros", "reflect", "replicate", "circular")


def each(value: Size, dims: int) -> tuple[int, ...]:
    """Return a size for each of some dimensions; several stay what they are.

    The convolution takes one for all of its dimensions and refuses any other number.
    """
    return several(value, dims)


class _Conv(Module):
    """What all convolutions have: weights, and where the window goes.

    Attributes
    ----------
    weight : Parameter, shape (out_channels, in_channels / groups, *kernel_size)
        Of a transposed one (in_channels, out_channels / groups, *kernel_size). At first uniform in
        +- 1 / sqrt(n), n the number of weights that an output is a sum over; bias too.
    bias : Parameter, shape (out_channels,), or None
    """

    dims = 0
    transposed = False
    weight: Parameter
    bias: Parameter | None

    def _set_up(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size,
        padding: Size | str,
        dilation: Size,
        output_padding: Size,
        groups: int,
        bias: bool,
        padding_mode: str,
    ) -> None:
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = each(kernel_size, self.dims)
        self.stride = each(stride, self.dims)
        self.padding: Any = padding if isinstance(padding, str) else each(padding, self.dims)
        self._check_padding(padding_mode)
        self.padding_mode = padding_mode
        self.dilation = each(dilation, self.dims)
        self.output_padding = each(output_padding, self.dims)
        self.groups = groups
        outer, inner = (
            (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        )
        self.weight = Parameter(blank(outer, inner // groups, *self.kernel_size))
        self.register_parameter("bias", Parameter(blank(out_channels)) if bias else None)
        self.reset_parameters()

    def _check_padding(self, mode: str) -> None:
        """Refuse words that say no padding."""
        if isinstance(self.padding, str):
            words = ("same", "valid")
            if self.padding not in words:
                raise ValueError(
                    f"Invalid padding string {self.padding!r}, should be one of {words}"
                )
            if self.padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if mode not in MODES:
            raise ValueError(f"padding_mode must be one of {MODES}, but got padding_mode='{mode}'")

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        n = self.weight.size(1) * math.prod(self.kernel_size)
        bound = 1 / math.sqrt(n) if n else 0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Return the sizes, and what differs from the defaults."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        for name, usual in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            if value != (usual,) * len(value):
                text += f", {name}={value}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class _Forward(_Conv):
    """A convolution.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size : int or tuple
        Extents of the window.
    stride, padding, dilation : int or tuple
        Steps of the window, elements before and behind each dimension, steps within the window.
        `padding` may be "same", as many as keep the extents, or "valid", none.
    groups : int
        Parts that the channels are divided into, each with weights of its own.
    bias : bool
        Whether a number is added to each output channel.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}
        What these elements are.
    """

    _convolve: Callable[..., Tensor]

    @placed
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._set_up(
            in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias,
            padding_mode,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        """Convolve, (N, C, ...) to (N, F, ...)."""
        padding: Size | str = self.padding
        if self.padding_mode != "zeros":
            input, padding = functional.pad(input, self._widths(), self.padding_mode), 0
        return self._convolve(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _widths(self) -> list[int]:
        """Return how many elements go before and behind each dimension, the last one first."""
        if self.padding == "valid":
            return [0] * (2 * self.dims)
        if self.padding == "same":
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            return [n for t in reversed(totals) for n in (t // 2, t - t // 2)]
        if len(self.padding) != self.dims:
            raise NotImplementedError(
                f"expected padding to be a single integer value or a tuple of {self.dims} values "
                f"where what is padded with is not zero, but got padding={self.padding}"
            )
        return [w for w in reversed(self.padding) for _ in range(2)]


class Conv1d(_Forward):
    __doc__ = _Forward.__doc__
    dims = 1
    _convolve = staticmethod(functional.conv1d)


class Conv2d(_Forward):
    __doc__ = _Forward.__doc__
    dims = 2
    _convolve = staticmethod(functional.conv2d)


class Conv3d(_Forward):
    __doc__ = _Forward.__doc__
    dims = 3
    _convolve = staticmethod(functional.conv3d)


class _Transposed(_Conv):
    """A transposed convolution: the gradient of a convolution by its input, as a layer.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size : int or tuple
        Extents of the window.
    stride, padding : int or tuple
        Of the convolution that this is the gradient of.
    output_padding : int or tuple
        Outputs more at the end of each dimension, of those sizes that the convolution maps to one.
    groups : int
    bias : bool
    dilation : int or tuple
    padding_mode : {"zeros"}
    """

    transposed = True
    _convolve: Callable[..., Tensor]

    @placed
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self._set_up(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            output_padding,
            groups,
            bias,
            padding_mode,
        )

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """Compute (N, C, ...) to (N, F, ...).

        Parameters
        ----------
        input : Tensor, shape (N, C, ...)
        output_size : sequence of int, optional
            The sizes of the output, in place of output_padding.
        """
        more = self.output_padding if output_size is None else self._more(input, output_size)
        return self._convolve(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            more,
            self.groups,
            self.dilation,
        )

    def _more(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        """Return the output_padding that gives some sizes."""
        wanted = tuple(output_size)[-self.dims :]
        if len(wanted) != self.dims or len(tuple(output_size)) not in (self.dims, self.dims + 2):
            raise ValueError(
                f"output_size must have {self.dims} or {self.dims + 2} elements "
                f"(got {len(tuple(output_size))})"
            )
        least = [
            (input.size(d + 2) - 1) * self.stride[d]
            - 2 * self.padding[d]
            + self.dilation[d] * (self.kernel_size[d] - 1)
            + 1
            for d in range(self.dims)
        ]
        most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
        if any(not a <= n <= b for a, n, b in zip(least, wanted, most, strict=True)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {least} to "
                f"{most} (for an input of {tuple(input.shape[2:])})"
            )
        return tuple(n - a for n, a in zip(wanted, least, strict=True))


class ConvTranspose1d(_Transposed):
    __doc__ = _Transposed.__doc__
    dims = 1
    _convolve = staticmethod(functional.conv_transpose1d)


class ConvTranspose2d(_Transposed):
    __doc__ = _Transposed.__doc__
    dims = 2
    _convolve = staticmethod(functional.conv_transpose2d)


class ConvTranspose3d(_Transposed):
    __doc__ = _Transposed.__doc__
    dims = 3
    _convolve = staticmethod(functional.conv_transpose3d)
