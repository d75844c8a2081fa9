"""Determinants and their logarithms, with gradients made of inverses and of cofactors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcdsl.core import GRAD, INPUT, OUTPUT, Tensor, from_numpy
from tcdsl.ops import lapack
from tcdsl.ops.decompositions import svd
from tcdsl.ops.matrices import (
    array_of,
    check_matrices,
    eye_like,
    publish_all,
    recorded,
    turned,
)
from tcdsl.ops.matrix_powers import inverse, inverted
from tcdsl.ops.pointwise import where
from tcdsl.ops.products import matmul
from tcdsl.ops.results import result

Slogdet = result("slogdet", "sign", "logabsdet")


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
    inverse_of_rows = turned(inverted(a, lapack.inverse_or_inf))
    return d_log.unsqueeze(-1).unsqueeze(-1) * inverse_of_rows  # type: ignore[no-any-return]


def logdet(input: Tensor) -> Tensor:
    """Return the logarithms of determinants: -inf of 0, NaN of one below 0."""
    sign, log = _slogdet("logdet", input)
    found: Tensor = where(sign < 0, float("nan"), log)
    return found


publish_all(det, slogdet, logdet)
