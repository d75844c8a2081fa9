"""Several tensors as one: repeated to one shape, joined, in all combinations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from tcdsl.core import Op, Size, Tensor, dtypes, empty, made_by
from tcdsl.ops.arguments import listed_as, several
from tcdsl.ops.arranged import movedim, repeat_interleave, triu_indices
from tcdsl.ops.copies import beside_zeros, repeat
from tcdsl.ops.filling import arange_of_integers
from tcdsl.ops.indexing import index_select
from tcdsl.ops.joins import cat, stack
from tcdsl.ops.on_device import moved
from tcdsl.ops.rules import broadcast_shape, default_float, promote
from tcdsl.ops.table import op_of_text, publish
from tcdsl.ops.views import dim_of, expand

Several = Sequence[Tensor]
_FEW = 8  # matrices that one kernel joins


def _list_of(tensors: tuple[Any, ...]) -> list[Tensor]:
    """Return tensors that are given one by one, or as one sequence."""
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    return list(tensors)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Return views of tensors in the shape to which they broadcast."""
    listed = _list_of(tensors)
    shape = broadcast_shape([tuple(t.shape) for t in listed])
    return tuple(expand(t, *shape) for t in listed)


def broadcast_shapes(*shapes: Any) -> Any:
    """Return the shape to which shapes, or sizes, broadcast."""
    return Size(broadcast_shape([several(s) for s in shapes]))


def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """Return a view in a shape to which a tensor broadcasts."""
    return expand(input, *size)


def concatenate(
    tensors: Sequence[Tensor], dim: int = 0, *, axis: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Join tensors along a dimension, `dim` or `axis`; see `cat`."""
    return cat(tensors, dim if axis is None else axis, out=out)


@listed_as("dims")
def tile(input: Tensor, *dims: Any) -> Tensor:
    """Repeat a tensor along each dimension; missing numbers count as 1."""
    wanted = _list_of(dims)
    return repeat(input, *([1] * (input.ndim - len(wanted))), *wanted)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Return the coordinates of a grid: row i of the n-th tensor where the n-th subscript is i.

    Parameters
    ----------
    tensors : Tensor, shape (N,) or ()
    indexing : {"ij", "xy"}
        With "xy" the first two dimensions of the result change places.
    """
    listed = _list_of(tensors)
    if not listed:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for t in listed:
        if t.ndim > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t}"
            )
        if t.dtype is not listed[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(
            'torch.meshgrid: indexing must be one of "xy" or "ij", but received: ' + indexing
        )
    turned = indexing == "xy" and len(listed) > 1
    if turned:
        listed[:2] = listed[1::-1]
    shape = [t.numel() for t in listed]
    made = [
        t.reshape(*(-1 if d == n else 1 for d in range(len(shape)))).expand(*shape)
        for n, t in enumerate(listed)
    ]
    if turned:
        made[:2] = made[1::-1]
    return tuple(made)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Return all choices of one element of each row, shape (product of lengths, rows)."""
    if len(tensors) == 1:
        return tensors[0]
    return stack([t.reshape(-1) for t in meshgrid(*tensors)], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return all choices of r elements of a row, shape (choices, r)."""
    if input.ndim != 1:
        raise RuntimeError("Expect a 1D vector, but got shape " + str(list(input.shape)))
    if r == 0:
        return input.new_empty(0)  # type: ignore[no-any-return]
    if r == 1:
        return input.reshape(-1, 1).clone()  # type: ignore[no-any-return]
    places = moved(_choices(input.shape[0], r, int(not with_replacement)), input._device)
    chosen = index_select(input, 0, places.reshape(-1)).view(places.shape)
    return made_by(chosen, "StackBackward0")


def _choices(count: int, r: int, apart: int) -> Tensor:
    """Return r places of a row that rise by `apart` at least, in order, shape (choices, r)."""
    if r == 2:
        return triu_indices(count, count, apart).t()  # type: ignore[no-any-return]
    before = _choices(count, r - 1, apart)
    first = before.select(1, r - 2) + apart  # of the places that may follow
    often = (count - first).clamp(min=0)
    ends = often.cumsum(0)
    rows = repeat_interleave(often)
    number = arange_of_integers(empty((rows.shape[0],), dtypes.int64), 0, 1)
    place: Tensor = number + index_select(first - ends + often, 0, rows)
    return cat([index_select(before, 0, rows), place.unsqueeze(1)], 1)


def _at_least(rank: int, tensors: tuple[Any, ...]) -> Any:
    def one(t: Tensor) -> Tensor:
        shape = tuple(t.shape)
        if len(shape) >= rank:
            return t
        if rank == 3 and shape:
            return t.reshape(*((1, *shape, 1) if len(shape) == 1 else (*shape, 1)))  # type: ignore[no-any-return]
        return t.reshape(*(1,) * (rank - len(shape)), *shape)  # type: ignore[no-any-return]

    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return one(tensors[0])
    return tuple(map(one, _list_of(tensors)))


def atleast_1d(*tensors: Any) -> Any:
    """Return views of rank 1 at least."""
    return _at_least(1, tensors)


def atleast_2d(*tensors: Any) -> Any:
    """Return views of rank 2 at least."""
    return _at_least(2, tensors)


def atleast_3d(*tensors: Any) -> Any:
    """Return views of rank 3 at least."""
    return _at_least(3, tensors)


def hstack(tensors: Several) -> Tensor:
    """Join tensors along columns, rows along their elements."""
    listed = [t if t.ndim else t.reshape(1) for t in tensors]
    return cat(listed, 0 if listed[0].ndim == 1 else 1)


def _rows(tensors: Several, dim: int) -> Tensor | None:
    """Return rows of one length stacked; None for others."""
    first = tensors[0].shape if len(tensors) > 1 else ()
    if len(first) != 1 or any(t.shape != first for t in tensors):
        return None
    return made_by(stack(tensors, dim), "CatBackward0")


def vstack(tensors: Several) -> Tensor:
    """Join tensors along the first dimension, rows one below the other."""
    rows = _rows(tensors, 0)
    return cat([_at_least(2, (t,)) for t in tensors], 0) if rows is None else rows


def dstack(tensors: Several) -> Tensor:
    """Join tensors along the third dimension."""
    return cat([_at_least(3, (t,)) for t in tensors], 2)


def column_stack(tensors: Several) -> Tensor:
    """Join tensors along columns, of which each row is one."""
    rows = _rows(tensors, 1)
    return (
        hstack([t.reshape(-1, 1) if t.ndim < 2 else t for t in tensors]) if rows is None else rows
    )


def block_diag(*tensors: Tensor) -> Tensor:
    """Return a matrix with matrices along its diagonal, and 0 elsewhere."""
    listed = [t if t.ndim > 1 else _at_least(2, (t,)) for t in tensors]
    if len(listed) > _FEW:
        some = range(0, len(listed), _FEW)
        return block_diag(*(block_diag(*listed[i : i + _FEW]) for i in some))
    made: Tensor = (
        _diagonal_blocks(len(listed))(*listed) if listed else empty((1, 0), default_float())
    )
    return made


@cache
def _diagonal_blocks(count: int) -> Op:
    """Return the op of a few matrices along a diagonal, in one kernel."""
    params = ", ".join(f"T(M{k}, N{k}) x{k}" for k in range(count))
    statements, rows, columns = "", "", ""
    for k in range(count):
        statements += f"  out({rows}m{k}, {columns}n{k}) = x{k}(m{k}, n{k})\n"
        rows, columns = f"{rows}M{k} + ", f"{columns}N{k} + "
    whole = f"T({rows.removesuffix(' + ')}, {columns.removesuffix(' + ')})"
    return op_of_text(
        f"def block_diag<T>({params}) -> ({whole} out) {{\n{statements}}}",
        types=promote,
        vjp=_blocks,
        saves=tuple(f"like:x{k}" for k in range(count)),
    )


def _blocks(needs: int, gradient: Tensor, *blocks: Tensor) -> tuple[Tensor, ...]:
    """Return the blocks of a gradient, views of it."""
    found, row, column = [], 0, 0
    for block in blocks:
        n, m = block.shape
        found.append(gradient.narrow(0, row, n).narrow(1, column, m))
        row, column = row + n, column + m
    return tuple(found)


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return matrices with the last dimension of a tensor on their diagonals, and 0 elsewhere."""
    rank = input.ndim + 1
    dim1, dim2 = dim_of(dim1, rank), dim_of(dim2, rank)
    if dim1 == dim2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    made = beside_zeros(input, offset)
    if dim1 == rank - 2 and dim2 == rank - 1:
        return made
    return movedim(made, (-2, -1), (dim1, dim2))


_FREE: tuple[Any, ...] = (
    broadcast_tensors, broadcast_shapes, meshgrid, cartesian_prod, combinations, atleast_1d,
    atleast_2d, atleast_3d, hstack, vstack, dstack, column_stack, block_diag,
)  # fmt: skip
for _function in _FREE:
    publish(_function, (_function.__name__,), on=("torch",))
_BOTH: tuple[Any, ...] = (broadcast_to, tile, diag_embed)
for _function in _BOTH:
    publish(_function, (_function.__name__,))
publish(concatenate, ("concatenate", "concat"), on=("torch",))
publish(vstack, ("vstack", "row_stack"), on=("torch",))
