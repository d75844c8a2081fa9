"""Windows over images: where they lie, and how many fit."""

from __future__ import annotations

import math

import numpy as np

from tcdsl.core import Tensor, from_numpy
from tcdsl.grammar.text.cached import cached_property
from tcdsl.ops.convolutions import Each, each
from tcdsl.ops.formats import channels_behind, channels_second


class Windows:
    """Windows over images of a rank and a shape: sizes, steps, paddings, and how many fit.

    Where the channels lie `last`, ops take and give images so; else rows, of samples and channels.
    """

    def __init__(
        self,
        rank: int,
        shape: tuple[int, ...],
        last: bool,
        kernel_size: Each,
        stride: Each | None,
        padding: Each,
        dilation: Each,
        ceil_mode: bool,
    ) -> None:
        if len(shape) not in (rank + 1, rank + 2):
            raise RuntimeError(
                f"non-empty {rank + 1}D or {rank + 2}D (batch mode) tensor expected for input"
                if rank > 1
                else f"Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for "
                f"input, but got:{list(shape)}"
            )
        self.k = each(kernel_size, rank, "kernel_size")
        self.s = stride_of(stride, self.k)
        self.p, self.d = each(padding, rank, "padding"), each(dilation, rank, "dilation")
        if 0 in self.s:
            raise RuntimeError("stride should not be zero")
        if min(*self.k, *self.s, *self.d) <= 0 or min(self.p) < 0:
            raise RuntimeError(
                "kernel_size, stride and dilation should be greater than zero and padding "
                f"non-negative, but got {list(self.k)}, {list(self.s)}, {list(self.d)} and "
                f"{list(self.p)}"
            )
        for k, p, d in zip(self.k, self.p, self.d, strict=True):
            if p > ((k - 1) * d + 1) // 2:
                raise RuntimeError(
                    "pad should be at most half of effective kernel size, but got "
                    f"pad={p}, kernel_size={k} and dilation={d}"
                )
        self.image = tuple(shape[-rank:])
        before = tuple(shape[:-rank])
        self.o = tuple(
            _extent(*window, ceil_mode)
            for window in zip(self.image, self.k, self.s, self.p, self.d, strict=True)
        )
        if min(self.o) < 1:
            channels = before[-1:] if rank > 1 else (before[-1] if before else 1,)
            given, found = (
                "x".join(map(str, (*channels, *sizes))) for sizes in (self.image, self.o)
            )
            raise RuntimeError(
                f"Given input size: ({given}). Calculated output size: ({found}). Output size is "
                "too small"
            )
        self.last = last
        self.rows = (math.prod(before), *self.image)
        self.outs = (*before, *self.o)

    def taken(self, input: Tensor, rows: tuple[int, ...] | None = None) -> Tensor:
        """Return images as ops take them."""
        return channels_behind(input) if self.last else input.reshape(rows or self.rows)

    def given(self, made: Tensor) -> Tensor:
        """Return images that an op gave."""
        return channels_second(made) if self.last else made.view(self.outs)

    @cached_property
    def corners(self) -> tuple[Tensor, Tensor]:
        """Where windows begin and where what they have of the image does, counted row by row."""
        corner, first = np.zeros((2, 1), np.int64)
        for n, s, p, d, o in zip(self.image, self.s, self.p, self.d, self.o, strict=True):
            at = np.arange(o) * s - p
            corner = np.add.outer(corner * n, at).ravel()
            first = np.add.outer(first * n, np.where(at < 0, at % d, at)).ravel()
        return from_numpy(corner), from_numpy(first)

    def counts(self, counts_padding: bool) -> list[list[int]]:
        """Return how long windows are in each dimension, in the image or in the padded one."""
        found = []
        for n, k, s, p, o in zip(self.image, self.k, self.s, self.p, self.o, strict=True):
            low, high = (-p, n + p) if counts_padding else (0, n)
            found.append([min(i * s - p + k, high) - max(i * s - p, low) for i in range(o)])
        return found


def _extent(n: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    """Return how many windows fit; with `ceil_mode` the last may end behind the padding."""
    room = n + 2 * p - d * (k - 1) - 1
    found = (-(-room // s) if ceil_mode else room // s) + 1
    if ceil_mode and (found - 1) * s >= n + p:  # it would begin in the padding at the end
        found -= 1
    return found


def stride_of(stride: Each | None, kernel: tuple[int, ...]) -> tuple[int, ...]:
    """Return the steps of windows: those of their sizes where there are none."""
    if stride is None or (isinstance(stride, tuple) and not stride):
        return kernel
    return each(stride, len(kernel), "stride")
