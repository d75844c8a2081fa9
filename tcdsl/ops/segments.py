"""Sums, means, products and extremes of parts of a row, one behind the other."""

from __future__ import annotations

import math

from tcdsl.core import Tensor, made_by
from tcdsl.ops.indexing import integers
from tcdsl.ops.joins import cat
from tcdsl.ops.rules import not_for
from tcdsl.ops.table import Family, publish
from tcdsl.ops.views import dim_of

ops = Family(__file__)
_BY_NAME = {
    name: ops.op(f"segment_{'sum' if name == 'mean' else name}")
    for name in ("sum", "mean", "max", "min", "prod")
}


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Reduce parts of a dimension, which follow each other.

    Parameters
    ----------
    data : Tensor, shape (*B, K, ...)
    reduce : {"sum", "mean", "max", "min", "prod"}
    lengths : Tensor of int64, shape (*B, S)
        Of the parts; they add up to K.
    offsets : Tensor of int64, shape (*B, S + 1)
        Where parts begin, and where the last one ends: in the place of lengths.
    axis : int
        The number of dimensions B.
    unsafe : bool
        Do not look at the sums of the lengths.
    initial : float, optional
        What parts begin with, of which an empty one is; by default 0, NaN for means, 1 for
        products, -inf and inf for extremes.

    Returns
    -------
    Tensor, shape (*B, S, ...)

    Raises
    ------
    RuntimeError
        If there is nothing that says where parts are, or it does not fit.
    """
    axis = dim_of(axis, data.ndim)
    if reduce not in _BY_NAME:
        raise RuntimeError(f"unsupported reduction given! {reduce}")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if not data.dtype.is_floating_point:
        raise not_for("segment_reduce_cpu", data.dtype)
    if offsets is None:
        if lengths is None:
            raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined")
        offsets = _begun(data, integers(lengths, "segment_reduce"), axis, unsafe)
    else:
        offsets = integers(offsets, "segment_reduce")
    before, behind = tuple(data.shape[:axis]), tuple(data.shape[axis + 1 :])
    if tuple(offsets.shape[:-1]) != before:
        raise RuntimeError("segment_reduce(): lengths.dim() - 1 dimensions have to be data's first")
    rows = data.reshape(math.prod(before), data.shape[axis], math.prod(behind))
    places = offsets.reshape(rows.shape[0], offsets.shape[-1])
    made: Tensor = _BY_NAME[reduce](rows, places)
    counts = (places[:, 1:] - places[:, :-1]).unsqueeze(-1)
    if initial is not None:
        if reduce in ("max", "min"):
            made = made.clamp(**{"min" if reduce == "max" else "max": initial})
        else:
            made = made * initial if reduce == "prod" else made + initial
    if reduce == "mean":
        if initial is not None:  # of no elements
            counts = counts.clamp(min=1)
        made = made / counts
    return made_by(made.reshape(*before, made.shape[1], *behind), "SegmentReduceBackward0")


def _begun(data: Tensor, lengths: Tensor, axis: int, unsafe: bool) -> Tensor:
    """Return where parts of these lengths begin, and where the last one ends."""
    ends: Tensor = lengths.cumsum(-1)
    if not unsafe:
        if bool((lengths < 0).any().item()):
            raise RuntimeError("lengths contains negative value!")
        if bool((ends[..., -1] != data.shape[axis]).any().item()):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to "
                "data.size(lengths.dim()-1) when !unsafe."
            )
    return cat([ends.new_zeros(*ends.shape[:-1], 1), ends], -1)


publish(segment_reduce, ("segment_reduce",), on=("torch",))
