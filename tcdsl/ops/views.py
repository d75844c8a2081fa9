"""Views: tensors over the memory of others. No kernel runs, nothing is copied; gradients pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from tcdsl.core import (
    GRAD,
    Op,
    Recipe,
    Tensor,
    is_grad_enabled,
    record,
    set_fn,
    set_grad_enabled,
    setup,
    view,
)
from tcdsl.ops.dispatch import Forms
from tcdsl.ops.internal import clone, copy_, zeros
from tcdsl.ops.table import op_of_text, publish

Shape = tuple[int, ...]


def _no_vjp(gradient: Tensor) -> Tensor:
    raise AssertionError("a view brings its own")


_OF_ONE = Recipe(_no_vjp, (GRAD,), (0,))
_OF_TWO = Recipe(_no_vjp, (GRAD,), (0, 1))


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


def dim_of(dim: int, rank: int) -> int:
    """Return a dimension as a number from 0 on.

    Raises
    ------
    IndexError
        If there is none.
    """
    room = max(rank, 1)
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
    return tuple(int(n) for n in sizes)


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
    vjp = partial(_unstrided, tuple(input.shape), input.stride(), base, size, stride, at)
    return _viewed(input, size, stride, at - base, vjp, "AsStridedBackward0")


def _unstrided(
    shape: Shape, strides: Shape, base: int, size: Shape, stride: Shape, at: int, gradient: Tensor
) -> Tensor:
    """Return the gradient of the source of a view: all that lies at one place is added up."""
    first = min(at, base)
    spans = [
        offset + sum((n - 1) * s for n, s in zip(sizes, steps, strict=True))
        for sizes, steps, offset in ((shape, strides, base), (size, stride, at))
        if 0 not in sizes
    ]
    room = max(spans, default=first) - first + 1
    op = _scatter(len(size))
    flat = op(gradient, at - first, room, *stride)
    laid: Tensor = as_strided(flat, shape, strides, flat.storage_offset() + base - first)
    return laid


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
    back = tuple(order.index(d) for d in range(len(order)))
    shape, stride = input.shape, input.stride()
    vjp = partial(_permuted, back)
    return _viewed(
        input, [shape[d] for d in order], [stride[d] for d in order], 0, vjp, "PermuteBackward0"
    )


def _permuted(order: Shape, gradient: Tensor) -> Tensor:
    return permute(gradient, order)


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Return a view with two dimensions exchanged."""
    a, b = dim_of(dim0, input.ndim), dim_of(dim1, input.ndim)
    shape, stride = [*input.shape], [*input.stride()]
    if shape:
        shape[a], shape[b] = shape[b], shape[a]
        stride[a], stride[b] = stride[b], stride[a]
    vjp = partial(_transposed, a, b)
    return _viewed(input, shape, stride, 0, vjp, "TransposeBackward0")


def _transposed(a: int, b: int, gradient: Tensor) -> Tensor:
    return transpose(gradient, a, b)


def t(input: Tensor) -> Tensor:
    """Return the transpose of a matrix; a vector or a number as it is."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return transpose(input, 0, input.ndim - 1) if input.ndim == 2 else alias(input)


def alias(input: Tensor) -> Tensor:
    """Return a view of all, as it is."""
    return _viewed(input, input.shape, input.stride(), 0, _same, "AliasBackward0")


def _same(gradient: Tensor) -> Tensor:
    return gradient


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """Return a view with one more dimension, of one element, at this place."""
    at = dim_of(dim, input.ndim + 1)
    shape, stride = [*input.shape], [*input.stride()]
    step = shape[at] * stride[at] if at < len(shape) else 1
    return _viewed(
        input, [*shape[:at], 1, *shape[at:]], [*stride[:at], step, *stride[at:]], 0,
        partial(_reshaped, tuple(shape)), "UnsqueezeBackward0",
    )  # fmt: skip


def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Return a view without dimensions of one element: all of them, or those named."""
    if dim is None:
        gone = range(input.ndim)
    else:
        listed = dim if isinstance(dim, tuple | list) else (dim,)
        gone = [dim_of(d, input.ndim) for d in listed]  # type: ignore[assignment]
    pairs = zip(input.shape, input.stride(), strict=True)
    left = [(n, s) for d, (n, s) in enumerate(pairs) if n != 1 or d not in gone]
    return _viewed(
        input, [n for n, _ in left], [s for _, s in left], 0,
        partial(_reshaped, tuple(input.shape)), "SqueezeBackward0",
    )  # fmt: skip


def _reshaped(shape: Shape, gradient: Tensor) -> Tensor:
    return reshape(gradient, shape)


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
    shape, stride = [], []
    for d, n in enumerate(wanted):
        size, step = (input.shape[d - new], input.stride(d - new)) if d >= new else (1, 0)
        if n == -1:
            if d < new:
                raise RuntimeError(
                    f"expand(torch.FloatTensor{{{list(input.shape)}}}, size={list(wanted)}): the "
                    "expanded size of the tensor (-1) isn't allowed in a leading, non-existing "
                    f"dimension {d}"
                )
            n = size
        if n not in (size, -1) and size != 1:
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({size}) at "
                f"non-singleton dimension {d}.  Target sizes: {list(wanted)}.  Tensor sizes: "
                f"{list(input.shape)}"
            )
        shape.append(n)
        stride.append(step if n == size and d >= new else 0)
    vjp = partial(sum_to, shape=tuple(input.shape))
    return _viewed(input, shape, stride, 0, vjp, "ExpandBackward0")


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
    if any(n < -1 for n in wanted):
        raise RuntimeError(f"invalid shape dimension {min(wanted)}")
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


def strides_for(shape: Sequence[int], stride: Sequence[int], wanted: Sequence[int]) -> Shape | None:
    """Return the strides of a view of another shape, None where it cannot be one.

    Dimensions that lie one behind the other in memory are one block; each dimension of the new
    shape has to lie in one block.
    """
    if 0 in shape:
        return _dense(wanted)
    blocks: list[tuple[int, int]] = []  # extents and strides, from the last
    for n, s in reversed([*zip(shape, stride, strict=True)]):
        if n == 1:
            continue
        if blocks and s == blocks[-1][0] * blocks[-1][1]:
            blocks[-1] = (blocks[-1][0] * n, blocks[-1][1])
        else:
            blocks.append((n, s))
    found: list[int] = []
    left, step = 1, 1
    blocks.reverse()
    for n in reversed(wanted):
        if n == 1:
            found.append(step)
            continue
        if left == 1:
            if not blocks:
                return None
            left, step = blocks.pop()
        if left % n:
            return None
        found.append(step)
        left //= n
        step *= n
    return tuple(reversed(found)) if left == 1 and not blocks else None


def _dense(shape: Sequence[int]) -> Shape:
    found, step = [], 1
    for n in reversed(shape):
        found.append(step)
        step *= max(n, 1)
    return tuple(reversed(found))


def view_as_shape(input: Tensor, *sizes: Any) -> Tensor:
    """Return a view of another shape with the same elements in order.

    Raises
    ------
    RuntimeError
        If there is none over this memory.
    """
    wanted = _sizes(input, _listed(sizes))
    stride = strides_for(input.shape, input.stride(), wanted)
    if stride is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return _shaped(input, wanted, stride)


def _shaped(input: Tensor, shape: Shape, stride: Shape) -> Tensor:
    vjp = partial(_reshaped, tuple(input.shape))
    return _viewed(input, shape, stride, 0, vjp, "ViewBackward0")


def reshape(input: Tensor, *sizes: Any) -> Tensor:
    """Return the same elements in another shape; copied only where no view serves."""
    wanted = _sizes(input, _listed(sizes))
    stride = strides_for(input.shape, input.stride(), wanted)
    if stride is None:
        input = clone(input)
        stride = _dense(wanted)
    return _shaped(input, wanted, stride)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Return dimensions from start_dim to end_dim as one."""
    first, last = dim_of(start_dim, input.ndim), dim_of(end_dim, input.ndim)
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    shape = tuple(input.shape)
    return reshape(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


def contiguous(input: Tensor) -> Tensor:
    """Return a tensor in C order: itself, or a copy."""
    if input.is_contiguous():
        return input
    copy: Tensor = clone(input)
    return copy


# ---- parts


def slice_(input: Tensor, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
    """Return the elements from start to stop of a dimension, both within it, each step-th."""
    dim = dim_of(dim, input.ndim)
    shape, stride = [*input.shape], [*input.stride()]
    n = shape[dim]
    count = max(0, -(-(stop - start) // step))
    shape[dim], offset = count, start * stride[dim] if count else 0
    stride[dim] *= step
    vjp = partial(_spread, dim, start, step, n)
    return _viewed(input, shape, stride, offset, vjp, "SliceBackward0")


def _spread(dim: int, start: int, step: int, n: int, gradient: Tensor) -> Tensor:
    """Return a gradient with zeros for the elements that the part has not."""
    found: Tensor = _spreading(gradient.ndim, dim, step == 1)(gradient, start, step, n)
    return found


@cache
def _spreading(rank: int, dim: int, is_dense: bool) -> Op:
    sizes = ", ".join(f"D{d}" for d in range(rank))
    grown = ", ".join("n" if d == dim else f"D{d}" for d in range(rank))
    index = ", ".join(f"i{d}" for d in range(rank))
    place = "i" if is_dense else "i / step"
    place = place.replace("i", f"(i{dim} - start)", 1) if not is_dense else f"i{dim} - start"
    read = ", ".join(place if d == dim else f"i{d}" for d in range(rank))
    value = f"pad(g({read}), 0)"
    if not is_dense:
        value = f"(i{dim} - start) % step == 0 ? {value} : T(0)"
    unused = " + T(0 * step)" if is_dense else ""
    return op_of_text(
        f"def spread<T>(T({sizes}) g, int64 start, int64 step, int64 n) -> (T({grown}) out) "
        f"{{ out({index}) = {value}{unused} where i{dim} in 0:n }}"
    )


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Return length elements of a dimension, from start on."""
    dim = dim_of(dim, input.ndim)
    n = input.shape[dim]
    first = start + n if start < 0 else start
    if not 0 <= first <= n:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n}, {n}], but got {start})"
        )
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if first + length > n:
        raise RuntimeError(f"start ({first}) + length ({length}) exceeds dimension size ({n}).")
    return slice_(input, dim, first, first + length)


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """Return the part at one place of a dimension, without that dimension."""
    if not input.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = dim_of(dim, input.ndim)
    n = input.shape[dim]
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {n}")
    at = index + n if index < 0 else index
    shape, stride = [*input.shape], [*input.stride()]
    offset = at * stride[dim]
    del shape[dim], stride[dim]
    vjp = partial(_put, dim, at, n)
    return _viewed(input, shape, stride, offset, vjp, "SelectBackward0")


def _put(dim: int, at: int, n: int, gradient: Tensor) -> Tensor:
    return _spread(dim, at, 1, n, unsqueeze(gradient, dim))


# ---- writing into views


def renew(view_: Tensor) -> None:
    """Let a view whose base was written be made of that base."""
    base = view_._base
    assert base is not None
    old = set_grad_enabled(True)
    try:
        again = as_strided(base, view_.shape, view_.stride(), view_.storage_offset())
    finally:
        set_grad_enabled(old)
    set_fn(view_, again.grad_fn, 0)


def write_view(target: Tensor, value: Tensor) -> Tensor:
    """Record that a view was given the elements of a tensor, and its base with it.

    Raises
    ------
    RuntimeError
        If the base is a leaf that requires grad.
    """
    base = target._base
    assert base is not None
    if base.requires_grad and base.is_leaf:
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation."
        )
    old = set_grad_enabled(False)
    try:
        copy_(target.detach(), value.detach())
    finally:
        set_grad_enabled(old)
    layout = tuple(target.shape), target.stride(), target.storage_offset() - base.storage_offset()
    needs = int(base.requires_grad) | int(value.requires_grad) << 1
    record("CopySlices", _OF_TWO, partial(_of_slices, layout), (base, value), (base,), needs)
    renew(target)
    return target


def _of_slices(layout: tuple[Shape, Shape, int], gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of a base before it was written, and of what was written."""
    shape, stride, offset = layout
    whole: Tensor = clone(gradient)
    part = as_strided(whole, shape, stride, whole.storage_offset() + offset)
    written = clone(part)
    if is_grad_enabled() and whole.requires_grad:
        write_view(part, zeros(part.detach()))
    else:
        copy_(part, zeros(part))
    return whole, written


setup("renew", renew)
Forms.write_view = staticmethod(write_view)
_BOTH: tuple[Callable[..., Any], ...] = (
    as_strided, flatten, narrow, permute, reshape, select, squeeze, t, transpose, unsqueeze,
)  # fmt: skip
_METHODS: dict[str, Callable[..., Any]] = {
    "contiguous": contiguous,
    "expand": expand,
    "expand_as": expand_as,
    "slice": slice_,
    "view": view_as_shape,
}
for _function in _BOTH:
    publish(_function, (_function.__name__,))
for _name, _function in _METHODS.items():
    publish(_function, (_name,), ("Tensor",))
