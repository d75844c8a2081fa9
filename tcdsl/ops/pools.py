"""Pools of images of one to three dimensions, under PyTorch's names and defaults."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache, partial
from itertools import product
from typing import Any

import numpy as np

from tcdsl.core import Op, Tensor, from_numpy, made_by
from tcdsl.core.dtypes import DType, bool_, int64
from tcdsl.grammar.text.cached import cached_property
from tcdsl.ops.arguments import listed
from tcdsl.ops.casting import wide
from tcdsl.ops.convolutions import Each, each, generics_of
from tcdsl.ops.formats import has_channels_last
from tcdsl.ops.on_device import moved
from tcdsl.ops.pool_windows import Windows, stride_of
from tcdsl.ops.rules import check_floats, not_for
from tcdsl.ops.spatial import spatial, with_channels_behind
from tcdsl.ops.table import Family, op_of_text, publish

ops = Family(__file__)
_scatter_to, _scatter_in_image = ops.op("scatter_to"), ops.op("scatter_in_image")
_in_image = ops.op("in_image")


def put_back(
    needs: int,
    d_out: Tensor,
    d_indices: Any,
    input: Tensor,
    indices: Tensor,
    corners: tuple[Tensor, Tensor] | None = None,
) -> Any:
    """Return the gradient of a max pool: all of it goes where the maximum was."""
    shape, k = tuple(input.shape), math.prod(indices.shape[1:])
    rows, at, size = d_out.reshape(shape[0], k), indices.view(shape[0], k), math.prod(shape[1:])
    if corners is None:
        return _scatter_to(rows, at, L=size).view(*shape)
    there = (moved(t, d_out._device) for t in corners)
    return _scatter_in_image(rows, at, *there, L=size).view(*shape)


def put_back_last(
    needs: int,
    d_out: Tensor,
    d_indices: Any,
    input: Tensor,
    indices: Tensor,
    corners: tuple[Tensor, Tensor] | None = None,
) -> Any:
    """Return the gradient of a max pool of images whose channels lie last."""
    shape, c = tuple(input.shape), input.shape[-1]
    k, size = math.prod(indices.shape[1:-1]), math.prod(shape[1:-1])
    rows, at = d_out.reshape(shape[0], k, c), indices.view(shape[0], k, c)
    name = "scatter_to" if corners is None else "scatter_in_image"
    there = (moved(t, d_out._device) for t in corners or ())
    back = op_of_text(with_channels_behind(ops.text(name)))
    return back(rows, at, *there, L=size).view(*shape)


def _max_op(rank: int, last: bool, corners: tuple[Tensor, Tensor] | None = None) -> Op:
    vjp: Any = put_back_last if last else put_back
    if corners is not None:
        vjp = partial(vjp, corners=corners)
    saves = ("like:input", "indices")
    if last:
        text = with_channels_behind(ops.text(f"max_pool{rank}d"))
        return op_of_text(text, vjp=vjp, saves=saves)
    return ops.op(f"max_pool{rank}d", vjp=vjp, saves=saves)


_MAX = {(rank, last): _max_op(rank, last) for rank in (2, 3) for last in (False, True)}


@cache
def _op(name: str, rank: int, last: bool, generics: tuple[tuple[str, int], ...]) -> Op:
    """Return the op of a definition for images of a rank, with its windows bound."""
    if name == "max":
        return _MAX[rank, last].with_generics(**dict(generics))
    text = spatial(ops.text(name), rank)
    made = op_of_text(with_channels_behind(text) if last else text)
    return made.with_generics(**dict(generics))


class _Pools(Windows):
    """Windows with the ops of pools over them."""

    @cached_property
    def extremes(self) -> tuple[Op, tuple[int, ...]]:
        """The op of the greatest elements, and the shape that it takes."""
        rows, generics = self.rows, generics_of(K=self.k, S=self.s, P=self.p, D=self.d, O=self.o)
        if len(self.k) == 1:  # an image of height 1
            one = {"K": (1, *self.k), "S": (1, *self.s), "P": (0, *self.p), "D": (1, *self.d)}
            rows, generics = (rows[0], 1, rows[1]), generics_of(**one, O=(1, *self.o))
        if not any(self.p):
            return _op("max", len(rows) - 1, self.last, generics), rows
        made = _max_op(len(rows) - 1, self.last, self.corners)
        return made.with_generics(**dict(generics)), rows

    def in_image(self, indices: Tensor) -> Tensor:
        """Return indices as PyTorch has them: where a window is all -inf, of its first element."""
        if not any(self.p):
            return indices
        there = (moved(t, indices._device) for t in self.corners)
        k = math.prod(self.o)
        if self.last:
            n, c = indices.shape[0], indices.shape[-1]
            op = op_of_text(with_channels_behind(ops.text("in_image")))
            seen: Tensor = op(indices.view(n, k, c), *there).view(indices.shape)
            return seen
        made: Tensor = _in_image(indices.view(self.rows[0], k), *there)
        return made

    @cached_property
    def means(self) -> Op:
        """The op of sums times a number."""
        return self.op("avg_pool", P=self.p)

    def whole_means(self, rows: Tensor, count: int | None, counts_padding: bool) -> Tensor:
        """Return means of integers, each of so many elements, or of what its window has."""
        sums = self.means(rows, 1)
        by: Any = count
        if by is None:
            listed = [math.prod(window) for window in product(*self.counts(counts_padding))]
            by = from_numpy(np.array(listed).reshape(self.o))
            by = moved(by.unsqueeze(-1) if self.last else by, rows._device)
        made: Tensor = sums.div(by, rounding_mode="trunc")
        return made

    def op(self, name: str, **named: tuple[int, ...]) -> Op:
        """Return the op of a definition."""
        generics = generics_of(K=self.k, S=self.s, **named, O=self.o)
        return _op(name, len(self.k), self.last, generics)

    def powers(self, order: float) -> Op:
        """Return the op of norms of an order."""
        generics = generics_of(K=self.k, S=self.s, O=self.o)
        generics = (*generics, ("ARE_SQUARES", int(order == 2)))
        return _op("power_pool", len(self.k), self.last, generics)


_known_pools = lru_cache(maxsize=4096, typed=True)(_Pools)


def _node(name: str, rank: int) -> str:
    """Return what recorded calls are called; a row is an image of height 1, squeezed."""
    return "SqueezeBackward1" if rank == 1 else f"{name.format(rank)}Backward0"


def _windows(input: Tensor, rank: int, last: bool, *settings: Any) -> _Pools:
    """Return the windows of a call, the same for the same shape and settings."""
    try:
        return _known_pools(rank, input.shape, last, *settings)
    except TypeError:  # a list is no key, and numbers of NumPy's are no numbers
        keys = [s if s is None or isinstance(s, int) else tuple(s) for s in map(listed, settings)]
        return _known_pools(rank, input.shape, last, *keys)


def _max_pool(
    rank: int,
    input: Tensor,
    kernel_size: Each,
    stride: Each | None = None,
    padding: Each = 0,
    dilation: Each = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the greatest element of each window, and where it is if asked for.

    Parameters
    ----------
    input : Tensor, shape (N, C, ...) or (C, ...)
    kernel_size, stride, padding, dilation : int or one for each dimension
        The stride is the kernel's size by default.
    ceil_mode : bool
        Whether a last window may end behind the padding.
    return_indices : bool
        Positions are counted row by row in an image.
    """
    if input.dtype is bool_:
        raise not_for(f"max_pool{max(rank, 2)}d", input.dtype)
    last = input.ndim == rank + 2 and has_channels_last(input)
    w = _windows(input, rank, last, kernel_size, stride, padding, dilation, ceil_mode)
    op, rows = w.extremes
    out, at = op(w.taken(input, rows))
    made = made_by(w.given(out), _node("MaxPool{}DWithIndices", rank))
    return (made, w.given(w.in_image(at))) if return_indices else made


def max_pool1d(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Pool images of one dimension."""
    return _max_pool(1, input, *args, **kwargs)


def max_pool2d(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Pool images of two dimensions."""
    return _max_pool(2, input, *args, **kwargs)


@wide
def max_pool3d(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Pool images of three dimensions."""
    return _max_pool(3, input, *args, **kwargs)


def _avg_pool(
    rank: int,
    input: Tensor,
    kernel_size: Each,
    stride: Each | None = None,
    padding: Each = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window.

    Parameters
    ----------
    input : Tensor, shape (N, C, ...) or (C, ...)
        Means of int64 are rounded towards zero; other integers have none.
    kernel_size, stride, padding : int or one for each dimension
        The stride is the kernel's size by default.
    ceil_mode : bool
        Whether a last window may end behind the padding.
    count_include_pad : bool
        Whether zeros of the padding count.
    divisor_override : int, optional
        What sums are divided by.
    """
    if input.dtype is not int64:
        check_floats("avg_pool3d_out_frame" if rank == 3 else "avg_pool2d", input.dtype)
    last = rank == 2 and input.ndim == 4 and has_channels_last(input)  # of 3: not PyTorch's
    w = _windows(input, rank, last, kernel_size, stride, padding, 1, ceil_mode)
    rows = w.taken(input)
    count: int | None = divisor_override
    if divisor_override is not None:
        if not divisor_override:
            raise RuntimeError("divisor must be not zero")
    elif (count_include_pad or not any(w.p)) and not ceil_mode:
        count = math.prod(w.k)
    if input.dtype is int64:
        out = w.whole_means(rows, count, count_include_pad)
    elif count is not None:
        out = w.means(rows, 1 / count)
    else:
        share = shares(w.counts(count_include_pad), input.dtype)
        out = w.op("avg_pool_counted", P=w.p)(rows, moved(share, input._device))
    return made_by(w.given(out), _node("AvgPool{}D", rank))


def shares(counts: Sequence[Sequence[int]], dtype: DType) -> Tensor:
    """Return one over how many elements each window has, by its extents in each dimension."""
    listed = [1 / math.prod(window) for window in product(*counts)]
    shape = tuple(map(len, counts))
    return from_numpy(np.array(listed).reshape(shape)).to(dtype)  # type: ignore[no-any-return]


def avg_pool1d(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Pool images of one dimension."""
    return _avg_pool(1, input, *args, **kwargs)


def avg_pool2d(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Pool images of two dimensions."""
    return _avg_pool(2, input, *args, **kwargs)


@wide
def avg_pool3d(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Pool images of three dimensions."""
    return _avg_pool(3, input, *args, **kwargs)


def _lp_pool(
    rank: int,
    input: Tensor,
    norm_type: float,
    kernel_size: Each,
    stride: Each | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the norm of each window, of an order; NaN where the sum of odd powers is negative.

    Of order inf it is the greatest size, of -inf the least.
    """
    if norm_type in (math.inf, -math.inf):
        sign = 1 if norm_type > 0 else -1
        most = _max_pool(rank, sign * input.abs(), kernel_size, stride, ceil_mode=ceil_mode)
        return sign * most  # type: ignore[no-any-return]
    last = rank == 2 and input.ndim == 4 and has_channels_last(input) and not input.is_contiguous()
    w = _windows(input, rank, last, kernel_size, stride, 0, 1, ceil_mode)
    if ceil_mode or not input.dtype.is_floating_point:  # means of integers are integers
        mean = _avg_pool(rank, input**norm_type, kernel_size, stride, 0, ceil_mode)
        count = math.prod(w.k)
        return (mean * count) ** (1 / norm_type)
    out: Tensor = w.powers(norm_type)(w.taken(input), float(norm_type))
    return made_by(w.given(out), "PowBackward0")


def lp_pool1d(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Pool images of one dimension."""
    return _lp_pool(1, input, *args, **kwargs)


def lp_pool2d(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Pool images of two dimensions."""
    return _lp_pool(2, input, *args, **kwargs)


def lp_pool3d(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Pool images of three dimensions."""
    return _lp_pool(3, input, *args, **kwargs)


# ---- back to where maxima were


def _unpool(
    rank: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Each,
    stride: Each | None = None,
    padding: Each = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put maxima back to where they were in an image, between zeros.

    Parameters
    ----------
    input, indices : Tensor
        As of a max pool.
    kernel_size, stride, padding : int or one for each dimension
    output_size : sequence of int, optional
        Of the image; by default the least of which the pool gives `input`.
    """
    k, p = each(kernel_size, rank, "kernel_size"), each(padding, rank, "padding")
    s = stride_of(stride, k)
    image = tuple(input.shape[-rank:])
    size = (
        tuple((n - 1) * step - 2 * pad + w for n, step, pad, w in zip(image, s, p, k, strict=True))
        if output_size is None
        else tuple(output_size)[-rank:]
    )
    before = tuple(input.shape[:-rank])
    n, m = math.prod(before), math.prod(image)
    flat = _scatter_to(input.reshape(n, m), indices.reshape(n, m), L=math.prod(size))
    return made_by(flat.view(*before, *size), _node("MaxUnpool{}D", rank))


def max_unpool1d(input: Tensor, indices: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Pool images of one dimension."""
    return _unpool(1, input, indices, *args, **kwargs)


@wide
def max_unpool2d(input: Tensor, indices: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Pool images of two dimensions."""
    return _unpool(2, input, indices, *args, **kwargs)


@wide
def max_unpool3d(input: Tensor, indices: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Pool images of three dimensions."""
    return _unpool(3, input, indices, *args, **kwargs)


for made, like in (
    (max_pool1d, _max_pool), (max_pool2d, _max_pool), (max_pool3d, _max_pool),
    (avg_pool1d, _avg_pool), (avg_pool2d, _avg_pool), (avg_pool3d, _avg_pool),
    (lp_pool1d, _lp_pool), (lp_pool2d, _lp_pool), (lp_pool3d, _lp_pool),
    (max_unpool1d, _unpool), (max_unpool2d, _unpool), (max_unpool3d, _unpool),
):  # fmt: skip
    made.__doc__ = like.__doc__
for made in (max_pool1d, max_pool2d, max_pool3d, avg_pool1d):
    publish(made, (made.__name__,), on=("torch",))
