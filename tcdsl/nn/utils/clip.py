"""Gradients within limits."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tcdsl import library
from tcdsl.core import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _listed(tensors: Iterable[Tensor] | Tensor) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Iterable[Tensor] | Tensor) -> list[Tensor]:
    return [p.grad.data for p in _listed(parameters) if p.grad is not None]


def get_total_norm(
    tensors: Iterable[Tensor] | Tensor,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of tensors as if they were one vector.

    Parameters
    ----------
    tensors : iterable of Tensor, or one
    norm_type : float
        inf: the largest absolute value.
    error_if_nonfinite : bool
        Whether a norm that is no number, or infinite, is an error.
    foreach : bool, optional
        Taken for the sake of programs that say it.

    Returns
    -------
    Tensor, shape ()

    Raises
    ------
    RuntimeError
        If the norm is not finite, where that is an error.
    """
    listed = _listed(tensors)
    if not listed:
        return library.tensor(0.0)
    kind = float(norm_type)
    norms = library.stack([t.norm(kind) for t in listed])
    total: Tensor = norms.max() if kind == math.inf else norms.norm(kind)
    if error_if_nonfinite and not math.isfinite(float(total)):
        raise RuntimeError(
            f"The total norm of order {kind} for gradients from `parameters` is non-finite, so it "
            "cannot be clipped. To disable this error and scale the gradients by the non-finite "
            "norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Iterable[Tensor] | Tensor,
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale gradients in place by ``max_norm / (total_norm + 1e-6)`` where that is below 1."""
    factor = float(max_norm) / (float(total_norm) + 1e-6)
    if not factor >= 1:  # NaN too, as in PyTorch
        for g in _gradients(parameters):
            g.mul_(factor)


def clip_grad_norm_(
    parameters: Iterable[Tensor] | Tensor,
    max_norm: float,
    norm_type: float = 2,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients in place so that their norm, as if they were one vector, is no larger.

    Parameters
    ----------
    parameters : iterable of Tensor, or one
    max_norm : float
    norm_type, error_if_nonfinite, foreach
        As of `get_total_norm`.

    Returns
    -------
    Tensor, shape ()
        The norm that they had.
    """
    listed = _listed(parameters)
    total = get_total_norm(_gradients(listed), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(listed, max_norm, total)
    return total


def clip_grad_value_(
    parameters: Iterable[Tensor] | Tensor, clip_value: float, foreach: bool | None = None
) -> None:
    """Clamp gradients in place to +- clip_value."""
    for g in _gradients(parameters):
        g.clamp_(-float(clip_value), float(clip_value))
