"""Along one dimension, which keeps its length: softmaxes, sums and products up to each element.

Texts are over the last dimension; `op_over` makes an op for each.
"""

from __future__ import annotations

import warnings
from functools import cache

from tcdsl.core import Op, Tensor
from tcdsl.core.dtypes import DType
from tcdsl.ops.over import op_over
from tcdsl.ops.reductions import as_type
from tcdsl.ops.rules import not_for, same, widen
from tcdsl.ops.table import Family, publish
from tcdsl.ops.views import dim_of

ops = Family(__file__)


@cache
def _op(name: str, rank: int, dim: int) -> Op:
    """Return the op of a definition along a dimension."""
    types = widen if name in ("cumsum", "cumprod") else same
    vjp = "derived" if name == "cumsum" else f"{name}_vjp"
    return op_over(ops, name, rank, (dim,), types=types, vjp=vjp)


def _along(name: str, input: Tensor, dim: int | None) -> Tensor:
    """Call an op whose result has the shape of its input, along a dimension."""
    if dim is None:
        dim = _implicit_dim(name, input.ndim)
    if not input.ndim:
        dim_of(dim, 0)
        alone: Tensor = _along(name, input.unsqueeze(0), 0).squeeze(0)
        return alone
    found: Tensor = _op(name, input.ndim, dim_of(dim, input.ndim))(input)
    return found


def _implicit_dim(name: str, rank: int, stacklevel: int = 4) -> int:
    """Return the dimension that a call without one means, as nn.functional has always had it.

    stacklevel: of who calls softmax or its like, as `warnings.warn` counts from here.
    """
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        UserWarning,
        stacklevel=stacklevel,
    )
    return 0 if rank in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, *, dtype: DType | None = None) -> Tensor:
    """Return ``exp(input)`` over its sum along a dimension."""
    input = as_type(input, dtype)
    _needs_floats("softmax", input)
    return _along("softmax", input, dim)


def log_softmax(input: Tensor, dim: int | None = None, *, dtype: DType | None = None) -> Tensor:
    """Return the logarithm of the softmax, without overflow."""
    input = as_type(input, dtype)
    _needs_floats("log_softmax", input)
    return _along("log_softmax", input, dim)


def softmin(input: Tensor, dim: int | None = None, *, dtype: DType | None = None) -> Tensor:
    """Return the softmax of what is negative."""
    if dim is None:
        dim = _implicit_dim("softmin", input.ndim, 3)
    return softmax(-input, dim, dtype=dtype)


def _needs_floats(name: str, input: Tensor) -> None:
    if not input.dtype.is_floating_point:
        raise not_for(f"{name}_lastdim_kernel_impl", input.dtype)


def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Return the sums of all elements up to each, along a dimension."""
    return as_type(_along("cumsum", as_type(input, dtype), dim), dtype)


def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Return the products of all elements up to each, along a dimension."""
    return as_type(_along("cumprod", as_type(input, dtype), dim), dtype)


for made in (softmax, log_softmax, cumsum, cumprod):
    publish(made, (made.__name__,))
