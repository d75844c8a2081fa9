"""Decompositions: LAPACK's Q and R, singular values, eigenvalues, Cholesky's, with gradients.

Matrices are the last two dimensions; those before them are batches, where PyTorch has them. Values
come from `lapack.py`; gradients are made of products and triangles, so they have gradients too.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tcdsl.core import GRAD, OUTPUT, Tensor, from_numpy
from tcdsl.ops import lapack
from tcdsl.ops.casting import wide
from tcdsl.ops.copies import tril, triu
from tcdsl.ops.joins import cat
from tcdsl.ops.matrices import (
    array_of,
    check_matrices,
    check_one,
    eye_like,
    publish_all,
    recorded,
    turned,
)
from tcdsl.ops.matrix_powers import inverse
from tcdsl.ops.products import matmul
from tcdsl.ops.results import result
from tcdsl.ops.systems import triangular

QR = result("qr", "Q", "R")
SVD = result("svd", "U", "S", "V")
Eigen = result("symeig", "eigenvalues", "eigenvectors")


def _absent(gradient: Tensor) -> bool:
    """Say whether a gradient is the zeros of an output that nobody used."""
    return not gradient.requires_grad and not array_of(gradient).any()


def _half(x: Tensor) -> Tensor:
    """Return the lower triangle, half of the diagonal."""
    return tril(x) - 0.5 * eye_like(x) * x


@wide
def qr(input: Tensor, some: bool = True) -> Any:
    """Decompose matrices into a product of orthogonal columns and an upper triangle.

    Parameters
    ----------
    input : Tensor, shape (..., M, N)
    some : bool
        Return min(M, N) columns, else M.

    Returns
    -------
    Q : Tensor, shape (..., M, K), R : Tensor, shape (..., K, N)

    References
    ----------
    Walter and Lehmann, "Algorithmic differentiation of linear algebra functions with application
    in optimum experimental design", 2010.
    """
    check_matrices("linalg.qr", input)
    m, n = input.shape[-2:]
    found = np.linalg.qr(array_of(input), "reduced" if some else "complete")
    vjp = _qr_vjp if some or m <= n else _no_complete_qr
    return QR(*recorded("LinalgQr", (input,), found, vjp, (OUTPUT, OUTPUT + 1, GRAD, GRAD + 1)))


def _no_complete_qr(q: Tensor, r: Tensor, d_q: Tensor, d_r: Tensor) -> Tensor:
    raise RuntimeError(
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols"
    )


def _qr_vjp(q: Tensor, r: Tensor, d_q: Tensor, d_r: Tensor) -> Tensor:
    m, n = q.shape[-2], r.shape[-1]
    if m >= n:
        return _tall_qr_vjp(q, r, d_q, d_r)
    # A = (X, Y) = Q (U, V): X is square, and V = Q' Y
    u, v = r.narrow(-1, 0, m), r.narrow(-1, m, n - m)
    d_u, d_v = d_r.narrow(-1, 0, m), d_r.narrow(-1, m, n - m)
    d_x = _tall_qr_vjp(q, u, d_q + matmul(matmul(q, v), turned(d_v)), d_u)
    return cat([d_x, matmul(q, d_v)], -1)


def _tall_qr_vjp(q: Tensor, r: Tensor, d_q: Tensor, d_r: Tensor) -> Tensor:
    inner = triu(matmul(d_r, turned(r)) - matmul(turned(q), d_q))
    inner = inner + turned(inner) - eye_like(inner) * inner
    return turned(triangular(r, turned(d_q + matmul(q, inner)), upper=True))


@wide
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """Decompose matrices into ``U diag(S) V'``, singular values from the largest on.

    Parameters
    ----------
    input : Tensor, shape (..., M, N)
    some : bool
        Return min(M, N) columns of U and V, else all of them.
    compute_uv : bool
        Return U and V, else zeros for them.

    Returns
    -------
    U : Tensor, shape (..., M, K), S : Tensor, shape (..., min(M, N)), V : Tensor, shape (..., N, K)

    Notes
    -----
    Gradients by U and V exist where singular values differ; signs of columns are LAPACK's.
    """
    check_matrices("linalg.svd", input)
    u, s, vh = lapack.svd(array_of(input), full=not some)
    v = np.ascontiguousarray(np.swapaxes(vh, -2, -1))
    taken = (OUTPUT, OUTPUT + 1, OUTPUT + 2, GRAD, GRAD + 1, GRAD + 2)
    found = SVD(*recorded("LinalgSvd", (input,), (u, s, v), _svd_vjp, taken))
    if compute_uv:
        return found
    m, n = input.shape[-2:]
    batch = u.shape[:-2]
    blank = [from_numpy(np.zeros((*batch, k, k), s.dtype)) for k in (m, n)]
    return SVD(blank[0], found.S, blank[1])


def _svd_vjp(u: Tensor, s: Tensor, v: Tensor, d_u: Tensor, d_s: Tensor, d_v: Tensor) -> Tensor:
    m, n, k = u.shape[-2], v.shape[-2], s.shape[-1]
    u, v, d_u, d_v = (x.narrow(-1, 0, k) for x in (u, v, d_u, d_v))
    no_u, no_v = _absent(d_u), _absent(d_v)
    if no_u and no_v:
        return matmul(u * d_s.unsqueeze(-2), turned(v))
    row, column, eye = s.unsqueeze(-2), s.unsqueeze(-1), eye_like(s)
    apart = row * row - column * column + eye
    inner = eye * d_s.unsqueeze(-2)
    by_u, by_v = matmul(turned(u), d_u), matmul(turned(v), d_v)
    if not no_u:
        inner = inner + (by_u - turned(by_u)) / apart * row
    if not no_v:
        inner = inner + column * ((by_v - turned(by_v)) / apart)
    left = matmul(u, inner)
    if m > k and not no_u:
        left = left + (d_u - matmul(u, by_u)) / row
    found = matmul(left, turned(v))
    if n > k and not no_v:
        found = found + matmul(u / row, turned(d_v - matmul(v, by_v)))
    return found


@wide
def symeig(input: Tensor, eigenvectors: bool = False, upper: bool = True) -> Any:
    """Return the eigenvalues of symmetric matrices in rising order, and on request eigenvectors.

    Parameters
    ----------
    input : Tensor, shape (..., N, N)
    eigenvectors : bool
        Return them, else an empty tensor.
    upper : bool
        Which triangle is read.

    Returns
    -------
    eigenvalues : Tensor, shape (..., N), eigenvectors : Tensor, shape (..., N, N)
        Vectors are columns.

    Notes
    -----
    The gradient is symmetric, whichever triangle is read. By
    eigenvectors it exists where eigenvalues differ.
    """
    check_matrices("linalg.eigh", input, square=True)
    found = lapack.eigh(array_of(input), upper)
    taken = (OUTPUT, OUTPUT + 1, GRAD, GRAD + 1)
    values, vectors = recorded("LinalgEigh", (input,), found, _symeig_vjp, taken)
    empty = from_numpy(np.empty((0,), input.dtype.numpy))
    return Eigen(values, vectors if eigenvectors else empty)


def _symeig_vjp(values: Tensor, v: Tensor, d_values: Tensor, d_v: Tensor) -> Tensor:
    if _absent(d_v):
        return matmul(v * d_values.unsqueeze(-2), turned(v))
    eye = eye_like(v)
    apart = values.unsqueeze(-2) - values.unsqueeze(-1) + eye
    inner = matmul(turned(v), d_v) * (1 - eye) / apart
    inner = 0.5 * (inner + turned(inner)) + eye * d_values.unsqueeze(-2)
    return matmul(v, matmul(inner, turned(v)))


def eig(input: Tensor, eigenvectors: bool = False) -> Any:
    """Return the eigenvalues of a matrix, and on request eigenvectors.

    Parameters
    ----------
    input : Tensor, shape (N, N)
    eigenvectors : bool
        Return them, else an empty tensor.

    Returns
    -------
    eigenvalues : Tensor, shape (N, 2)
        Real and imaginary parts.
    eigenvectors : Tensor, shape (N, N)
        Columns; of two conjugate eigenvalues the real part and the imaginary part of the first's.

    Notes
    -----
    There is a gradient where all eigenvalues are real.
    """
    check_matrices("linalg.eig", input, square=True)
    check_one("linalg.eig", input)
    taken = (OUTPUT, OUTPUT + 1, GRAD, GRAD + 1)
    found = recorded("LinalgEig", (input,), lapack.eig(array_of(input)), _eig_vjp, taken)
    empty = from_numpy(np.empty((0,), input.dtype.numpy))
    return result("eig", *Eigen._fields)(found[0], found[1] if eigenvectors else empty)


def _eig_vjp(values: Tensor, v: Tensor, d_values: Tensor, d_v: Tensor) -> Tensor:
    if array_of(values)[:, 1].any():
        raise RuntimeError("eig: the derivative is implemented for real eigenvalues only")
    eye = eye_like(v)
    real, d_real = values.select(1, 0), d_values.select(1, 0)
    inner = eye * d_real.unsqueeze(-2)
    if not _absent(d_v):
        by_v = matmul(turned(v), d_v)
        along = eye * by_v  # vectors have length 1: what lengthens them changes nothing
        apart = real.unsqueeze(-2) - real.unsqueeze(-1) + eye
        inner = inner + (by_v - matmul(matmul(turned(v), v), along)) * (1 - eye) / apart
    return matmul(turned(inverse(v)), matmul(inner, turned(v)))


# ---- positive definite matrices


@wide
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """Decompose positive definite matrices into ``L L'``, or ``U' U``.

    Parameters
    ----------
    input : Tensor, shape (..., N, N)
        Of which one triangle is read.
    upper : bool
        Return U, else L.

    Raises
    ------
    LinAlgError
        If one is not positive definite.

    Notes
    -----
    The gradient is symmetric, as that of a function of symmetric matrices.

    References
    ----------
    Murray, "Differentiation of the Cholesky decomposition", 2016.
    """
    return triangle_of("cholesky", input, upper)


def triangle_of(name: str, input: Tensor, upper: bool) -> Tensor:
    """Return what `cholesky` does, under the name that errors tell."""
    check_matrices(name, input, square=True)
    found = [lapack.cholesky(name, array_of(input), upper)]
    vjp = partial(_cholesky_vjp, upper)
    return recorded("Cholesky", (input,), found, vjp, (OUTPUT, GRAD))[0]


def _cholesky_vjp(upper: bool, found: Tensor, d_found: Tensor) -> Tensor:
    lower, d_lower = (turned(found), turned(d_found)) if upper else (found, d_found)
    inner = _half(matmul(turned(lower), d_lower))
    left = triangular(lower, inner + turned(inner), upper=False, transpose=True)
    return 0.5 * turned(triangular(lower, turned(left), upper=False, transpose=True))


def potrf(input: Tensor, upper: bool = True) -> Tensor:
    """Return what `cholesky` does, U of ``U' U`` by default."""
    return cholesky(input, upper)


publish_all(qr, svd, symeig, eig, cholesky, potrf)
