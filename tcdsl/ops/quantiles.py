"""Quantiles, and where values belong in an order."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from tcdsl.core import Op, Tensor, dtypes
from tcdsl.ops.arguments import listed
from tcdsl.ops.arranged import movedim
from tcdsl.ops.casting import wide
from tcdsl.ops.indexing import gather, index_select
from tcdsl.ops.joins import cat
from tcdsl.ops.masks import begins, first_of_runs, masked_select, true_places
from tcdsl.ops.pointwise import floor, where
from tcdsl.ops.rules import promote
from tcdsl.ops.sorting import sort
from tcdsl.ops.table import Family, op_of_text, publish
from tcdsl.ops.views import dim_of
from tcdsl.ops.writing import any_recorded

ops = Family(__file__)
_among = ops.op("among", vjp=None)
_FEW = 64  # elements with all of which others are compared sooner than they are ordered


def _quantile(
    name: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, how: str, skip: bool
) -> Tensor:
    if how not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {how}"
        )
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if not input.numel():
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if isinstance(q, Tensor) and q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    wanted = [float(p) for p in listed(q.reshape(-1))] if isinstance(q, Tensor) else [float(q)]
    if any(not 0 <= p <= 1 for p in wanted):
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
    if not wanted:
        one = _quantile(name, input, 0.5, dim, keepdim, how, skip=skip)
        return one.new_empty((0, *one.shape))  # type: ignore[no-any-return]
    rank = input.ndim
    at = 0 if dim is None else dim_of(dim, rank)
    rows = input.reshape(-1) if dim is None or not rank else movedim(input, at, -1)
    values = sort(rows, -1).values
    n = values.shape[-1]
    counts = (values == values).to(input.dtype).sum(-1, True)  # NaN comes last
    last = (counts - 1).clamp(min=0) if skip else counts * 0 + (n - 1)
    found = []
    for p in wanted:
        place = (last.double() * p).to(input.dtype) if input.dtype is dtypes.float64 else last * p
        below = floor(place)
        above = place.ceil()
        if how in ("lower", "higher", "nearest"):
            exact = {"lower": below, "higher": above, "nearest": place.round()}[how]
            one = gather(values, -1, exact.to(dtypes.int64))
        else:
            share = place - below if how == "linear" else (above > below).to(input.dtype) * 0.5
            a = gather(values, -1, below.to(dtypes.int64))
            one = a.lerp(gather(values, -1, above.to(dtypes.int64)), share)
        if not skip:
            one = where(counts < n, float("nan"), one)
        found.append(one.squeeze(-1))
    if keepdim:
        shape = (
            [1] * rank if dim is None else [1 if d == at else m for d, m in enumerate(input.shape)]
        )
        found = [f.reshape(shape) for f in found]
    if isinstance(q, Tensor) and q.ndim:
        return cat([f.unsqueeze(0) for f in found], 0)
    return found[0]  # type: ignore[no-any-return]


@wide
def quantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Return what a part q of the elements is not above; several q are the first dimension."""
    return _quantile("quantile", input, q, dim, keepdim, interpolation, skip=False)


@wide
def nanquantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Return quantiles of what is not NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, skip=True)


def msort(input: Tensor) -> Tensor:
    """Return the elements along the first dimension in order."""
    made: Tensor = sort(input, 0).values
    return made


def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Return where values belong in rising rows.

    Parameters
    ----------
    sorted_sequence : Tensor, shape (K,) or (..., K)
    input : Tensor, any shape for (K,), else (..., N); or a number
    right, side : bool, "left" or "right"
        Behind equals, or before them.
    sorter : Tensor, int64, optional
        The order of a sequence that does not rise.

    Returns
    -------
    Tensor, int64 or int32, of input's shape
    """
    if side not in (None, "left", "right"):
        raise RuntimeError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        )
    right = right or side == "right"
    if sorter is None and sorted_sequence.ndim == 1 and isinstance(input, Tensor):
        found = _places(sorted_sequence, input, right=right)
        return found.to(dtypes.int32) if out_int32 else found
    row = sorted_sequence.detach()
    if isinstance(input, Tensor):
        values = input.detach()
    else:
        values = row.new_full((), input, dtype=promote((row, input)))
    if sorter is not None:
        row = gather(row, -1, sorter)
    if row.ndim != 1 and tuple(row.shape[:-1]) != tuple(values.shape[:-1]):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
            "dimensions of boundaries tensor and input value tensor must match, but we got "
            f"boundaries tensor {list(row.shape)} and input value tensor {list(values.shape)}"
        )
    kind = promote((row, values))
    k = row.shape[-1]
    batch = math.prod(row.shape[:-1])
    n = values.numel() // batch if batch else 0
    rows, columns = row.to(kind).reshape(batch, k), values.to(kind).reshape(batch, n)
    made: Tensor = _searching(right, k.bit_length(), True)(rows, columns).reshape(values.shape)
    return made.to(dtypes.int32) if out_int32 else made


def _places(row: Tensor, values: Tensor, *, right: bool) -> Tensor:
    """Return where values belong in one rising row."""
    row, values = row.detach(), values.detach()
    if row.dtype is not values.dtype:
        kind = promote((row, values))
        row, values = row.to(kind), values.to(kind)
    made: Tensor = _searching(right, row.shape[0].bit_length(), False)(row, values)
    return made


@cache
def _searching(right: bool, bits: int, is_batched: bool) -> Op:
    """Return the op that tells how many elements of rising rows are below values, or not above.

    The numbers are found bit for bit from the highest on, each a statement, so that they stay in
    registers. All elements are below NaN.
    """
    kind = "int32" if bits < 32 else "int64"
    row, values, at = ("B, K", "B, N", "b, n") if is_batched else ("K", "...", "...")
    before = "b, " if is_batched else ""
    above = ">" if right else ">="
    steps = "".join(
        f"  p{n + 1}({at}) = at <= {kind}(K) && "
        f"!(row({before}min(at, {kind}(K)) - 1) {above} values({at})) ? at : p{n}({at})\n"
        f"      where at = p{n}({at}) + {kind}({1 << (bits - 1 - n)})\n"
        for n in range(bits)
    )
    return op_of_text(
        f"def searchsorted<T>(T({row}) row, T({values}) values) -> (int64({values}) out) {{\n"
        f"  p0({at}) = {kind}(0) where exists values({at})\n{steps}"
        f"  out({at}) = int64(p{bits}({at}))\n}}",
        vjp=None,
    )


def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """Return the number of the interval between rising boundaries that each value lies in."""
    if boundaries.ndim != 1:
        raise RuntimeError(
            f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Tell which elements are among others."""
    if not isinstance(elements, Tensor):
        elements = test_elements.new_tensor(elements, dtype=promote((test_elements, elements)))
    if not isinstance(test_elements, Tensor):
        test_elements = elements.new_tensor(test_elements, dtype=promote((elements, test_elements)))
    kind = promote((elements, test_elements))
    asked, known = elements.detach().to(kind), test_elements.detach().to(kind).reshape(-1)
    if 0 < known.numel() <= _FEW:
        found = _among(asked, known)
        return ~found if invert else found  # type: ignore[no-any-return]
    known = masked_select(known, known == known)  # NaN equals nothing, and has no place in an order
    if not known.numel():
        found = asked.new_zeros(tuple(asked.shape), dtype=dtypes.bool_)
    else:
        row = sort(known).values
        places = searchsorted(row, asked).clamp(max=row.shape[0] - 1)
        found = index_select(row, 0, places.reshape(-1)).reshape(tuple(asked.shape)) == asked
    return ~found if invert else found  # type: ignore[no-any-return]


def _begins_of_parts(input: Tensor, dim: int) -> Tensor:
    """Return which parts of a dimension differ from those before them; the first does."""
    count = input.shape[dim]
    n = max(count - 1, 0)
    apart = input.narrow(dim, min(1, count), n) != input.narrow(dim, 0, n)
    differs = movedim(apart, dim, 0).reshape(n, math.prod(apart.shape) // n if n else 1).any(1)
    return cat([differs.new_ones(min(count, 1)), differs], 0)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return the first of each run of equal elements, or of equal parts of a dimension."""
    if dim is None:
        rows, at = input.reshape(-1), 0
    else:
        rows, at = input, dim_of(dim, input.ndim)
    count = rows.shape[at]
    is_plain = rows.ndim == 1 and not (return_inverse or return_counts or rows._device)
    if is_plain and not any_recorded((rows,)):
        return first_of_runs(rows.detach())
    firsts = begins(rows.detach()) if rows.ndim == 1 else _begins_of_parts(rows.detach(), at)
    places = true_places(firsts)
    found: list[Any] = [index_select(rows, at, places)]
    if return_inverse:
        inverse = firsts.to(dtypes.int64).cumsum(0) - 1
        found.append(inverse.reshape(tuple(input.shape)) if dim is None else inverse)
    if return_counts:
        ends = cat([places, places.new_full((1,), count)], 0)
        found.append(ends.narrow(0, 1, places.shape[0]) - places)
    return found[0] if len(found) == 1 else tuple(found)


_BOTH: tuple[Any, ...] = (quantile, nanquantile, msort, unique_consecutive)
for _function in _BOTH:
    publish(_function, (_function.__name__,))
_FREE: tuple[Any, ...] = (searchsorted, bucketize, isin)
for _function in _FREE:
    publish(_function, (_function.__name__,), on=("torch",))
