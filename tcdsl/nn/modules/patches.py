"""Windows of images as columns, and back."""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.core import Tensor
from tcdsl.nn import functional
from tcdsl.nn.modules.module import Module

__all__ = [
    "Fold",
    "Unfold",
]

Pair = int | Sequence[int]


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
