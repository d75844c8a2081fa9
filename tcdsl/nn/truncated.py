"""Normal numbers between two bounds, in the order in which PyTorch draws them."""

from __future__ import annotations

import math
import warnings
from typing import Any

from tcdsl import library
from tcdsl.core import Tensor

__all__ = ["draw_truncated"]


def draw_truncated(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any
) -> Tensor:
    """Fill a tensor with normal numbers, given that they lie in [a, b].

    Numbers outside are drawn again. Where fewer than three in ten would be inside, uniform ones
    are drawn instead, and each is kept as often as its density over the greatest one says.

    Parameters
    ----------
    tensor : Tensor
    mean, std : float
        Of the normal distribution that is cut off.
    a, b : float
        The least and the greatest number, not in units of `std`.
    generator : Generator or None
        What is drawn from, the library's own by default.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=4,
        )
    root = std * math.sqrt(2)
    inside = 0.5 * (math.erf((b - mean) / root) - math.erf((a - mean) / root))
    low, high = (tensor.new_tensor(bound).item() for bound in (a, b))
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    drawn, coins = library.empty_like(tensor), library.empty_like(tensor)

    def refused() -> Tensor:
        """Draw every element anew; true where its number is not kept."""
        if inside > 0.3:
            drawn.normal_(mean, std, generator=generator)
            return (drawn < low) | (drawn > high)
        drawn.uniform_(a, b, generator=generator)
        density = drawn.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        return coins.uniform_(generator=generator).log_() > density

    pending = refused()
    tensor.copy_(drawn)
    while pending.any():
        again = refused()
        tensor.copy_(library.where(pending, drawn, tensor))
        pending = pending.logical_and(again)
    return tensor
