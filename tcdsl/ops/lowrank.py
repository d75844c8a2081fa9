"""Singular values of matrices that are nearly of low rank, by products with numbers of chance."""

from __future__ import annotations

from typing import Any

from tcdsl.core import Tensor
from tcdsl.ops import filling
from tcdsl.ops.linalg import qr, svd
from tcdsl.ops.table import publish

__all__ = ["pca_lowrank", "svd_lowrank"]

Parts = tuple[Tensor, Tensor, Tensor]


def svd_lowrank(A: Tensor, q: int = 6, niter: int = 2, M: Tensor | None = None) -> Parts:  # noqa: N803
    """Return U, S and V of about ``A - M = U diag(S) V'``.

    Parameters
    ----------
    A : Tensor, shape (..., M, N)
    q : int
        Singular values that are looked for, somewhat more than the rank.
    niter : int
        How often the space is made better by A and its transpose.
    M : Tensor, shape (..., 1, N) or A's, optional

    Returns
    -------
    U, S, V : Tensor, shapes (..., M, q), (..., q), (..., N, q)

    References
    ----------
    Halko, Martinsson, Tropp, "Finding structure with randomness", 2009, algorithm 5.1.
    """
    given: Any = A if M is None else A - M
    is_wide = given.shape[-2] < given.shape[-1]
    a = given.mT if is_wide else given
    z = filling.normal_(a.detach().new_empty((a.shape[-1], q)))
    space = qr(a @ z).Q
    for _ in range(niter):
        space = qr(a @ qr(a.mT @ space).Q).Q
    u, s, vh = svd(space.mT @ a, full_matrices=False)
    left, right = space @ u, vh.mT
    return (right, s, left) if is_wide else (left, s, right)


def pca_lowrank(
    A: Tensor,  # noqa: N803
    q: int | None = None,
    center: bool = True,
    niter: int = 2,
) -> Parts:
    """Return the directions V in which rows differ most, how much (S), and rows by them (U).

    Parameters
    ----------
    A : Tensor, shape (..., M, N)
        A row an observation.
    q : int, optional
        How many; by default 6, or M or N if they are less.
    center : bool
        Take the mean of all rows off first.
    niter : int
        As of `svd_lowrank`.
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, True) if center else A, q, niter)


for _function in (svd_lowrank, pca_lowrank):
    publish(_function, (_function.__name__,), on=("torch",))
