"""What is combined where data says: sums, products, means and extremes of elements and rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from tcdsl.core import Op, Tensor, dtypes
from tcdsl.ops.indexing import (
    gather,
    index_add,
    index_fill,
    index_select,
    integers,
    into_text,
    scatter,
    scatter_add,
    scatter_text,
)
from tcdsl.ops.table import in_place, op_of_text, publish
from tcdsl.ops.views import dim_of

_HOW = {"sum": "+=", "mean": "+=", "prod": "*=", "amax": "max=", "amin": "min="}


@cache
def _reducing(rank: int, dim: int, reduce: str) -> Op:
    text = scatter_text(rank, dim, _HOW[reduce], is_number=False)
    if reduce not in ("amax", "amin"):
        return op_of_text(text)
    back = _sharing(dim, gather, scatter_add)
    return op_of_text(text, vjp=back, saves=("input", "index", "src", "out"))


def _sharing(
    dim: int, looked_up: Callable[..., Tensor], added: Callable[..., Tensor]
) -> Callable[..., Any]:
    """Return a way back in which all that are as great share the gradient, as PyTorch has it."""

    def back(needs: int, d_out: Tensor, *kept: Tensor) -> Any:
        input, index, source, out = kept
        kept_here = (input == out).to(out.dtype)
        written = (source == looked_up(out, dim, index)).to(out.dtype)
        share = d_out / added(kept_here, dim, index, written)
        return share * kept_here, None, looked_up(share, dim, index) * written

    return back


def _neutral(reduce: str, dtype: dtypes.DType) -> Any:
    """Return the number that changes no other one."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    sign = -1 if reduce == "amax" else 1
    if dtype.is_floating_point:
        return sign * math.inf
    if not dtype.category:
        return sign > 0
    bits = 8 * dtype.itemsize - dtype.is_signed
    return 2**bits - 1 if sign > 0 else -(2**bits) if dtype.is_signed else 0


def _checked(name: str, input: Tensor, src: Tensor, reduce: str, known: tuple[str, ...]) -> None:
    if reduce not in known:
        listed = f"{', '.join(known[:-1])} or {known[-1]}"
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of {listed} but got {reduce}."
            if name == "index_reduce"
            else f"reduce argument must be either {listed}, got {reduce}"
        )
    if not isinstance(src, Tensor) or src.dtype is not input.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")


def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """Return a copy in which elements at given subscripts in one dimension are combined.

    Parameters
    ----------
    input : Tensor
    dim : int
    index : Tensor, int64
    src : Tensor
        At least as large as index in each dimension, of input's type.
    reduce : {"sum", "prod", "mean", "amax", "amin"}
    include_self : bool
        Whether what was there counts too.
    """
    _checked("scatter_reduce", input, src, reduce, ("sum", "prod", "mean", "amax", "amin"))
    index = integers(index, "scatter_reduce")
    if not input.ndim:
        rows = (input.reshape(1), 0, index.reshape(-1), src.reshape(-1), reduce)
        return scatter_reduce(*rows, include_self=include_self).reshape(())  # type: ignore[no-any-return]
    dim = dim_of(dim, input.ndim)
    if not index.numel():
        same: Tensor = input.clone()
        return same + src.narrow(0, 0, 0).sum() if src.requires_grad and src.ndim else same
    if index.ndim != input.ndim or src.ndim != input.ndim:
        raise RuntimeError(
            "scatter_reduce(): Index tensor must have the same number of dimensions as self and "
            "src tensor"
        )
    for d, n in enumerate(index.shape):
        src = src.narrow(d, 0, n)
    start = input
    if not include_self:
        start = scatter(input, dim, index, _neutral(reduce, input.dtype))
    made: Tensor = _reducing(input.ndim, dim, reduce)(start, index, src)
    if reduce != "mean":
        return made
    count = scatter_add(input.new_full(input.shape, int(include_self)), dim, index, _ones(src))
    return _divided(made, count.clamp(min=1))


def _ones(like: Tensor) -> Tensor:
    made: Tensor = like.new_ones(like.shape)
    return made


def _divided(total: Tensor, count: Tensor) -> Tensor:
    made: Tensor = total / count if total.dtype.is_floating_point else total // count
    return made


def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """Return a copy whose parts of given numbers are combined with other ones.

    Parameters
    ----------
    input, dim
    index : Tensor, int64, shape (K,)
    source : Tensor
        Of input's shape but for K in dim.
    reduce : {"prod", "mean", "amax", "amin"}
    include_self : bool
        Whether what was there counts too.
    """
    _checked("index_reduce", input, source, reduce, ("prod", "mean", "amax", "amin"))
    index = integers(index, "index_reduce").reshape(-1)
    if not input.ndim:
        return scatter_reduce(input, 0, index, source, reduce, include_self=include_self)
    dim = dim_of(dim, input.ndim)
    if not index.numel():
        return input.clone()  # type: ignore[no-any-return]
    start = input
    if not include_self:
        start = index_fill(input, dim, index, _neutral(reduce, input.dtype))
    made: Tensor = _reducing_parts(input.ndim, dim, reduce)(start, index, source)
    if reduce != "mean":
        return made
    count = index_add(input.new_full(input.shape, int(include_self)), dim, index, _ones(source))
    return _divided(made, count.clamp(min=1))


@cache
def _reducing_parts(rank: int, dim: int, reduce: str) -> Op:
    """Return the op that combines parts of a dimension with those of given numbers."""
    text = into_text(rank, dim, _HOW[reduce], "index_reduce")
    if reduce not in ("amax", "amin"):
        return op_of_text(text)
    back = _sharing(dim, index_select, index_add)
    return op_of_text(text, vjp=back, saves=("input", "index", "source", "out"))


for _function in (scatter_reduce, index_reduce):
    publish(_function, (_function.__name__,))
    publish(in_place(_function), (f"{_function.__name__}_",), on=("Tensor",))
