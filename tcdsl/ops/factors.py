"""Factors of matrices as LAPACK has them: reflectors, orders of rows, L and U of batches."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from tcdsl.core import Tensor, from_numpy, made_by
from tcdsl.ops import lapack
from tcdsl.ops.casting import wide
from tcdsl.ops.copies import tril, triu
from tcdsl.ops.matrices import (
    array_of,
    check_matrices,
    check_one,
    publish_all,
    turned,
    underivable,
)
from tcdsl.ops.products import matmul
from tcdsl.ops.systems import check_system
from tcdsl.ops.table import publish
from tcdsl.ops.writing import any_recorded

Reflectors = namedtuple("Reflectors", ("a", "tau"))  # as torch's results are
Pivoted = namedtuple("Pivoted", ("u", "piv"))


@wide
def geqrf(input: Tensor) -> Any:
    """Return R above Householder's reflectors in one matrix, and the factors of those.

    Returns
    -------
    a : Tensor, shape (..., M, N), tau : Tensor, shape (..., min(M, N))
        As LAPACK has them; `orgqr` makes Q of both.
    """
    check_matrices("geqrf", input)
    return Reflectors(*underivable("geqrf", (input,), lapack.reflectors(array_of(input))))


@wide
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
    if any_recorded((input, input2)):
        return _product(input, input2)
    return from_numpy(lapack.orthogonal(array_of(input), array_of(input2)))


def _product(input: Tensor, tau: Tensor) -> Tensor:
    """Return the first columns of the product of reflections, of which gradients are known."""
    m, n, k = *input.shape[-2:], tau.shape[-1]
    ones = from_numpy(np.eye(m, n, dtype=input.dtype.numpy))
    normals = tril(input, -1) + ones
    made = ones
    for i in reversed(range(k)):
        v = normals.narrow(-1, i, 1)
        made = made - tau.narrow(-1, i, 1).unsqueeze(-1) * v * matmul(turned(v), made)
    return made_by(made, "LinalgHouseholderProductBackward0")


@wide
def ormqr(
    input: Tensor, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """Return the product of Q, from what `geqrf` returned, and a matrix.

    Parameters
    ----------
    input, input2 : Tensor, shapes (..., M, N) and (..., K)
        Reflectors and their factors; Q is (M, M).
    input3 : Tensor, shape (..., M, L), or (..., L, M) where Q stands on the right
    left, transpose : bool
        Whether Q stands on the left, and is transposed.
    """
    check_matrices("ormqr", input, input3)
    m = input3.shape[-2 if left else -1]
    if input.shape[-2] != m:
        raise RuntimeError(
            f"ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2]: got "
            f"{m} and {input.shape[-2]}"
        )
    arrays = array_of(input), array_of(input2), array_of(input3)
    found = [lapack.times_orthogonal(*arrays, left, transpose)]
    return underivable("ormqr", (input, input2, input3), found)[0]


def pstrf(a: Tensor, upper: bool = True, tol: float = -1) -> Any:
    """Return Cholesky's triangle of a matrix whose rows and columns are ordered by size.

    Parameters
    ----------
    a : Tensor, shape (N, N)
    upper : bool
        Which triangle is made.
    tol : float
        A diagonal element that is no larger ends the decomposition; -1: by LAPACK's own rule.

    Returns
    -------
    u : Tensor, shape (N, N), piv : Tensor of int32, shape (N,)
        ``a[piv][:, piv]`` is ``u.t() @ u``, or ``u @ u.t()``.
    """
    check_one("pstrf", a)
    if a.shape[0] != a.shape[1]:
        raise RuntimeError(f"pstrf: A must be a square matrix, but got {list(a.shape)}")
    found = lapack.pivoted_cholesky(array_of(a), upper, float(tol))
    return Pivoted(*underivable("pstrf", (a,), found, constants=[1]))


# ---- factors L and U of batches


@wide
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


@wide
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


@wide
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
    check_system("btrisolve", input, LU_data)
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


publish_all(geqrf, orgqr, ormqr, pstrf, btrifact_with_info, btrifact, btrisolve)
publish(btriunpack, ("btriunpack",), on=("torch",))
