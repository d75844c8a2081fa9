"""Parts of tensors as views: chunks, diagonals, windows; views in place of what they view."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from tcdsl.core import FORM, Tensor, is_grad_enabled, made_by, set_fn, written
from tcdsl.ops.arguments import listed
from tcdsl.ops.internal import zeros
from tcdsl.ops.table import in_place, publish
from tcdsl.ops.view_parts import sized_part, split_part, unbound, written_into
from tcdsl.ops.views import ARGUMENTS, dim_of, unstrided, viewed
from tcdsl.tensors.methods import resize_

__all__: list[str] = []


def split(
    tensor: Tensor, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None
) -> tuple[Tensor, ...]:
    """Return views of parts of a dimension: of one extent, the last less, or of those of a list.

    `split_size` is the method's name of `split_size_or_sections`.
    """
    if (split_size is None) == (split_size_or_sections is None):
        raise TypeError("split() takes one of split_size_or_sections and split_size")
    split_size = listed(split_size_or_sections if split_size is None else split_size)
    extent = _extent("split", tensor, dim)
    dim = dim_of(dim, tensor.ndim)
    part = split_part if isinstance(split_size, int) else sized_part
    if isinstance(split_size, int):
        if split_size < 0:
            raise RuntimeError(
                f"split expects split_size be non-negative, but got split_size={split_size}"
            )
        if split_size == 0 and extent:
            raise RuntimeError(
                "split_size can only be 0 if dimension size is 0, but got dimension size of "
                f"{extent}"
            )
        step = max(split_size, 1)
        sizes = [min(step, extent - at) for at in range(0, extent, step)] or [0]
    else:
        sizes = [operator.index(n) for n in split_size]
        if sum(sizes) != extent:
            raise RuntimeError(
                "split_with_sizes expects split_sizes to sum exactly to "
                f"{extent} (input tensor's size at dimension {dim}), but got split_sizes={sizes}"
            )
    parts, at = [], 0
    for size in sizes:
        parts.append(part(tensor, dim, at, size))
        at += size
    return tuple(parts)


def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Return views of parts of a dimension, of extents that a list says."""
    return split(input, list(split_sizes), dim)


def chunk(tensor: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return views of at most so many parts of a dimension, of one extent but for the last."""
    chunks = operator.index(chunks)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    extent = _extent("chunk", tensor, dim)
    if not extent:  # as many empty parts as were asked for
        return split_with_sizes(tensor, [0] * chunks, dim)
    return split(tensor, -(-extent // chunks), dim)


def unbind(tensor: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Return views of all parts of extent 1 of a dimension, which goes."""
    dim = dim_of(dim, tensor.ndim)
    if not tensor.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return tuple(unbound(tensor, dim, i) for i in range(tensor.shape[dim]))


def _extent(name: str, tensor: Tensor, dim: int) -> int:
    """Return the extent of a dimension, of a tensor that has one."""
    if not tensor.ndim:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")
    extent: int = tensor.shape[dim_of(dim, tensor.ndim)]
    return extent


def _of_diagonal(gradient: Tensor, form: Tensor, arguments: tuple[Any, ...]) -> Tensor:
    """Return the gradient of a tensor by that of a diagonal: zeros elsewhere."""
    whole: Tensor = zeros(form)
    written_into(diagonal(whole, *arguments), gradient)
    return whole


@viewed("DiagonalBackward0", "slanted", _of_diagonal, FORM, ARGUMENTS)
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return a view of a diagonal of two dimensions, which comes last in their place."""
    a, b = dim_of(dim1, input.ndim), dim_of(dim2, input.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return diagonal(input, operator.index(offset), a, b)


def _of_windows(gradient: Tensor, form: Tensor, arguments: tuple[Any, ...]) -> Tensor:
    """Return the gradient of a tensor by that of its windows, which may overlap."""
    dim, _, step = arguments
    shape = tuple(form.shape)
    dense = tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
    at = dim_of(dim, len(shape))
    laid = (*dense[:at], dense[at] * step, *dense[at + 1 :], dense[at])
    return unstrided(shape, dense, 0, tuple(gradient.shape), laid, 0, gradient)


@viewed("UnfoldBackward0", "windowed", _of_windows, FORM, ARGUMENTS)
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return a view of all windows of a dimension; their elements are a new last dimension."""
    dim = dim_of(dimension, self.ndim)
    extent = self.shape[dim] if self.ndim else 1
    if not 0 <= size <= extent:
        raise RuntimeError(
            f"maximum size for tensor at dimension {dim} is {extent} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not self.ndim:
        return made_by(self.as_strided([size], [1]), "UnfoldBackward0")
    return unfold(self, dim, operator.index(size), operator.index(step))


def view_as(self: Tensor, other: Tensor) -> Tensor:
    """Return a view in another's shape."""
    view: Tensor = self.view(other.shape)
    return view


def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """Return the elements in another's shape."""
    made: Tensor = self.reshape(other.shape)
    return made


def resize_as_(self: Tensor, the_template: Tensor) -> Tensor:
    """Give this tensor another's shape; see `resize_`."""
    return resize_(self, tuple(the_template.shape))


_NODES = {  # what PyTorch calls those of layouts in place; that of `squeeze` is by its arguments
    "t": "TBackward1",
    "transpose": "TransposeBackward1",
    "unsqueeze": "UnsqueezeBackward1",
    "swapaxes": "TransposeBackward1",
    "swapdims": "TransposeBackward1",
    "as_strided": "AsStridedBackward1",
}


def _in_place(name: str) -> None:
    """Make `x.NAME_()`, which gives x the layout of the view `x.NAME()`."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if is_grad_enabled():
            for one, said in ((self, "a"), (self._base, "a view of a")):
                if one is not None and one.is_leaf and one.requires_grad:
                    raise RuntimeError(
                        f"{said} leaf Variable that requires grad is being used in an in-place "
                        "operation."
                    )
        made = getattr(self, name)(*args, **kwargs)
        if made.grad_fn is not None and made is not self:
            made_by(made, _NODES.get(name) or f"SqueezeBackward{4 if args or kwargs else 3}")
        node, number = made.grad_fn, made.output_nr  # of the layout before: `made` views `self`
        self.data = made.detach()
        written(self)
        if node is not None:
            set_fn(self, node, number)
        return self

    method.__name__ = f"{name}_"
    method.__doc__ = f"Give this tensor the layout of `{name}`; return self."
    publish(method, (f"{name}_",), on=("Tensor",))


def _written(name: str) -> None:
    """Make `x.NAME_(other)`, which writes the result of `x.NAME(other)` into x."""
    method = in_place(getattr(Tensor, name))
    method.__name__ = f"{name}_"
    method.__doc__ = f"Write the result of `{name}` here; return self."
    publish(method, (f"{name}_",), on=("Tensor",))


for _name in (*_NODES, "squeeze"):
    _in_place(_name)
_WRITTEN = """
    logical_and logical_or logical_xor logical_not bitwise_not cumprod cumsum floor_divide heaviside
    ldexp sgn
"""
for _name in _WRITTEN.split():
    _written(_name)
for _function in (split, split_with_sizes, chunk, unbind, diagonal):
    publish(_function, (_function.__name__,))
for _method in (unfold, view_as, reshape_as, resize_as_):
    publish(_method, (_method.__name__,), on=("Tensor",))
publish(lambda input: int(input.numel()), ("numel",), on=("torch",))
