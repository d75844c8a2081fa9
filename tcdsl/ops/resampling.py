"""Images of another size, under PyTorch's names and defaults."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from tcdsl.core import Op, Tensor, from_numpy, made_by
from tcdsl.core.dtypes import uint8
from tcdsl.ops.adaptive import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from tcdsl.ops.arguments import asked_once, listed
from tcdsl.ops.formats import channels_behind, channels_second, has_channels_last
from tcdsl.ops.on_device import moved
from tcdsl.ops.over import op_over
from tcdsl.ops.rules import not_for
from tcdsl.ops.spatial import spatial, with_channels_behind
from tcdsl.ops.table import Family, op_of_text
from tcdsl.ops.writing import kept_for_all

ops = Family(__file__)
_RANKS = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}  # of the modes that weigh
_NEAR = ("nearest", "nearest-exact")


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Bring images to another size.

    Parameters
    ----------
    input : Tensor, shape (N, C, ...)
        Of one to three dimensions behind the channels; bytes too of the modes of two dimensions.
    size : int or one for each dimension
        Or else:
    scale_factor : float or one for each dimension
        How many times larger the result is.
    mode : {"nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area"}
    align_corners : bool
        Whether the outer elements stay where they are; of the linear and cubic modes only.
    recompute_scale_factor : bool
        Whether the factor is what the sizes say, where both differ by rounding.
    antialias : bool
        Take the mean of all that a smaller image's elements stand for; of "bilinear" and "bicubic".
    """
    settings = size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
    image, sizes, factors = _checked(input.shape, *settings)
    rank = len(image)
    if mode == "area":
        pool = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[rank - 1]
        return pool(input, sizes)
    if mode in _RANKS:
        _check_weighable(input, mode, antialias)
    last = has_channels_last(input)
    if mode == "nearest" and not any(n == 0 or o % n for n, o in zip(image, sizes, strict=True)):
        times = [o // n for n, o in zip(image, sizes, strict=True)]
        return made_by(_enlarged(input, times, last), f"UpsampleNearest{rank}DBackward0")
    input = channels_behind(input) if last else input
    before = 1 if last else 2  # dimensions
    # Bytes are rounded after each dimension; PyTorch begins with the last.
    for d, (n, o) in reversed([*enumerate(zip(image, sizes, strict=True))]):
        scale = 1 / factors[d] if factors is not None else n / o
        if mode in _RANKS and input.dtype is uint8:
            by = _from_end_to_end(n, o) if align_corners else scale
            input = _resized_bytes(input, d + before, o, by, mode, bool(align_corners), antialias)
        elif antialias:
            by = _from_end_to_end(n, o) if align_corners else scale
            input = _smoothed(input, d + before, o, by, 2 if mode == "bicubic" else 1)
        else:
            input = _resized(input, d + before, o, scale, mode, bool(align_corners))
    named = "".join(part.title() for part in mode.split("-"))
    made = channels_second(input) if last else input
    return made_by(made, f"Upsample{named}{rank}D{'Aa' * antialias}Backward0")


@asked_once
def _checked(
    shape: tuple[int, ...],
    size: int | Sequence[int] | None,
    scale_factor: float | Sequence[float] | None,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
    antialias: bool,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...] | None]:
    """Return the sizes of images before and after, and the factors if they say what is read."""
    rank, image = len(shape) - 2, tuple(shape[2:])
    if rank not in (1, 2, 3):
        raise NotImplementedError(_said(len(shape), mode))
    if (size is None) == (scale_factor is None):
        raise ValueError(
            "either size or scale_factor should be defined"
            if size is None
            else "only one of size or scale_factor should be defined"
        )
    if mode in (*_NEAR, "area") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: "
            "linear | bilinear | bicubic | trilinear"
        )
    if mode in _RANKS and _RANKS[mode] != rank:
        raise NotImplementedError(
            f"Got {len(shape)}D input, but {mode} mode needs {_RANKS[mode] + 2}D input"
        )
    if mode not in (*_NEAR, "area", *_RANKS):
        raise NotImplementedError(_said(len(shape), mode))
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D "
            "tensor as input"
        )
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    factors = None
    if scale_factor is not None:
        factors = tuple(float(f) for f in _each(scale_factor, image, "scale_factor"))
        sizes = tuple(math.floor(n * f) for n, f in zip(image, factors, strict=True))
        if recompute_scale_factor:
            factors = None
    else:
        sizes = tuple(int(n) for n in _each(size, image, "output size"))
    if min(*image, *sizes) <= 0:
        given, found = (
            ", ".join(f"{d}: {n}" for d, n in zip("DHW"[3 - rank :], s, strict=True))
            for s in (image, sizes)
        )
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({given}) and "
            f"output ({found})"
        )
    return image, sizes, factors


def _said(rank: int, mode: str) -> str:
    return (
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank}D) for the "
        "modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact "
        f"(got {mode})"
    )


def _check_weighable(input: Tensor, mode: str, antialias: bool) -> None:
    """Refuse types that PyTorch does not weigh: integers, but bytes of images."""
    if input.dtype.is_floating_point or (input.dtype is uint8 and _RANKS[mode] == 2):
        return
    kind = "cubic" if mode == "bicubic" else "linear"
    kernel = "index_ranges_weights" if antialias else f"indices_weights_{kind}"
    raise not_for(f"compute_{kernel}", input.dtype)


def _each(value: Any, image: tuple[int, ...], what: str) -> list[Any]:
    value = listed(value)
    if isinstance(value, int | float):
        return [value] * len(image)
    if len(value) != len(image):
        places = ", ".join(f"d{d + 1}" for d in range(2))
        sizes = ", ".join(f"o{d + 1}" for d in range(2))
        raise ValueError(
            "Input and output must have the same number of spatial dimensions, but got input with "
            f"spatial dimensions of {list(image)} and {what} of {value}. Please provide input "
            f"tensor in (N, C, {places}, ...,dK) format and {what} in ({sizes}, ...,oK) format."
        )
    return list(value)


@cache
def _enlarge(times: tuple[int, ...], last: bool, name: str = "enlarge") -> Op:
    """Return the op that has each element so many times, or adds as many up: its gradient."""

    def back(needs: int, d_out: Tensor) -> Any:
        return _enlarge(times, last, "add_up" if name == "enlarge" else "enlarge")(d_out)

    text = spatial(ops.text(name), len(times))
    made = op_of_text(with_channels_behind(text, "m") if last else text, vjp=back)
    return made.with_generics(**{f"U{d + 1}": n for d, n in enumerate(times)})


def _enlarged(input: Tensor, times: list[int], last: bool) -> Tensor:
    """Return images of a whole number of times their size."""
    if last:
        return channels_second(_enlarge(tuple(times), last)(channels_behind(input)))
    n, c, *image = input.shape
    made: Tensor = _enlarge(tuple(times), last)(input.reshape(n * c, *image))
    return made.view(n, c, *made.shape[1:])  # type: ignore[no-any-return]


def _resized(input: Tensor, dim: int, o: int, scale: float, mode: str, align: bool) -> Tensor:
    """Bring one dimension to another size."""
    made: Tensor
    if mode in _NEAR:
        name = "resize_nearest" if mode == "nearest" else "resize_exact"
        made = _resizing(name, input.ndim, dim, o)(input, scale)
    else:
        op = _resizing("resize_cubic" if mode == "bicubic" else "resize_linear", input.ndim, dim, o)
        by = _from_end_to_end(input.shape[dim], o) if align else scale
        made = op(input, by, 0.0 if align else 0.5 * scale - 0.5)
    return made


def _from_end_to_end(n: int, o: int) -> float:
    """Return how far apart o places are, the first and the last at the ends of n elements."""
    return (n - 1) / (o - 1) if o > 1 else 0.0


def _smoothed(input: Tensor, dim: int, o: int, scale: float, reach: int) -> Tensor:
    """Bring one dimension to another size by means of all elements that a place stands for."""
    most = 2 * math.ceil(reach * max(scale, 1.0)) + 1
    op = _smoothing("resize_smooth", input.ndim, dim)
    made: Tensor = op(input, scale, O=o, J=most, REACH=reach)
    return made


def _resized_bytes(
    input: Tensor, dim: int, o: int, scale: float, mode: str, align: bool, antialias: bool
) -> Tensor:
    """Bring one dimension of bytes to another size, as PyTorch does: in whole numbers."""
    n = input.shape[dim]
    if n == o and scale == 1:
        return input
    reach = 2 if mode == "bicubic" else 1
    find = _weights_of_means if antialias else _weights_between
    first, weights, bits = _whole_weights(find, n, o, scale, reach, align)
    op = _smoothing("resize_bytes", input.ndim, dim)
    made: Tensor = op(input, moved(first, input._device), moved(weights, input._device), bits)
    return made


@lru_cache(maxsize=1024)
@kept_for_all()
def _whole_weights(
    find: Any, n: int, o: int, scale: float, reach: int, align: bool
) -> tuple[Tensor, Tensor, int]:
    """Return the first element of each place, the weights in 16 bits, and how many are fractional.

    References
    ----------
    ``_compute_index_ranges_int16_weights`` of PyTorch 2; Pillow's resampling.
    """
    first, weights = find(n, o, scale, reach, align)
    bits = max(b for b in range(1, 23) if b == 1 or int(0.5 + weights.max() * 2**b) < 1 << 15)
    whole = np.trunc(weights * 2**bits + np.copysign(0.5, weights)).astype(np.int32)
    return from_numpy(first), from_numpy(whole), bits


def _weights_between(n: int, o: int, scale: float, reach: int, align: bool) -> Any:
    """Return the first of the elements around each place, and their weights, (2 * reach, o).

    What is left of the first element or right of the last counts as that one.
    """
    place = scale * np.arange(o) if align else scale * (np.arange(o) + 0.5) - 0.5
    if reach == 1:
        place = place.clip(0)
    low = np.floor(place).astype(np.int64).clip(max=n - 1)
    step = np.arange(2 * reach)[:, None] + 1 - reach
    raw = _bump(step - (place - low).clip(0, 1), reach, -0.75)
    first = (low + 1 - reach).clip(0)
    weights = np.zeros((2 * reach, o))
    np.add.at(weights, ((low + step).clip(0, n - 1) - first, np.arange(o)), raw)
    return first, weights


def _weights_of_means(n: int, o: int, scale: float, reach: int, align: bool) -> Any:
    """Return the first of the elements that each place stands for, and their weights, (J, o)."""
    width = max(scale, 1.0)
    middle = scale * (np.arange(o) + 0.5)
    first = (middle - reach * width + 0.5).astype(np.int64).clip(0)
    end = (middle + reach * width + 0.5).astype(np.int64).clip(max=n)
    at = first + np.arange(2 * math.ceil(reach * width) + 1)[:, None]
    weights = np.where(at < end, _bump((at + 0.5 - middle) / width, reach, -0.5), 0)
    return first, weights / weights.sum(0)


def _bump(away: Any, reach: int, slope: float) -> Any:
    """Return a triangle, or a cubic of a slope at 1, both 0 from `reach` on."""
    away = np.abs(away)
    if reach == 1:
        return (1 - away).clip(0)
    near = ((slope + 2) * away - (slope + 3)) * away * away + 1
    far = ((slope * away - 5 * slope) * away + 8 * slope) * away - 4 * slope
    return np.where(away < 1, near, np.where(away < 2, far, 0))


@lru_cache(maxsize=64)
def _smoothing(name: str, rank: int, dim: int) -> Op:
    """Return the op of a definition along a dimension."""
    return op_over(ops, name, rank, (dim,))


@lru_cache(maxsize=1024)
def _resizing(name: str, rank: int, dim: int, o: int) -> Op:
    """Return the op that brings one dimension to a size."""
    if name != "resize_linear":
        return op_over(ops, name, rank, (dim,)).with_generics(O=o)

    def back(needs: int, d_out: Tensor, input: Tensor, scale: float, shift: float) -> Any:
        n = input.shape[dim]
        first, most = _windows(n, o, float(scale), float(shift))
        return (
            _spreading(rank, dim, n, most)(d_out, moved(first, d_out._device), scale, shift),
            None,
            None,
        )

    made = op_over(ops, name, rank, (dim,), vjp=back, saves=("like:input", "scale", "shift"))
    return made.with_generics(O=o)


@lru_cache(maxsize=1024)
def _spreading(rank: int, dim: int, n: int, most: int) -> Op:
    """Return the op that gives elements what the places around them have, which is linear."""

    def back(needs: int, d: Tensor, d_out: Tensor, scale: float, shift: float) -> Any:
        o = d_out.shape[dim]
        return _resizing("resize_linear", rank, dim, o)(d, scale, shift), None, None, None

    saves = ("like:d_out", "scale", "shift")
    made = op_over(ops, "spread_linear", rank, (dim,), vjp=back, saves=saves)
    return made.with_generics(J=most)


@lru_cache(maxsize=1024)
@kept_for_all()
def _windows(n: int, o: int, scale: float, shift: float) -> tuple[Tensor, int]:
    """Return the first place that may read each element, and the most places that read one.

    Place i, scale * i + shift, reads the elements around it. What is left of the first or right of
    the last reads that one.
    """
    k = np.arange(n)
    if scale == 0:
        first, end = np.zeros(n, np.int64), np.full(n, o)
    else:
        near = 1e-6  # more than what is lost in computing either side
        first = np.ceil((k - 1 - shift) / scale - near).clip(0, o - 1).astype(np.int64)
        end = np.ceil((k + 1 - shift) / scale + near).clip(0, o).astype(np.int64)
    first[0], end[-1] = 0, o
    return from_numpy(first), int((end - first).max())


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Bring images to another size: `interpolate`, under its name of PyTorch 0.4."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """Bring images to another size by the nearest elements."""
    return interpolate(input, size, scale_factor)


def upsample_bilinear(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """Bring images to another size between elements, the outer ones staying where they are."""
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)
