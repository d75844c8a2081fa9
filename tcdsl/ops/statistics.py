"""Counts, spreads, what is greatest up to a place, differences of neighbours."""

from __future__ import annotations

from functools import cache
from typing import Any

from tcdsl.core import Op, Tensor, dtypes, is_grad_enabled
from tcdsl.ops.arguments import listed, several
from tcdsl.ops.joins import cat
from tcdsl.ops.over import over
from tcdsl.ops.pointwise import sub
from tcdsl.ops.products import matmul
from tcdsl.ops.reductions import Dims, amax, amin, dims_of, mean, nansum, not_empty, std, var
from tcdsl.ops.results import result
from tcdsl.ops.rules import floating, same
from tcdsl.ops.table import Family, op_of_text, publish
from tcdsl.ops.views import dim_of

ops = Family(__file__)
AMinMax = result("aminmax", "min", "max")
_MANY = 1 << 31  # elements of a row, whose places int32 does not hold


@cache
def _op_over(name: str, rank: int, dims: tuple[int, ...], vjp: str | None) -> Op:
    texts = ops.text(name) if vjp in (None, "derived") else f"{ops.text(name)}\n{ops.text(vjp)}"
    return op_of_text(over(texts, rank, dims), name, types=same, vjp=vjp)


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
    if input.stride(dim) == 1 and input.shape[dim] < _MANY:
        name += "_of_rows"
    return kind(*_op_over(name, input.ndim, (dim,), "so_far_vjp")(input))


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
    if dim is None and not input.numel():
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
            "identity."
        )
    if input.requires_grad and is_grad_enabled():
        dims = () if dim is None else dim
        return AMinMax(amin(input, dims, keepdim), amax(input, dims, keepdim))
    not_empty("aminmax", input, dim)
    return AMinMax(*_ends(input.ndim, dim, bool(keepdim))(input))


@cache
def _ends(rank: int, dim: int | None, keepdim: bool) -> Op:
    """Return the op of the least and the greatest elements, which is not recorded."""
    text = over(ops.text("aminmax"), rank, dims_of(dim, rank), keepdim)
    return op_of_text(text, types=same, vjp=None)


def std_mean(input: Tensor, dim: Any = None, *args: Any, **named: Any) -> tuple[Tensor, Tensor]:
    """Return the standard deviation and the mean; see `std`."""
    return std(input, dim, *args, **named), _mean_beside(input, dim, args, named)


def var_mean(input: Tensor, dim: Any = None, *args: Any, **named: Any) -> tuple[Tensor, Tensor]:
    """Return the variance and the mean; see `var`."""
    return var(input, dim, *args, **named), _mean_beside(input, dim, args, named)


def _mean_beside(input: Tensor, dim: Any, args: Any, named: dict[str, Any]) -> Tensor:
    keepdim = args[1] if len(args) > 1 else named.get("keepdim", False)
    return mean(input, None if isinstance(dim, bool) else dim, keepdim)


def nanmean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: dtypes.DType | None = None
) -> Tensor:
    """Return the mean of what is not NaN."""
    input = input if dtype is None else input.to(dtype)
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
    if prepend is None and append is None:
        found = input if n else input.clone()
    else:
        found = cat([x for x in (prepend, input, append) if x is not None], dim)
    for _ in range(n):
        m = max(found.shape[dim] - 1, 0)
        above, below = found.narrow(dim, min(1, found.shape[dim]), m), found.narrow(dim, 0, m)
        found = above != below if found.dtype is dtypes.bool_ else sub(above, below)
    return found


def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Return the slopes along dimensions, by what lies on both sides of an element.

    Parameters
    ----------
    input : Tensor
    spacing : float, or a sequence of floats or of Tensors of one dimension, one a dimension
        How far apart elements are, or where they are.
    dim : int or sequence of int, optional
        All by default.
    edge_order : {1, 2}
        How many neighbours the elements at the ends look at.
    """
    spacing = listed(spacing)
    wanted = range(input.ndim) if dim is None else several(dim)
    dims = [dim_of(d, input.ndim) for d in wanted]
    each = [spacing] * len(dims) if isinstance(spacing, int | float) else list(spacing)
    if len(each) != len(dims):
        raise RuntimeError(
            f"torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
            f"{len(dims)}, but got a list of length {len(each)}"
        )
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )
    made = input if input.dtype.is_floating_point else input.to(floating((input,)))
    return tuple(_slopes(made, d, h, edge_order) for d, h in zip(dims, each, strict=True))


def _slopes(f: Tensor, dim: int, spacing: Any, order: int) -> Tensor:
    """Return the slopes of parabolas through three neighbours, or at the ends of lines."""
    n = f.shape[dim]
    widths = diff(spacing) if isinstance(spacing, Tensor) else None

    def step(at: int, count: int) -> Any:
        if widths is None:
            return spacing
        return widths.narrow(0, at, count).reshape(*(-1 if d == dim else 1 for d in range(f.ndim)))

    def part(at: int, count: int) -> Any:
        return f.narrow(dim, at, count)

    below, above = step(0, n - 2), step(1, n - 2)
    both = below + above
    if widths is None:
        middle = (part(2, n - 2) - part(0, n - 2)) / both
    else:
        left, right = part(0, n - 2) * (above / below), part(2, n - 2) * (below / above)
        middle = (right - left) / both + part(1, n - 2) * ((above - below) / (below * above))
    if order == 1:
        first = (part(1, 1) - part(0, 1)) / step(0, 1)
        last = (part(n - 1, 1) - part(n - 2, 1)) / step(n - 2, 1)
    else:
        first = _at_end(part(0, 1), part(1, 1), part(2, 1), step(0, 1), step(1, 1))
        last = -_at_end(
            part(n - 1, 1), part(n - 2, 1), part(n - 3, 1), step(n - 2, 1), step(n - 3, 1)
        )
    return cat([first, middle, last], dim)


def _at_end(f: Any, g: Any, h: Any, near: Any, far: Any) -> Any:
    """Return the slope at f of the parabola through it and the next two, so far from each other."""
    both = near + far
    return (
        g * (both / (near * far)) - f * ((both + near) / (near * both)) - h * (near / (far * both))
    )


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1) -> Tensor:
    """Return integrals along a dimension by the trapezoidal rule."""
    dim = dim_of(dim, y.ndim)
    if x is None:
        made: Tensor = _trapezoid(y.ndim, dim)(y, float(dx))
        return made
    is_alike = x.shape == y.shape and x.dtype is y.dtype and y.dtype.is_floating_point
    if is_alike and y.shape[dim]:
        at: Tensor = _op_over("trapezoid_at", y.ndim, (dim,), "derived")(y, x)
        return at
    areas: Tensor = _trapezoids(y, x, dx, dim).sum(dim)
    return areas


@cache
def _trapezoid(rank: int, dim: int) -> Op:
    """Return the op of integrals over points that are as far apart."""
    return op_of_text(over(ops.text("trapezoid"), rank, (dim,)), types=floating)


def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1
) -> Tensor:
    """Return integrals up to each element but the first, by the trapezoidal rule."""
    made: Tensor = _trapezoids(y, x, dx, dim).cumsum(dim)
    return made


def _trapezoids(y: Tensor, x: Tensor | None, dx: float, dim: int) -> Tensor:
    """Return the areas between neighbours along a dimension."""
    dim = dim_of(dim, y.ndim)
    m = max(y.shape[dim] - 1, 0)
    middle = (y.narrow(dim, min(1, y.shape[dim]), m) + y.narrow(dim, 0, m)) / 2
    if x is None:
        return middle * dx  # type: ignore[no-any-return]
    if x.ndim == 1:
        widths = diff(x).reshape(*(-1 if d == dim else 1 for d in range(y.ndim)))
    else:
        widths = diff(x, dim=dim)
    return middle * widths  # type: ignore[no-any-return]


def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Return the covariances of rows, whose elements are observations.

    Parameters
    ----------
    input : Tensor, shape (N, L) or (L,)
    correction : int
        What is taken off the number of observations.
    fweights : Tensor of integers, shape (L,), optional
        How often each observation was made.
    aweights : Tensor, shape (L,), optional
        How much each counts.
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    if not input.dtype.is_floating_point:
        input = input.to(floating((input,)))
    rows = input.reshape(1, -1) if input.ndim < 2 else input
    if fweights is None and aweights is None:
        apart = rows - mean(rows, 1, keepdim=True)
        made = matmul(apart, apart.t()) / max(rows.shape[1] - correction, 0)
    else:
        made = _weighed_cov(rows, correction, fweights, aweights)
    return made if made.shape[0] != 1 else made.reshape(())


def _weighed_cov(
    rows: Tensor, correction: int, often: Tensor | None, much: Tensor | None
) -> Tensor:
    for name, given, is_whole in (("fweights", often, True), ("aweights", much, False)):
        if given is None:
            continue
        if given.ndim > 1 or given.numel() != rows.shape[1]:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the "
                f"input but got {given.numel()} != {rows.shape[1]}"
            )
        if is_whole == given.dtype.is_floating_point:
            kind = "integral" if is_whole else "floating point"
            raise RuntimeError(f"cov(): expected {name} to have {kind} dtype but got {name} with "
                               f"{given.dtype} dtype")  # fmt: skip
        if (given < 0).any().item():
            raise RuntimeError(f"cov(): {name} cannot be negative")
    both = [w.to(rows.dtype) for w in (often, much) if w is not None]
    weights = both[0] if len(both) == 1 else both[0] * both[1]
    whole = weights.sum()
    apart = rows - (rows * weights).sum(1, keepdim=True) / whole
    taken: Any = correction if much is None else correction * (weights * both[-1]).sum() / whole
    made: Tensor = matmul(apart * weights, apart.t()) / (whole - taken).clamp(min=0)
    return made


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
_FREE: tuple[Any, ...] = (std_mean, var_mean, gradient)
for _function in _FREE:
    publish(_function, (_function.__name__,), on=("torch",))
publish(cumulative_trapezoid, ("cumulative_trapezoid",), on=("torch",))
publish(trapezoid, ("trapezoid", "trapz"), on=("torch",))
