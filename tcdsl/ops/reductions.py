"""Many elements become one: sums, extremes, norms and spreads.

Texts are over the last dimension; `over` makes those for the dimensions of a call, an op for each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from tcdsl.core import Op, Tensor, made_by
from tcdsl.core.dtypes import DType, bool_, uint8
from tcdsl.ops.casting import wide
from tcdsl.ops.over import op_over
from tcdsl.ops.results import result
from tcdsl.ops.rules import NAMES, Operands, TypeRule, floating, same, widen
from tcdsl.ops.table import Family, publish
from tcdsl.ops.views import dim_of

ops = Family(__file__)
Dims = int | Sequence[int] | None


# What a definition computes in, and its gradient where that is not the derived one.
_TYPES: dict[str, TypeRule] = {
    **dict.fromkeys(("sum", "nansum", "prod"), widen),
    **dict.fromkeys(("norm0", "norm1", "norm2", "norm_p", "norm_inf", "norm_minus_inf"), floating),
}
_VJP = {
    "amax": "share_vjp",
    "amin": "share_vjp",
    "max_with_indices": "with_indices_vjp",
    "min_with_indices": "with_indices_vjp",
    "norm2": "norm2_vjp",
    "norm_p": "norm_p_vjp",
    "norm_inf": "norm_inf_vjp",
    "norm_minus_inf": "norm_inf_vjp",
    "var": "var_vjp",
    "std": "std_vjp",
    "logsumexp": "logsumexp_vjp",
}


# What recorded calls are called where all dimensions are meant, and where some are named.
_OF_ALL = {"amax": "MaxBackward1", "amin": "MinBackward1"}
_OF_NAMED = {name: f"{name.title()}Backward1" for name in ("sum", "mean", "prod")}


@cache
def _op_over(
    name: str, rank: int, dims: tuple[int, ...], keepdim: bool, node: str | None = None
) -> Op:
    """Return the op of a definition over some of a tensor's dimensions."""
    types, vjp = _TYPES.get(name, same), _VJP.get(name, "derived")
    return op_over(ops, name, rank, dims, keepdim, types=types, vjp=vjp, node=node)


def dims_of(dim: Dims, rank: int) -> tuple[int, ...]:
    """Return which dimensions a call names, rising; all for None and for none at all."""
    if dim is None:
        return tuple(range(rank))
    if hasattr(dim, "__index__") and not getattr(dim, "ndim", 0):
        dim = dim_of(dim, rank)  # type: ignore[arg-type]  # of NumPy, perhaps
        return (dim,) if rank else ()
    if isinstance(dim, str) or not hasattr(dim, "__iter__"):
        raise TypeError(f"expected dim as an int or a tuple of ints, got {type(dim).__name__}")
    found = sorted(dim_of(d, rank) for d in dim)  # type: ignore[union-attr]
    for a, b in pairwise(found):
        if a == b:
            raise RuntimeError(f"dim {a} appears multiple times in the list of dims")
    return (tuple(found) if rank else ()) or tuple(range(rank))


def check_keepdim(keepdim: object) -> None:
    """Refuse a number in its place: who writes sum(0, 1) means two dimensions."""
    if not isinstance(keepdim, bool) and not hasattr(keepdim, "dtype"):  # NumPy's
        raise TypeError(f"argument 'keepdim' must be bool, not {type(keepdim).__name__}")


@lru_cache(maxsize=4096, typed=True)
def _op_of(name: str, rank: int, dim: int | tuple[int, ...] | None, keepdim: bool) -> Op:
    """Return the op of a call that names dimensions or means all."""
    check_keepdim(keepdim)
    node = (_OF_ALL if dim is None else _OF_NAMED).get(name)
    return _op_over(name, rank, dims_of(dim, rank), bool(keepdim), node)


def _reduced(name: str, input: Tensor, dim: Dims, keepdim: bool, *numbers: Any) -> Any:
    rank = input.ndim
    if dim is None or isinstance(dim, int) or (type(dim) is tuple and {*map(type, dim)} <= {int}):
        return _op_of(name, rank, dim, keepdim)(input, *numbers)
    check_keepdim(keepdim)
    op = _op_over(name, rank, dims_of(dim, rank), bool(keepdim), _OF_NAMED.get(name))
    return op(input, *numbers)


def as_type(input: Tensor, dtype: DType | None) -> Tensor:
    """Return a tensor in a type, if one is named."""
    return input if dtype is None else input.to(dtype)


def _floats(name: str, input: Tensor) -> None:
    """Refuse what is no float."""
    if not input.dtype.is_floating_point:
        if name in ("std", "var"):
            raise RuntimeError("std and var only support floating point and complex dtypes")
        raise RuntimeError(
            f"{name}(): could not infer output dtype. Input dtype must be either a floating point "
            f"or complex dtype. Got: {NAMES[input.dtype.name]}"
        )


def not_empty(name: str, input: Tensor, dim: Dims) -> None:
    """Refuse the extreme of nothing, in PyTorch's words."""
    if input.numel():
        return
    dims, shape = dims_of(dim, input.ndim), input.shape
    if dim is not None and dim != ():
        for d in dims:
            if not shape[d]:
                raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")
        return
    told = f"{name}(): Expected reduction dim to be specified for input.numel() == 0."
    if name.startswith("arg"):
        raise IndexError(told)
    raise RuntimeError(f"{told} Specify the reduction dim with the 'dim' argument.")


# ---- sums and products


def _sum(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Sum elements over dimensions; integers and bools as int64 unless a type is named."""
    return as_type(_reduced("sum", as_type(input, dtype), dim, keepdim), dtype)


def _prod(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Multiply elements over a dimension; integers and bools as int64."""
    return as_type(_reduced("prod", as_type(input, dtype), dim, keepdim), dtype)


sum = ops.row("sum", text="sum_all", types=widen, slow=_sum)
prod = wide(ops.row("prod", text="prod_all", types=widen, slow=_prod))


def _of_matrix(operands: Operands) -> None:
    if operands[0].ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {operands[0].ndim}")


trace = wide(ops.row("trace", types=widen, shape=_of_matrix))


def mean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Return the mean over dimensions."""
    input = as_type(input, dtype)
    _floats("mean", input)
    found: Tensor = _reduced("mean", input, dim, keepdim)
    return found


def nansum(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Sum elements that are not NaN."""
    input = as_type(input, dtype)
    name = "nansum" if input.dtype.is_floating_point else "sum"
    found: Tensor = as_type(_reduced(name, input, dim, keepdim), dtype)
    return found


# ---- extremes


_EXTREMES = {which: result(which, "values", "indices") for which in ("max", "min")}


def _extreme(which: str, input: Tensor, dim: Any, keepdim: bool) -> Any:
    if dim is None and input.numel():
        return _reduced(f"a{which}", input, None, keepdim)
    if isinstance(dim, Tensor):
        from tcdsl.ops import pointwise  # names of its ops hide builtins

        return (pointwise.maximum if which == "max" else pointwise.minimum)(input, dim)
    dims = dims_of(dim, input.ndim)
    not_empty(which, input, dim)
    if dim is None:
        return _reduced(f"a{which}", input, None, keepdim)
    if not dims:  # of rank 0: itself, at 0
        return _EXTREMES[which](input.clone(), argmax(input))
    check_keepdim(keepdim)
    op = _op_over(f"{which}_with_indices", input.ndim, dims, bool(keepdim))
    return _EXTREMES[which](*op(input))


def max(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the greatest element, those of a dimension and where they are, or of two tensors.

    Parameters
    ----------
    input : Tensor
    dim : int or Tensor, optional
        A dimension gives values and indices, the first of equals, the first NaN before all.
        A tensor gives the greater of each two elements.
    keepdim : bool

    Returns
    -------
    Tensor, or values and indices
    """
    return _extreme("max", input, dim, keepdim)


def min(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the least element, those of a dimension and where they are, or of two tensors."""
    return _extreme("min", input, dim, keepdim)


def amax(input: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """Return the greatest elements; all that are as great share the gradient."""
    not_empty("amax", input, dim)
    found: Tensor = _reduced("amax", input, dim, keepdim)
    return found


def amin(input: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """Return the least elements; all that are as small share the gradient."""
    not_empty("amin", input, dim)
    found: Tensor = _reduced("amin", input, dim, keepdim)
    return found


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return where the greatest element is: in the dimension, or in all elements row by row."""
    not_empty("argmax", input, dim)
    if not input.ndim:
        dims_of(dim, 0)
        return argmax(input.unsqueeze(0), 0)
    found: Tensor = _reduced("argmax", input, dim, keepdim)
    return found


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return where the least element is: in the dimension, or in all elements row by row."""
    not_empty("argmin", input, dim)
    if not input.ndim:
        dims_of(dim, 0)
        return argmin(input.unsqueeze(0), 0)
    found: Tensor = _reduced("argmin", input, dim, keepdim)
    return found


def _truths(name: str, input: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """Reduce what is true of elements; over no dimensions it is that of each of them."""
    is_each = isinstance(dim, tuple | list) and not dim
    found: Tensor = input.to(bool_) if is_each else _reduced(name, input, dim, keepdim)
    return found


def all(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether no element is 0; of bytes, which were masks once, a byte."""
    found: Tensor = _truths("all", input, dim, keepdim)
    return found.to(uint8) if input.dtype is uint8 else found


def any(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether an element is not 0; of bytes, which were masks once, a byte."""
    found: Tensor = _truths("any", input, dim, keepdim)
    return found.to(uint8) if input.dtype is uint8 else found


# ---- norms and spreads


def norm(
    input: Tensor,
    p: float | None = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Return the norm of order p: ``sum(abs(input) ** p) ** (1 / p)``.

    Parameters
    ----------
    input : Tensor
    p : float or inf
        0 counts what is not 0, inf and -inf are the greatest and the least of absolute values.
    dim : int or sequence, optional
        All by default.
    keepdim : bool
    dtype : DType, optional
        Of the sums and the result.
    """
    input = as_type(input, dtype)
    if not input.dtype.is_floating_point:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
            f"{NAMES[input.dtype.name]}"
        )
    order = 2.0 if p is None else float(p)
    if (order == math.inf or order < 0) and not input.numel():
        _has_an_end(order, input, dims_of(dim, input.ndim), is_named=dim is not None)
    named = {0.0: "norm0", 1.0: "norm1", 2.0: "norm2", math.inf: "norm_inf"}
    named[-math.inf] = "norm_minus_inf"
    if name := named.get(order):
        found: Tensor = _reduced(name, input, dim, keepdim)
        return found
    powered: Tensor = _reduced("norm_p", input, dim, keepdim, order)
    return powered


def _has_an_end(order: float, input: Tensor, dims: tuple[int, ...], *, is_named: bool) -> None:
    """Refuse the greatest or the least of no absolute values."""
    empty = [d for d in dims if not input.shape[d]]
    if not empty:
        return
    where = (
        f"the dimension {empty[0]} because this dimension"
        if is_named
        else "an empty tensor because"
    )
    raise RuntimeError(
        f"linalg.vector_norm cannot compute the {order:g} norm on {where}"
        f"{' is empty and' if is_named else ''} the operation does not have an identity"
    )


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Return the norm of a difference."""
    return made_by(norm(input - other, p), "DistBackward0")


def _spread(
    name: str, input: Tensor, dim: Any, unbiased: Any, keepdim: bool, correction: int | None
) -> Tensor:
    if isinstance(dim, bool):  # var(unbiased)
        dim, unbiased = None, dim
    _floats(name, input)
    if correction is None:
        correction = 0 if unbiased is False else 1
    found: Tensor = _reduced(name, input, dim, keepdim, correction)
    return found


def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: int | None = None,
) -> Tensor:
    """Return the variance: squares of differences from the mean, over their number less one.

    Parameters
    ----------
    input : Tensor
    dim : int, sequence or None
        A bool here is ``unbiased``.
    unbiased : bool
        Without it the number is not lessened.
    keepdim : bool
    correction : int, optional
        What the number is lessened by.
    """
    return _spread("var", input, dim, unbiased, keepdim, correction)


def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: int | None = None,
) -> Tensor:
    """Return the standard deviation: the root of the variance; its gradient is 0 where it is 0."""
    return _spread("std", input, dim, unbiased, keepdim, correction)


def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """Return ``log(sum(exp(input)))``, without overflow."""
    input = input if input.dtype.is_floating_point else input.to(floating([input]))
    found: Tensor = _reduced("logsumexp", input, dim, keepdim)
    return found


for made in (
    mean, nansum, max, min, amax, amin, argmax, argmin, all, any, dist, var, std, logsumexp,
):  # fmt: skip
    publish(made, (made.__name__,))
