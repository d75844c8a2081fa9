"""Functions of nn.functional that are made of other ops: norms, losses of today."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tcdsl.core import Tensor, dtypes
from tcdsl.ops.along import softmax
from tcdsl.ops.clamping import clamp
from tcdsl.ops.distances import pairwise_distance
from tcdsl.ops.losses import mean_or_sum
from tcdsl.ops.pointwise import minimum
from tcdsl.ops.reductions import mean
from tcdsl.ops.table import publish


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Divide by the root of the mean square over the last dimensions, and scale."""
    shape = tuple(normalized_shape)
    if tuple(input.shape[input.ndim - len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape "
            f"{['*', *shape]}, but got input of size{list(input.shape)}"
        )
    dims = tuple(range(-len(shape), 0))
    is_half = input.dtype in (dtypes.float16, dtypes.bfloat16)
    x = input.to(dtypes.float32) if is_half else input  # squares of halves soon are infinite
    least = _EPSILON[x.dtype.name] if eps is None else eps
    made: Tensor = x * (mean(x * x, dims, True) + least).rsqrt()
    made = made if weight is None else made * weight
    return made.to(input.dtype) if is_half else made


_EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52}


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Draw from a softmax so that gradients follow: with noise of Gumbel's distribution.

    Parameters
    ----------
    logits : Tensor
    tau : float
        The temperature.
    hard : bool
        Return 1 and 0; gradients are those of the soft draw.
    eps : float
        Not used, as in PyTorch.
    dim : int
    """
    noise = -logits.new_empty(tuple(logits.shape)).exponential_().log()
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    chosen = soft.detach().max(dim, True).indices
    one = soft.detach().new_zeros(tuple(soft.shape)).scatter_(dim, chosen, 1.0)
    return one - soft.detach() + soft  # type: ignore[no-any-return]


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Return how unlikely targets are of normal distributions of given means and variances."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = input.new_full(tuple(input.shape), var)
    elif tuple(var.shape) != tuple(input.shape):
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif tuple(input.shape[:-1]) != tuple(var.shape[:-1]) or var.shape[-1] != 1:
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    if bool((var.detach() < 0).any()):
        raise ValueError("var has negative entry/entries")
    floor = clamp(var.detach(), min=eps) - var.detach()  # whose gradient passes as var's
    var = var + floor
    found = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        found = found + 0.5 * math.log(2 * math.pi)
    return mean_or_sum(found, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return what a negative example lacks of being farther than a positive one by a margin."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return mean_or_sum(clamp(near - far + margin, min=0), reduction)


publish(rms_norm, ("rms_norm",), on=("torch",))
