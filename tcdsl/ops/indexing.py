"""Data as subscripts: look-ups, and what is written where data says, along one dimension."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tcdsl.core import Op, Tensor, dtypes, from_numpy
from tcdsl.ops.on_device import moved
from tcdsl.ops.rules import C_NAMES, NAMES, broadcast, broadcast_shape, promote
from tcdsl.ops.table import Family, in_place, op_of_text, publish
from tcdsl.ops.views import dim_of

ops = Family(__file__)

_take = ops.op("take")
_masked_fill = ops.op("masked_fill", types=lambda operands: operands[0].dtype, shape=broadcast)
_masked_fill_into = ops.op(
    "masked_fill", types=lambda operands: operands[0].dtype, shape=broadcast, writes=True
)
_where = ops.op("chosen", types=lambda operands: promote(operands), shape=broadcast)
_embedding = ops.op("embedding", vjp="embedding_vjp")
_embedding_by_frequency = ops.op("embedding", vjp="embedding_by_frequency_vjp")
_count = ops.op("count", vjp=None)
_weigh = ops.op("weigh")
_bags = {mode: ops.op(f"bag_{mode}") for mode in ("sum", "mean", "max", "weighted")}


def _of_text(text: str, *, writes: bool) -> Op:
    return op_of_text(text, writes=writes)


def _integers(index: Tensor, name: str) -> Tensor:
    if index.dtype not in (dtypes.int64, dtypes.int32, dtypes.int16, dtypes.int8, dtypes.uint8):
        raise RuntimeError(f"{name}(): Expected dtype int64 for index, got {index.dtype}")
    return index.to(dtypes.int64)


# ---- an index for each element: gather, scatter


def _names(prefix: str, rank: int) -> list[str]:
    return [f"{prefix}{d}" for d in range(rank)]


@cache
def _gather(rank: int, dim: int) -> Op:
    at, x, j = _names("i", rank), ", ".join(_names("X", rank)), _names("J", rank)
    read = [f"index({', '.join(at)})" if d == dim else at[d] for d in range(rank)]
    ranges = ", ".join(f"{i} in 0:{n}" for i, n in zip(at, j, strict=True))
    return op_of_text(
        f"def gather<T>(T({x}) input, int64({', '.join(j)}) index) -> (T({', '.join(j)}) out) {{\n"
        f"  out({', '.join(at)}) = input({', '.join(read)}) where {ranges}\n}}"
    )


def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """Return elements whose subscript in one dimension is given: ``input[index[i, j], j]``.

    Parameters
    ----------
    input : Tensor
    dim : int
        The dimension.
    index : Tensor, int64
        Of the result's shape, which is nowhere but in dim larger than input's.
    """
    index = _integers(index, "gather")
    if not input.ndim:
        return gather(input.reshape(1), 0, index.reshape(-1)).reshape(index.shape)
    dim = dim_of(dim, input.ndim)
    _check_ranks("gather", index, input)
    made: Tensor = _gather(input.ndim, dim)(input, index)
    return made


def _check_ranks(name: str, index: Tensor, input: Tensor) -> None:
    if index.ndim != input.ndim:
        raise RuntimeError(
            f"{name}(): Index tensor must have the same number of dimensions as input tensor"
        )


@cache
def _scatter(rank: int, dim: int, how: str, is_number: bool, writes: bool) -> Op:
    at, j = ", ".join(_names("j", rank)), _names("J", rank)
    x, i = ", ".join(_names("X", rank)), ", ".join(_names("i", rank))
    place = ", ".join(f"index({at})" if d == dim else f"j{d}" for d in range(rank))
    ranges = ", ".join(f"j{d} in 0:{n}" for d, n in enumerate(j))
    source = "T src" if is_number else f"T({', '.join(_names('S', rank))}) src"
    value = "src" if is_number else f"src({at})"
    return _of_text(
        f"def scatter<T>(T({x}) input, int64({', '.join(j)}) index, {source}) -> (T({x}) out) {{\n"
        f"  out({i}) = input({i})\n"
        f"  out({place}) {how} {value} where {ranges}\n}}",
        writes=writes,
    )


def with_nothing_written(input: Tensor, source: Any, writes: bool) -> Tensor:
    """Return a tensor, or a copy, as a function of a source of which no element was written."""
    if not isinstance(source, Tensor) or not source.requires_grad:
        return input if writes else input.clone()
    nothing = source.sum().neg()  # -0.0, which leaves -0.0 as it is
    result: Tensor = input.add_(nothing) if writes else input + nothing
    return result


_HOW = {"add": "+=", "multiply": "*=", None: "="}


def _scattered(
    name: str, input: Tensor, dim: int, index: Tensor, src: Any, how: str, writes: bool
) -> Tensor:
    index = _integers(index, name)
    if not input.ndim:
        flat = src.reshape(-1) if isinstance(src, Tensor) else src
        made = _scattered(name, input.reshape(1), 0, index.reshape(-1), flat, how, writes)
        return input if writes else made.reshape(())
    dim = dim_of(dim, input.ndim)
    _check_ranks(name, index, input)
    is_number = not isinstance(src, Tensor)
    if not is_number and src.dtype is not input.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    if not index.numel():
        return with_nothing_written(input, src, writes)
    op = _scatter(input.ndim, dim, how, is_number, writes)
    result: Tensor = op(input, index, src)
    return result


def scatter(input: Tensor, dim: int, index: Tensor, src: Any = None, **named: Any) -> Tensor:
    """Return a copy in which elements at given subscripts in one dimension are replaced.

    Parameters
    ----------
    input : Tensor
    dim : int
    index : Tensor, int64
    src : Tensor or number
        `value` is the same. Where places meet the last one counts.
    reduce : str, optional
        'add' or 'multiply': combine with what is there.
    """
    return _scatter_by_name(input, dim, index, src, named, writes=False)


def scatter_(input: Tensor, dim: int, index: Tensor, src: Any = None, **named: Any) -> Tensor:
    """Replace elements at given subscripts in one dimension; see `scatter`."""
    return _scatter_by_name(input, dim, index, src, named, writes=True)


def _scatter_by_name(
    input: Tensor, dim: int, index: Tensor, src: Any, named: dict[str, Any], writes: bool
) -> Tensor:
    value = named.pop("value", src)
    reduce = named.pop("reduce", None)
    if named:
        raise TypeError(f"scatter() got an unexpected keyword argument '{next(iter(named))}'")
    if reduce not in _HOW:
        raise RuntimeError("reduce argument must be either add or multiply.")
    if not isinstance(value, Tensor):
        value = float(value) if input.dtype.is_floating_point else int(value)
    return _scattered("scatter", input, dim, index, value, _HOW[reduce], writes)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Return a copy to which elements are added at given subscripts in one dimension."""
    return _scattered("scatter_add", input, dim, index, src, "+=", writes=False)


def scatter_add_(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Add elements at given subscripts in one dimension."""
    return _scattered("scatter_add", input, dim, index, src, "+=", writes=True)


# ---- an index for all rows of a dimension: index_select, index_add


@cache
def _index_select(rank: int, dim: int) -> Op:
    x, at = _names("X", rank), _names("i", rank)
    sizes = ["K" if d == dim else x[d] for d in range(rank)]
    place = ["k" if d == dim else at[d] for d in range(rank)]
    read = ["index(k)" if d == dim else at[d] for d in range(rank)]
    return op_of_text(
        f"def index_select<T>(T({', '.join(x)}) input, int64(K) index)\n"
        f"    -> (T({', '.join(sizes)}) out) {{\n"
        f"  out({', '.join(place)}) = input({', '.join(read)})\n}}"
    )


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return the parts of a dimension that have given numbers.

    Parameters
    ----------
    input : Tensor
    dim : int
    index : Tensor, int64, shape (K,) or ()
    """
    index = _row(index, "index_select")
    if not input.ndim:
        return index_select(input.reshape(1), 0, index).reshape(())
    dim = dim_of(dim, input.ndim)
    made: Tensor = _index_select(input.ndim, dim)(input, index)
    return made


def _row(index: Tensor, name: str) -> Tensor:
    index = _integers(index, name)
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector")
    return index if index.ndim else index.reshape(1)


@cache
def _index_into(rank: int, dim: int, how: str, is_number: bool, writes: bool) -> Op:
    x, at = _names("X", rank), _names("i", rank)
    sizes = ", ".join("K" if d == dim else x[d] for d in range(rank))
    read = ", ".join("k" if d == dim else at[d] for d in range(rank))
    place = ", ".join("index(k)" if d == dim else at[d] for d in range(rank))
    source = "T source" if is_number else f"T({sizes}) source"
    value = "source" if is_number else f"source({read})"
    alpha, times = (", T alpha", "alpha * ") if how == "+=" else ("", "")
    head = f"T({', '.join(x)})"
    others = ", ".join(f"{at[d]} in 0:{x[d]}" for d in range(rank) if d != dim)
    return _of_text(
        f"def index_into<T>({head} input, int64(K) index, {source}{alpha}) -> ({head} out) {{\n"
        f"  out({', '.join(at)}) = input({', '.join(at)})\n"
        f"  out({place}) {how} {times}{value}"
        + (f" where {others}" if is_number and rank > 1 else "")
        + "\n}",
        writes=writes,
    )


def _indexed_into(
    name: str,
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Any,
    how: str,
    writes: bool,
    *alpha: Any,
) -> Tensor:
    index = _row(index, name)
    if not input.ndim:
        row = source.reshape(-1) if isinstance(source, Tensor) else source
        made = _indexed_into(name, input.reshape(1), 0, index, row, how, writes, *alpha)
        return input if writes else made.reshape(())
    dim = dim_of(dim, input.ndim)
    if isinstance(source, Tensor) and source.ndim < input.ndim:
        source = source.reshape(*source.shape, *(1,) * (input.ndim - source.ndim))
    if not index.numel():
        return with_nothing_written(input, source, writes)
    op = _index_into(input.ndim, dim, how, not isinstance(source, Tensor), writes)
    result: Tensor = op(input, index, source, *alpha)
    return result


def _alpha(input: Tensor, alpha: float) -> Any:
    return float(alpha) if input.dtype.is_floating_point else int(alpha)


def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1
) -> Tensor:
    """Return a copy to whose parts of given numbers other ones are added, times alpha."""
    a = _alpha(input, alpha)
    return _indexed_into("index_add", input, dim, index, source, "+=", False, a)


def index_add_(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1
) -> Tensor:
    """Add to the parts of given numbers other ones, times alpha."""
    a = _alpha(input, alpha)
    return _indexed_into("index_add", input, dim, index, source, "+=", True, a)


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Return a copy whose parts of given numbers are replaced."""
    return _indexed_into("index_copy", input, dim, index, source, "=", False)


def index_copy_(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Replace the parts of given numbers."""
    return _indexed_into("index_copy", input, dim, index, source, "=", True)


def _number(input: Tensor, value: Any) -> Any:
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                "expected a number or a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        value = value.item()
    if input.dtype.is_floating_point:
        return float(value)
    return int(value) if input.dtype.category else bool(value)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Return a copy whose parts of given numbers hold one value."""
    return _indexed_into("index_fill", input, dim, index, _number(input, value), "=", False)


def index_fill_(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Write one value into the parts of given numbers."""
    return _indexed_into("index_fill", input, dim, index, _number(input, value), "=", True)


# ---- masks and flat places


def _mask(mask: Tensor, name: str) -> Tensor:
    """Return a mask, which is one of bools."""
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(
            f"{name} only supports boolean masks, but got mask with dtype "
            f"{C_NAMES[mask.dtype.name]}"
        )
    return mask


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """Return a copy that holds one value where a mask is true."""
    made: Tensor = _masked_fill(input, _mask(mask, "masked_fill_"), _number(input, value))
    return made


def masked_fill_(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """Write one value where a mask is true."""
    made: Tensor = _masked_fill_into(input, _mask(mask, "masked_fill_"), _number(input, value))
    return made


def _true_places(mask: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the flat places at which a mask, broadcast to a shape, is true."""
    array = moved(mask.detach(), 0)._array().astype(bool, copy=False)
    if array.shape != shape:
        array = np.broadcast_to(array, shape)
    (places,) = array.ravel().nonzero()
    return moved(from_numpy(places.astype(np.int64, copy=False)), mask._device)


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """Return the elements at which a mask is true, shape (K,)."""
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_shape([tuple(input.shape), tuple(mask.shape)])
    wide = input if tuple(input.shape) == shape else input.expand(shape)
    return index_select(wide.reshape(-1), 0, _true_places(mask, shape))


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return a copy with the first elements of a source, in order, where a mask is true."""
    places = _true_places(_mask(mask, "masked_scatter_"), tuple(input.shape))
    if places.numel() > source.numel():
        raise RuntimeError(
            f"masked_scatter: expected a source of {places.numel()} elements, got {source.numel()}"
        )
    values = source.reshape(-1).narrow(0, 0, places.numel())
    return index_copy(input.reshape(-1), 0, places, values).reshape(input.shape)


masked_scatter_ = in_place(masked_scatter)


def take(input: Tensor, index: Tensor) -> Tensor:
    """Return elements of a tensor as if it had one dimension, in the index's shape."""
    made: Tensor = _take(input.reshape(-1), _integers(index, "take"))
    return made


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return a copy with elements written as if it had one dimension."""
    places = _integers(index, "put_").reshape(-1)
    places = _where(places < 0, places + input.numel(), places)
    write = index_add if accumulate else index_copy
    return write(input.reshape(-1), 0, places, source.reshape(-1)).reshape(input.shape)


put_ = in_place(put)


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """Return elements of one tensor where a condition is true, else of another.

    With a condition alone the places where it is true, a tensor a dimension.
    """
    if input is None:
        return nonzero(condition, as_tuple=True)
    if condition.dtype not in (dtypes.bool_, dtypes.uint8):  # bytes were masks once
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{NAMES[condition.dtype.name]}"
        )
    tensors = [t for t in (input, other) if isinstance(t, Tensor)]
    if not tensors:
        kind = promote((input, other))
        input, other = (_full(condition, v, kind) for v in (input, other))
    else:
        kind = promote((input, other))
        input, other = (
            v if isinstance(v, Tensor) else _full(tensors[0], v, kind) for v in (input, other)
        )
    made: Tensor = _where(condition.to(dtypes.bool_), input, other)
    return made


def _full(like: Tensor, value: Any, kind: Any) -> Tensor:
    from tcdsl.ops.filling import fill_  # late: a file beside, of which only this has need

    made = from_numpy(np.empty((), kind.numpy))
    return fill_(made, value)


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Return the subscripts of elements that are not 0, shape (K, rank)."""
    array = moved(input.detach(), 0)._array()
    if not array.ndim:  # as of one element, whose place has no subscripts
        count = int(array != 0)
        return (
            nonzero(input.reshape(1), as_tuple=True)
            if as_tuple
            else input.new_empty((count, 0), dtype=dtypes.int64)
        )
    places = array.nonzero()
    if as_tuple:
        return tuple(
            moved(from_numpy(p.astype(np.int64, copy=False)), input._device) for p in places
        )
    listed = (
        places[0].reshape(-1, 1)
        if len(places) == 1
        else np.stack(places, 1).reshape(-1, input.ndim)
    )
    return moved(from_numpy(listed), input._device)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return rows of a table by number, (...) to (..., D).

    Parameters
    ----------
    input : Tensor, integers
    weight : Tensor, shape (V, D)
    padding_idx : int, optional
        A row without a gradient; a negative one counts from the end.
    max_norm, norm_type : float
        Rows that are looked up and whose norm is larger are scaled to it, in the table.
    scale_grad_by_freq : bool
        Divide gradients of rows by how often they are looked up.
    sparse : bool
        Gradients are dense either way.
    """
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    skipped = -1
    if padding_idx is not None:
        if not -weight.size(0) <= padding_idx < weight.size(0):
            raise AssertionError("Padding_idx must be within num_embeddings")
        skipped = padding_idx % weight.size(0)
    input = _integers(input, "embedding")
    if max_norm is not None:
        _limit_rows(weight, input, max_norm, norm_type)
    op = _embedding_by_frequency if scale_grad_by_freq else _embedding
    made: Tensor = op(input, weight, skipped)
    return made


def _limit_rows(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are looked up, in the table, to a norm."""
    table = weight.detach()
    numbers = from_numpy(np.unique(input._array()))
    rows = index_select(table, 0, numbers)
    norms = rows.norm(norm_type, 1, True)
    scale = (max_norm / (norms + 1e-7)).clamp(max=1.0)
    index_copy_(table, 0, numbers, rows * scale)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
) -> Tensor:
    """Return sums, means or maxima of rows of a table, shape (B, D).

    Parameters
    ----------
    input : Tensor, integers, shape (B, L) or (L,)
    weight : Tensor, shape (V, D)
    offsets : Tensor, shape (B,), optional
        Where bags begin in an input of one dimension.
    max_norm, norm_type, scale_grad_by_freq, sparse
        As of `embedding`.
    mode : str
        'sum', 'mean' or 'max'.
    per_sample_weights : Tensor, as input, optional
        What rows are multiplied by, in sums.
    """
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None")
        batch, length = input.shape
        ends = from_numpy(np.arange(batch + 1, dtype=np.int64) * length)
        flat = input.reshape(-1)
    elif input.ndim == 1 and offsets is not None:
        flat = input
        begins = offsets.detach()._array().astype(np.int64)
        if begins.size and begins[0]:
            raise RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start "
                f"from position 0. However, got {begins[0]}"
            )
        if begins.size and begins[-1] > input.size(0):
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length {input.size(0)} but got "
                f"offsets[-1] of {begins[-1]}"
            )
        ends = from_numpy(np.append(begins, input.size(0)))
    else:
        raise ValueError("input has to be a 2D Tensor, or a 1D one with offsets")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    flat = _integers(flat, "embedding_bag")
    if max_norm is not None:
        _limit_rows(weight, flat, max_norm, norm_type)
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError("per_sample_weights goes with mode='sum' only")
        weighted: Tensor = _bags["weighted"](flat, weight, ends, per_sample_weights.reshape(-1))
        return weighted
    made: Tensor = _bags[mode](flat, weight, ends)
    return made


_one_hot = ops.op("one_hot", vjp=None)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Return 1 at each integer's place and 0 elsewhere, (...) to (..., C)."""
    if num_classes < 0:
        if not tensor.numel():
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = int(tensor.max().item()) + 1
    elif num_classes and tensor.numel() and int(tensor.max().item()) >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    if tensor.numel() and int(tensor.min().item()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    count = num_classes
    made: Tensor = _one_hot(tensor, C=count)
    return made


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Return how often each integer comes, or the sums of its weights."""
    numbers = _integers(input, "bincount")
    if numbers.ndim != 1 or (numbers.numel() and int(numbers.min().item()) < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    size = max(minlength, int(numbers.max().item()) + 1 if numbers.numel() else 0)
    if weights is None:
        return counts(numbers, size)
    begin = moved(from_numpy(np.zeros(size, weights.dtype.numpy)), numbers._device)
    made: Tensor = _weigh(numbers, weights, begin)
    return made


def counts(numbers: Tensor, size: int) -> Tensor:
    """Return how often each integer from 0 on comes, of which there are so many."""
    begin = moved(from_numpy(np.zeros(size, np.int64)), numbers._device)
    made: Tensor = _count(numbers, begin)
    return made


for _function in (
    gather,
    scatter,
    scatter_add,
    index_select,
    index_add,
    index_copy,
    index_fill,
    masked_fill,
    masked_select,
    masked_scatter,
    take,
    put,
    nonzero,
    bincount,
):
    publish(_function, (_function.__name__,))
for _writing in (
    scatter_,
    scatter_add_,
    index_add_,
    index_copy_,
    index_fill_,
    masked_fill_,
    masked_scatter_,
    put_,
):
    publish(_writing, (_writing.__name__,), on=("Tensor",))
publish(where, ("where",), on=("torch",))
publish(lambda self, condition, other: where(condition, self, other), ("where",), on=("Tensor",))
