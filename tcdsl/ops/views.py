"""Views: tensors over the memory of others. No kernel runs, nothing is copied; gradients pass."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeVar, cast

from tcdsl.core import FORM, GRAD, INPUT, Op, Recipe, Tensor, View, view
from tcdsl.core.dtypes import DType
from tcdsl.ops.arguments import listed_as, with_numpys_names
from tcdsl.ops.internal import clone, dense
from tcdsl.ops.retyped import as_type
from tcdsl.ops.table import op_of_text, publish

Shape = tuple[int, ...]
Function = TypeVar("Function", bound=Callable[..., Any])
MOST_DIMS = 64  # core.h
ARGUMENTS = INPUT + 1  # of a recorded view: the tuple of those after the source


def no_vjp(*gradients: Tensor) -> Tensor:
    """Stand in a recipe for the derivative that each recorded call brings."""
    raise AssertionError("each recorded call brings its own")


_OF_ONE = Recipe(no_vjp, (GRAD,), (0,))


def _viewed(
    source: Tensor,
    shape: Sequence[int],
    stride: Sequence[int],
    offset: int,
    vjp: Callable[[Tensor], Tensor],
    name: str,
) -> Tensor:
    """Return a view; offset counts from the source's first element."""
    return view(source, tuple(shape), tuple(stride), offset, _OF_ONE, vjp, name)


def viewed(
    name: str, rule: str, vjp: Callable[..., Tensor], *takes: int, several: bool = False
) -> Callable[[Function], Function]:
    """Make a view of a function that takes calls whose arguments are not plain.

    Parameters
    ----------
    name : str
        Of its nodes.
    rule : str
        Of its layouts (`core`: View).
    vjp : callable (gradient, ...)
        Gives the source's gradient.
    *takes : FORM, ARGUMENTS
        What vjp takes beside the gradient.
    several : bool
        Whether it makes the parts of one call, which may not be written to where that is recorded.
    """

    def made(slow: Function) -> Function:
        slow = with_numpys_names(slow)
        found = View(name, rule, Recipe(vjp, (GRAD, *takes), (0,)), slow, int(several))
        found.__dict__.update(__name__=slow.__name__, __doc__=slow.__doc__, __wrapped__=slow)
        return cast(Function, found)

    return made


def plain(view_: object, input: Tensor, *arguments: Any) -> Tensor | None:
    """Return what a view gives for plain arguments, None where it has none."""
    return cast(View, view_).plain(input, *arguments)


def dim_of(dim: int, rank: int) -> int:
    """Return a dimension as a number from 0 on.

    Raises
    ------
    IndexError
        If there is none.
    """
    if type(dim) is int and -rank <= dim < rank:
        return dim if dim >= 0 else dim + rank
    room, dim = max(rank, 1), operator.index(dim)
    if not -room <= dim < room:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-room}, {room - 1}], "
            f"but got {dim})"
        )
    return dim + room if dim < 0 else dim


def _listed(sizes: tuple[Any, ...]) -> Shape:
    """Return what is given one by one, or as one sequence."""
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = tuple(sizes[0])
    return tuple(map(operator.index, sizes))


# ---- any layout


def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Return a view of any layout; strides and the offset in the storage count elements.

    Raises
    ------
    RuntimeError
        If it would reach beyond the storage.
    """
    size, stride = tuple(size), tuple(stride)
    at = input.storage_offset() if storage_offset is None else storage_offset
    if len(size) != len(stride):
        raise RuntimeError(
            f"mismatch in length of strides and shape: {len(size)} and {len(stride)}"
        )
    if any(n < 0 for n in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {list(size)}")
    if any(s < 0 for s in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported, got {list(stride)}")
    last = at + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    room = input._storage.nbytes // input.dtype.itemsize
    if 0 not in size and (at < 0 or last >= room):
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {at} are out "
            f"of bounds for storage of {room} elements"
        )
    base = input.storage_offset()
    vjp = partial(unstrided, tuple(input.shape), input.stride(), base, size, stride, at)
    return _viewed(input, size, stride, at - base, vjp, "AsStridedBackward0")


def unstrided(
    shape: Shape, strides: Shape, base: int, size: Shape, stride: Shape, at: int, gradient: Tensor
) -> Tensor:
    """Return the gradient of the source of a view: all that lies at one place is added up.

    Elements of a source that lie at one place themselves (`expand`) have equal shares of it.
    """
    first = min(at, base)
    spans = [
        offset + sum((n - 1) * s for n, s in zip(sizes, steps, strict=True))
        for sizes, steps, offset in ((shape, strides, base), (size, stride, at))
        if 0 not in sizes
    ]
    room = max(spans, default=first) - first + 1
    op = _scatter(len(size))
    flat = op(gradient, at - first, room, *stride)
    if _may_overlap(shape, strides):
        known: Any = gradient.new_ones(shape)
        flat = flat / _scatter(len(shape))(known, base - first, room, *strides).clamp(min=1)
    laid: Tensor = as_strided(flat, shape, strides, flat.storage_offset() + base - first)
    return laid


def _may_overlap(shape: Shape, strides: Shape) -> bool:
    """Return whether two elements may lie at one place: a step is within the span of less."""
    span = 0
    for step, n in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if step <= span:
            return True
        span += (n - 1) * step
    return False


@cache
def _scatter(rank: int) -> Op:
    sizes = ", ".join(f"D{d}" for d in range(rank))
    index = ", ".join(f"i{d}" for d in range(rank))
    strides = "".join(f", int64 s{d}" for d in range(rank))
    place = "".join(f" + s{d} * i{d}" for d in range(rank))
    read = f"g({index})" if rank else "g"
    head = f"T({sizes}) g" if rank else "T g"
    return op_of_text(
        f"def unstrided<T>({head}, int64 at, int64 room{strides}) -> (T(room) flat) "
        f"{{ flat(at{place}) +=! {read} }}"
    )


# ---- other orders and numbers of dimensions


def _transposed(gradient: Tensor, dims: tuple[Any, ...]) -> Tensor:
    return transpose(gradient, *dims) if dims else t(gradient)


@viewed("TransposeBackward0", "swapped", _transposed, ARGUMENTS)
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Return a view with two dimensions exchanged."""
    return transpose(input, dim_of(dim0, input.ndim), dim_of(dim1, input.ndim))


@viewed("TBackward0", "swapped", _transposed, ARGUMENTS)
def t(input: Tensor) -> Tensor:
    """Return the transpose of a matrix; a vector or a number as it is."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return t(input)


def _permuted(gradient: Tensor, dims: tuple[Any, ...]) -> Tensor:
    order = [dim_of(d, gradient.ndim) for d in _listed(dims)]
    return permute(gradient, tuple(order.index(d) for d in range(len(order))))


@viewed("PermuteBackward0", "reordered", _permuted, ARGUMENTS)
@listed_as("dims")
def permute(input: Tensor, *dims: Any) -> Tensor:
    """Return a view with the dimensions in this order."""
    order = tuple(dim_of(d, input.ndim) for d in _listed(dims))
    if sorted(order) != list(range(input.ndim)):
        if len(order) != input.ndim:
            raise RuntimeError(
                "permute(sparse_coo): number of dimensions in the tensor input does not match the "
                f"length of the desired ordering of dimensions i.e. input.dim() = {input.ndim} is "
                f"not equal to len(dims) = {len(order)}"
            )
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return permute(input, order)


def alias(input: Tensor) -> Tensor:
    """Return a view of all, as it is."""
    return _viewed(input, input.shape, input.stride(), 0, _same, "AliasBackward0")


def _same(gradient: Tensor) -> Tensor:
    return gradient


def _reshaped(gradient: Tensor, form: Tensor) -> Tensor:
    return reshape(gradient, form.shape)


@viewed("UnsqueezeBackward0", "opened", _reshaped, FORM)
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """Return a view with one more dimension, of one element, at this place."""
    if input.ndim == MOST_DIMS:
        raise RuntimeError(f"a tensor has at most {MOST_DIMS} dimensions")
    return unsqueeze(input, dim_of(dim, input.ndim + 1))


@viewed("SqueezeBackward0", "closed", _reshaped, FORM)
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Return a view without dimensions of one element: all of them, or those named."""
    if not isinstance(input, Tensor):
        kind = type(input).__name__
        raise TypeError(f"squeeze(): argument 'input' must be Tensor, not {kind}")
    if dim is None:
        return squeeze(input)
    if not isinstance(dim, tuple | list):
        return squeeze(input, dim_of(dim, input.ndim))
    for d in sorted({dim_of(d, input.ndim) for d in dim}, reverse=True):
        input = squeeze(input, d)
    return input


def _summed(gradient: Tensor, form: Tensor) -> Tensor:
    return sum_to(gradient, tuple(form.shape))


@viewed("ExpandBackward0", "widened", _summed, FORM)
@listed_as("size")
def expand(input: Tensor, *sizes: Any) -> Tensor:
    """Return a view in which dimensions of one element are repeated; -1 leaves one as it is."""
    wanted = _listed(sizes)
    new = len(wanted) - input.ndim
    if new < 0:
        raise RuntimeError(
            f"expand(torch.FloatTensor{{{list(input.shape)}}}, size={list(wanted)}): the number of "
            f"sizes provided ({len(wanted)}) must be greater or equal to the number of dimensions "
            f"in the tensor ({input.ndim})"
        )
    for d, n in reversed([*enumerate(wanted)]):
        size = input.shape[d - new] if d >= new else 1
        if n == -1 and d < new:
            raise RuntimeError(
                "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing "
                f"dimension {d}"
            )
        if n < -1 or (n not in (size, -1) and size != 1):
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({size}) at "
                f"non-singleton dimension {d}.  Target sizes: {list(wanted)}.  Tensor sizes: "
                f"{list(input.shape)}"
            )
    if len(wanted) > MOST_DIMS or any(n >= 1 << 63 for n in wanted):
        raise RuntimeError(
            f"expand: sizes are below 2**63, at most {MOST_DIMS} of them, got {list(wanted)}"
        )
    return expand(input, wanted)


def sum_to(gradient: Tensor, shape: Shape) -> Tensor:
    """Return the sum over the dimensions that a shape was expanded by."""
    new = gradient.ndim - len(shape)
    ones = tuple(d for d, n in enumerate(shape) if n == 1 != gradient.shape[new + d])
    if not new and not ones:
        return gradient
    found: Tensor = _total(gradient.ndim, new, ones)(gradient)
    return found


@cache
def _total(rank: int, new: int, ones: tuple[int, ...]) -> Op:
    kept = range(rank - new)
    sizes = ", ".join("1" if d in ones else f"D{d + new}" for d in kept)
    places = ", ".join("0" if d in ones else f"i{d + new}" for d in kept)
    head, target = (f"T({sizes})", f"out({places})") if kept else ("T", "out")
    dims = ", ".join(f"D{d}" for d in range(rank))
    index = ", ".join(f"i{d}" for d in range(rank))
    return op_of_text(
        f"def sum_to<T>(T({dims}) input) -> ({head} out) {{ {target} +=! input({index}) }}"
    )


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """Return a view expanded to the shape of another tensor."""
    return expand(input, tuple(other.shape))


# ---- other shapes


def _sizes(input: Tensor, wanted: Shape) -> Shape:
    """Return a shape without -1.

    Raises
    ------
    RuntimeError
        If it has not as many elements.
    """
    count = input.numel()
    problem = RuntimeError(f"shape '{list(wanted)}' is invalid for input of size {count}")
    if wanted.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    for at, n in enumerate(wanted):
        if n < -1:
            raise RuntimeError(f"invalid shape dimension {n} at index {at} of shape {list(wanted)}")
    known = math.prod(n for n in wanted if n != -1)
    if -1 in wanted:
        if not known:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(wanted)} because the "
                "unspecified dimension size -1 can be any value and is ambiguous"
            )
        if count % known:
            raise problem
        wanted = tuple(count // known if n == -1 else n for n in wanted)
    elif known != count:
        raise problem
    return wanted


@viewed("ViewBackward0", "reshaped", _reshaped, FORM)
@listed_as("size")
def view_as_shape(input: Tensor, *sizes: Any, dtype: DType | None = None) -> Tensor:
    """Return a view of another shape with the same elements in order, or one of another type.

    A type makes other numbers of the same bytes; nothing of that is recorded.

    Raises
    ------
    RuntimeError
        If there is none over this memory.
    """
    if dtype is None and sizes and isinstance(sizes[0], DType):
        dtype = sizes[0]
    if dtype is not None:
        return alias(input) if dtype is input.dtype else as_type(input, dtype)
    found = plain(view_as_shape, input, _sizes(input, _listed(sizes)))
    if found is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return found


@viewed("ViewBackward0", "reshaped", _reshaped, FORM)
@listed_as("shape")
def reshape(input: Tensor, *sizes: Any) -> Tensor:
    """Return the same elements in another shape; copied only where no view serves."""
    wanted = _sizes(input, _listed(sizes))
    found = plain(reshape, input, wanted)
    return view_as_shape(dense(input), wanted) if found is None else found


@viewed("ViewBackward0", "merged", _reshaped, FORM)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Return dimensions from start_dim to end_dim as one."""
    first, last = dim_of(start_dim, input.ndim), dim_of(end_dim, input.ndim)
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    shape = tuple(input.shape)
    return reshape(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


def contiguous(input: Tensor, memory_format: object = None) -> Tensor:
    """Return a tensor in C order, or in that of a memory format: itself, or a copy."""
    made: Tensor
    if memory_format is None:
        made = input if input.is_contiguous() else dense(input)
    elif input.is_contiguous(memory_format=memory_format):
        made = input
    else:
        made = clone(input, memory_format=memory_format)
    return made


_BOTH: tuple[Callable[..., Any], ...] = (
    as_strided, flatten, permute, reshape, squeeze, t, transpose, unsqueeze,
)  # fmt: skip
_METHODS: dict[str, Callable[..., Any]] = {
    "contiguous": contiguous,
    "expand": expand,
    "expand_as": expand_as,
    "view": view_as_shape,
}
for _function in _BOTH:
    publish(_function, (_function.__name__,))
for _name, _function in _METHODS.items():
    publish(_function, (_name,), ("Tensor",))
