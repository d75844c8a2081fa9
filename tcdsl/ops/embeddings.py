"""Rows of a table by number, and sums of them; how often numbers come."""

from __future__ import annotations

from functools import partial

import numpy as np

from tcdsl.core import GRAD, Recipe, Tensor, dtypes, from_numpy, is_grad_enabled, record
from tcdsl.ops.along import cumsum
from tcdsl.ops.comparisons import ne
from tcdsl.ops.indexing import index_copy_, index_select, integers
from tcdsl.ops.internal import to
from tcdsl.ops.joins import cat
from tcdsl.ops.masks import nonzero
from tcdsl.ops.on_device import moved
from tcdsl.ops.table import Family, publish
from tcdsl.ops.writing import any_recorded

ops = Family(__file__)

_embedding = ops.op("embedding", vjp="embedding_vjp")
_embedding_by_frequency = ops.op("embedding", vjp="embedding_by_frequency_vjp")
_count = ops.op("count", vjp=None)
_ends = ops.op("ends", vjp=None)
_weigh = ops.op("weigh")
_bags = {mode: ops.op(f"bag_{mode}") for mode in ("sum", "mean", "max", "most", "weighted")}


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return rows of a table by number, (...) to (..., D).

    Parameters
    ----------
    input : Tensor, integers
    weight : Tensor, shape (V, D)
    padding_idx : int, optional
        A row without a gradient; a negative one counts from the end.
    max_norm, norm_type : float
        Rows that are looked up and whose norm is larger are scaled to it, in the table.
    scale_grad_by_freq : bool
        Divide gradients of rows by how often they are looked up.
    sparse : bool
        Gradients are dense either way.
    """
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    skipped = -1
    if padding_idx is not None:
        if not -weight.size(0) <= padding_idx < weight.size(0):
            raise AssertionError("Padding_idx must be within num_embeddings")
        skipped = padding_idx % weight.size(0)
    if input.is_floating_point() or input.dtype is dtypes.bool_:
        kind = input.type() if input.is_floating_point() else "CPUBoolType"
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got {kind} instead (while checking arguments for embedding)"
        )
    input = integers(input, "embedding")
    if max_norm is not None:
        _limit_rows(weight, input, max_norm, norm_type)
    op = _embedding_by_frequency if scale_grad_by_freq else _embedding
    made: Tensor = op(input, weight, skipped)
    return made


def _limit_rows(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are looked up, in the table, to a norm."""
    table = weight.detach()
    numbers = from_numpy(np.unique(input._array()))
    rows = index_select(table, 0, numbers)
    norms = rows.norm(norm_type, 1, True)
    scale = (max_norm / (norms + 1e-7)).clamp(max=1.0)
    index_copy_(table, 0, numbers, rows * scale)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return sums, means or maxima of rows of a table, shape (B, D).

    Parameters
    ----------
    input : Tensor, integers, shape (B, L) or (L,)
    weight : Tensor, shape (V, D)
    offsets : Tensor, shape (B,), optional
        Where bags begin in an input of one dimension.
    max_norm, norm_type, sparse
        As of `embedding`.
    mode : str
        'sum', 'mean' or 'max'.
    per_sample_weights : Tensor, as input, optional
        What rows are multiplied by, in sums.
    scale_grad_by_freq : bool
        Divide gradients of rows by how often they are looked up; not of maxima.
    include_last_offset : bool
        Whether the last offset is where the last bag ends, no bag's begin.
    padding_idx : int, optional
        A row that is left out of its bags; a negative one counts from the end.
    """
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None")
        batch, length = input.shape
        ends = np.arange(batch + 1, dtype=np.int64) * length
        flat = input.reshape(-1)
    elif input.ndim == 1 and offsets is not None:
        flat = input
        begins = offsets.detach()._array().astype(np.int64)
        if begins.size and begins[0]:
            raise RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start "
                f"from position 0. However, got {begins[0]}"
            )
        if begins.size and begins[-1] > input.size(0):
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length {input.size(0)} but got "
                f"offsets[-1] of {begins[-1]}"
            )
        if include_last_offset and not begins.size:
            raise RuntimeError("include_last_offset: number of offsets should be at least 1")
        ends = begins if include_last_offset else np.append(begins, input.size(0))
    else:
        raise ValueError("input has to be a 2D Tensor, or a 1D one with offsets")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    flat = integers(flat, "embedding_bag")
    if max_norm is not None:
        _limit_rows(weight, flat, max_norm, norm_type)
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only "
                f"supported for mode='sum' (got mode='{mode}'). Please open a feature request on "
                "GitHub."
            )
        if per_sample_weights.shape != input.shape:
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not "
                f"None, then it must have the same shape as the input ({list(input.shape)})"
            )
        per_sample_weights = per_sample_weights.reshape(-1)
    bounds = moved(from_numpy(ends), weight._device)
    if scale_grad_by_freq:
        weight = _by_frequency(weight, flat)
    if padding_idx is not None:
        kept, bounds = _without(flat, bounds, padding_idx, weight.size(0))
        flat = index_select(flat, 0, kept)
        if per_sample_weights is not None:
            per_sample_weights = index_select(per_sample_weights, 0, kept)
    if per_sample_weights is not None:
        weighted: Tensor = _bags["weighted"](flat, weight, bounds, per_sample_weights)
        return weighted
    is_asked = mode == "max" and any_recorded((weight,))  # then places are kept
    made: Tensor = _bags["most" if mode == "max" and not is_asked else mode](flat, weight, bounds)
    return made


def _by_frequency(weight: Tensor, flat: Tensor) -> Tensor:
    """Return a table of which each row's gradient is divided by how often it is looked up."""
    if not (weight.requires_grad and is_grad_enabled()):
        return weight
    times = to(counts(flat, weight.size(0)).clamp(min=1), weight.dtype).unsqueeze(1)
    shown: Tensor = weight.detach()
    back = Recipe(partial(_divided, times), (GRAD,), (0,))
    record("EmbeddingBagBackward0", back, None, (weight,), (shown,), 1)
    return shown


def _divided(times: Tensor, gradient: Tensor) -> Tensor:
    made: Tensor = gradient / times
    return made


def _without(flat: Tensor, bounds: Tensor, row: int, rows: int) -> tuple[Tensor, Tensor]:
    """Return the places of bags that are not one row of the table, and where bags of these end."""
    if not -rows <= row < rows:
        raise AssertionError("padding_idx must be within the number of embeddings")
    is_kept = ne(flat, row % rows)
    before = cat([flat.new_zeros(1), cumsum(to(is_kept, dtypes.int64), 0)])
    return nonzero(is_kept).reshape(-1), index_select(before, 0, bounds)


_one_hot = ops.op("one_hot", vjp=None)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Return 1 at each integer's place and 0 elsewhere, (...) to (..., C)."""
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes < 0:
        if not tensor.numel():
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = int(tensor.max().item()) + 1
    elif num_classes and tensor.numel() and int(tensor.max().item()) >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    if tensor.numel() and int(tensor.min().item()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    count = num_classes
    made: Tensor = _one_hot(tensor, C=count)
    return made


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Return how often each integer comes, or the sums of its weights."""
    numbers = integers(input, "bincount")
    low = high = 0
    if numbers.ndim == 1 and numbers.numel():
        low, high = (int(end.item()) for end in _ends(numbers))
    if numbers.ndim != 1 or low < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    size = max(minlength, high + 1 if numbers.numel() else 0)
    if weights is None:
        return counts(numbers, size)
    begin = moved(from_numpy(np.zeros(size, weights.dtype.numpy)), numbers._device)
    made: Tensor = _weigh(numbers, weights, begin)
    return made


def counts(numbers: Tensor, size: int) -> Tensor:
    """Return how often each integer from 0 on comes, of which there are so many."""
    begin = moved(from_numpy(np.zeros(size, np.int64)), numbers._device)
    made: Tensor = _count(numbers, begin)
    return made


publish(bincount, ("bincount",))
