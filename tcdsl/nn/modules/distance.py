"""Distances of vectors."""

from __future__ import annotations

from tcdsl.core import Tensor
from tcdsl.nn import functional
from tcdsl.nn.modules.module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """``|x1 - x2 + eps|`` along the last dimension.

    Parameters
    ----------
    p : float
        Of the norm.
    eps : float
    keepdim : bool
        Whether the dimension stays, of extent 1.
    """

    def __init__(self, p: float = 2, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Compute (N, D) and (N, D) to (N,)."""
        return functional.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """``x1 . x2 / max(|x1| |x2|, eps)`` along a dimension."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Compute along the dimension, which goes."""
        return functional.cosine_similarity(x1, x2, self.dim, self.eps)
