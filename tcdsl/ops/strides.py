"""Strides of results: the layout that PyTorch gives what is computed element by element.

Its rule is that of its `TensorIterator`. Operands that lie alike give a result that lies so. Of
others the strides of the first operand that tells two dimensions apart say which is outer; one that
is repeated, of stride 0, tells nothing, and what nothing tells apart is in C order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from tcdsl.calls.operands.collapse import Strides
from tcdsl.core import Tensor, set_base

__all__ = [
    "Laid", "Layout", "Strides", "says_channels_last", "strides_of_copy", "strides_of_images",
    "strides_of_result",
]  # fmt: skip

Shape = tuple[int, ...]
Layout = Callable[[Shape, Sequence["Laid"]], Strides | None]  # None: C order
CHANNELS_LAST = (0, 2, 3, 1)


class Laid(NamedTuple):
    """The shape of an operand and its strides in elements."""

    shape: Shape
    strides: Strides


def strides_of_result(shape: Shape, operands: Sequence[Laid]) -> Strides | None:
    """Return the strides of a result of a shape, None for C order.

    Parameters
    ----------
    shape : tuple of int
        To which operands broadcast.
    operands : sequence of Laid
        In the order in which they are asked; numbers that stand for tensors have the shape ().

    Examples
    --------
    >>> strides_of_result((2, 3), [Laid((2, 3), (1, 2)), Laid((), ())])
    (1, 2)
    >>> strides_of_result((2, 3), [Laid((3,), (1,)), Laid((2, 3), (1, 2))])
    (1, 2)
    """
    if all(o.shape == shape for o in operands):
        if all(is_laid_in(o, range(len(shape))) for o in operands):
            return None
        if len(shape) == 4 and all(is_laid_in(o, CHANNELS_LAST) for o in operands):
            return in_order(shape, CHANNELS_LAST)
        if len({o.strides for o in operands}) == 1 and is_dense(operands[0]):
            return operands[0].strides
    order = _sorted(shape, [_along(o, shape) for o in operands])
    if order == [*range(len(shape))]:
        return None
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= shape[d]
    return tuple(strides)


def strides_of_copy(shape: Shape, operands: Sequence[Laid]) -> Strides | None:
    """Return the strides of a dense tensor that lies as the first operand, None for C order.

    One without gaps gives its own; of others the longer stride is outer.
    """
    strides = operands[0].strides
    if not is_dense(operands[0]):
        strides = in_order(shape, _sorted(shape, [strides]))
    return None if strides == in_order(shape, range(len(shape))) else strides


def strides_of_images(shape: Shape, operands: Sequence[Laid]) -> Strides | None:
    """Return the strides of images, channels last where operands of their rank say so.

    PyTorch's rule of convolutions: the images or the weights say it.
    """
    if any(says_channels_last(o) for o in operands if len(o.shape) == len(shape)):
        return in_order(shape, channels_last(len(shape)))
    return None


def channels_last(rank: int) -> tuple[int, ...]:
    """Return the dimensions of images from the outermost in memory on, the channels last."""
    return (0, *range(2, rank), 1)


@lru_cache(maxsize=4096)
def says_channels_last(laid: Laid) -> bool:
    """Whether strides alone say that channels lie last, where a size of 1 may say two orders.

    PyTorch's `suggest_memory_format`.
    """
    shape, strides = laid
    if len(shape) not in (4, 5) or not strides[1] or strides[1] > strides[-1]:
        return False
    least = 0
    for d in reversed(channels_last(len(shape))):
        if not shape[d] or strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * max(shape[d], 1)
    return True


def in_c_order(shape: Shape, operands: Sequence[Laid]) -> None:
    """Return None: the result of whatever operands is in C order."""


def laid(tensor: Tensor) -> Laid:
    """Return how a tensor lies."""
    return Laid(tuple(tensor.shape), tensor.stride())


def laid_out(row: Tensor, shape: Sequence[int], strides: Strides) -> Tensor:
    """Return a fresh row, which nothing else shows, as a dense tensor of these strides."""
    made: Tensor = row.as_strided(shape, strides)
    set_base(made, None)
    return made


def is_plain(operand: Laid) -> bool:
    """Whether strides are those of C order, which of operands like this results are in too."""
    step = 1
    for n, stride in zip(reversed(operand.shape), reversed(operand.strides), strict=True):
        if stride != step or not n:
            return False
        step *= n
    return True


def is_laid_in(laid: Laid, order: Sequence[int]) -> bool:
    """Whether elements lie without gaps, dimensions in this order, the outermost first."""
    if 0 in laid.shape and [*order] == [*range(len(order))]:
        return True
    step = 1
    for d in reversed(order):
        if laid.shape[d] != 1:
            if laid.strides[d] != step:
                return False
            step *= laid.shape[d]
    return True


def is_dense(laid: Laid) -> bool:
    """Whether elements lie without gaps and none in the place of another, in whatever order."""
    if 0 in laid.shape:
        return True
    step = 1
    wide = [(s, n) for n, s in zip(laid.shape, laid.strides, strict=True) if n > 1]
    for stride, extent in sorted(wide):
        if stride != step:
            return False
        step *= extent
    return True


def in_order(shape: Sequence[int], order: Sequence[int]) -> Strides:
    """Return the strides of a dense tensor, its dimensions in this order in memory."""
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def order_of_strides(strides: Strides) -> tuple[int, ...]:
    """Return dimensions from the longest stride to the shortest.

    One that is repeated, of stride 0, is compared with none and stays where it is; two others that
    are out of order change places across it, as in PyTorch.
    """
    return tuple(_sorted((1,) * len(strides), [strides]))


def _along(laid: Laid, shape: Shape) -> Strides:
    """Return the strides of an operand along the dimensions of a result, 0 where it is repeated."""
    missing = len(shape) - len(laid.shape)
    at = zip(laid.shape, laid.strides, shape[missing:], strict=True)
    return (0,) * missing + tuple([0 if n == 1 != wide else s for n, s, wide in at])


def _sorted(shape: Shape, operands: Sequence[Strides]) -> list[int]:
    """Return the dimensions of a result, the outermost in memory first."""
    order = [*reversed(range(len(shape)))]  # the innermost first
    for last in range(1, len(order)):
        at = last
        for before in range(last - 1, -1, -1):
            found = _compared(shape, operands, order[before], order[at])
            if found < 0:
                break
            if found > 0:
                order[before], order[at] = order[at], order[before]
                at = before
    return order[::-1]


def _compared(shape: Shape, operands: Sequence[Strides], inner: int, outer: int) -> int:
    """Return 1 if two dimensions have to change places, -1 if they must not, 0 if nothing tells."""
    for strides in operands:
        a, b = strides[inner], strides[outer]
        if not a or not b:
            continue
        if a != b:
            return 1 if a > b else -1
        if shape[inner] > shape[outer]:
            return 1
    return 0
