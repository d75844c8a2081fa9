"""The same elements elsewhere: joined, padded, turned round."""

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
    record,
    set_grad_enabled,
)
from tcdsl.ops.internal import copy_
from tcdsl.ops.on_device import empty_beside
from tcdsl.ops.rules import promote
from tcdsl.ops.spatial import spatial
from tcdsl.ops.table import Family, op_of_text, publish
from tcdsl.ops.views import dim_of

ops = Family(__file__)
_MOST = 60  # operands of a recorded call: the core tells them by the bits of a word
_flip = ops.op("flip")
_roll = ops.op("roll")
_tril = ops.op("each_tril")
_triu = ops.op("each_triu")
_cross = ops.op("cross")
_pixel_shuffle = ops.op("pixel_shuffle")
_PADS: dict[str, Op] = {
    mode: ops.op(f"pad_{mode}") for mode in ("reflect", "replicate", "circular")
}


def _by_parts(op: Op, input: Tensor, dim: int, *numbers: int, **generics: int) -> Tensor:
    """Call an op of a middle dimension; those before and behind it are joined."""
    shape = tuple(input.shape)
    at = dim_of(dim, len(shape))
    joined = input.reshape(math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :]))
    made = op(joined, *numbers, **generics)
    return made.view(*shape[:at], made.shape[1], *shape[at + 1 :])  # type: ignore[no-any-return]


# ---- joined


def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Join tensors along a dimension: each is copied into its part of the result.

    Parameters
    ----------
    tensors : sequence of Tensor, shapes equal but in `dim`
        An empty one of rank 1 counts for nothing.
    dim : int

    Raises
    ------
    RuntimeError
        If there is none, or shapes differ elsewhere.
    """
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    parts = [t for t in tensors if t.numel() or t.ndim != 1]
    if not parts:
        return tensors[0].clone()  # type: ignore[no-any-return]
    if len(parts) > _MOST:
        rows = [cat(parts[i : i + _MOST], dim) for i in range(0, len(parts), _MOST)]
        return cat(rows, dim, out=out)
    first, dtype = tuple(parts[0].shape), parts[0].dtype
    at = dim_of(dim, len(first))
    lengths, needs, is_mixed = [], 0, False
    for i, t in enumerate(parts):
        shape = tuple(t.shape)
        if shape != first:
            _check_joined(first, shape, i, at)
        lengths.append(shape[at])
        needs |= t.requires_grad << i
        is_mixed |= t.dtype is not dtype
    whole = (*first[:at], sum(lengths), *first[at + 1 :])
    if is_mixed:
        dtype = promote(parts)
        parts = [t.to(dtype) for t in parts]
    made = empty_beside(parts[0], whole, dtype) if out is None else out
    if out is not None and out.shape != whole:
        out.resize_(whole)
    old = set_grad_enabled(False)
    try:
        begin = 0
        for n, t in zip(lengths, parts, strict=True):
            copy_(made.narrow(at, begin, n), t)
            begin += n
    finally:
        set_grad_enabled(old)
    if needs and old and out is None:
        recipe = Recipe(_never, (GRAD,), tuple(range(len(parts))))
        vjp = partial(_parted, at, tuple(lengths))
        record("CatBackward0", recipe, vjp, tuple(parts), (made,), needs)
    return made


def _check_joined(first: tuple[int, ...], shape: tuple[int, ...], number: int, at: int) -> None:
    """Refuse a shape that differs from the first elsewhere than where they are joined."""
    if len(shape) != len(first):
        raise RuntimeError(
            f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}"
        )
    for d, (a, b) in enumerate(zip(first, shape, strict=True)):
        if d != at and a != b:
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {at}. Expected size {a} but "
                f"got size {b} for tensor number {number} in the list."
            )


def _never(gradient: Tensor) -> Tensor:
    raise AssertionError("a join brings its own")


def _parted(at: int, lengths: tuple[int, ...], gradient: Tensor) -> Any:
    """Return the parts of a gradient, views of it."""
    found, begin = [], 0
    for n in lengths:
        found.append(gradient.narrow(at, begin, n))
        begin += n
    return tuple(found) if len(found) > 1 else found[0]


def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Join tensors of one shape along a new dimension."""
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0].shape
    for i, t in enumerate(tensors):
        if t.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and "
                f"{list(t.shape)} at entry {i}"
            )
    at = dim_of(dim, len(first) + 1)
    return cat([t.unsqueeze(at) for t in tensors], at, out=out)


# ---- padded


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Make dimensions longer, from the last one on.

    Parameters
    ----------
    input : Tensor
    pad : sequence of int
        Before and behind the last dimension, then the one before it, and so on; what is below 0
        is cut off.
    mode : {"constant", "reflect", "replicate", "circular"}
    value : float
        For "constant".
    """
    widths = [int(n) for n in pad]
    if len(widths) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(widths) // 2 > input.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(widths)} and input of dimension {input.ndim}"
        )
    if mode == "constant":
        return _padded(input, widths, 0.0 if value is None else value)
    if mode not in _PADS:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    for i in range(0, len(widths), 2):
        before, behind = widths[i : i + 2]
        at = input.ndim - 1 - i // 2
        if mode == "reflect" and max(before, behind) >= input.shape[at]:
            raise RuntimeError(
                "Argument #4: Padding size should be less than the corresponding input dimension, "
                f"but got: padding ({before}, {behind}) at dimension {at} of input "
                f"{list(input.shape)}"
            )
        if before or behind:
            input = _by_parts(_PADS[mode], input, at, BEFORE=before, AFTER=behind)
    return input


@cache
def _pad_constant(rank: int) -> Op:
    return op_of_text(spatial(ops.text("pad_constant"), rank))


def _padded(input: Tensor, widths: list[int], value: float) -> Tensor:
    rank = len(widths) // 2
    if not rank:
        return input.clone()  # type: ignore[no-any-return]
    shape = tuple(input.shape)
    before, image = shape[: len(shape) - rank], shape[len(shape) - rank :]
    generics: dict[str, int] = {}
    for d in range(rank):
        low, high = widths[2 * (rank - 1 - d) :][:2]
        generics |= {f"B{d + 1}": low, f"A{d + 1}": high}
        if image[d] + low + high < 0:
            raise RuntimeError(
                f"The input size {image[d]}, plus negative padding {low} and {high}, resulted in a "
                "negative output size, which is invalid. Check dimension "
                f"{len(before) + d} of your input."
            )
    rows = input.reshape(math.prod(before), *image)
    made: Tensor = _pad_constant(rank)(rows, value, **generics)
    return made.view(*before, *made.shape[1:])  # type: ignore[no-any-return]


# ---- turned round


def flip(input: Tensor, *dims: Any) -> Tensor:
    """Turn dimensions round."""
    listed = dims[0] if len(dims) == 1 and isinstance(dims[0], list | tuple) else dims
    listed = [dim_of(d, input.ndim) for d in listed]
    for d in listed:
        if listed.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    if not listed or not input.ndim:
        return input.clone()  # type: ignore[no-any-return]
    for d in listed:
        input = _by_parts(_flip, input, d)
    return input


def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Move elements along dimensions; what leaves at the end comes in at the begin."""
    if dims is None or dims == ():
        flat = input.reshape(-1)
        return _by_parts(_roll, flat, 0, int(shifts)).view(*input.shape)  # type: ignore[no-any-return]
    each_shift = [shifts] if isinstance(shifts, int) else list(shifts)
    each_dim = [dims] if isinstance(dims, int) else list(dims)
    if len(each_shift) != len(each_dim):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(each_shift)}, dims:{len(each_dim)}"
        )
    for shift, dim in zip(each_shift, each_dim, strict=True):
        input = _by_parts(_roll, input, dim, int(shift))
    return input


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """Return the lower triangles of matrices, zeros above a diagonal."""
    made: Tensor = _tril(input, diagonal)
    return made


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """Return the upper triangles of matrices, zeros below a diagonal."""
    made: Tensor = _triu(input, diagonal)
    return made


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Return cross products along a dimension of three elements, by default the first such."""
    shape = tuple(input.shape)
    if dim is None:
        if 3 not in shape:
            raise RuntimeError("no dimension of size 3 in input")
        dim = shape.index(3)
    at = dim_of(dim, len(shape))
    if shape != tuple(other.shape) or shape[at] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {shape[at]} and "
            f"{other.shape[at]}"
        )
    m, n = math.prod(shape[:at]), math.prod(shape[at + 1 :])
    made: Tensor = _cross(input.reshape(m, 3, n), other.reshape(m, 3, n))
    return made.view(*shape)  # type: ignore[no-any-return]


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Make images larger by a factor, of channels: (C * r * r, H, W) to (C, H * r, W * r)."""
    *before, c, h, w = input.shape
    r = upscale_factor
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
        )
    made: Tensor = _pixel_shuffle(input.reshape(math.prod(before), c, h, w), UP=r)
    return made.view(*before, c // (r * r), h * r, w * r)  # type: ignore[no-any-return]


def repeat(input: Tensor, *sizes: Any) -> Tensor:
    """Repeat a tensor along each dimension."""
    wanted = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    if len(wanted) < input.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    shape = (1,) * (len(wanted) - input.ndim) + tuple(input.shape)
    apart = input.reshape(*(n for s in shape for n in (1, s)))
    spread = apart.expand(*(n for r, s in zip(wanted, shape, strict=True) for n in (r, s)))
    made: Tensor = spread.clone() if spread.is_contiguous() else spread.contiguous()
    return made.view(*(r * s for r, s in zip(wanted, shape, strict=True)))  # type: ignore[no-any-return]


_FREE: tuple[Callable[..., Tensor], ...] = (cat, stack, pixel_shuffle)
for _function in _FREE:
    publish(_function, (_function.__name__,), on=("torch",))
_BOTH: tuple[Callable[..., Tensor], ...] = (flip, roll, tril, triu, cross)
for _function in _BOTH:
    publish(_function, (_function.__name__,))
publish(repeat, ("repeat",), on=("Tensor",))
