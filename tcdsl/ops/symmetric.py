"""Symmetric matrices as ``P L D L' P'``, D with blocks of one and of two, and systems by them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcdsl.core import Tensor
from tcdsl.ops import lapack
from tcdsl.ops.casting import wide
from tcdsl.ops.lapack import Array, LinAlgError
from tcdsl.ops.matrices import array_of, check_square, shown, underivable
from tcdsl.ops.results import result
from tcdsl.ops.systems import check_system

__all__ = ["ldl_factor", "ldl_factor_ex", "ldl_solve"]

Factor = result("linalg_ldl_factor", "LD", "pivots")
FactorEx = result("linalg_ldl_factor_ex", "LD", "pivots", "info")


@wide
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> Any:  # noqa: N803
    """Decompose symmetric matrices into ``P L D L' P'``, and tell which are singular.

    Parameters
    ----------
    A : Tensor, shape (..., N, N)
        The lower triangles are read.
    hermitian : bool
        Of real numbers the same.
    check_errors : bool
        Whether to raise where D is singular.

    Returns
    -------
    LD : Tensor, shape (..., N, N)
        L below the diagonal without its ones, D at and beside it.
    pivots : Tensor of int32, shape (..., N)
        With which row each was exchanged, counted from 1, below 0 in blocks of two.
    info : Tensor of int32, shape (...)
        Where D has the first zero in its diagonal, counted from 1; 0 where it has none.
    """
    check_square("torch.linalg.ldl_factor_ex", A)
    found = lapack.symmetric_factors(array_of(A))
    if check_errors and found[2].any():
        at = int(found[2].reshape(-1)[np.flatnonzero(found[2])[0]])
        raise LinAlgError(
            f"torch.linalg.ldl_factor_ex: D[{at},{at}] is zero and using it on ldl_solve would "
            "result in a division by zero."
        )
    return FactorEx(*underivable("linalg_ldl_factor_ex", (A,), found, constants=[1, 2]))


def ldl_factor(A: Tensor, *, hermitian: bool = False) -> Any:  # noqa: N803
    """Decompose symmetric matrices as `ldl_solve` takes them.

    Raises
    ------
    RuntimeError
        If D is singular.
    """
    ld, pivots, _ = ldl_factor_ex(A, hermitian=hermitian, check_errors=True)
    return Factor(ld, pivots)


@wide
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:  # noqa: N803
    """Solve ``A X = B`` from what `ldl_factor` returned of A.

    Parameters
    ----------
    LD : Tensor, shape (..., N, N)
    pivots : Tensor of int32, shape (..., N)
    B : Tensor, shape (..., N, K)
    """
    check_system("torch.linalg.ldl_solve", B, LD)
    if pivots.dtype.is_floating_point:
        raise RuntimeError(
            f"torch.linalg.ldl_solve: Expected pivots to be integers. Got {shown(pivots.dtype)}"
        )
    found = _solved(array_of(LD), array_of(pivots), array_of(B))
    return underivable("linalg_ldl_solve", (LD, B), [found])[0]


def _solved(ld: Array, pivots: Array, right: Array) -> Array:
    """Return X of one or of many systems: by L, by D, by L', with exchanges of rows between."""
    batch = np.broadcast_shapes(ld.shape[:-2], right.shape[:-2])
    n, ld = ld.shape[-1], np.broadcast_to(ld, (*batch, *ld.shape[-2:]))
    pivots = np.broadcast_to(pivots, (*batch, n))
    x = np.broadcast_to(right, (*batch, *right.shape[-2:])).copy()
    for at in np.ndindex(batch):
        _solve_one(ld[at], pivots[at], x[at])
    return x


def _solve_one(ld: Array, pivots: Array, x: Array) -> None:
    n, starts, k = len(ld), [], 0
    while k < n:
        size = 1 if pivots[k] > 0 else 2
        last, other = k + size - 1, abs(int(pivots[k])) - 1
        x[[last, other]] = x[[other, last]]
        below = slice(k + size, n)
        x[below] -= ld[below, k : k + size] @ x[k : k + size]
        if size == 1:
            x[k] /= ld[k, k]
        else:
            block = np.array([[ld[k, k], ld[k + 1, k]], [ld[k + 1, k], ld[k + 1, k + 1]]])
            x[k : k + 2] = np.linalg.solve(block, x[k : k + 2])
        starts.append((k, size, last, other))
        k += size
    for k, size, last, other in reversed(starts):
        below = slice(k + size, n)
        x[k : k + size] -= ld[below, k : k + size].T @ x[below]
        x[[last, other]] = x[[other, last]]
