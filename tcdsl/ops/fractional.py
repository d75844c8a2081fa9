"""Max pools whose windows have steps that are fractions, drawn by chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tcdsl.core import Tensor, empty
from tcdsl.ops.arguments import listed
from tcdsl.ops.casting import wide
from tcdsl.ops.filling import uniform_
from tcdsl.ops.indexing import gather
from tcdsl.ops.table import Family

ops = Family(__file__)
_fractions = ops.op("fractions", vjp=None)
_fractional_max = ops.op("fractional_max", vjp=None)


@wide
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Return the largest elements of windows that lie where chance puts them.

    Parameters
    ----------
    input : Tensor, shape (N, C, H, W) or (C, H, W)
    kernel_size : int or (int, int)
        Extents of the windows.
    output_size : int or (int, int)
        Windows in each dimension; or else:
    output_ratio : float or (float, float)
        The same as a share of the image, below 1.
    return_indices : bool
        Return where the elements were as well, flat within their channel.

    References
    ----------
    Graham, "Fractional max-pooling", 2014.
    """
    if (output_size is None) == (output_ratio is None):
        raise ValueError(
            "fractional_max_pool2d requires specifying either an output_size or an output_ratio"
        )
    *before, h, w = input.shape
    kernel = _pair(kernel_size)
    if output_size is None:
        ratio = _pair(output_ratio)
        output = [int(h * ratio[0]), int(w * ratio[1])]
    else:
        output = [int(n) for n in _pair(output_size)]
    for what, n, k, o in zip(("height", "width"), (h, w), kernel, output, strict=True):
        if o + k - 1 > n:
            raise RuntimeError(
                f"fractional_max_pool2d(): pool {what} {k} too large relative to input {what} {n}"
            )
    rows = math.prod(before)
    samples = _random_samples
    if samples is None:
        samples = uniform_(empty((rows, 2), input.dtype))
    samples = samples.reshape(rows, 2)
    flat = input.reshape(rows, h, w)
    x, y = (
        _fractions(samples.select(1, at), (n - k) / (o - 1) if o > 1 else 0.0, n - k, O=o)
        for at, n, k, o in ((0, w, kernel[1], output[1]), (1, h, kernel[0], output[0]))
    )
    _, index = _fractional_max(flat.detach(), y, x, KH=kernel[0], KW=kernel[1])
    found = gather(flat.reshape(rows, h * w), 1, index.reshape(rows, -1))
    shape = (*before, *output)
    if return_indices:
        return found.reshape(shape), index.reshape(shape)
    return found.reshape(shape)


def _pair(value: Any) -> Sequence[Any]:
    value = listed(value)
    return (value, value) if isinstance(value, int | float) else tuple(value)
