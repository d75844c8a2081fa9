"""Systems of equations and what solves them."""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from typing import Any

import numpy as np

from tcdsl.core import GRAD, INPUT, NEEDS, OUTPUT, Tensor
from tcdsl.ops import lapack
from tcdsl.ops.casting import wide
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

Solution = namedtuple("Solution", ("solution", "LU"))  # as torch's results are
Triangular = namedtuple("Triangular", ("solution", "cloned_coefficient"))
LeastSquares = namedtuple("LeastSquares", ("solution", "QR"))


def check_system(name: str, b: Tensor, a: Tensor) -> None:
    """Refuse what are no sides of ``A X = B``."""
    check_matrices(name, a, b, square=True)
    if b.shape[-2] != a.shape[-1]:
        sizes = f"({a.shape[-1]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})"
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation AX = B {sizes}"
        )


def _batched(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return views of both with the dimensions of batches that they have together."""
    batch = broadcast_shape([tuple(a.shape[:-2]), tuple(b.shape[:-2])])
    made = [x if tuple(x.shape[:-2]) == batch else x.expand(*batch, *x.shape[-2:]) for x in (a, b)]
    return made[0], made[1]


@wide
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
    check_system("linalg.solve", input, A)
    return Solution(*_solved(*_batched(A, input)))


def _solved(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    found = lapack.solve(array_of(a), array_of(b))
    vjp, taken = _solved_vjp, (NEEDS, INPUT, OUTPUT, GRAD)
    return recorded("LinalgSolve", (a, b), found, vjp, taken, constants=[1])


def _solved_vjp(needs: int, a: Tensor, x: Tensor, d_x: Tensor) -> Any:
    d_b = _solved(turned(a), d_x)[0]
    return -matmul(d_b, turned(x)) if needs & 1 else None, d_b


@wide
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
    check_system("triangular_solve", input, A)
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
    LinAlgError
        If a diagonal element is 0.
    """
    check_matrices("cholesky_inverse", input, square=True)
    array = array_of(input)
    for at in np.argwhere(np.diagonal(array, axis1=-2, axis2=-1) == 0):
        raise lapack.LinAlgError(
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
    check_system("potrs", input, input2)
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


@wide
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """Solve ``A X = B`` as `potrs` does, by default given L of ``A = L L'``."""
    return potrs(input, input2, upper)


@wide
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """Return inverses as `potri` does, by default given L of ``A = L L'``."""
    return potri(input, upper)


publish_all(gesv, trtrs, potri, potrs, gels, cholesky_solve, cholesky_inverse)
