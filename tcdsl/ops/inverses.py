"""Inverses of large matrices: LAPACK's factors, and triangles that are solved by products.

A triangle is halved until few rows are left, so that nearly all of the work is products of
matrices, which run on all threads. Arrays are of float32 or float64 and lie in C order.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tcdsl.core import Op, Tensor, from_numpy
from tcdsl.ops.lapack import Array, factors_of_turned, triangular_solve
from tcdsl.ops.table import op_of_text

LARGE = 192  # rows from which on this is faster than LAPACK
_STEP = 8  # rows of a triangle that are solved at once; 16 take as long, and four times to compile


def inverse(array: Array) -> Array | None:
    """Return the inverse of a matrix; None if it is singular or has factors that are not finite.

    LAPACK says what those have for an inverse: with columns for rows other elements were NaN.

    The factors are those of its transpose, ``A = L U P``: U has ones in its diagonal, and P
    exchanges columns. So ``U X = inv(L)`` has the rows of the inverse, in another order.

    Parameters
    ----------
    array : ndarray, shape (N, N)

    Returns
    -------
    ndarray, shape (N, N), or None

    References
    ----------
    Higham, "Accuracy and stability of numerical algorithms", 2002, chapter 14.
    """
    factors, exchanged = factors_of_turned(array)
    if not (np.diagonal(factors).all() and np.isfinite(factors).all()):
        return None
    whole, found = from_numpy(factors), from_numpy(np.zeros_like(factors))
    less = -whole  # what is added where the triangles are subtracted
    _invert_lower(whole, less, found)
    _solve_upper(whole, less, found)
    order = np.arange(len(array))
    for i, j in enumerate(exchanged.tolist()):
        order[i], order[j] = order[j], order[i]
    rows = np.empty_like(order)
    rows[order] = np.arange(len(array))
    return np.take(found._array(), rows, 0)


def _invert_lower(lower: Any, less: Any, found: Any) -> None:
    """Write the inverse of the lower triangle of a matrix into zeros; less: its negative."""
    rows = lower.shape[0]
    if rows <= _STEP:
        found.copy_(_solution(lower, from_numpy(np.eye(rows, dtype=lower.dtype.numpy)), False))
        return
    k = _half(rows)
    inverted, below, rest = _above_left(found, k), _below_left(found, k), _below_right(found, k)
    _invert_lower(_above_left(lower, k), _above_left(less, k), inverted)
    _invert_lower(_below_right(lower, k), _below_right(less, k), rest)
    below.copy_(rest.mm(_below_left(less, k).mm(inverted)))


def _solve_upper(upper: Any, less: Any, right: Any) -> None:
    """Solve ``A X = B``, A being an upper triangle with ones in its diagonal; X replaces B.

    less: the negative of A.
    """
    rows = upper.shape[0]
    if rows <= _STEP:
        right.copy_(_solution(upper, right, True))
        return
    k = _half(rows)
    first, last = right.narrow(0, 0, k), right.narrow(0, k, rows - k)
    _solve_upper(_below_right(upper, k), _below_right(less, k), last)
    first.addmm_(less.narrow(0, 0, k).narrow(1, k, rows - k), last)
    _solve_upper(_above_left(upper, k), _above_left(less, k), first)


def _above_left(x: Any, k: int) -> Any:
    return x.narrow(0, 0, k).narrow(1, 0, k)


def _below_left(x: Any, k: int) -> Any:
    return x.narrow(0, k, x.shape[0] - k).narrow(1, 0, k)


def _below_right(x: Any, k: int) -> Any:
    return x.narrow(0, k, x.shape[0] - k).narrow(1, k, x.shape[1] - k)


def _half(rows: int) -> int:
    return -(-rows // (2 * _STEP)) * _STEP


def _solution(triangle: Any, right: Any, upper: bool) -> Tensor:
    """Return X of ``A X = B`` of the triangle of a few rows; an upper one has ones inside."""
    if triangle.shape[0] == _STEP:
        return _solved(upper)(triangle, right)  # type: ignore[no-any-return]
    arrays = triangle._array(), right._array()
    return from_numpy(triangular_solve(*arrays, upper, transpose=False, unitriangular=upper))


@cache
def _solved(upper: bool) -> Op:
    """Return the op that solves a triangle of `_STEP` rows: all rows of X are in registers."""
    rows = range(_STEP)
    lines = [f"def solved<T>(T({_STEP}, {_STEP}) A, T({_STEP}, N) B) -> (T({_STEP}, N) X) {{"]
    for i in reversed(rows) if upper else rows:
        known = range(i + 1, _STEP) if upper else range(i)
        left = f"B({i}, j)" + "".join(f" - A({i}, {k}) * x{k}(j)" for k in known)
        lines.append(f"  x{i}(j) = {left}" if upper else f"  x{i}(j) = ({left}) / A({i}, {i})")
    lines += [f"  X({i}, j) = x{i}(j)" for i in rows]
    return op_of_text("\n".join([*lines, "}"]), vjp=None)
