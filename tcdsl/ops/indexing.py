"""Data as subscripts: look-ups, and what is written where data says, along one dimension."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from tcdsl.core import Op, Tensor, dtypes
from tcdsl.ops.rules import NAMES, Operands, number_of_type
from tcdsl.ops.table import op_of_text, publish
from tcdsl.ops.views import dim_of

_INT64 = dtypes.int64
_SAID = {  # of subscripts that are no integers, where it is said otherwise
    "index_select": "{name}(): Expected dtype int32 or int64 for index",
    "index_fill": "index_fill_(): Expected dtype int64 for index.",
    "take": "take(): Expected a long tensor for index, but got {type}",
    "bincount": "\"bincount_cpu\" not implemented for '{type}'",
    "repeat_interleave": "\"repeat_interleave_cpu\" not implemented for '{type}'",
}
_TYPES: dict[str, type[Exception]] = {
    "index_fill": IndexError,
    "bincount": NotImplementedError,
    "repeat_interleave": NotImplementedError,
}


def integers(index: Tensor, name: str) -> Tensor:
    """Return subscripts as int64.

    Raises
    ------
    RuntimeError
        If they are no integers.
    """
    if index.dtype is _INT64:  # as nearly all are
        return index
    if index.dtype not in (dtypes.int32, dtypes.int16, dtypes.int8, dtypes.uint8):
        raise _TYPES.get(name, RuntimeError)(
            _SAID.get(name, "{name}(): Expected dtype int32/int64 for index").format(
                name=name, type=NAMES[index.dtype.name]
            )
        )
    return index.to(_INT64)


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
        f"  out({', '.join(at)}) = input({', '.join(read)}) where {ranges}\n}}",
        shape=partial(_check_reach, dim),
    )


def _check_reach(dim: int, operands: Operands) -> None:
    """Refuse subscripts that would look up more than there is in other dimensions."""
    input, index = operands
    for d, (n, m) in enumerate(zip(index.shape, input.shape, strict=True)):
        if d != dim and n > m and index.numel():
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index {list(index.shape)} to be no "
                f"larger than self {list(input.shape)} apart from dimension {dim}"
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
    index = integers(index, "gather")
    if not input.ndim:
        return gather(input.reshape(1), 0, index.reshape(-1)).reshape(index.shape)
    dim = dim_of(dim, input.ndim)
    _check_ranks("input", index, input)
    made: Tensor = _gather(input.ndim, dim)(input, index)
    return made


def _check_ranks(name: str, index: Tensor, input: Tensor) -> None:
    if index.ndim != input.ndim:
        raise RuntimeError(f"Index tensor must have the same number of dimensions as {name} tensor")


def scatter_text(rank: int, dim: int, how: str, *, is_number: bool) -> str:
    """Return the text that combines elements with those whose subscript in `dim` is given."""
    at, j = ", ".join(_names("j", rank)), _names("J", rank)
    x, i = ", ".join(_names("X", rank)), ", ".join(_names("i", rank))
    place = ", ".join(f"index({at})" if d == dim else f"j{d}" for d in range(rank))
    ranges = ", ".join(f"j{d} in 0:{n}" for d, n in enumerate(j))
    source = "T src" if is_number else f"T({', '.join(_names('S', rank))}) src"
    value = "src" if is_number else f"src({at})"
    return (
        f"def scatter<T>(T({x}) input, int64({', '.join(j)}) index, {source}) -> (T({x}) out) {{\n"
        f"  out({i}) = input({i})\n"
        f"  out({place}) {how} {value} where {ranges}\n}}"
    )


@cache
def _scatter(rank: int, dim: int, how: str, is_number: bool, writes: bool) -> Op:
    node = "ScatterAddBackward0" if how == "+=" else f"ScatterBackward{int(is_number)}"
    return op_of_text(scatter_text(rank, dim, how, is_number=is_number), writes=writes, node=node)


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
    index = integers(index, name)
    if not input.ndim:
        flat = src.reshape(-1) if isinstance(src, Tensor) else src
        made = _scattered(name, input.reshape(1), 0, index.reshape(-1), flat, how, writes)
        return input if writes else made.reshape(())
    dim = dim_of(dim, input.ndim)
    _check_ranks("self", index, input)
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
    checks, chosen = "", "index(k)"
    if 0 < dim == rank - 1:  # of neighbours: looked at once for all rows, which vectors take then
        checks = f"  known(n) = int64(0) where n in 0:{x[dim]}\n"
        checks += "  at(k) = index(k) + known(index(k))\n"
        chosen = f"clamp(at(k), 0, {x[dim]} - 1)"
    read = [chosen if d == dim else at[d] for d in range(rank)]
    return op_of_text(
        f"def index_select<T>(T({', '.join(x)}) input, int64(K) index)\n"
        f"    -> (T({', '.join(sizes)}) out) {{\n"
        f"{checks}  out({', '.join(place)}) = input({', '.join(read)})\n}}"
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
    index = integers(index, name)
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector")
    return index if index.ndim else index.reshape(1)


_INTO = {"+=": "IndexAddBackward0", "=": "IndexCopyBackward0"}  # what recorded calls are called


def into_text(
    rank: int, dim: int, how: str, name: str, *, is_number: bool = False, is_scaled: bool = False
) -> str:
    """Return the text that combines parts of a dimension with those whose numbers are given."""
    x, at = _names("X", rank), _names("i", rank)
    sizes = ", ".join("K" if d == dim else x[d] for d in range(rank))
    read = ", ".join("k" if d == dim else at[d] for d in range(rank))
    place = ", ".join("index(k)" if d == dim else at[d] for d in range(rank))
    source = "T source" if is_number else f"T({sizes}) source"
    value = "source" if is_number else f"source({read})"
    alpha, times = (", T alpha", "alpha * ") if is_scaled else ("", "")
    head = f"T({', '.join(x)})"
    others = ", ".join(f"{at[d]} in 0:{x[d]}" for d in range(rank) if d != dim)
    return (
        f"def {name}<T>({head} input, int64(K) index, {source}{alpha}) -> ({head} out) {{\n"
        f"  out({', '.join(at)}) = input({', '.join(at)})\n"
        f"  out({place}) {how} {times}{value}"
        + (f" where {others}" if is_number and rank > 1 else "")
        + "\n}"
    )


@cache
def _index_into(rank: int, dim: int, how: str, is_number: bool, writes: bool) -> Op:
    name = "index_add" if how == "+=" else "index_fill" if is_number else "index_copy"
    return op_of_text(
        into_text(rank, dim, how, name, is_number=is_number, is_scaled=how == "+="),
        writes=writes,
        node=_INTO[how] if not is_number else "IndexFillBackward0",
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
    if isinstance(source, Tensor) and index.numel() != source.shape[dim]:
        count, extent = index.numel(), source.shape[dim]
        if name == "index_add":
            raise RuntimeError(
                f"index_add_(): Number of indices ({count}) should be equal to source.size(dim): "
                f"({extent}), for dim: {dim}"
            )
        raise IndexError(
            f"{name}_(): Number of indices ({count}) should be equal to source.size(dim) ({extent})"
        )
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


def number_for(input: Tensor, value: Any, name: str = "masked_fill_") -> Any:
    """Return a value, a number or a tensor of rank 0, as a number of Python of a tensor's kind."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                f"{name} only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        value = value.item()
    return number_of_type(input.dtype, value)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Return a copy whose parts of given numbers hold one value."""
    return _indexed_into(
        "index_fill", input, dim, index, number_for(input, value, "index_fill_"), "=", False
    )


def index_fill_(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Write one value into the parts of given numbers."""
    return _indexed_into(
        "index_fill", input, dim, index, number_for(input, value, "index_fill_"), "=", True
    )


for _function in (gather, scatter, scatter_add, index_select, index_add, index_copy, index_fill):
    publish(_function, (_function.__name__,))
for _writing in (scatter_, scatter_add_, index_add_, index_copy_, index_fill_):
    publish(_writing, (_writing.__name__,), on=("Tensor",))
