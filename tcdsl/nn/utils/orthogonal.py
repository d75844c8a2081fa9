"""Weights that are orthogonal: a module for `parametrize`."""

from __future__ import annotations

from typing import Any

from tcdsl import library, linalg
from tcdsl.core import Tensor
from tcdsl.nn.modules.module import Module
from tcdsl.nn.utils.parametrize import register_parametrization

__all__ = ["orthogonal"]

_MAPS = ("matrix_exp", "cayley", "householder")


def _reflected(vectors: Tensor, tau: Tensor) -> Tensor:
    """Return the first columns of ``(1 - t v v^T) (1 - t' v' v'^T) ...``, a vector a column.

    A vector has 1 at its number, 0 above, and below what stands there.
    """
    n, k = vectors.shape[-2:]
    lower = vectors.tril(-1) + library.eye(n, k, dtype=vectors.dtype, device=vectors.device)
    q = library.eye(n, k, dtype=vectors.dtype, device=vectors.device)
    q = q.expand(*vectors.shape[:-2], n, k)
    for i in reversed(range(k)):
        v = lower[..., i : i + 1]
        q = q - tau[..., i : i + 1, None] * (v @ (v.mT @ q))
    return q


def _orthogonalised(matrix: Tensor) -> Tensor:
    """Return Q of ``QR``, of which R has a positive diagonal."""
    found, tau = library.geqrf(matrix)
    signs = found.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    return library.orgqr(found, tau) * signs


def _is_orthogonal(q: Tensor) -> bool:
    eps = 10 * q.shape[-2] * library.finfo(q.dtype).eps
    one = library.eye(q.shape[-1], dtype=q.dtype, device=q.device)
    return bool(library.allclose(q.mT @ q, one, atol=eps))


class _Orthogonal(Module):
    """Columns, or rows of a wide matrix, that are orthogonal and of length 1."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool) -> None:
        super().__init__()
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:  # noqa: N803 - PyTorch's name
        """Return the weight."""
        is_wide = X.size(-2) < X.size(-1)
        x = X.mT if is_wide else X
        n, k = x.shape[-2:]
        if self.orthogonal_map == "householder":
            below = x.tril(-1)
            q = _reflected(below, 2.0 / (1.0 + (below * below).sum(-2)))
            q = q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)  # signs, without a gradient
        else:
            x = x.tril()
            if n > k:
                x = library.cat([x, x.new_zeros(*x.shape[:-2], n, n - k)], -1)
            a = x - x.mT
            if self.orthogonal_map == "matrix_exp":
                q = library.matrix_exp(a)
            else:
                one = library.eye(n, dtype=a.dtype, device=a.device)
                q = linalg.solve(one - 0.5 * a, one + 0.5 * a)
            q = q[..., :k]
        if (base := getattr(self, "base", None)) is not None:
            q = base @ q
        return q.mT if is_wide else q

    def right_inverse(self, Q: Tensor) -> Tensor:  # noqa: N803 - PyTorch's name
        """Return what gives a matrix, or the orthogonal one that is made of it."""
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. "
                f"Got a tensor of shape {Q.shape}."
            )
        is_wide = Q.size(-2) < Q.size(-1)
        q = Q.mT if is_wide else Q
        n, k = q.shape[-2:]
        if not hasattr(self, "base"):
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                )
            found, tau = library.geqrf(q)
            signs = found.diagonal(dim1=-2, dim2=-1)
            signs.copy_(library.where(tau == 0, -signs.sign(), signs.sign()))
            return found.mT if is_wide else found
        if n == k:
            q = q.clone() if _is_orthogonal(q) else _orthogonalised(q)
        else:  # the base is square: columns of chance beside those that are there
            more = library.randn(*q.shape[:-2], n, n - k, dtype=q.dtype, device=q.device)
            q = _orthogonalised(library.cat([q, more], -1))
        self.base = q
        start = library.zeros_like(Q)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def orthogonal(
    module: Any,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Any:
    """Keep a weight orthogonal: ``Q^T Q = 1``, of a wide matrix ``Q Q^T = 1``.

    Parameters
    ----------
    module : Module
    name : str
    orthogonal_map : {"matrix_exp", "cayley", "householder"}, optional
        What makes an orthogonal matrix of any: the exponential of a skew one, by default of square
        weights; ``(1 - A/2)^-1 (1 + A/2)`` of a skew one; a product of reflections, by default of
        others.
    use_trivialization : bool
        Train the way from the matrix that is there to the wanted one.

    Raises
    ------
    ValueError
        If there is no such weight, it has less than two dimensions, or the map is unknown.

    References
    ----------
    Lezcano-Casado, "Trivializations for gradient-based optimization on manifolds", 2019.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.size(-2) == weight.size(-1) else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)
