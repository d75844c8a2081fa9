"""L and U of matrices and what they solve, which matrices have no factors, exp of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tcdsl.core import Tensor, dtypes, from_numpy
from tcdsl.ops import decompositions as factored
from tcdsl.ops import lapack
from tcdsl.ops.casting import wide
from tcdsl.ops.factors import btrifact_with_info, btriunpack
from tcdsl.ops.linalg import solve_triangular
from tcdsl.ops.masks import where
from tcdsl.ops.matrices import array_of, check_square, eye_like
from tcdsl.ops.matrix_powers import inverse
from tcdsl.ops.on_device import moved
from tcdsl.ops.products import matmul
from tcdsl.ops.results import result
from tcdsl.ops.table import publish

__all__ = ["cholesky_ex", "inv_ex", "lu", "lu_factor", "lu_factor_ex", "lu_solve", "matrix_exp"]

CholeskyEx = result("linalg_cholesky_ex", "L", "info")
InvEx = result("linalg_inv_ex", "inverse", "info")
LuFactor = result("linalg_lu_factor", "LU", "pivots")
LuFactorEx = result("linalg_lu_factor_ex", "LU", "pivots", "info")
Lu = result("linalg_lu", "P", "L", "U")


def _told(a: Tensor, info: lapack.Array) -> Tensor:
    """Return what LAPACK says of matrices beside them."""
    return moved(from_numpy(info), a._device)


def _where_possible(a: Tensor, info: Tensor, made: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a function of matrices, NaN for those whose info is not 0."""
    failed = info != 0
    if not failed.any().item():
        return made(a)
    failed = failed.unsqueeze(-1).unsqueeze(-1)
    found: Tensor = where(failed, math.nan, made(where(failed, eye_like(a), a)))
    return found


@wide
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:  # noqa: N803
    """Decompose matrices into ``L L'``, and tell which are not positive definite.

    Parameters
    ----------
    A : Tensor, shape (..., N, N)
    upper : bool
        Whether U of ``U' U`` is wanted.
    check_errors : bool
        Whether to raise, as `cholesky` does.

    Returns
    -------
    L : Tensor, shape (..., N, N)
        NaN where there is none.
    info : Tensor of int32, shape (...)
        Of which order the first minor is that is not positive definite; 0 where all are.
    """
    check_square("linalg.cholesky", A)
    info = _told(A, lapack.first_minors(array_of(A), upper))
    if check_errors:
        return CholeskyEx(factored.cholesky(A, upper), info)
    return CholeskyEx(_where_possible(A, info, lambda a: factored.cholesky(a, upper)), info)


@wide
def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:  # noqa: N803
    """Invert matrices, and tell which are singular.

    Parameters
    ----------
    A : Tensor, shape (..., N, N)
    check_errors : bool
        Whether to raise, as `inv` does.

    Returns
    -------
    inverse : Tensor, shape (..., N, N)
        NaN where there is none.
    info : Tensor of int32, shape (...)
        Where U of ``P L U`` has the first zero in its diagonal, counted from 1; else 0.
    """
    check_square("linalg.inv", A)
    info = _told(A, lapack.factored(array_of(A))[2])
    if check_errors:
        return InvEx(inverse(A), info)
    return InvEx(_where_possible(A, info, inverse), info)


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:  # noqa: N803
    """Decompose matrices into ``P L U`` as LAPACK has them, and tell which are singular.

    Returns
    -------
    LU, pivots, info : Tensor
        As of `torch.btrifact_with_info`.
    """
    lu, pivots, info = btrifact_with_info(A, pivot)
    if check_errors and (info != 0).any().item():
        at = int(info[info != 0][0].item())
        raise RuntimeError(
            f"torch.linalg.lu_factor: U[{at},{at}] is zero and using it on lu_solve would result "
            "in a division by zero. If you still want to perform the factorization, consider "
            "calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
        )
    return LuFactorEx(lu, pivots, info)


def lu_factor(A: Tensor, *, pivot: bool = True) -> Any:  # noqa: N803
    """Decompose matrices into ``P L U`` as `lu_solve` takes them.

    Raises
    ------
    RuntimeError
        If U has a zero in its diagonal.
    """
    lu, pivots, _ = lu_factor_ex(A, pivot=pivot, check_errors=True)
    return LuFactor(lu, pivots)


def lu(A: Tensor, *, pivot: bool = True) -> Any:  # noqa: N803
    """Return P, L and U of ``A = P L U``.

    Parameters
    ----------
    A : Tensor, shape (..., M, N)
    pivot : bool
        Exchange rows, else P has no elements.
    """
    data, pivots, _ = btrifact_with_info(A, pivot)
    exchanged, lower, upper = btriunpack(data, pivots)
    return Lu(exchanged if pivot else A.new_empty((0,)), lower, upper)


@wide
def lu_solve(
    LU: Tensor,  # noqa: N803
    pivots: Tensor,
    B: Tensor,  # noqa: N803
    *,
    left: bool = True,
    adjoint: bool = False,
) -> Tensor:
    """Solve ``A X = B`` from what `lu_factor` returned of A.

    Parameters
    ----------
    LU : Tensor, shape (..., N, N)
    pivots : Tensor of int32, shape (..., N)
    B : Tensor, shape (..., N, K), or (..., K, N) where X stands on the left
    left, adjoint : bool
        Whether A stands on the left, and is transposed.
    """
    if not left:
        found = lu_solve(LU, pivots, B.transpose(-2, -1), adjoint=not adjoint)
        return found.transpose(-2, -1)  # type: ignore[no-any-return]
    exchanged, lower, upper = btriunpack(LU, pivots)
    assert exchanged is not None
    assert lower is not None
    assert upper is not None
    if adjoint:
        x = solve_triangular(upper.transpose(-2, -1), B, upper=False)
        x = solve_triangular(lower.transpose(-2, -1), x, upper=True, unitriangular=True)
        return matmul(exchanged, x)
    x = matmul(exchanged.transpose(-2, -1), B)
    x = solve_triangular(lower, x, upper=False, unitriangular=True)
    return solve_triangular(upper, x, upper=True)


@wide
def matrix_exp(A: Tensor) -> Tensor:  # noqa: N803
    """Return ``1 + A + A A / 2 + ...`` of square matrices.

    Its series is summed of ``A / 2^k``, small enough that few terms do, and squared k times.

    Parameters
    ----------
    A : Tensor, shape (..., N, N)
    """
    check_square("linalg.matrix_exp", A)
    if not A.numel():
        return A.clone()  # type: ignore[no-any-return]
    size = float(A.detach().abs().sum(-2).amax().item())
    halvings = max(0, math.ceil(math.log2(size))) if 0 < size < math.inf else 0
    terms = 18 if A.dtype is dtypes.float64 else 12  # the next is below an eps
    one, x = eye_like(A), A / 2.0**halvings
    made = one + x / terms
    for k in range(terms - 1, 0, -1):
        made = one + matmul(x, made) / k
    for _ in range(halvings):
        made = matmul(made, made)
    return made


publish(matrix_exp, ("matrix_exp",))
