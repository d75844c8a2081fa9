"""Powers of matrices: inverses, pseudo-inverses, whole ones, with gradients made of products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tcdsl.core import GRAD, INPUT, OUTPUT, Tensor, from_numpy
from tcdsl.ops import inverses, lapack
from tcdsl.ops.casting import lower, wide
from tcdsl.ops.lapack import Array
from tcdsl.ops.matrices import (
    array_of,
    check_matrices,
    check_square,
    publish_all,
    recorded,
    turned,
)
from tcdsl.ops.products import matmul


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
    return inverted(input, _inverses)


def _inverses(array: Array) -> Array:
    is_large = array.ndim == 2 and len(array) >= inverses.LARGE
    found = inverses.inverse(array) if is_large else None
    return lapack.inverse(array) if found is None else found


def inverted(input: Tensor, by: Callable[[Array], Array]) -> Tensor:
    """Return inverses that a function of arrays finds, recorded."""
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


publish_all(inverse, pinverse, matrix_power)
