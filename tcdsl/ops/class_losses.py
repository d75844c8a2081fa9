"""Losses of scores of classes, under the names and with the defaults of PyTorch's nn.functional."""

from __future__ import annotations

import math
from functools import cache

from tcdsl.core import Op, Tensor, made_by
from tcdsl.core.dtypes import int64, uint8
from tcdsl.ops.along import log_softmax
from tcdsl.ops.casting import wide
from tcdsl.ops.losses import Reduced, mean_or_sum, reduction_of
from tcdsl.ops.node_names import name_by_form
from tcdsl.ops.pointwise import mul, neg, where
from tcdsl.ops.rules import NAMES
from tcdsl.ops.spatial import without_rest
from tcdsl.ops.table import Family, op_of_text

ops = Family(__file__)
_multi_margin = ops.op("multi_margin")
_multi_margin_weighted = ops.op("multi_margin_weighted")
_multilabel_margin = ops.op("multilabel_margin")


_BY_HAND = (
    "cross_entropy", "cross_entropy_mean", "cross_entropy_weighted_mean", "nll_mean",
    "nll_weighted_mean",
)  # fmt: skip


@cache
def _op(name: str, rank: int) -> Op:
    """Return the op of a definition for targets of rank 2, or 1: nothing is behind the classes."""
    by_hand = {n: f"{n}_vjp" for n in _BY_HAND}
    vjp = {**by_hand, "nll_count": None, "nll_weight": None}
    back = vjp.get(name, "derived")
    text = "\n".join(ops.text(n) for n in (name, back) if n not in (None, "derived"))
    if rank == 1:
        text = without_rest(text)
    return op_of_text(text, name, vjp=back)


def _check_weight(input: Tensor, weight: Tensor | None) -> None:
    """Refuse weights that are not one for each class."""
    classes = input.shape[0 if input.ndim == 1 else 1]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but "
            f"got weight tensor of shape: {list(weight.shape)}"
        )


def _check_batches(input: Tensor, target: Tensor) -> None:
    """Refuse classes in the place of probabilities, or of another batch."""
    if target.shape == input.shape:
        raise RuntimeError(
            "Expected floating point type for target with class probabilities, got "
            f"{NAMES[target.dtype.name]}"
        )
    if target.ndim and input.ndim > 1 and input.shape[0] != target.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size "
            f"({target.shape[0]})."
        )


def _of_classes(
    input: Tensor, target: Tensor, *, is_entropy: bool = False
) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """Return scores (N, C, L), classes (N, L), both without L where all is; and losses' shape."""
    if target.dtype is int64 and target.ndim == 1 and input.ndim == 2:
        rows = target.shape
        if rows[0] == input.shape[0]:
            return input, target, rows
    if target.dtype not in (int64, uint8):
        if is_entropy:
            _check_batches(input, target)
        elif input.ndim == 2 and target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {NAMES[target.dtype.name]}"
        )
    if target.dtype is not int64:
        target = target.to(int64)
    if input.ndim == 1:
        if is_entropy and target.shape == input.shape:
            _check_batches(input, target)
        if target.numel() != 1:
            raise ValueError(
                f"For 1D input, 1D target must have size 1, but got target size: {target.numel()}"
            )
        return input.view(1, -1), target.reshape(1), ()
    shape = tuple(input.shape)
    wanted = (shape[0], *shape[2:])
    if tuple(target.shape) != wanted:
        if is_entropy or (input.ndim == 2 and target.ndim and target.shape != input.shape):
            _check_batches(input, target)
        if input.ndim == 2:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        raise RuntimeError(f"Expected target size {list(wanted)}, got {list(target.shape)}")
    if input.ndim == 2:
        return input, target, wanted
    rest = math.prod(shape[2:])
    return input.reshape(shape[0], shape[1], rest), target.reshape(shape[0], rest), wanted


def _by_class(
    elements: Tensor,
    scores: Tensor,
    classes: Tensor,
    weight: Tensor | None,
    ignored: int,
    reduction: str,
    shape: tuple[int, ...],
) -> Tensor:
    name = name_by_form("nll", (scores,)) or ""
    if reduction == "none":
        made: Tensor = elements.view(shape) if shape != elements.shape else elements
        return made_by(made, name)
    total: Tensor = elements.sum()
    if reduction == "sum":
        return made_by(total, name)
    count = (
        _op("nll_count", classes.ndim)(scores.detach(), classes, ignored)
        if weight is None
        else _op("nll_weight", classes.ndim)(classes, weight, ignored)
    )
    return made_by(total / count, name)


@wide
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Reduced = None,
    ignore_index: int = -100,
    reduce: Reduced = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative score of each target's class, the weighted mean or the sum.

    Parameters
    ----------
    input : Tensor, shape (N, C, ...) or (C,)
        Logarithms of probabilities.
    target : Tensor of int64, shape (N, ...) or ()
    weight : Tensor, shape (C,), optional
    ignore_index : int
        A class that counts for nothing.
    """
    scores, classes, shape = _of_classes(input, target)
    _check_weight(input, weight)
    how = reduction_of(reduction, size_average, reduce)
    if weight is None and how == "mean":
        mean, _ = _op("nll_mean", classes.ndim)(scores, classes, ignore_index)
        return mean  # type: ignore[no-any-return]
    if weight is not None and how == "mean" and not weight.requires_grad:
        op = _op("nll_weighted_mean", classes.ndim)
        mean, _ = op(scores, classes, weight, ignore_index)
        return mean  # type: ignore[no-any-return]
    if weight is None:
        elements = _op("nll", classes.ndim)(scores, classes, ignore_index)
    else:
        elements = _op("nll_weighted", classes.ndim)(scores, classes, weight, ignore_index)
    return _by_class(elements, scores, classes, weight, ignore_index, how, shape)


@wide
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Reduced = None,
    ignore_index: int = -100,
    reduce: Reduced = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy of the softmax of scores, the weighted mean or the sum.

    Parameters
    ----------
    input : Tensor, shape (N, C, ...) or (C,)
    target : Tensor, shape (N, ...) or ()
        Classes; of floats in the shape of `input` they are probabilities.
    weight : Tensor, shape (C,), optional
    ignore_index : int
        A class that counts for nothing.
    label_smoothing : float
        How much of the probability goes to all classes alike.
    """
    how = reduction_of(reduction, size_average, reduce)
    if target.dtype.is_floating_point and target.shape == input.shape:
        return _of_probabilities(input, target, weight, how, label_smoothing)
    if weight is None and not label_smoothing:
        scores, classes, shape = _of_classes(input, target, is_entropy=True)
        if how == "mean":
            mean, _, _ = _op("cross_entropy_mean", classes.ndim)(scores, classes, ignore_index)
            return mean  # type: ignore[no-any-return]
        elements, _ = _op("cross_entropy", classes.ndim)(scores, classes, ignore_index)
        return _by_class(elements, scores, classes, None, ignore_index, how, shape)
    if weight is not None and how == "mean" and not (label_smoothing or weight.requires_grad):
        scores, classes, _ = _of_classes(input, target, is_entropy=True)
        _check_weight(input, weight)
        op = _op("cross_entropy_weighted_mean", classes.ndim)
        mean, _, _ = op(scores, classes, weight, ignore_index)
        return mean  # type: ignore[no-any-return]
    logs = log_softmax(input, 0 if input.ndim == 1 else 1)
    loss = nll_loss(logs, target, weight, None, ignore_index, None, how)
    if not label_smoothing:
        return loss
    return _smoothed(loss, logs, target, weight, ignore_index, how, label_smoothing)


def _smoothed(
    loss: Tensor,
    logs: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignored: int,
    how: str,
    share: float,
) -> Tensor:
    """Return a loss of which a share is the mean over all classes."""
    at = 0 if logs.ndim == 1 else 1
    n = logs.shape[at]
    if weight is not None:
        shape = [1] * logs.ndim
        shape[at] = n
        logs = mul(logs, weight.view(*shape))
    uniform = where(target == ignored, 0.0, neg(logs.sum(at)))
    if how == "mean":
        scores, classes, _ = _of_classes(logs, target)
        count = (
            _op("nll_count", classes.ndim)(scores.detach(), classes, ignored)
            if weight is None
            else _op("nll_weight", classes.ndim)(classes, weight, ignored)
        )
        uniform = uniform.sum() / count
    elif how == "sum":
        uniform = uniform.sum()
    made: Tensor = loss * (1 - share) + uniform * (share / n)
    return made


def _of_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, how: str, share: float
) -> Tensor:
    """Return the cross entropy by targets that are probabilities."""
    at = 0 if input.ndim == 1 else 1
    if share:
        target = target * (1 - share) + share / input.shape[at]
    product = mul(log_softmax(input, at), target)
    if weight is not None:
        shape = [1] * input.ndim
        shape[at] = input.shape[at]
        product = mul(product, weight.view(*shape))
    elements = neg(product.sum(at))
    if how == "none":
        return elements  # type: ignore[no-any-return]
    total: Tensor = elements.sum()
    count = input.numel() // input.shape[at] if how == "mean" else 1
    return total / count


def _check_scores(input: Tensor) -> None:
    """Refuse what is no scores of a row, or of rows, of some classes."""
    if input.ndim not in (1, 2) or not input.shape[-1]:
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}"
        )


@wide
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
) -> Tensor:
    """Return what the target's score lacks of a margin above all others, to the power p: 1 or 2."""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    _check_scores(input)
    how = reduction_of(reduction, size_average, reduce)
    scores = input.unsqueeze(0) if input.ndim == 1 else input
    classes = target if target.ndim == 1 else target.reshape(-1)
    if classes.shape != scores.shape[:1]:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{scores.shape[0]}], but got "
            f"{list(target.shape)}. Input has shape {list(input.shape)}."
        )
    if weight is None:
        elements = _multi_margin(scores, classes, margin, int(p))
    else:
        elements = _multi_margin_weighted(scores, classes, weight, margin, int(p))
    made = mean_or_sum(elements.squeeze(0) if input.ndim == 1 else elements, how)
    return made_by(made, "MultiMarginLossBackward0")


@wide
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
) -> Tensor:
    """Return what labels lack of being above all other classes by 1, over the number of classes.

    Parameters
    ----------
    input : Tensor, shape (N, C) or (C,)
    target : Tensor of int64, of input's shape
        The labels of each row, as many as it has, and then -1.
    size_average, reduce, reduction
        As of all losses.
    """
    _check_scores(input)
    if tuple(target.shape) != tuple(input.shape):
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    if target.dtype is not int64:
        raise RuntimeError(f"expected scalar type Long but found {NAMES[target.dtype.name]}")
    how = reduction_of(reduction, size_average, reduce)
    if input.ndim == 1:
        row = _multilabel_margin(input.unsqueeze(0), target.unsqueeze(0))
        made = mean_or_sum(row.squeeze(0), how)
    else:
        made = mean_or_sum(_multilabel_margin(input, target), how)
    return made_by(made, "MultilabelMarginLossBackward0")
