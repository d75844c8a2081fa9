"""Losses, under the names and with the defaults of PyTorch's nn.functional.

Each is a text for one element; sums and means are texts that call it, so that an element is never
stored, and the gradient of a mean is one kernel too.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

from tcdsl.core import Op, Tensor
from tcdsl.ops.pointwise import clamp, mul, neg, sub, where
from tcdsl.ops.rules import broadcast, broadcast_shape, promote, same
from tcdsl.ops.table import Family, op_of_text, publish
from tcdsl.ops.views import dim_of

ops = Family(__file__)
Reduced = str | bool | None


def _reduction(reduction: str, size_average: Reduced, reduce: Reduced) -> str:
    """Return how a loss is reduced, in PyTorch's words or by the two flags of 0.4."""
    if size_average is not None or reduce is not None:
        if reduce is False:
            return "none"
        return "sum" if size_average is False else "mean"
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


@cache
def _reduced_op(name: str, reduction: str) -> Op:
    """Return the op of a loss of elements: each of them, their sum or their mean."""
    if reduction == "none":
        return ops.op(name, types=promote, shape=broadcast)
    text = ops.text(name)
    head, _, _ = text.partition("->")
    params = re.findall(r"(\w+)(?=,|\)\s*$)", re.sub(r"\(\.\.\.\)", "", head.rstrip()))
    total = "out +=! e(...)" if reduction == "sum" else "s +=! e(...)\n  out = s / count"
    count = ", int64 count" if reduction == "mean" else ""
    made = (
        re.sub(rf"\b{name}\b", f"{name}_{reduction}", head.rstrip()[:-1])
        + f"{count}) -> (T out) {{\n  e = {name}({', '.join(params)})\n  {total}\n}}\n"
    )
    return op_of_text(made + text, f"{name}_{reduction}", types=promote, shape=broadcast)


def _of_elements(name: str, reduction: str, *operands: Any) -> Tensor:
    op = _reduced_op(name, reduction)
    if reduction == "mean":
        tensors = [o for o in operands if isinstance(o, Tensor)]
        shapes = [tuple(o.shape) for o in tensors]
        shape = shapes[0] if len(set(shapes)) == 1 else broadcast_shape(shapes)
        operands = (*operands, math.prod(shape))
    made: Tensor = op(*operands)
    return made


def _mean_or_sum(elements: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return elements
    made: Tensor = elements.mean() if reduction == "mean" else elements.sum()
    return made


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
) -> Tensor:
    """Return absolute differences, their mean or sum."""
    return _of_elements("l1", _reduction(reduction, size_average, reduce), input, target)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
) -> Tensor:
    """Return squares of differences, their mean or sum."""
    return _of_elements("mse", _reduction(reduction, size_average, reduce), input, target)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return absolute differences, squares below beta, their mean or sum."""
    how = _reduction(reduction, size_average, reduce)
    if beta == 0:
        return _of_elements("l1", how, input, target)
    return _of_elements("smooth_l1", how, input, target, beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0
) -> Tensor:
    """Return half of squares of differences, straight above delta, their mean or sum."""
    return _of_elements("huber", _reduction(reduction, None, None), input, target, delta)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``-(y * log(x) + (1 - y) * log(1 - x))``, its mean or sum."""
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    how = _reduction(reduction, size_average, reduce)
    return _of_elements("bce", how, input, target, 1.0 if weight is None else weight)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return the binary cross entropy of the sigmoid, without overflow, its mean or sum."""
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    how = _reduction(reduction, size_average, reduce)
    if weight is None and pos_weight is None:
        return _of_elements("bce_with_logits", how, input, target)
    return _of_elements(
        "bce_with_logits_weighted",
        how,
        input,
        target,
        1.0 if weight is None else weight,
        1.0 if pos_weight is None else pos_weight,
    )


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return ``y * (log(y) - x)``, its mean or sum; ``"batchmean"`` is the sum over the batch."""
    name = "kl_div_of_logs" if log_target else "kl_div"
    if reduction == "batchmean":
        made: Tensor = _of_elements(name, "sum", input, target) / input.shape[0]
        return made
    return _of_elements(name, _reduction(reduction, size_average, reduce), input, target)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: Reduced = None,
    eps: float = 1e-8,
    reduce: Reduced = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative logarithm of Poisson's probability of counts, given rates."""
    how = _reduction(reduction, size_average, reduce)
    if not full:
        if log_input:
            return _of_elements("poisson_nll", how, input, target)
        return _of_elements("poisson_nll_of_rates", how, input, target, eps)
    elements = poisson_nll_loss(input, target, log_input, eps=eps, reduction="none")
    return _mean_or_sum(_of_elements("stirling", "none", elements, target), how)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``log(1 + exp(-y * x))``, its mean or sum."""
    return _of_elements("soft_margin", _reduction(reduction, size_average, reduce), input, target)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
) -> Tensor:
    """Return distances where the target is 1, what they lack of a margin where it is -1."""
    how = _reduction(reduction, size_average, reduce)
    return _of_elements("hinge_embedding", how, input, target, margin)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
) -> Tensor:
    """Return what differences of ranks lack of a margin."""
    how = _reduction(reduction, size_average, reduce)
    return _of_elements("margin_ranking", how, input1, input2, target, float(margin))


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over classes of binary cross entropies of sigmoids."""
    elements = _of_elements("multi_label_soft_margin", "none", input, target)
    if weight is not None:
        elements = mul(elements, weight)
    return _mean_or_sum(elements.mean(-1), _reduction(reduction, size_average, reduce))


# ---- classes

_nll = ops.op("nll")
_nll_weighted = ops.op("nll_weighted")
_nll_count = ops.op("nll_count", vjp=None)
_nll_weight = ops.op("nll_weight", vjp=None)
_cross_entropy = ops.op("cross_entropy", vjp="cross_entropy_vjp")
_multi_margin = ops.op("multi_margin")


def _of_classes(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """Return scores (N, C, L), classes (N, L), and the shape that losses have."""
    if input.ndim == 1:
        return input.view(1, -1, 1), target.reshape(1, 1), ()
    shape = tuple(input.shape)
    wanted = (shape[0], *shape[2:])
    if tuple(target.shape) != wanted:
        if input.ndim == 2 and target.ndim == 1:
            raise ValueError(
                f"Expected input batch_size ({shape[0]}) to match target batch_size "
                f"({target.shape[0]})."
            )
        raise RuntimeError(f"Expected target size {list(wanted)}, got {list(target.shape)}")
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
    if reduction == "none":
        made: Tensor = elements.view(*shape) if shape else elements.view(())
        return made
    total: Tensor = elements.sum()
    if reduction == "sum":
        return total
    count = (
        _nll_count(scores.detach(), classes, ignored)
        if weight is None
        else _nll_weight(classes, weight, ignored)
    )
    return total / count  # type: ignore[no-any-return]


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
    how = _reduction(reduction, size_average, reduce)
    if weight is None:
        elements = _nll(scores, classes, ignore_index)
    else:
        elements = _nll_weighted(scores, classes, weight, ignore_index)
    return _by_class(elements, scores, classes, weight, ignore_index, how, shape)


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
    from tcdsl.ops.reductions import log_softmax  # its names hide builtins

    how = _reduction(reduction, size_average, reduce)
    if target.dtype.is_floating_point:
        return _of_probabilities(input, target, weight, how, label_smoothing)
    if weight is None and not label_smoothing:
        scores, classes, shape = _of_classes(input, target)
        elements, _ = _cross_entropy(scores, classes, ignore_index)
        return _by_class(elements, scores, classes, None, ignore_index, how, shape)
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
            _nll_count(scores.detach(), classes, ignored)
            if weight is None
            else _nll_weight(classes, weight, ignored)
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
    from tcdsl.ops.reductions import log_softmax  # its names hide builtins

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
    """Return what the target's score lacks of a margin above all others, to the power p."""
    from tcdsl.ops.internal import filled

    how = _reduction(reduction, size_average, reduce)
    scores = input.unsqueeze(0) if input.ndim == 1 else input
    if weight is None:
        weight = filled(scores.detach().select(0, 0), 1.0)
    elements = _multi_margin(scores, target.reshape(-1), weight, margin, p)
    return _mean_or_sum(elements.squeeze(0) if input.ndim == 1 else elements, how)


# ---- distances


@cache
def _cosine_op(rank: int, dim: int) -> Op:
    from tcdsl.ops.over import over

    text = over(ops.text("cosine_similarity"), rank, (dim,))
    return op_of_text(text, types=same)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return products of vectors over the product of their lengths, which are at least eps."""
    shape = broadcast_shape([tuple(x1.shape), tuple(x2.shape)])
    x1, x2 = (x if tuple(x.shape) == shape else x.expand(shape) for x in (x1, x2))
    made: Tensor = _cosine_op(x1.ndim, dim_of(dim, x1.ndim))(x1, x2, eps)
    return made


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``1 - cosine`` where the target is 1, the cosine above a margin where it is -1."""
    cosine = cosine_similarity(input1, input2, -1)
    apart = clamp(sub(cosine, margin), min=0)
    elements = where(target > 0, 1 - cosine, apart)
    return _mean_or_sum(elements, _reduction(reduction, size_average, reduce))


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """Return norms of differences along the last dimension, to which eps is added."""
    from tcdsl.ops.reductions import norm

    return norm(sub(x1, x2) + eps, p, -1, keepdim)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
) -> Tensor:
    """Return what a negative example lacks of being farther than a positive one by a margin."""
    from tcdsl.ops.pointwise import minimum

    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = minimum(far, pairwise_distance(positive, negative, p, eps))
    elements = clamp(near - far + margin, min=0)
    return _mean_or_sum(elements, _reduction(reduction, size_average, reduce))


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divide vectors by their norm, which is at least eps."""
    from tcdsl.ops.reductions import norm

    made: Tensor = input / clamp(norm(input, p, dim, True), min=eps).expand(tuple(input.shape))
    return made


publish(cosine_similarity, ("cosine_similarity",), on=("torch",))
