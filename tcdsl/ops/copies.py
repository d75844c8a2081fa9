"""The same elements elsewhere: padded, turned round, repeated."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, TypeAlias

from tcdsl.core import Op, Tensor, dtypes, is_casting, made_by, retyped
from tcdsl.ops.arguments import listed_as, several
from tcdsl.ops.casting import widened
from tcdsl.ops.formats import channels_behind, channels_second, has_channels_last
from tcdsl.ops.over import op_over
from tcdsl.ops.rules import Operands, ShapeRule, number_of_type
from tcdsl.ops.spatial import spatial
from tcdsl.ops.strides import strides_of_copy, strides_of_images
from tcdsl.ops.table import Family, op_of_text, publish
from tcdsl.ops.views import Shape, dim_of
from tcdsl.ops.writing import any_recorded

ops = Family(__file__)


def _of_triangle(name: str) -> ShapeRule:
    """Return the rule of what has triangles."""

    def rule(operands: Operands) -> None:
        if operands[0].ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")

    return rule


repeated_elements = ops.op("often", vjp=None)
_tril = ops.op("each_tril", shape=_of_triangle("tril"))
_triu = ops.op("each_triu", shape=_of_triangle("triu"))
_tril_ = ops.op("each_tril", shape=_of_triangle("tril"), writes=True)
_triu_ = ops.op("each_triu", shape=_of_triangle("triu"), writes=True)
_zero_above = ops.op("zero_above", shape=_of_triangle("tril"), vjp=None, writes=True)
_zero_below = ops.op("zero_below", shape=_of_triangle("triu"), vjp=None, writes=True)
_MANY = 1 << 14  # elements, from which on half as much memory is worth another tensor
_BITS = {1: dtypes.uint8, 2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}  # by the bytes of one
_diagonal_above = ops.op("diagonal_above")
_with_above = ops.op(
    "with_above",
    vjp=lambda needs, d_out, offset: (d_out.diagonal(offset, -2, -1), None),
    saves=("offset",),
)
_with_below = ops.op(
    "with_below",
    vjp=lambda needs, d_out, offset: (d_out.diagonal(-offset, -2, -1), None),
    saves=("offset",),
)
_cross = ops.op("cross")

# ---- padded

Widths: TypeAlias = tuple[int, ...]  # before and behind each dimension, from the last one on
_PADS = {  # what recorded calls are called
    "constant": "ConstantPadNdBackward0",
    "reflect": "ReflectionPad{}DBackward0",
    "replicate": "ReplicationPad{}DBackward0",
    "circular": "CopySlices",
}


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
    widths = tuple(map(operator.index, pad))
    if len(widths) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(widths) // 2 > input.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(widths)} and input of dimension {input.ndim}"
        )
    if mode == "constant":
        filling = number_of_type(input.dtype, 0 if value is None else float(value))
        return _padded(input, widths, filling, mode)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if is_casting() and (mode == "replicate" or (mode == "reflect" and len(widths) <= 4)):
        input = widened(input)
    if min(widths, default=0) >= 0:
        return _padded(input, widths, None, mode)
    zero = number_of_type(input.dtype, 0)
    added, removed = tuple(max(w, 0) for w in widths), tuple(min(w, 0) for w in widths)
    if mode == "reflect":  # it sees what is cut off
        return _padded(_padded(input, added, None, mode), removed, zero, "constant")
    cut = _padded(input, removed, zero, "constant")
    return _padded(cut, added, None, mode) if any(added) else cut


def _padded(input: Tensor, widths: Widths, value: float | None, mode: str) -> Tensor:
    if len(widths) == 0:
        return input.clone()  # type: ignore[no-any-return]
    name = _name_of_pads(len(widths) // 2, mode)
    if has_channels_last(input) and mode != "circular":
        _padding(input.shape, widths, mode)  # or it refuses them
        behind = _widths_behind(widths, input.ndim)
        moved = _padded_in_c_order(channels_behind(input), behind, value, mode)
        return made_by(channels_second(moved), name)
    return made_by(_padded_in_c_order(input, widths, value, mode), name)


@cache
def _name_of_pads(rank: int, mode: str) -> str:
    return _PADS[mode].format(rank)


def _widths_behind(widths: Widths, rank: int) -> Widths:
    """Return widths from the last dimension on where the channels, second before, are the last."""
    at = 2 * (rank - 2)
    image = widths[:at] + (0,) * (at - len(widths))
    return (widths[at : at + 2] or (0, 0)) + image + widths[at + 2 :]


def _padded_in_c_order(input: Tensor, widths: Widths, value: float | None, mode: str) -> Tensor:
    op, rows, shape = _padding(input.shape, widths, mode)
    made: Tensor = op(input.reshape(rows)) if value is None else op(input.reshape(rows), value)
    return made.view(shape)  # type: ignore[no-any-return]


@lru_cache(maxsize=4096)
def _padding(
    shape: Shape, widths: Widths, mode: str
) -> tuple[Op, tuple[int, ...], tuple[int, ...]]:
    """Return the op that pads tensors of a shape, the shape it takes, and that of the result."""
    rank = len(widths) // 2
    before, image = shape[: len(shape) - rank], shape[len(shape) - rank :]
    ends = [widths[2 * (rank - 1 - d) :][:2] for d in range(rank)]
    if mode in ("reflect", "replicate") and 0 in shape[len(shape) - rank - 1 :]:
        raise RuntimeError(
            f"Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with possibly 0 batch size "
            f"and other non-zero dimensions for input, but got: {list(shape)}"
        )
    for d, (n, (low, high)) in enumerate(zip(image, ends, strict=True)):
        if mode == "reflect" and max(low, high) >= n:
            raise RuntimeError(
                "Argument #4: Padding size should be less than the corresponding input dimension, "
                f"but got: padding ({low}, {high}) at dimension {len(before) + d} of input "
                f"{list(shape)}"
            )
        if mode == "circular" and max(low, high) > n:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if n + low + high < 0:
            raise RuntimeError(
                f"The input size {n}, plus negative padding {low} and {high}, resulted in a "
                "negative output size, which is invalid. Check dimension "
                f"{len(before) + d} of your input."
            )
    whole = (*before, *(n + low + high for n, (low, high) in zip(image, ends, strict=True)))
    rows = (math.prod(before), *image)
    named = {"BEFORE": ends[-1][0], "AFTER": ends[-1][1]} if mode != "constant" else {}
    if named:
        ends.pop()
        if rank == 1:  # an image of as many rows
            ends, rows = [(0, 0)], (1, *rows)
    for d, (low, high) in enumerate(ends):
        named |= {f"B{d + 1}": low, f"A{d + 1}": high}
    text, vjp = spatial(ops.text(f"pad_{mode}"), len(ends)), "derived"
    if mode == "reflect":
        vjp = "pad_reflect_vjp"
        text = f"{text}\n{spatial(ops.text(vjp), len(ends))}"
    op = op_of_text(text, vjp=vjp)
    return op.with_generics(**named), rows, whole


# ---- turned round


@listed_as("dims")
def flip(input: Tensor, *dims: Any) -> Tensor:
    """Turn dimensions round."""
    listed = dims[0] if len(dims) == 1 and isinstance(dims[0], list | tuple) else dims
    flips = _flipping(input.ndim, tuple(listed))
    if not flips:
        return input.clone()  # type: ignore[no-any-return]
    for op in flips:
        input = op(input)
    return input


@lru_cache(maxsize=1024, typed=True)
def _flipping(rank: int, dims: tuple[int, ...]) -> tuple[Op, ...]:
    """Return the ops that turn dimensions round, one after the other."""
    found = [dim_of(d, rank) for d in dims]
    for d in found:
        if found.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    flips = (op_over(ops, "flip", rank, (d,), order=strides_of_copy) for d in found)
    return tuple(flips) if rank else ()


def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Move elements along dimensions; what leaves at the end comes in at the begin."""
    each_shift, each_dim = several(shifts), several(() if dims is None else dims)
    if len(each_shift) == 1 and not each_dim:
        flat = input.reshape(-1)
        rolled = _rolled(flat, operator.index(each_shift[0]), 0).view(input.shape)
        return made_by(rolled, "RollBackward0")
    if len(each_shift) != len(each_dim):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(each_shift)}, dims:{len(each_dim)}"
        )
    for shift, dim in zip(each_shift, each_dim, strict=True):
        input = _rolled(input, operator.index(shift), dim)
    return input


def _rolled(input: Tensor, shift: int, dim: int) -> Tensor:
    made: Tensor = _rolling(input.ndim, dim)(input, shift % max(input.shape[dim], 1))
    return made


@lru_cache(maxsize=1024, typed=True)
def _rolling(rank: int, dim: int) -> Op:
    """Return the op that moves elements along a dimension; its gradient moves them back."""
    if not rank:
        raise IndexError("roll(): a tensor of rank 0 has no dimension to turn")

    def back(needs: int, d_out: Tensor, shift: int) -> Any:
        return _rolled(d_out, -int(shift), dim), None

    dims = (dim_of(dim, rank),)
    return op_over(ops, "roll", rank, dims, vjp=back, saves=("shift",), order=strides_of_images)


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """Return the lower triangles of matrices, zeros above a diagonal."""
    made: Tensor = _tril(input, diagonal)
    return made


def tril_(input: Tensor, diagonal: int = 0) -> Tensor:
    """Write zeros above a diagonal of matrices."""
    return _zeroed(input, diagonal, _zero_above, _tril_)


def triu_(input: Tensor, diagonal: int = 0) -> Tensor:
    """Write zeros below a diagonal of matrices."""
    return _zeroed(input, diagonal, _zero_below, _triu_)


def _zeroed(input: Tensor, diagonal: int, of_bits: Op, of_all: Op) -> Tensor:
    """Write zeros beside a diagonal, of many elements that nothing is recorded of as bits."""
    is_many = input.numel() >= _MANY and input.dtype.itemsize in _BITS
    if not is_many or input._device or input._base is not None or any_recorded((input,)):
        made: Tensor = of_all(input, diagonal)
        return made
    bits = _BITS[input.dtype.itemsize].number
    of_bits(retyped(input, bits, input.shape, input.stride()), diagonal)
    return input


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """Return the upper triangles of matrices, zeros below a diagonal."""
    made: Tensor = _triu(input, diagonal)
    return made


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """Return a diagonal of a matrix, or a matrix with a vector on a diagonal and 0 elsewhere."""
    if input.ndim == 1:
        return beside_zeros(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    above, offset = (input, diagonal) if diagonal >= 0 else (input.t(), -diagonal)
    made: Tensor = _diagonal_above(above, min(offset, above.shape[1]))
    return made


def beside_zeros(input: Tensor, offset: int) -> Tensor:
    """Return matrices with a tensor's last dimension on a diagonal, and 0 elsewhere."""
    made: Tensor = _with_above(input, offset) if offset >= 0 else _with_below(input, -offset)
    return made


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """Return a matrix with all elements on a diagonal and 0 elsewhere."""
    return diag(input.reshape(-1), offset)


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
    return made_by(made.view(*shape), "LinalgCrossBackward0")


@listed_as("repeats")
def repeat(input: Tensor, *sizes: Any) -> Tensor:
    """Repeat a tensor along each dimension."""
    wanted = several(sizes[0] if len(sizes) == 1 else sizes)
    if len(wanted) < input.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    shape = (1,) * (len(wanted) - input.ndim) + tuple(input.shape)
    apart = input.reshape(*(n for s in shape for n in (1, s)))
    spread = apart.expand(*(n for r, s in zip(wanted, shape, strict=True) for n in (r, s)))
    made: Tensor = spread.clone() if spread.is_contiguous() else spread.contiguous()
    tiled = made.view(*(r * s for r, s in zip(wanted, shape, strict=True)))
    return made_by(tiled, "RepeatBackward0")


_BOTH: tuple[Callable[..., Tensor], ...] = (flip, roll, tril, triu, diag, diagflat, cross)
for _function in _BOTH:
    publish(_function, (_function.__name__,))
publish(repeat, ("repeat",), on=("Tensor",))
for _function in (tril_, triu_):
    publish(_function, (_function.__name__,), on=("Tensor",))
