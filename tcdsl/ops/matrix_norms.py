"""Norms of vectors and of matrices, and condition numbers, as `torch.linalg` has them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tcdsl.core import Tensor
from tcdsl.core.dtypes import DType
from tcdsl.ops.arguments import several
from tcdsl.ops.arranged import movedim
from tcdsl.ops.casting import wide
from tcdsl.ops.decompositions import svd
from tcdsl.ops.matrix_powers import inverse
from tcdsl.ops.pointwise import mul
from tcdsl.ops.reductions import Dims
from tcdsl.ops.reductions import norm as _norm
from tcdsl.ops.views import dim_of


def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Return the norm of order `ord` of all elements, or along dimensions."""
    if not x.dtype.is_floating_point:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. "
            f"Got {x.dtype.name.capitalize().replace('Int64', 'Long')}"
        )
    return _norm(x, ord, dim, keepdim, dtype=dtype)


def matrix_norm(
    A: Tensor,  # noqa: N803  (the names of PyTorch in this file)
    ord: float | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Return the norms of matrices.

    Parameters
    ----------
    A : Tensor, shape (..., M, N)
    ord : "fro", "nuc", 1, -1, 2, -2, inf or -inf
        The root of the sum of squares, the sum of singular values, the greatest or the least sum
        of a column (1), singular value (2) or sum of a row (inf).
    dim : two dimensions
    keepdim : bool
    dtype : DType, optional
    """
    if A.ndim < 2:
        raise RuntimeError(
            "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."
        )
    if dtype is not None:
        return matrix_norm(A.to(dtype), ord, dim, keepdim)
    if len(dim) != 2:
        given = " ".join(map(str, dim))
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {given}")
    rows, columns = (dim_of(d, A.ndim) for d in dim)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return _norm(A, 2, (rows, columns), keepdim)
    made: Tensor
    if ord == "nuc" or (not isinstance(ord, str) and abs(ord) == 2):
        values = svd(movedim(A, (rows, columns), (-2, -1))).S
        made = values.sum(-1) if ord == "nuc" else _end(values, -1, False, ord == 2)
        if keepdim:
            for d in sorted((rows, columns)):
                made = made.unsqueeze(d)
        return made
    if isinstance(ord, str) or abs(ord) not in (1, math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    summed, over = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = A.abs().sum(summed, True)
    made = _end(sums, over, True, ord > 0)
    return made if keepdim else made.squeeze(max(rows, columns)).squeeze(min(rows, columns))


def _end(x: Tensor, dim: int, keepdim: bool, greatest: bool) -> Tensor:
    return x.amax(dim, keepdim) if greatest else x.amin(dim, keepdim)  # type: ignore[no-any-return]


def norm(
    A: Tensor,  # noqa: N803
    ord: float | str | None = None,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Return the norm of a vector, or of a matrix where `ord` or two dimensions say so."""
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if dim is None:
        if A.ndim not in (1, 2):
            raise RuntimeError(
                "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. "
                f"Got {A.ndim}D."
            )
        dim = tuple(range(A.ndim))
    dims = several(dim)
    if len(dims) == 2:
        return matrix_norm(A, ord, dims, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise RuntimeError(
            f"linalg.norm: Order {ord!r} is one of matrices, but dim has {len(dims)}"
        )
    return vector_norm(A, ord, dims, keepdim, dtype=dtype)


@wide
def cond(A: Tensor, p: float | str | None = None) -> Tensor:  # noqa: N803
    """Return condition numbers: the norm of a matrix times that of its inverse."""
    if p is None or p in (2, -2):
        values = svd(A).S
        first, last = values.select(-1, 0), values.select(-1, values.shape[-1] - 1)
        made: Tensor = last / first if p == -2 else first / last
        return made
    return mul(matrix_norm(A, p), matrix_norm(inverse(A), p))  # type: ignore[no-any-return]
