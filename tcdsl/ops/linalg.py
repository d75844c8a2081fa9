"""What `torch.linalg` has: decompositions, systems and products under PyTorch's names of today."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tcdsl.core import Tensor, dtypes, from_numpy
from tcdsl.ops import decompositions as factored
from tcdsl.ops import determinants
from tcdsl.ops.arranged import movedim
from tcdsl.ops.between import chained
from tcdsl.ops.casting import lower, wide
from tcdsl.ops.copies import cross as _cross
from tcdsl.ops.determinants import det
from tcdsl.ops.lapack import LinAlgError
from tcdsl.ops.matrices import array_of, check_matrices, turned
from tcdsl.ops.matrix_norms import cond, matrix_norm, norm, vector_norm
from tcdsl.ops.matrix_powers import inverse, matrix_power, pinverse
from tcdsl.ops.pointwise import mul
from tcdsl.ops.products import matmul
from tcdsl.ops.results import result
from tcdsl.ops.systems import gesv, triangular

__all__ = [
    "LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals",
    "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "multi_dot",
    "norm", "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "tensorinv",
    "tensorsolve", "vecdot", "vector_norm",
]  # fmt: skip

QR = result("linalg_qr", "Q", "R")
SVD = result("linalg_svd", "U", "S", "Vh")
Slogdet = result("linalg_slogdet", "sign", "logabsdet")
Eigh = result("linalg_eigh", "eigenvalues", "eigenvectors")
LeastSquares = result("linalg_lstsq", "solution", "residuals", "rank", "singular_values")


def slogdet(input: Tensor) -> Any:
    """Return the signs of determinants and the logarithms of their absolute values."""
    return Slogdet(*determinants.slogdet(input))


# ---- decompositions


@wide
def inv(A: Tensor) -> Tensor:  # noqa: N803
    """Return the inverses of square matrices."""
    return inverse(A)


@wide
def pinv(A: Tensor, rcond: float | None = None, *, rtol: float | None = None) -> Tensor:  # noqa: N803
    """Return pseudo-inverses; singular values up to rtol times the largest count as 0."""
    tolerance = rtol if rcond is None else rcond
    return pinverse(A, _tolerance(A) if tolerance is None else tolerance)


def _tolerance(a: Tensor) -> float:
    return float(np.finfo(a.dtype.numpy).eps) * max(a.shape[-2:], default=0)


@wide
def qr(A: Tensor, mode: str = "reduced") -> Any:  # noqa: N803
    """Decompose matrices into orthogonal columns and an upper triangle."""
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), "
            "'r', or 'complete'"
        )
    q, r = factored.qr(A, mode != "complete")
    return QR(A.new_empty(0) if mode == "r" else q, r)


@wide
def svd(A: Tensor, full_matrices: bool = True) -> Any:  # noqa: N803
    """Decompose matrices into ``U diag(S) Vh``."""
    u, s, v = factored.svd(A, not full_matrices)
    return SVD(u, s, turned(v))


@wide
def svdvals(A: Tensor) -> Tensor:  # noqa: N803
    """Return singular values from the largest on."""
    found: Tensor = factored.svd(A).S
    return found


def _upper(uplo: str) -> bool:
    if uplo.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {uplo}")
    return uplo.upper() == "U"


@wide
def eigh(A: Tensor, UPLO: str = "L") -> Any:  # noqa: N803
    """Return eigenvalues of symmetric matrices in rising order, and eigenvectors as columns."""
    return Eigh(*factored.symeig(A, True, _upper(UPLO)))


@wide
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:  # noqa: N803
    """Return eigenvalues of symmetric matrices in rising order."""
    found: Tensor = factored.symeig(A, False, _upper(UPLO)).eigenvalues
    return found


def eig(A: Tensor) -> Any:  # noqa: N803
    """Refuse: eigenvalues of matrices that are not symmetric are complex."""
    raise NotImplementedError(
        "linalg.eig: there are no complex tensors here. Say linalg.eigh of symmetric matrices, or "
        "tcdsl.eig, which returns real and imaginary parts as two columns"
    )


eigvals = eig


@wide
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:  # noqa: N803
    """Decompose positive definite matrices into ``L L'``, or ``U' U``."""
    return factored.triangle_of("linalg.cholesky", A, upper)


# ---- systems


@wide
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:  # noqa: N803
    """Solve ``A X = B``, or ``X A = B``.

    Parameters
    ----------
    A : Tensor, shape (..., N, N)
    B : Tensor, shape (..., N, K), or (..., N) where that fits A's batches
    left : bool
    """
    is_row = B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))
    right = B.unsqueeze(-1) if is_row else B
    found = gesv(right, A)[0] if left else turned(gesv(turned(right), turned(A))[0])
    return found.squeeze(-1) if is_row else found


def solve_triangular(
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Tensor:
    """Solve ``A X = B`` of triangles A, or ``X A = B``."""
    check_matrices("linalg.solve_triangular", A, B, square=True)
    if left:
        return triangular(A, B, upper=upper, unitriangular=unitriangular)
    found = triangular(A, turned(B), upper=upper, transpose=True, unitriangular=unitriangular)
    return turned(found)


def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:  # noqa: N803
    """Solve ``tensordot(A, X, X.ndim) = B``.

    Parameters
    ----------
    A : Tensor, shape (*B.shape, *X.shape)
        As many elements lie in the first dimensions as in the others.
    B : Tensor
    dims : sequence of int, optional
        Dimensions of A that are moved to its end before.
    """
    moved = A if not dims else movedim(A, tuple(dims), tuple(range(-len(dims), 0)))
    rows, columns = tuple(moved.shape[: B.ndim]), tuple(moved.shape[B.ndim :])
    _check_as_many("other.ndim", rows, columns)
    found = solve(moved.reshape(math.prod(rows), math.prod(columns)), B.reshape(-1))
    return found.reshape(columns)  # type: ignore[no-any-return]


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:  # noqa: N803
    """Return X of which ``tensordot(X, B, ind)`` solves ``tensordot(A, Y, Y.ndim) = B``.

    Parameters
    ----------
    A : Tensor
        As many elements lie in its first `ind` dimensions as in the others.
    ind : int
    """
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    rows, columns = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    _check_as_many("ind", rows, columns)
    found = inv(A.reshape(math.prod(rows), math.prod(columns)))
    return found.reshape(*columns, *rows)  # type: ignore[no-any-return]


def _check_as_many(by: str, rows: tuple[int, ...], columns: tuple[int, ...]) -> None:
    if math.prod(rows) != math.prod(columns):
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[{by}:]) == "
            f"prod(self.shape[:{by}]), but got {math.prod(columns)} != {math.prod(rows)}"
        )


@wide
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:  # noqa: N803
    """Return X of least squares of ``A X - B``, of least norm where there are many.

    Parameters
    ----------
    A : Tensor, shape (..., M, N)
    B : Tensor, shape (..., M, K), or (..., M)
    rcond : float, optional
        Singular values up to this part of the largest count as 0.
    driver : str, optional
        'gels', 'gelsy' (the default), 'gelsd' or 'gelss': all find the same here, and as in PyTorch
        only the last two tell singular values, 'gels' no rank, 'gelsy' no residuals.

    Returns
    -------
    solution, residuals, rank, singular_values
        Residuals are there where M > N and all ranks are full. By singular values no gradient
        goes.
    """
    check_matrices("linalg.lstsq", A)
    is_row = A.ndim - 1 == B.ndim
    right = B.unsqueeze(-1) if is_row else B
    if A.shape[-2] != right.shape[-2]:
        raise RuntimeError("torch.linalg.lstsq: input.size(-2) should match other.size(-2)")
    tolerance = _tolerance(A) if rcond is None else rcond
    found = matmul(pinverse(A, tolerance), right)
    values = svdvals(A.detach())
    rank = matrix_rank(A, rtol=tolerance)
    m, n = A.shape[-2:]
    is_full = bool((array_of(rank) == n).all())
    if driver in (None, "gelsy") or m <= n or not is_full:
        residuals = A.new_empty(0)
    else:
        residuals = (matmul(A, found) - right).square().sum(-2)
    if driver == "gels":
        rank = rank.new_empty(0)
    if driver not in ("gelsd", "gelss"):
        values = values.new_empty(0)
    return LeastSquares(found.squeeze(-1) if is_row else found, residuals, rank, values)


@wide
def matrix_rank(
    A: Tensor,  # noqa: N803
    *,
    atol: float | None = None,
    rtol: float | None = None,
    hermitian: bool = False,
) -> Tensor:
    """Return how many singular values are not 0, up to a tolerance."""
    check_matrices("linalg.matrix_rank", A)
    values = array_of(svdvals(A.detach()))
    relative = rtol if rtol is not None else 0.0 if atol else _tolerance(A)
    least = np.maximum(atol or 0.0, relative * values.max(-1, keepdims=True, initial=0))
    return from_numpy(np.asarray((values > least).sum(-1), dtypes.int64.numpy))


# ---- products


@lower
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Return the product of several matrices, formed in the order of least work.

    The first and the last may be vectors.
    """
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    listed = list(tensors)
    is_row, is_column = listed[0].ndim == 1, listed[-1].ndim == 1
    if is_row:
        listed[0] = listed[0].unsqueeze(0)
    if is_column:
        listed[-1] = listed[-1].unsqueeze(1)
    made = chained(listed)
    if is_column:
        made = made.squeeze(-1)
    return made.squeeze(0) if is_row else made


@lower
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Sum products along a dimension."""
    made: Tensor = mul(x, y).sum(dim)
    return made


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Return vector products along a dimension of three elements."""
    return _cross(input, other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:  # noqa: N803
    """Return a view of the diagonals of matrices."""
    made: Tensor = A.diagonal(offset, dim1, dim2)
    return made
