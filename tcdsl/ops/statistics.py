"""Counts, spreads, what is greatest up to a place, differences of neighbours."""

from __future__ import annotations

from functools import cache
from typing import Any

from tcdsl.core import Op, Tensor, dtypes
from tcdsl.ops.indexing import gather
from tcdsl.ops.joins import cat
from tcdsl.ops.over import over
from tcdsl.ops.pointwise import sub
from tcdsl.ops.products import matmul
from tcdsl.ops.reductions import Dims, amax, amin, dims_of, mean, nansum, std, var
from tcdsl.ops.results import result
from tcdsl.ops.rules import floating, same
from tcdsl.ops.table import Family, op_of_text, publish
from tcdsl.ops.views import dim_of

ops = Family(__file__)
AMinMax = result("aminmax", "min", "max")


@cache
def _op_over(name: str, rank: int, dims: tuple[int, ...], vjp: str | None) -> Op:
    return op_of_text(over(ops.text(name), rank, dims), name, types=same, vjp=vjp)


def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """Return how many elements are not 0."""
    dims = dims_of(dim, input.ndim)
    made: Tensor = _op_over("count_nonzero", input.ndim, dims, None)(input)
    return made


def _extreme_so_far(name: str, input: Tensor, dim: int) -> Any:
    kind = result(name, "values", "indices")
    if not input.ndim:
        dim_of(dim, 0)
        return kind(input.clone(), input.new_zeros((), dtype=dtypes.int64))
    dim = dim_of(dim, input.ndim)
    _, indices = _op_over(name, input.ndim, (dim,), None)(input.detach())
    return kind(gather(input, dim, indices), indices)


def cummax(input: Tensor, dim: int) -> Any:
    """Return the greatest of all elements up to each, and where the last of them is."""
    return _extreme_so_far("cummax", input, dim)


def cummin(input: Tensor, dim: int) -> Any:
    """Return the least of all elements up to each, and where the last of them is."""
    return _extreme_so_far("cummin", input, dim)


def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """Return the logarithms of the sums of exponentials up to each element."""
    if not input.ndim:
        return input.clone()  # type: ignore[no-any-return]
    op = _op_over("logcumsumexp", input.ndim, (dim_of(dim, input.ndim),), "derived")
    made: Tensor = op(input)
    return made


def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the least and the greatest element."""
    dims = () if dim is None else dim
    return AMinMax(amin(input, dims, keepdim), amax(input, dims, keepdim))


def std_mean(input: Tensor, dim: Any = None, *args: Any, **named: Any) -> tuple[Tensor, Tensor]:
    """Return the standard deviation and the mean; see `std`."""
    return std(input, dim, *args, **named), _mean_beside(input, dim, args, named)


def var_mean(input: Tensor, dim: Any = None, *args: Any, **named: Any) -> tuple[Tensor, Tensor]:
    """Return the variance and the mean; see `var`."""
    return var(input, dim, *args, **named), _mean_beside(input, dim, args, named)


def _mean_beside(input: Tensor, dim: Any, args: Any, named: dict[str, Any]) -> Tensor:
    keepdim = args[1] if len(args) > 1 else named.get("keepdim", False)
    return mean(input, None if isinstance(dim, bool) else dim, keepdim)


def nanmean(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Return the mean of what is not NaN."""
    known = (input == input).to(input.dtype)
    made: Tensor = nansum(input, dim, keepdim) / known.sum(dim, keepdim)
    return made


# ---- of neighbours


def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Return the n-th differences of neighbours along a dimension."""
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    dim = dim_of(dim, input.ndim)
    found = cat([x for x in (prepend, input, append) if x is not None], dim)
    for _ in range(n):
        m = max(found.shape[dim] - 1, 0)
        above, below = found.narrow(dim, min(1, found.shape[dim]), m), found.narrow(dim, 0, m)
        found = above != below if found.dtype is dtypes.bool_ else sub(above, below)
    return found


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1) -> Tensor:
    """Return integrals along a dimension by the trapezoidal rule."""
    dim = dim_of(dim, y.ndim)
    m = max(y.shape[dim] - 1, 0)
    middle = (y.narrow(dim, min(1, y.shape[dim]), m) + y.narrow(dim, 0, m)) / 2
    if x is None:
        made: Tensor = (middle * dx).sum(dim)
        return made
    if x.ndim == 1:
        widths = diff(x).reshape(*(-1 if d == dim else 1 for d in range(y.ndim)))
    else:
        widths = diff(x, dim=dim)
    return (middle * widths).sum(dim)  # type: ignore[no-any-return]


def cov(input: Tensor, *, correction: int = 1) -> Tensor:
    """Return the covariances of rows, whose elements are observations."""
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    if not input.dtype.is_floating_point:
        input = input.to(floating((input,)))
    rows = input.reshape(1, -1) if input.ndim < 2 else input
    apart = rows - mean(rows, 1, keepdim=True)
    made = matmul(apart, apart.t()) / max(rows.shape[1] - correction, 0)
    return made if input.ndim == 2 else made.reshape(())  # type: ignore[no-any-return]


def corrcoef(input: Tensor) -> Tensor:
    """Return the correlations of rows, whose elements are observations."""
    found = cov(input)
    if not found.ndim:
        return found / found
    spread = found.diagonal().sqrt()
    made: Tensor = found / spread.unsqueeze(0) / spread.unsqueeze(1)
    return made.clamp(-1, 1)  # type: ignore[no-any-return]


_BOTH: tuple[Any, ...] = (
    count_nonzero, cummax, cummin, logcumsumexp, aminmax, nanmean, diff, cov, corrcoef,
)  # fmt: skip
for _function in _BOTH:
    publish(_function, (_function.__name__,))
_FREE: tuple[Any, ...] = (std_mean, var_mean, trapezoid)
for _function in _FREE:
    publish(_function, (_function.__name__,), on=("torch",))
publish(trapezoid, ("trapz",), on=("torch",))
