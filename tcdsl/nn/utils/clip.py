"""Gradients within limits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tcdsl import library
from tcdsl.core import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_"]


def _gradients(parameters: Iterable[Tensor] | Tensor) -> list[Tensor]:
    tensors: Any = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad.data for p in tensors if p.grad is not None]


def clip_grad_norm_(
    parameters: Iterable[Tensor] | Tensor, max_norm: float, norm_type: float = 2
) -> Tensor:
    """Scale gradients in place so that their norm, as if they were one vector, is no larger.

    Parameters
    ----------
    parameters : iterable of Tensor, or one
    max_norm : float
    norm_type : float
        inf: the largest absolute value.

    Returns
    -------
    Tensor, shape ()
        The norm that they had.
    """
    gradients = _gradients(parameters)
    if not gradients:
        return library.tensor(0.0)
    norms = library.stack([g.norm(float(norm_type)) for g in gradients])
    total = norms.max() if norm_type == math.inf else norms.norm(float(norm_type))
    factor = float(max_norm) / (float(total) + 1e-6)
    if factor < 1:
        for g in gradients:
            g.mul_(factor)
    return total


def clip_grad_value_(parameters: Iterable[Tensor] | Tensor, clip_value: float) -> None:
    """Clamp gradients in place to +- clip_value."""
    for g in _gradients(parameters):
        g.clamp_(-float(clip_value), float(clip_value))
