"""Systems of equations: solutions, and the factors that LAPACK solves them by."""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from typing import Any

import numpy as np

from tcdsl.core import GRAD, INPUT, NEEDS, OUTPUT, Tensor, from_numpy
from tcdsl.ops import lapack
from tcdsl.ops.copies import tril, triu
from tcdsl.ops.matrices import (
    array_of,
    check_matrices,
    check_one,
    eye_like,
    publish_all,
    recorded,
    turned,
    underivable,
)
from tcdsl.ops.products import matmul
from tcdsl.ops.rules import broadcast_shape
from tcdsl.ops.table import publish

Solution = namedtuple("Solution", ("solution", "LU"))  # as torch's results are
Triangular = namedtuple("Triangular", ("solution", "cloned_coefficient"))
Reflectors = namedtuple("Reflectors", ("a", "tau"))
LeastSquares = namedtuple("LeastSquares", ("solution", "QR"))


def _system(name: str, b: Tensor, a: Tensor) -> None:
    """Refuse what are no sides of ``A X = B``."""
    check_matrices(name, a, b, square=True)
    if b.shape[-2] != a.shape[-1]:
        raise RuntimeError(
            f"{name}: Incompatible matrix sizes: each A matrix is {a.shape[-1]} by {a.shape[-1]} "
            f"but each b matrix is {b.shape[-2]} by {b.shape[-1]}"
        )


def _batched(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return views of both with the dimensions of batches that they have together."""
    batch = broadcast_shape([tuple(a.shape[:-2]), tuple(b.shape[:-2])])
    made = [x if tuple(x.shape[:-2]) == batch else x.expand(*batch, *x.shape[-2:]) for x in (a, b)]
    return made[0], made[1]


def gesv(input: Tensor, A: Tensor) -> Any:  # noqa: N803  (the name of PyTorch)
    """Solve ``A X = B``.

    Parameters
    ----------
    input : Tensor, shape (..., N, K)
        B.
    A : Tensor, shape (..., N, N)

    Returns
    -------
    solution : Tensor, shape (..., N, K), LU : Tensor, shape (..., N, N)
        LU has no gradient.

    Raises
    ------
    RuntimeError
        If A is singular.
    """
    _system("linalg.solve", input, A)
    return Solution(*_solved(*_batched(A, input)))


def _solved(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    found = lapack.solve(array_of(a), array_of(b))
    vjp, taken = _solved_vjp, (NEEDS, INPUT, OUTPUT, GRAD)
    return recorded("LinalgSolve", (a, b), found, vjp, taken, constants=[1])


def _solved_vjp(needs: int, a: Tensor, x: Tensor, d_x: Tensor) -> Any:
    d_b = _solved(turned(a), d_x)[0]
    return -matmul(d_b, turned(x)) if needs & 1 else None, d_b


def trtrs(
    input: Tensor,
    A: Tensor,  # noqa: N803
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Any:
    """Solve ``A X = B`` of triangles A.

    Parameters
    ----------
    input : Tensor, shape (..., N, K)
        B.
    A : Tensor, shape (..., N, N)
    upper : bool
        Which triangle is read.
    transpose : bool
        Solve ``A' X = B``.
    unitriangular : bool
        Take the diagonal as 1, do not read it.

    Returns
    -------
    solution : Tensor, shape (..., N, K), cloned_coefficient : Tensor
        The second is a copy of A.
    """
    _system("triangular_solve", input, A)
    found = triangular(A, input, upper=upper, transpose=transpose, unitriangular=unitriangular)
    return Triangular(found, A.clone())


def triangular(
    a: Tensor,
    b: Tensor,
    *,
    upper: bool,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Tensor:
    """Return X of ``A X = B`` of triangles A, or of ``A' X = B``."""
    a, b = _batched(a, b)
    how = (upper, transpose, unitriangular)
    found = [lapack.triangular_solve(array_of(a), array_of(b), *how)]
    vjp, taken = partial(_triangular_vjp, how), (NEEDS, INPUT, OUTPUT, GRAD)
    return recorded("TriangularSolve", (a, b), found, vjp, taken)[0]


def _triangular_vjp(
    how: tuple[bool, bool, bool], needs: int, a: Tensor, x: Tensor, d_x: Tensor
) -> Any:
    upper, transposed, unit = how
    d_b = triangular(a, d_x, upper=upper, transpose=not transposed, unitriangular=unit)
    if not needs & 1:
        return None, d_b
    d_a = matmul(x, turned(d_b)) if transposed else matmul(d_b, turned(x))
    return -(triu(d_a, int(unit)) if upper else tril(d_a, -int(unit))), d_b


def potri(input: Tensor, upper: bool = True) -> Tensor:
    """Return the inverses of matrices ``U' U`` or ``L L'``, given U or L.

    Raises
    ------
    RuntimeError
        If a diagonal element is 0.
    """
    check_matrices("cholesky_inverse", input, square=True)
    array = array_of(input)
    for at in np.argwhere(np.diagonal(array, axis1=-2, axis2=-1) == 0):
        raise RuntimeError(
            f"cholesky_inverse: The diagonal element {at[-1] + 1} is zero, the inversion could not "
            "be completed because the input matrix is singular."
        )
    return potrs(eye_like(input), input, upper)


def potrs(input: Tensor, input2: Tensor, upper: bool = True) -> Tensor:
    """Solve ``A X = B`` of a positive definite A, given U of ``A = U' U`` or L of ``A = L L'``.

    Parameters
    ----------
    input : Tensor, shape (..., N, K)
        B.
    input2 : Tensor, shape (..., N, N)
        U, or L.
    upper : bool
    """
    _system("potrs", input, input2)
    first = triangular(input2, input, upper=upper, transpose=upper)
    return triangular(input2, first, upper=upper, transpose=not upper)


def gels(input: Tensor, A: Tensor) -> Any:  # noqa: N803  (the name of PyTorch)
    """Return X of least squares of ``A X - B``, or the least X where there are many.

    Parameters
    ----------
    input : Tensor, shape (M, K)
        B.
    A : Tensor, shape (M, N)

    Returns
    -------
    solution : Tensor, shape (max(M, N), K)
        X is its first N rows; the squares of the others add up to those of the residual.
    QR : Tensor, shape (M, N)
        LAPACK's.

    Notes
    -----
    There is no gradient: ``pinverse(A) @ B`` has one.
    """
    check_matrices("gels", A, input)
    for x in (A, input):
        check_one("gels", x)
    if A.shape[0] != input.shape[0]:
        raise RuntimeError(
            f"gels: Expected A and b to have same size at dim 0, but A has {A.shape[0]} rows and B "
            f"has {input.shape[0]} rows"
        )
    found = lapack.least_squares(array_of(A), array_of(input))
    return LeastSquares(*underivable("gels", (input, A), found))


def geqrf(input: Tensor) -> Any:
    """Return R above Householder's reflectors in one matrix, and the factors of those.

    Returns
    -------
    a : Tensor, shape (..., M, N), tau : Tensor, shape (..., min(M, N))
        As LAPACK has them; `orgqr` makes Q of both.
    """
    check_matrices("geqrf", input)
    return Reflectors(*underivable("geqrf", (input,), lapack.reflectors(array_of(input))))


def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """Return the first N columns of Q from what `geqrf` returned.

    Parameters
    ----------
    input : Tensor, shape (..., M, N)
        M is not below N.
    input2 : Tensor, shape (..., K)
        K is not above N.
    """
    check_matrices("orgqr", input)
    m, n = input.shape[-2:]
    if m < n:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to "
            "input.shape[-1]"
        )
    if input2.shape[-1] > n:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to "
            "tau.shape[-1]"
        )
    found = [lapack.orthogonal(array_of(input), array_of(input2))]
    return underivable("orgqr", (input, input2), found)[0]


# ---- factors L and U of batches


def btrifact_with_info(input: Tensor, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Decompose matrices into ``P L U``.

    Parameters
    ----------
    input : Tensor, shape (..., M, N)
    pivot : bool
        Exchange rows, else P is 1.

    Returns
    -------
    LU : Tensor, shape (..., M, N)
        The diagonal of L, of ones, is left out.
    pivots : Tensor of int32, shape (..., min(M, N))
        With which row each was exchanged, counted from 1.
    info : Tensor of int32, shape (...)
        Where U has the first zero in its diagonal, counted from 1; 0 where it has none.
    """
    check_matrices("btrifact", input)
    factored = lapack.factored if pivot else lapack.factored_in_place_of_rows
    found = factored(array_of(input))
    lu, pivots, info = underivable("btrifact", (input,), found, constants=[1, 2])
    return lu, pivots, info


def btrifact(input: Tensor, info: Tensor | None = None, pivot: bool = True) -> Any:
    """Return what `btrifact_with_info` does; the last is written into `info`.

    Raises
    ------
    RuntimeError
        If U has a zero in its diagonal, and nobody asks for info.
    """
    lu, pivots, found = btrifact_with_info(input, pivot)
    if info is not None:
        if tuple(info.shape) != tuple(found.shape):
            info.resize_(tuple(found.shape))
        info.copy_(found)
        return lu, pivots
    zero = array_of(found)
    if zero.any():
        at = int(np.flatnonzero(zero)[0])
        k = zero.reshape(-1)[at]
        raise RuntimeError(
            f"btrifact: (Batch element {at}): U[{k},{k}] is zero and using it on btrisolve would "
            "result in a division by zero. If you still want to perform the factorization, call "
            "btrifact_with_info(A, pivot)"
        )
    return lu, pivots


def btrisolve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:  # noqa: N803
    """Solve ``A X = B`` from what `btrifact` returned of A.

    Parameters
    ----------
    input : Tensor, shape (..., N) or (..., N, K)
        B.
    LU_data : Tensor, shape (..., N, N)
    LU_pivots : Tensor of int32, shape (..., N)
    """
    if input.ndim == LU_data.ndim - 1:
        return btrisolve(input.unsqueeze(-1), LU_data, LU_pivots).squeeze(-1)  # type: ignore[no-any-return]
    _system("btrisolve", input, LU_data)
    found = [lapack.lu_solve(array_of(LU_data), array_of(LU_pivots), array_of(input))]
    return underivable("btrisolve", (input, LU_data), found)[0]


def btriunpack(
    LU_data: Tensor,  # noqa: N803
    LU_pivots: Tensor,  # noqa: N803
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return P, L and U of ``A = P L U`` of `btrifact`; None for what is unasked."""
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    lower = upper = exchanged = None
    if unpack_data:
        lower = tril(LU_data.narrow(-1, 0, k), -1) + from_numpy(
            np.eye(m, k, dtype=LU_data.dtype.numpy)
        )
        upper = triu(LU_data.narrow(-2, 0, k))
    if unpack_pivots:
        found = lapack.permutation(array_of(LU_pivots), m)
        exchanged = from_numpy(found.astype(LU_data.dtype.numpy))
    return exchanged, lower, upper


publish_all(gesv, trtrs, potri, potrs, gels, geqrf, orgqr, btrifact_with_info, btrifact, btrisolve)
publish(btriunpack, ("btriunpack",), on=("torch",))
