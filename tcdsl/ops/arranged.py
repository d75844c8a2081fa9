"""Dimensions in another order, parts of them, places in them: views and copies."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tcdsl.core import Tensor, dtypes, empty
from tcdsl.core.dtypes import DType
from tcdsl.ops.arguments import also_named, listed, several
from tcdsl.ops.copies import flip, repeated_elements
from tcdsl.ops.filling import rectangle, triangle
from tcdsl.ops.indexing import gather, index_select
from tcdsl.ops.joins import stack
from tcdsl.ops.masks import nonzero, repeated_places
from tcdsl.ops.rules import broadcast_shape
from tcdsl.ops.table import publish
from tcdsl.ops.view_parts import narrow
from tcdsl.ops.views import dim_of, expand, permute, reshape, transpose
from tcdsl.ops.writing import any_recorded

_SMALL = 1440  # rows of a triangle, whose roots float32 tells apart

# ---- dimensions in another order


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Return a view with some dimensions at other places; the others keep their order."""
    if type(source) is int and type(destination) is int:
        return _moved_alone(input, source, destination)
    given = [list(several(d)) for d in (source, destination)]
    if len(given[0]) != len(given[1]):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source "
            f"({given[0]} dims) should contain the same number of dims as destination "
            f"({given[1]} dims)"
        )
    rank = input.ndim
    at, to = ([dim_of(d, rank) for d in dims] for dims in given)
    for name, dims in (("source", at), ("destination", to)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({given[name != 'source']})")
    placed = dict(zip(to, at, strict=True))
    others = (d for d in range(rank) if d not in at)
    return permute(input, *(placed[d] if d in placed else next(others) for d in range(rank)))


def _moved_alone(input: Tensor, source: int, destination: int) -> Tensor:
    """Return a view with one dimension at another place."""
    rank = input.ndim
    at, to = dim_of(source, rank), dim_of(destination, rank)
    others = [d for d in range(rank) if d != at]
    return permute(input, (*others[:to], at, *others[to:]) if rank else ())


def adjoint(input: Tensor) -> Tensor:
    """Return a view of the transposed matrices."""
    return transpose(input, -2, -1)


def ravel(input: Tensor) -> Tensor:
    """Return all elements as one row, a view where that is possible."""
    return reshape(input, -1)


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Return a view in which a dimension has become several; one size may be -1."""
    dim = dim_of(dim, input.ndim)
    wanted, extent = [operator.index(n) for n in sizes], input.shape[dim]
    if not wanted:
        raise RuntimeError("unflatten: sizes must be non-empty")
    known = math.prod(n for n in wanted if n != -1)
    if wanted.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if extent != known if -1 not in wanted else not known or extent % known:
        raise RuntimeError(
            f"unflatten: Provided sizes {wanted} don't multiply up to the size of dim {dim} "
            f"({extent}) in the input tensor"
        )
    whole = [extent // known if n == -1 else n for n in wanted]
    shape = tuple(input.shape)
    made: Tensor = input.view(*shape[:dim], *whole, *shape[dim + 1 :])
    return made


def fliplr(input: Tensor) -> Tensor:
    """Return the columns in the other order."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """Return the rows in the other order."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turn the plane of two dimensions by k quarters, from the first towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    a, b = (dim_of(d, input.ndim) for d in dims)
    if a == b:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    match k % 4:
        case 1:
            return transpose(flip(input, b), a, b)
        case 2:
            return flip(input, (a, b))
        case 3:
            return transpose(flip(input, a), a, b)
    return input.clone()  # type: ignore[no-any-return]


# ---- parts


# Parts are told by places or by their number: PyTorch has a name for both, and one for each.
_as_parts = also_named({"sections": "indices_or_sections", "indices": "indices_or_sections"})


@_as_parts
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Return views of parts of a dimension: so many nearly equal ones, or between places.

    Each is a view by itself: it may be written, where those that `split` gives may not.
    """
    dim, extent = dim_of(dim, input.ndim), input.shape[dim]
    cut = listed(indices_or_sections)
    if isinstance(cut, int):
        if cut <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {cut}")
        least, more = divmod(extent, cut)
        ends = list(itertools.accumulate(least + (i < more) for i in range(cut)))
        begins = [0, *ends[:-1]]
    else:
        places = [slice(0, p).indices(extent)[1] for p in cut]
        begins, ends = [0, *places], [*places, extent]
    return tuple(narrow(input, dim, a, max(b - a, 0)) for a, b in zip(begins, ends, strict=True))


def _split_evenly(name: str, input: Tensor, cut: Any, dim: int) -> tuple[Tensor, ...]:
    """Return views of parts of a dimension: so many equal ones, or between places."""
    sections, extent = listed(cut), input.shape[dim]
    if isinstance(sections, int) and (sections <= 0 or extent % sections):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
            f"{extent} is not divisible by the split_size {sections}!"
        )
    return tensor_split(input, cut, dim)


@_as_parts
def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Return views of parts of the columns, of a row of its elements."""
    return _split_evenly("hsplit", input, indices_or_sections, 0 if input.ndim == 1 else 1)


@_as_parts
def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Return views of parts of the rows."""
    return _split_evenly("vsplit", input, indices_or_sections, 0)


@_as_parts
def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Return views of parts of the third dimension."""
    return _split_evenly("dsplit", input, indices_or_sections, 2)


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Return elements whose subscript in one dimension is given; both broadcast elsewhere."""
    if dim is None:
        return gather(input.reshape(-1), 0, indices.reshape(-1))
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of "
            f"dimensions, but got {input.ndim} dimensions for input, and {indices.ndim} "
            "dimensions for indices"
        )
    dim = dim_of(dim, input.ndim)
    a, b = list(input.shape), list(indices.shape)
    a[dim] = b[dim] = 1
    shape = list(broadcast_shape([tuple(a), tuple(b)]))
    of_input, of_indices = list(shape), list(shape)
    of_input[dim], of_indices[dim] = input.shape[dim], indices.shape[dim]
    return gather(expand(input, *of_input), dim, expand(indices, *of_indices))


def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Repeat each part of a dimension, all as often or each as often as a tensor says.

    Without `repeats` the first argument is how often, and the numbers of the parts are returned.
    """
    if repeats is None:
        return repeated_places(input)
    if dim is None:
        input, dim = input.reshape(-1), 0
    dim = dim_of(dim, input.ndim)
    extent = input.shape[dim]
    if isinstance(repeats, Tensor) and repeats.numel() > 1:
        if repeats.numel() != extent:
            raise RuntimeError(
                "repeats must have the same size as input along dim, but got "
                f"repeats.size(0) = {repeats.numel()} and input.size({dim}) = {extent}"
            )
        return index_select(input, dim, repeated_places(repeats))
    often = operator.index(repeats)
    if often < 0:
        raise RuntimeError("Repeats must be non-negative")
    if input.ndim == 1 and often and not any_recorded((input,)):
        if often in (2, 3):  # vectors whose lanes take turns, where often is a store of each part
            return stack((input,) * often, 1).view(-1)  # type: ignore[no-any-return]
        return repeated_elements(input, often).view(-1)  # type: ignore[no-any-return]
    shape = tuple(input.shape)  # a view of each part, repeated
    apart = input.unsqueeze(dim + 1).expand(*shape[: dim + 1], often, *shape[dim + 1 :])
    made: Tensor = apart.reshape(*shape[:dim], extent * often, *shape[dim + 1 :])
    return made.clone() if often == 1 else made


def argwhere(input: Tensor) -> Tensor:
    """Return the subscripts of elements that are not 0, shape (K, rank)."""
    found: Tensor = nonzero(input)
    return found


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: DType = dtypes.int64, device: Any = None
) -> Tensor:
    """Return the subscripts of the lower triangle of a matrix, shape (2, K), row by row."""
    first, width, some, whole, at = _lower(row, col, offset)
    made = empty((2, some + whole * col), dtype)
    if some:
        op = triangle("lower_triangle", width + at - first < _SMALL)
        op(made.narrow(1, 0, some) if whole else made, first, width)
    if whole:
        rectangle(_last(made, some, whole, col), at)
    return made if device is None else made.to(device)


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: DType = dtypes.int64, device: Any = None
) -> Tensor:
    """Return the subscripts of the upper triangle of a matrix, shape (2, K), row by row."""
    whole, width, some = _upper(row, col, offset)
    made = empty((2, whole * col + some), dtype)
    if some:
        part = made.narrow(1, whole * col, some) if whole else made
        triangle("upper_triangle", width < _SMALL)(part, whole, max(0, offset), width)
    if whole:
        rectangle(_last(made.narrow(1, 0, whole * col), 0, whole, col), 0)
    return made if device is None else made.to(device)


def _last(made: Tensor, begin: int, count: int, col: int) -> Tensor:
    """Return the subscripts of so many whole rows of a matrix, shape (2, count, col)."""
    return made.narrow(1, begin, count * col).view(2, count, col)  # type: ignore[no-any-return]


@lru_cache
def _lower(row: int, col: int, offset: int) -> tuple[int, int, int, int, int]:
    """Return the rows of a lower triangle: those that grow, and whole ones behind them.

    The first that grows, how long it is, and how many elements they have; how many are whole, from
    which on.
    """
    _check_not_negative(row, col)
    first = max(0, -offset)
    width = min(col, first + offset + 1)
    if first >= row or not col:
        return 0, 0, 0, 0, 0
    longer = min(row - first, col - width + 1)
    return first, width, _rising(longer, width), row - first - longer, first + longer


@lru_cache
def _upper(row: int, col: int, offset: int) -> tuple[int, int, int]:
    """Return the rows of an upper triangle: whole ones, and those behind them that shrink.

    How many are whole; how long the first that shrinks is, and how many elements these have.
    """
    _check_not_negative(row, col)
    whole = min(row, max(0, -offset)) if col else 0
    width = max(0, col - max(0, offset))
    shorter = min(row - whole, width)
    return whole, width, _rising(shorter, width - shorter + 1)


def _check_not_negative(row: int, col: int) -> None:
    for name, n in (("row", row), ("col", col)):
        if n < 0:
            raise RuntimeError(f"{name} must be non-negative, got{n}")


def _rising(count: int, width: int) -> int:
    """Return how many elements so many rows have, of which each has one more than the last."""
    return count * width + count * (count - 1) // 2


def unravel_index(indices: Tensor, shape: Sequence[int]) -> tuple[Tensor, ...]:
    """Return subscripts of places that are counted row by row."""
    found, rest = [], indices
    for extent in reversed(tuple(shape)):
        found.append(rest % extent)
        rest = rest // extent
    return tuple(reversed(found))


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Return a copy in which one place along a dimension is `src`."""
    made: Tensor = input.clone()
    made.select(dim, index).copy_(src)
    return made


def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """Return a copy in which a slice along a dimension is `src`."""
    made: Tensor = input.clone()
    dim = dim_of(dim, input.ndim)
    made[(slice(None),) * dim + (slice(start, end, step),)] = src
    return made


def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """Return a copy in which a diagonal is `src`."""
    made: Tensor = input.clone()
    made.diagonal(offset, dim1, dim2).copy_(src)
    return made


def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Return a copy of some places along a dimension."""
    made: Tensor = input.narrow(dim, start, length).clone()
    return made


def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Return sums over the dimensions that a shape has not, or has once: broadcasting undone."""
    shape = several(size[0] if len(size) == 1 else size)
    behind = input.ndim - len(shape)
    wide = [d + behind for d, n in enumerate(shape) if n == 1 != input.shape[d + behind]]
    made: Tensor = input.sum(wide, keepdim=True) if wide else input
    if behind:
        made = made.sum([*range(behind)])
    if tuple(made.shape) != shape:
        raise RuntimeError(
            f"size {{{list(shape)}}} is not expandable to size {{{list(input.shape)}}}."
        )
    return made


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Return a view with two dimensions exchanged."""
    return transpose(input, axis0, axis1)


_BOTH: tuple[Any, ...] = (
    movedim, adjoint, ravel, unflatten, fliplr, flipud, rot90, tensor_split, hsplit, vsplit, dsplit,
    take_along_dim, repeat_interleave, argwhere,
)  # fmt: skip
for _function in _BOTH:
    publish(_function, (_function.__name__,))
_FREE: tuple[Any, ...] = (tril_indices, triu_indices, unravel_index)
for _function in _FREE:
    publish(_function, (_function.__name__,), on=("torch",))
for _each in (select_scatter, slice_scatter, diagonal_scatter, narrow_copy):
    publish(_each, (_each.__name__,))
publish(sum_to_size, ("sum_to_size",), on=("Tensor",))
publish(movedim, ("moveaxis",))
publish(swapaxes, ("swapaxes",))
publish(transpose, ("swapdims",))
