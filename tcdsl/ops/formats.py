"""Memory formats: in what order the dimensions of images lie in memory."""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.calls.operands.collapse import Strides
from tcdsl.core import Tensor, set_base, setup
from tcdsl.ops.strides import (
    CHANNELS_LAST,
    channels_last,
    in_order,
    is_laid_in,
    laid,
    says_channels_last,
    strides_of_copy,
)

__all__ = ["FORMATS", "MemoryFormat", "is_laid", "strides_in"]


class MemoryFormat:
    """An order of dimensions in memory, as PyTorch names it; there is one object of each name."""

    def __init__(self, name: str, order: tuple[int, ...] = ()) -> None:
        self._name = name
        self.order = order  # dimensions from the outermost in memory on; () says none

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


MemoryFormat.__module__, MemoryFormat.__qualname__ = "tcdsl", "memory_format"  # pickles say so


_contiguous_format = MemoryFormat("contiguous_format")
_preserve_format = MemoryFormat("preserve_format")
_channels_last = MemoryFormat("channels_last", CHANNELS_LAST)
_channels_last_3d = MemoryFormat("channels_last_3d", (0, 2, 3, 4, 1))
FORMATS = {
    "contiguous_format": _contiguous_format,
    "preserve_format": _preserve_format,
    "channels_last": _channels_last,
    "channels_last_3d": _channels_last_3d,
}


def _checked(memory_format: object, name: str) -> MemoryFormat:
    if not isinstance(memory_format, MemoryFormat):
        raise TypeError(
            f"{name}(): argument 'memory_format' must be torch.memory_format, not "
            f"{type(memory_format).__name__}"
        )
    return memory_format


def strides_in(memory_format: object, input: Tensor | Sequence[int], name: str) -> Strides | None:
    """Return the strides of a new dense tensor, None for C order.

    Parameters
    ----------
    memory_format : MemoryFormat or None
        None is the C order; `preserve_format` that of a tensor.
    input : Tensor, or sequence of int
        What the new tensor is like, or its shape.
    name : str
        Of the caller, for messages.

    Raises
    ------
    TypeError
        If it is no memory format.
    RuntimeError
        If it is one for tensors of another rank, or preserves what is not there.
    """
    if memory_format is None:
        return None
    wanted = _checked(memory_format, name)
    shape = tuple(input.shape) if isinstance(input, Tensor) else tuple(input)
    if wanted is _preserve_format:
        if not isinstance(input, Tensor):
            raise RuntimeError("unsupported memory format Preserve")
        if input.is_contiguous() and 1 not in shape:
            return None  # as below, and by far the most are so
        return strides_of_copy(shape, [laid(input)])
    if wanted.order and len(shape) != len(wanted.order):
        raise RuntimeError(f"required rank {len(wanted.order)} tensor to use {wanted._name} format")
    return in_order(shape, wanted.order) if wanted.order else None


def is_laid(input: Tensor, memory_format: object = _contiguous_format) -> bool:
    """Return whether elements lie without gaps in the order that a memory format says."""
    order = _checked(memory_format, "is_contiguous").order
    if not order:
        return input.is_contiguous()
    return input.ndim == len(order) and is_laid_in(laid(input), order)


def strides_say(input: Tensor, memory_format: MemoryFormat) -> bool:
    """Return whether strides alone say a memory format, where a dimension of size 1 may say two.

    `to(memory_format=)` copies where they do not, PyTorch's way.
    """
    order = memory_format.order
    if not order:
        return input.is_contiguous()
    return input.ndim == len(order) and says_channels_last(laid(input))


def has_channels_last(input: Tensor) -> bool:
    """Return whether channels lie last in images, by strides alone."""
    strides = input.stride()
    return len(strides) > 3 and strides[1] <= strides[-1] and says_channels_last(laid(input))


def channels_behind(input: Tensor) -> Tensor:
    """Return a view of images with the channels as the last dimension."""
    moved: Tensor = input.permute(channels_last(input.ndim))
    return moved


def channels_second(made: Tensor) -> Tensor:
    """Return images whose channels are the last dimension as PyTorch has them."""
    rank = made.ndim
    moved: Tensor = made.permute((0, rank - 1, *range(1, rank - 1)))
    set_base(moved, None)  # nothing else shows that memory
    return moved


setup("is_laid", is_laid)
