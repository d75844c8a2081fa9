"""Inverses, determinants and decompositions: LAPACK's, with gradients that are made of ops.

Matrices are the last two dimensions; those before them are batches, where PyTorch has them. Values
come from `lapack.py`; gradients are made of products and triangles, so they have gradients too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tcdsl.core import GRAD, INPUT, OUTPUT, Tensor, from_numpy
from tcdsl.ops import inverses, lapack
from tcdsl.ops.casting import lower, wide
from tcdsl.ops.copies import tril, triu
from tcdsl.ops.joins import cat
from tcdsl.ops.lapack import Array
from tcdsl.ops.matrices import (
    array_of,
    check_matrices,
    check_one,
    check_square,
    eye_like,
    publish_all,
    recorded,
    turned,
)
from tcdsl.ops.pointwise import where
from tcdsl.ops.products import matmul
from tcdsl.ops.results import result
from tcdsl.ops.systems import triangular

QR = result("qr", "Q", "R")
SVD = result("svd", "U", "S", "V")
Slogdet = result("slogdet", "sign", "logabsdet")
Eigen = result("symeig", "eigenvalues", "eigenvectors")


def _absent(gradient: Tensor) -> bool:
    """Say whether a gradient is the zeros of an output that nobody used."""
    return not gradient.requires_grad and not array_of(gradient).any()


def _half(x: Tensor) -> Tensor:
    """Return the lower triangle, half of the diagonal."""
    return tril(x) - 0.5 * eye_like(x) * x


# ---- inverses and determinants


@wide
def inverse(input: Tensor) -> Tensor:
    """Return the inverses of square matrices.

    Parameters
    ----------
    input : Tensor, shape (..., N, N)

    Raises
    ------
    RuntimeError
        If one is singular.
    """
    check_matrices("linalg.inv", input, square=True)
    return _inverted(input, _inverses)


def _inverses(array: Array) -> Array:
    is_large = array.ndim == 2 and len(array) >= inverses.LARGE
    found = inverses.inverse(array) if is_large else None
    return lapack.inverse(array) if found is None else found


def _inverted(input: Tensor, by: Callable[[Array], Array]) -> Tensor:
    found = [by(array_of(input))]
    return recorded("LinalgInv", (input,), found, _inverse_vjp, (OUTPUT, GRAD))[0]


def _inverse_vjp(y: Tensor, d_y: Tensor) -> Tensor:
    return -matmul(turned(y), matmul(d_y, turned(y)))


@wide
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Return the pseudo-inverses of Moore and Penrose.

    Parameters
    ----------
    input : Tensor, shape (..., M, N)
    rcond : float
        Singular values up to this part of the largest count as 0.

    Returns
    -------
    Tensor, shape (..., N, M)

    References
    ----------
    Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems
    whose variables separate", 1973.
    """
    check_matrices("linalg.pinv", input)
    u, s, vh = lapack.svd(array_of(input), full=False)
    kept = s > rcond * s.max(-1, keepdims=True, initial=0)
    inverted = np.divide(1, s, out=np.zeros_like(s), where=kept)
    found = np.swapaxes(vh, -2, -1) @ (inverted[..., None] * np.swapaxes(u, -2, -1))
    return recorded("LinalgPinv", (input,), [found], _pinverse_vjp, (INPUT, OUTPUT, GRAD))[0]


def _pinverse_vjp(a: Tensor, p: Tensor, d_p: Tensor) -> Tensor:
    g, pt = turned(d_p), turned(p)
    k = matmul(g, p)
    found = -turned(matmul(p, k))
    found = found + matmul(matmul(g - matmul(a, matmul(p, g)), p), pt)
    return found + matmul(matmul(pt, p), g - matmul(k, a))


def det(input: Tensor) -> Tensor:
    """Return the determinants of square matrices.

    Parameters
    ----------
    input : Tensor, shape (..., N, N)

    Returns
    -------
    Tensor, shape (...)

    Notes
    -----
    The gradient is the matrix of cofactors, at singular matrices too; PyTorch's is 0 or NaN there.
    """
    check_matrices("linalg.det", input, square=True)
    found = [lapack.determinant(array_of(input))]
    return recorded("LinalgDet", (input,), found, _det_vjp, (INPUT, GRAD))[0]


def _det_vjp(a: Tensor, d_out: Tensor) -> Tensor:
    return d_out.unsqueeze(-1).unsqueeze(-1) * _cofactors(a)  # type: ignore[no-any-return]


def _cofactors(a: Tensor) -> Tensor:
    found = [lapack.cofactors(array_of(a))]
    return recorded("Cofactors", (a,), found, _cofactors_vjp, (INPUT, OUTPUT, GRAD))[0]


def _cofactors_vjp(a: Tensor, c: Tensor, d_c: Tensor) -> Tensor:
    """Return the gradient of cofactors: of singular matrices by minors of singular values."""
    if not lapack.has_singular(array_of(a)):
        y = turned(inverse(a))
        return (d_c * c).sum((-2, -1), True) * y - matmul(c, matmul(turned(d_c), y))  # type: ignore[no-any-return]
    u, s, v = svd(a)
    sign = np.asarray(np.linalg.det(array_of(u)) * np.linalg.det(array_of(v)))
    w = matmul(turned(u), matmul(d_c, v))
    n = a.shape[-1]
    one = np.eye(n, dtype=bool)
    left_out = from_numpy(one[:, None, :] | one[None, :, :])  # i and j of (i, j, l)
    others = where(left_out, eye_like(a, 1).view(1, 1, 1), s.unsqueeze(-2).unsqueeze(-2)).prod(-1)
    others = others * (1 - eye_like(a))  # products of all singular values but the i-th and the j-th
    diagonal = matmul(others, (w * eye_like(a)).sum(-1, True))
    found = matmul(u, matmul(eye_like(a) * diagonal - turned(w) * others, turned(v)))
    return from_numpy(sign[..., None, None].astype(a.dtype.numpy)) * found


def slogdet(input: Tensor) -> Any:
    """Return the signs of determinants and the logarithms of their absolute values.

    Parameters
    ----------
    input : Tensor, shape (..., N, N)

    Returns
    -------
    sign, logabsdet : Tensor, shape (...)
        0 and -inf of a singular matrix.
    """
    return _slogdet("linalg.slogdet", input)


def _slogdet(name: str, input: Tensor) -> Any:
    check_matrices(name, input, square=True)
    found = np.linalg.slogdet(array_of(input))
    vjp, taken = _slogdet_vjp, (INPUT, GRAD + 1)
    return Slogdet(*recorded("LinalgSlogdet", (input,), found, vjp, taken))


def _slogdet_vjp(a: Tensor, d_log: Tensor) -> Tensor:
    inverted = _inverted(a, lapack.inverse_or_inf)
    return d_log.unsqueeze(-1).unsqueeze(-1) * turned(inverted)  # type: ignore[no-any-return]


def logdet(input: Tensor) -> Tensor:
    """Return the logarithms of determinants: -inf of 0, NaN of one below 0."""
    sign, log = _slogdet("logdet", input)
    found: Tensor = where(sign < 0, float("nan"), log)
    return found


@lower
def matrix_power(input: Tensor, n: int) -> Tensor:
    """Return the n-th powers of square matrices, of inverses where n is below 0."""
    check_square("linalg.matrix_power", input)
    if n == 0:
        ones = np.broadcast_to(np.eye(input.shape[-1], dtype=input.dtype.numpy), input.shape)
        return from_numpy(ones.copy())
    base = inverse(input) if n < 0 else input
    left, found = abs(n), None
    while True:
        if left & 1:
            found = base if found is None else matmul(found, base)
        left >>= 1
        if not left:
            break
        base = matmul(base, base)
    assert found is not None
    return found.clone() if found is input else found


# ---- decompositions


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


publish_all(
    inverse, pinverse, det, slogdet, logdet, matrix_power, qr, svd, symeig, eig, cholesky, potrf
)  # fmt: skip
