"""All parameters as one vector."""

from __future__ import annotations

from collections.abc import Iterable

from tcdsl import library
from tcdsl.core import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return the elements of all parameters behind each other, shape (N,)."""
    return library.cat([p.reshape(-1) for p in parameters], 0)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let parameters be parts of a vector, whose memory they then share.

    Parameters
    ----------
    vec : Tensor, shape (N,)
    parameters : iterable of Tensor
        Of N elements together.
    """
    at = 0
    for p in parameters:
        p.data = vec[at : at + p.numel()].view(p.shape).data
        at += p.numel()
