"""Names of `torch` for functions that stand elsewhere: in `nn.functional`, in `linalg`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcdsl.core import Tensor
from tcdsl.core.dtypes import DType
from tcdsl.ops.activations import hardshrink
from tcdsl.ops.adaptive import adaptive_avg_pool1d, adaptive_max_pool1d
from tcdsl.ops.arguments import several
from tcdsl.ops.copies import pad
from tcdsl.ops.distances import pairwise_distance
from tcdsl.ops.factors import btriunpack
from tcdsl.ops.lu import lu_factor_ex
from tcdsl.ops.lu import lu_solve as _solve_by_factors
from tcdsl.ops.matrix_norms import matrix_norm
from tcdsl.ops.products import bilinear
from tcdsl.ops.reductions import Dims
from tcdsl.ops.reductions import norm as _norm
from tcdsl.ops.results import result
from tcdsl.ops.systems import trtrs
from tcdsl.ops.table import publish

Triangular = result("triangular_solve", "solution", "cloned_coefficient")
LuWithInfo = result("_lu_with_info", "LU", "pivots", "info")
Unpacked = result("lu_unpack", "P", "L", "U")


def constant_pad_nd(input: Tensor, pad_: Any, value: float = 0) -> Tensor:
    """Pad with a number: `nn.functional.pad`."""
    made: Tensor = pad(input, pad_, value=value)
    return made


def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False  # noqa: N803
) -> Any:  # fmt: skip
    """Solve ``A X = b`` of triangles A, whose copy is the second result."""
    return Triangular(*trtrs(b, A, upper, transpose, unitriangular))


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:  # noqa: N803
    """Return what `linalg.lu_factor` does, of singular matrices too; if asked, which are."""
    found = lu_factor_ex(A, pivot=pivot)
    return LuWithInfo(*found) if get_infos else tuple(found[:2])


def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:  # noqa: N803
    """Solve ``A X = b`` from what `linalg.lu_factor` returned of A."""
    return _solve_by_factors(LU_data, LU_pivots, b)


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True  # noqa: N803
) -> Any:  # fmt: skip
    """Return P, L and U of what `linalg.lu_factor` returned, of no elements where unasked."""
    found = btriunpack(LU_data, LU_pivots, unpack_data, unpack_pivots)
    return Unpacked(*(LU_data.new_empty((0,)) if x is None else x for x in found))


def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """Return the root of the sum of squares over dimensions."""
    return input.norm(2, dim, keepdim)  # type: ignore[no-any-return]


def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """Return the sum of singular values."""
    return matrix_norm(input, "nuc", dim, keepdim)


def norm(
    input: Tensor,
    p: float | str | None = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Return a norm of vectors, ``sum(abs(input) ** p) ** (1 / p)``, or one of matrices.

    Parameters
    ----------
    input : Tensor
    p : float, inf, "fro" or "nuc"
        0 counts what is not 0, inf and -inf are the greatest and the least of absolute values;
        "fro" is the root of the sum of squares, "nuc" the sum of singular values.
    dim : int or sequence, optional
        All by default.
    keepdim : bool
    dtype : DType, optional
        Of the sums and the result.
    """
    if not isinstance(p, str):
        return _norm(input, p, dim, keepdim, dtype=dtype)
    if p == "fro" and (dim is None or len(several(dim)) <= 2):
        return _norm(input, 2, dim, keepdim, dtype=dtype)
    dims = tuple(range(input.ndim)) if dim is None else several(dim)
    return matrix_norm(input, p, dims, keepdim, dtype=dtype)


def is_signed(input: Tensor) -> bool:
    """Return whether the type of elements holds numbers below 0."""
    return bool(input.dtype.is_signed)


def _copied(name: str) -> Callable[..., Any]:
    """Return the function that gives new tensors where a method gives views."""

    def copied(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        views = getattr(input, name)(*args, **kwargs)
        return views.clone() if isinstance(views, Tensor) else tuple(v.clone() for v in views)

    copied.__name__ = f"{name}_copy"
    copied.__doc__ = f"Return what `{name}` gives, with memory of its own."
    return copied


_PLAIN: dict[str, Any] = {
    "adaptive_avg_pool1d": adaptive_avg_pool1d,
    "adaptive_max_pool1d": adaptive_max_pool1d,
    "bilinear": bilinear,
    "hardshrink": hardshrink,
    "pairwise_distance": pairwise_distance,
}
for _function in (
    constant_pad_nd, triangular_solve, lu, lu_solve, lu_unpack, frobenius_norm,
    nuclear_norm,
):  # fmt: skip
    publish(_function, (_function.__name__,), on=("torch",))
publish(norm, ("norm",))
publish(is_signed, ("is_signed",))
publish(triangular_solve, ("triangular_solve",), on=("Tensor",))
for _function in (lu, lu_solve):
    publish(_function, (_function.__name__,), on=("Tensor",))
for _name, _known in _PLAIN.items():
    publish(_known, (_name,), on=("torch",))
publish(hardshrink, ("hardshrink",), on=("Tensor",))
for _name in (
    "as_strided", "diagonal", "expand", "permute", "select", "split", "squeeze", "t", "transpose",
    "unbind", "unfold", "unsqueeze", "view",
):  # fmt: skip
    publish(_copied(_name), (f"{_name}_copy",), on=("torch",))
