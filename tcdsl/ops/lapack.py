"""LAPACK's decompositions of batches of matrices: NumPy's, and SciPy's where it has none.

Arrays are (..., M, N) of float32 or float64; nothing here knows tensors. What LAPACK refuses is
told in PyTorch's words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_LARGE = 128  # rows
_SOME = 16  # rows from which on SciPy's inverse of one matrix is worth its import


class LinAlgError(RuntimeError):
    """A matrix that a decomposition refuses."""


LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"  # as PyTorch's shows itself


def _routine(name: str, like: Array) -> Callable[..., Any]:
    """Return SciPy's routine of LAPACK or BLAS for a type."""
    return _imported(name, "s" if like.dtype == np.float32 else "d")


@cache
def _imported(name: str, letter: str) -> Callable[..., Any]:
    """Return SciPy's routine for the type of a letter; SciPy is imported on use."""
    from scipy.linalg import blas, lapack

    return getattr(blas if name == "trsm" else lapack, letter + name)  # type: ignore[no-any-return]


def _batch(array: Array, rank: int = 2) -> Iterator[tuple[int, ...]]:
    return iter(np.ndindex(array.shape[: array.ndim - rank]))


def _where(array: Array, at: tuple[int, ...]) -> str:
    """Name one matrix of a batch in a message; nothing where there is one only."""
    batch = array.shape[:-2]
    return f"(Batch element {int(np.ravel_multi_index(at, batch))}): " if batch else ""


def inverse(array: Array) -> Array:
    """Return inverses.

    Raises
    ------
    LinAlgError
        If a matrix is singular.
    """
    if array.ndim == 2 and len(array) >= _SOME:
        found = _inverse_by_factors(array)
        if found is not None:
            return found
    try:
        return np.linalg.inv(array)
    except np.linalg.LinAlgError:
        lu, _, info = factored(array)
        at = next(i for i in np.ndindex(info.shape) if info[i])
        raise LinAlgError(
            f"linalg.inv: {_where(lu, at)}The diagonal element {info[at]} is zero, the inversion "
            "could not be completed because the input matrix is singular."
        ) from None


def _inverse_by_factors(array: Array) -> Array | None:
    """Return the inverse of one matrix; None if it is singular or not finite.

    In float64, as NumPy's, which solves for the columns of an identity in twice the time.
    """
    wide = np.asarray(array, np.float64)
    factors, exchanged, where_zero = _routine("getrf", wide)(wide)
    if where_zero:
        return None
    found, _ = _routine("getri", wide)(factors, exchanged, overwrite_lu=True)
    if not np.isfinite(found).all():
        return None
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(found, array.dtype)


def inverse_or_inf(array: Array) -> Array:
    """Return inverses; of a singular matrix one of inf."""
    singular = np.isneginf(np.linalg.slogdet(array)[1])
    if not singular.any():
        return np.linalg.inv(array)
    found = np.linalg.inv(np.where(singular[..., None, None], np.eye(array.shape[-1]), array))
    made: Array = np.where(singular[..., None, None], np.inf, found).astype(array.dtype)
    return made


def determinant(array: Array) -> Array:
    """Return determinants; large ones of float32 by factors of that type, in half the time.

    NumPy computes them in float64.
    """
    if array.dtype != np.float32 or array.ndim > 2 or len(array) < _LARGE:
        return np.asarray(np.linalg.det(array))
    factors, exchanged = factors_of_turned(array)
    odd = np.count_nonzero(exchanged != np.arange(len(array))) % 2
    with np.errstate(over="ignore"):
        found = np.prod(np.diagonal(factors), dtype=np.float64)
        return np.asarray(-found if odd else found).astype(np.float32)


def cofactors(array: Array) -> Array:
    """Return the gradients of determinants, of singular matrices too; NaN where one is not finite.

    With ``A = U diag(s) V'`` they are ``det(U) det(V) U diag(p) V'``, where ``p[i]`` is the product
    of all ``s`` but the i-th.
    """
    if not array.size:
        return np.zeros_like(array)
    finite = np.isfinite(array).all((-2, -1), keepdims=True)
    u, s, vh = np.linalg.svd(np.where(finite, array, 0))
    one = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([one, s[..., :-1]], -1), -1)
    behind = np.cumprod(np.concatenate([one, s[..., :0:-1]], -1), -1)[..., ::-1]
    sign = np.linalg.det(u) * np.linalg.det(vh)
    found = (u * (sign[..., None] * before * behind)[..., None, :]) @ vh
    made: Array = np.where(finite, found, np.nan).astype(array.dtype)
    return made


def has_singular(array: Array) -> bool:
    """Say whether one of the matrices is singular, to the precision of its elements."""
    if not array.size or not np.isfinite(array).all():
        return False
    s = np.linalg.svd(array, compute_uv=False)
    limit = s[..., :1] * s.shape[-1] * np.finfo(array.dtype).eps
    return bool((s <= limit).any())


def svd(array: Array, full: bool) -> tuple[Array, Array, Array]:
    """Return U, the singular values from the largest on, and V transposed.

    Raises
    ------
    LinAlgError
        If the algorithm does not converge.
    """
    try:
        u, s, vh = np.linalg.svd(array, full_matrices=full)
        return u, s, vh
    except np.linalg.LinAlgError:
        why = (
            "contained non-finite values"
            if not np.isfinite(array).all()
            else "is ill-conditioned or has too many repeated singular values"
        )
        raise LinAlgError(
            f"linalg.svd: The algorithm failed to converge because the input matrix {why}."
        ) from None


def eigh(array: Array, upper: bool) -> tuple[Array, Array]:
    """Return the eigenvalues in rising order, and eigenvectors as columns; one triangle is read.

    Raises
    ------
    LinAlgError
        If the algorithm does not converge.
    """
    try:
        values, vectors = np.linalg.eigh(array, "U" if upper else "L")
        return values, vectors
    except np.linalg.LinAlgError:
        raise LinAlgError(
            "linalg.eigh: The algorithm failed to converge because the input matrix is "
            "ill-conditioned or has too many repeated eigenvalues."
        ) from None


def eig(array: Array) -> tuple[Array, Array]:
    """Return eigenvalues as rows (real, imaginary), and eigenvectors as columns.

    A pair of conjugate eigenvalues has two columns: the real and the imaginary part of the vector
    of the first.

    Raises
    ------
    RuntimeError
        If an element is not finite.
    """
    if not np.isfinite(array).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    values, vectors = np.linalg.eig(array)
    pairs = np.stack([values.real, values.imag], -1)
    if not np.iscomplexobj(vectors):
        return pairs, vectors
    second = np.flatnonzero(values.imag < 0)  # each comes right behind its conjugate
    columns = vectors.real.copy()
    columns[:, second] = vectors.imag[:, second - 1]
    return pairs, columns


def cholesky(name: str, array: Array, upper: bool) -> Array:
    """Return triangles L of ``A = L L'``, or U of ``A = U' U``; the other triangle is not read.

    Raises
    ------
    LinAlgError
        If a matrix is not positive definite.
    """
    lower = np.swapaxes(array, -2, -1) if upper else array
    try:
        found = np.linalg.cholesky(lower)
        if not np.isnan(found).any():
            return np.swapaxes(found, -2, -1) if upper else found
    except np.linalg.LinAlgError:
        pass
    for at in _batch(array):
        triangle, order = _routine("potrf", array)(lower[at], lower=1)
        lost = np.flatnonzero(np.isnan(np.diagonal(triangle)))  # what some LAPACKs do not tell
        if order or lost.size:
            order = order or lost[0] + 1
            raise LinAlgError(
                f"{name}: {_where(array, at)}The factorization could not be completed because the "
                f"input is not positive-definite (the leading minor of order {order} is not "
                "positive-definite)."
            )
    raise AssertionError("NumPy and SciPy differ in what is positive definite")


def first_minors(array: Array, upper: bool) -> Array:
    """Return the order of the first minor that is not positive, int32; 0 where all are."""
    lower = np.swapaxes(array, -2, -1) if upper else array
    found = np.zeros(array.shape[:-2], np.int32)
    for at in _batch(array):
        triangle, order = _routine("potrf", array)(lower[at], lower=1)
        lost = np.flatnonzero(np.isnan(np.diagonal(triangle)))  # what some LAPACKs do not tell
        found[at] = order or (lost[0] + 1 if lost.size else 0)
    return found


def factored(array: Array) -> tuple[Array, Array, Array]:
    """Return L and U in one matrix, the rows that were exchanged, and where U has its first zero.

    Returns
    -------
    lu : (..., M, N), pivots : int32 (..., min(M, N)), info : int32 (...)
        Counted from 1, as LAPACK does; info is 0 where U has no zero in its diagonal.
    """
    m, n = array.shape[-2:]
    lu = np.empty_like(array, order="C")
    pivots = np.zeros((*array.shape[:-2], min(m, n)), np.int32)
    info = np.zeros(array.shape[:-2], np.int32)
    if array.size:
        for at in _batch(array):
            lu[at], found, info[at] = _routine("getrf", array)(array[at])
            pivots[at] = found + 1
    return lu, pivots, info


def factors_of_turned(array: Array) -> tuple[Array, Array]:
    """Return what getrf makes of the transpose of a matrix, shape (N, N), in its memory's order.

    Returns
    -------
    factors : (N, N)
        ``A = L U P``, both triangles in one matrix; U has ones in its diagonal.
    exchanged : int (N)
        The column with which each was exchanged, one after another.
    """
    turned, exchanged, _ = _routine("getrf", array)(array.T)
    return turned.T, exchanged


def factored_in_place_of_rows(array: Array) -> tuple[Array, Array, Array]:
    """Return what `factored` does, of a factorization that exchanges no rows."""
    lu = array.copy()
    m, n = array.shape[-2:]
    info = np.zeros(array.shape[:-2], np.int32)
    with np.errstate(divide="ignore", invalid="ignore"):
        for k in range(min(m, n)):
            pivot = lu[..., k, k]
            info[...] = np.where((info == 0) & (pivot == 0), k + 1, info)
            lu[..., k + 1 :, k] /= pivot[..., None]
            lu[..., k + 1 :, k + 1 :] -= lu[..., k + 1 :, k, None] * lu[..., k, None, k + 1 :]
    order = np.arange(1, min(m, n) + 1, dtype=np.int32)
    return lu, np.broadcast_to(order, (*array.shape[:-2], min(m, n))).copy(), info


def lu_solve(lu: Array, pivots: Array, right: Array) -> Array:
    """Return X of ``A X = B`` from what `factored` returned of A."""
    found = np.empty_like(right, order="C")
    if right.size:
        for at in _batch(lu):
            found[at] = _routine("getrs", lu)(lu[at], pivots[at] - 1, right[at])[0]
    return found


def solve(array: Array, right: Array) -> tuple[Array, Array]:
    """Return X of ``A X = B``, and the factors of A.

    Raises
    ------
    LinAlgError
        If a matrix is singular.
    """
    lu, pivots, info = factored(array)
    for at in np.ndindex(info.shape):
        if info[at]:
            raise LinAlgError(
                f"torch.linalg.solve: {_where(array, at)}The solver failed because the input "
                "matrix is singular."
            )
    return lu_solve(lu, pivots, right), lu


def permutation(pivots: Array, rows: int) -> Array:
    """Return matrices P of ``A = P L U`` from exchanges of rows, counted from 1."""
    found = np.zeros((*pivots.shape[:-1], rows, rows))
    for at in _batch(pivots, 1):
        order = np.arange(rows)
        for i, j in enumerate(pivots[at] - 1):
            order[[i, j]] = order[[j, i]]
        found[at][order, np.arange(rows)] = 1
    return found


def triangular_solve(
    array: Array, right: Array, upper: bool, transpose: bool, unitriangular: bool
) -> Array:
    """Return X of ``A X = B`` of triangles A; inf and NaN where a diagonal element is 0."""
    found = np.empty_like(right, order="C")
    if right.size:
        solved = _routine("trsm", array)
        for at in _batch(right):
            found[at] = solved(
                1.0, array[at], right[at],
                lower=not upper, trans_a=transpose, diag=unitriangular,
            )  # fmt: skip
    return found


def reflectors(array: Array) -> tuple[Array, Array]:
    """Return R above Householder's reflectors in one matrix, and the factors of those."""
    m, n = array.shape[-2:]
    found = np.empty_like(array, order="C")
    tau = np.zeros((*array.shape[:-2], min(m, n)), array.dtype)
    if array.size:
        for at in _batch(array):
            found[at], tau[at], _, _ = _routine("geqrf", array)(array[at])
    return found, tau


def orthogonal(array: Array, tau: Array) -> Array:
    """Return the columns of Q that reflectors make."""
    found = np.empty_like(array, order="C")
    if array.size:
        whole = np.zeros((*array.shape[:-2], array.shape[-1]), array.dtype)
        whole[..., : tau.shape[-1]] = tau
        for at in _batch(array):
            found[at] = _routine("orgqr", array)(array[at], whole[at])[0]
    return found


def times_orthogonal(array: Array, tau: Array, right: Array, left: bool, transpose: bool) -> Array:
    """Return the product of the whole Q that reflectors make, or its transpose, and a matrix."""
    found = np.empty_like(right, order="C")
    side, way = "L" if left else "R", "T" if transpose else "N"
    if right.size:
        for at in _batch(right):
            room = max(1, right.shape[-1] if left else right.shape[-2]) * 64
            found[at] = _routine("ormqr", array)(side, way, array[at], tau[at], right[at], room)[0]
    return found


def pivoted_cholesky(array: Array, upper: bool, tolerance: float) -> tuple[Array, Array]:
    """Return a triangle and an order of rows: ``A[order][:, order]`` is the triangle's square."""
    found, pivots, _, _ = _routine("pstrf", array)(array, tol=tolerance, lower=not upper)
    triangle = np.triu(found) if upper else np.tril(found)
    return np.ascontiguousarray(triangle), (pivots - 1).astype(np.int32)


def symmetric_factors(array: Array) -> tuple[Array, Array, Array]:
    """Return L and D of ``P L D L' P'`` in one triangle, exchanges of rows, where D is singular."""
    batch, n = array.shape[:-2], array.shape[-1]
    found = np.zeros(array.shape, array.dtype)
    pivots, info = np.zeros((*batch, n), np.int32), np.zeros(batch, np.int32)
    if array.size:
        for at in _batch(array):
            triangle, pivots[at], info[at] = _routine("sytrf", array)(array[at], lower=True)
            found[at] = np.tril(triangle)
    return found, pivots, info


def least_squares(array: Array, right: Array) -> tuple[Array, Array]:
    """Return max(M, N) rows, of which the first N are X of least ``|A X - B|``, and LAPACK's QR.

    Raises
    ------
    LinAlgError
        If A has not full rank.
    """
    m, n = array.shape
    rows = np.zeros((max(m, n), right.shape[1]), array.dtype)
    rows[:m] = right
    qr, found, info = _routine("gels", array)(array, rows)
    if info > 0:
        raise LinAlgError(
            f"gels: The {info}-th diagonal element of the triangular factor of A is zero: the "
            "matrix has not full rank"
        )
    return np.ascontiguousarray(found), np.ascontiguousarray(qr)
