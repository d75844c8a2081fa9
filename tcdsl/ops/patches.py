"""Windows of images as columns and back, blocks of pixels as channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tcdsl.core import Op, Tensor, made_by
from tcdsl.ops.arguments import asked_once, several
from tcdsl.ops.formats import channels_behind, channels_second, has_channels_last
from tcdsl.ops.strides import in_c_order
from tcdsl.ops.table import Family, publish
from tcdsl.ops.views import permute, transpose

ops = Family(__file__)
_columns, _images = ops.op("columns"), ops.op("images")
_channel_shuffle = ops.op("channel_shuffle")
_pixel_shuffle = ops.op("pixel_shuffle", layout=in_c_order)
Pair = int | Sequence[int]


def _two(value: Pair) -> tuple[int, int]:
    numbers = several(value, 2)
    return int(numbers[0]), int(numbers[-1])


def _windows(
    size: tuple[int, int], kernel: Pair, dilation: Pair, padding: Pair, stride: Pair
) -> tuple[tuple[int, int], dict[str, int]]:
    """Return how many windows there are, and the generics of a text."""
    found: list[int] = []
    named: dict[str, int] = {}
    for d, axis in enumerate("HW"):
        k, s, p, step = (_two(v)[d] for v in (kernel, stride, padding, dilation))
        if min(k, s, step) <= 0 or p < 0:
            raise RuntimeError(
                "kernel_size, stride and dilation should be greater than zero and padding "
                f"non-negative, but got {kernel}, {stride}, {dilation} and {padding}"
            )
        found.append((size[d] + 2 * p - step * (k - 1) - 1) // s + 1)
        named |= {f"S{axis}": s, f"P{axis}": p, f"D{axis}": step}
    return (found[0], found[1]), named


def unfold(
    input: Tensor, kernel_size: Pair, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1
) -> Tensor:
    """Return the windows of images as columns.

    Parameters
    ----------
    input : Tensor, shape (N, C, H, W) or (C, H, W)
    kernel_size, dilation, padding, stride : int or pair

    Returns
    -------
    Tensor, shape (N, C KH KW, windows) or (C KH KW, windows)
    """
    if input.ndim not in (3, 4):
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor for input with possibly 0 batch size and other "
            f"non-zero dimensions for input, but got: {list(input.shape)}"
        )
    if input.ndim == 3:
        return unfold(input.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)  # type: ignore[no-any-return]
    n, c, *image = input.shape
    settings = kernel_size, dilation, padding, stride
    op, each, count = _unfolded(tuple(image), *settings)
    return made_by(op(input).view(n, c * each, count), "Im2ColBackward0")


@asked_once
def _unfolded(
    size: tuple[int, ...], kernel_size: Pair, dilation: Pair, padding: Pair, stride: Pair
) -> tuple[Op, int, int]:
    """Return the op, how many elements a window has, and how many windows there are."""
    h, w = size
    (oh, ow), named = _windows((h, w), kernel_size, dilation, padding, stride)
    if oh < 1 or ow < 1:
        raise RuntimeError(
            f"Given input with spatial size ({h}, {w}), kernel_size={_two(kernel_size)}, "
            f"dilation={_two(dilation)}, padding={_two(padding)}, calculated shape of the array "
            f"of sliding blocks as ({oh}, {ow}), but its components must be at least one."
        )
    kh, kw = _two(kernel_size)
    op = _columns.with_generics(KH=kh, KW=kw, OH=oh, OW=ow, **named)
    return op, kh * kw, oh * ow


def fold(
    input: Tensor,
    output_size: Pair,
    kernel_size: Pair,
    dilation: Pair = 1,
    padding: Pair = 0,
    stride: Pair = 1,
) -> Tensor:
    """Return images of which the columns are windows; where windows meet they are added.

    Parameters
    ----------
    input : Tensor, shape (N, C KH KW, windows) or (C KH KW, windows)
    output_size, kernel_size, dilation, padding, stride : int or pair

    Returns
    -------
    Tensor, shape (N, C, *output_size) or (C, *output_size)
    """
    if input.ndim == 2:
        made: Tensor = fold(
            input.unsqueeze(0), output_size, kernel_size, dilation, padding, stride
        ).squeeze(0)
        return made
    n, rows, count = input.shape
    size = tuple(output_size) if isinstance(output_size, list) else output_size  # often it is
    settings = size, kernel_size, dilation, padding, stride
    op, windows = _folded(rows, count, *settings)
    return made_by(op(input.reshape(n, *windows)), "Col2ImBackward0")


@asked_once
def _folded(
    rows: int,
    count: int,
    output_size: Pair,
    kernel_size: Pair,
    dilation: Pair,
    padding: Pair,
    stride: Pair,
) -> tuple[Op, tuple[int, ...]]:
    """Return the op, and what shape the columns of an image have as windows."""
    (h, w), (kh, kw) = _two(output_size), _two(kernel_size)
    (oh, ow), named = _windows((h, w), kernel_size, dilation, padding, stride)
    if rows % (kh * kw):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={rows} and kernel_size=({kh}, {kw})."
        )
    if count != oh * ow:
        raise RuntimeError(
            f"Given output_size=({h}, {w}), kernel_size=({kh}, {kw}), dilation={_two(dilation)}, "
            f"padding={_two(padding)}, stride={_two(stride)}, expected size of input's dimension "
            f"2 to match the calculated number of sliding blocks {oh} * {ow} = {oh * ow}, but got "
            f"input.size(2)={count}."
        )
    op = _images.with_generics(H=h, W=w, **named)
    return op, (rows // (kh * kw), kh, kw, oh, ow)


def _sizes_of(name: str, input: Tensor, kind: str, factor: int) -> tuple[int, ...]:
    """Return the shape of images that become larger or smaller by a factor, which is positive."""
    if input.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with "
            f"{input.ndim} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {kind}_factor, but got {factor}")
    return tuple(input.shape)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Make images larger by a factor, of channels: (C * r * r, H, W) to (C, H * r, W * r)."""
    r = upscale_factor
    *before, c, h, w = _sizes_of("pixel_shuffle", input, "upscale", r)
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
        )
    if has_channels_last(input):
        n, c = before[0], c // (r * r)
        parts = channels_behind(input).reshape(n, h, w, c, r, r).permute(0, 1, 4, 2, 5, 3)
        moved = channels_second(parts.reshape(n, h * r, w * r, c))
        return made_by(moved, "PixelShuffleBackward0")
    made: Tensor = _pixel_shuffle(input.reshape(math.prod(before), c // (r * r), r, r, h, w))
    shuffled = made.view(*before, c // (r * r), h * r, w * r)
    return made_by(shuffled, "PixelShuffleBackward0")


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Return blocks of r times r pixels as channels: what `pixel_shuffle` undoes."""
    r = downscale_factor
    *before, c, h, w = _sizes_of("pixel_unshuffle", input, "downscale", r)
    for extent, dim, called in ((h, -2, "height"), (w, -1, "width")):
        if extent % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {called} to be divisible by downscale_factor, but "
                f"input.size({dim})={extent} is not divisible by {r}"
            )
    if has_channels_last(input):
        n, h, w = int(before[0]), h // r, w // r
        parts = channels_behind(input).reshape(n, h, r, w, r, c)
        moved = permute(parts, 0, 1, 3, 5, 2, 4).reshape(n, h, w, c * r * r)
        return made_by(channels_second(moved), "PixelUnshuffleBackward0")
    parts = input.reshape(math.prod(before), c, h // r, r, w // r, r)
    made: Tensor = permute(parts, 0, 1, 3, 5, 2, 4).reshape(*before, c * r * r, h // r, w // r)
    return made


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Return channels in the order in which each group's first comes first."""
    if input.ndim < 3:
        raise RuntimeError(
            "channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{list(input.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups: {groups}"
        )
    n, c, *rest = input.shape
    if c % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
        )
    if has_channels_last(input):
        parts = channels_behind(input).reshape(n, *rest, groups, c // groups)
        moved = transpose(parts, -1, -2).reshape(n, *rest, c)
        return made_by(channels_second(moved), "ChannelShuffleBackward0")
    made: Tensor = _channel_shuffle(input.reshape(n, groups, c // groups, math.prod(rest)))
    return made_by(made.reshape(input.shape), "ChannelShuffleBackward0")


_FREE: tuple[Any, ...] = (pixel_shuffle, pixel_unshuffle, channel_shuffle)
for _function in _FREE:
    publish(_function, (_function.__name__,), on=("torch",))
