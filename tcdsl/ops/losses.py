"""Losses, under the names and with the defaults of PyTorch's nn.functional.

Each is a text for one element; sums and means are texts that call it, so that an element is never
stored, and the gradient of a mean is one kernel too.
"""

from __future__ import annotations

import math
import re
import warnings
from functools import cache
from typing import Any

from tcdsl.core import Op, Tensor
from tcdsl.ops.casting import wide
from tcdsl.ops.node_names import name_of_loss
from tcdsl.ops.pointwise import div, mul
from tcdsl.ops.rules import NAMES, TypeRule, broadcast, broadcast_shape, floats, promote
from tcdsl.ops.table import Family, op_of_text
from tcdsl.ops.writing import unrecorded

ops = Family(__file__)
Reduced = str | bool | None
_OF_TWO = ("l1", "mse", "smooth_l1", "huber")  # which broadcast, and warn of it


def reduction_of(reduction: str, size_average: Reduced, reduce: Reduced) -> str:
    """Return how a loss is reduced, in PyTorch's words or by the two flags of 0.4."""
    if size_average is not None or reduce is not None:
        found = "none" if reduce is False else "sum" if size_average is False else "mean"
        warnings.warn(
            "size_average and reduce args will be deprecated, please use "
            f"reduction='{found}' instead.",
            UserWarning,
            stacklevel=3,
        )
        return found
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


@cache
def _reduced_op(name: str, reduction: str) -> Op:
    """Return the op of a loss of elements: each of them, their sum or their mean."""
    if reduction == "none":
        return ops.op(name, types=_types(name), shape=broadcast)
    text = ops.text(name)
    head, _, _ = text.partition("->")
    params = re.findall(
        r"(\w+)(?=,|\)\s*$)", re.sub(r"\(\.\.\.\)", "", head.rstrip().partition("(")[2])
    )
    total = "out +=! e(...)" if reduction == "sum" else "s +=! e(...)\n  out = s / count"
    count = ", int64 count" if reduction == "mean" else ""
    made = (
        re.sub(rf"\b{name}\b", f"{name}_{reduction}", head.rstrip()[:-1])
        + f"{count}) -> (T out) {{\n  e = {name}({', '.join(params)})\n  {total}\n}}\n"
    )
    node = name_of_loss(name, reduction)
    return op_of_text(
        made + text, f"{name}_{reduction}", types=_types(name), shape=broadcast, node=node
    )


def _types(name: str) -> TypeRule:
    """Return the rule of types of a loss of elements; some are of floats only."""
    return floats(f"{name}_cpu", promote) if name in ("mse", "smooth_l1", "huber") else promote


def _of_elements(name: str, reduction: str, *operands: Any) -> Tensor:
    """Return a loss of elements, which are all of one shape: others are most often a mistake."""
    x, y = operands[:2]
    if isinstance(y, Tensor) and x.shape != y.shape and name in _OF_TWO:
        warnings.warn(
            f"Using a target size ({y.shape}) that is different to the input size ({x.shape}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they "
            "have the same size.",
            UserWarning,
            stacklevel=3,
        )
    op = _reduced_op(name, reduction)
    if reduction == "mean":
        tensors = [o for o in operands if isinstance(o, Tensor)]
        shapes = [tuple(o.shape) for o in tensors]
        shape = shapes[0] if len(set(shapes)) == 1 else broadcast_shape(shapes)
        operands = (*operands, math.prod(shape))
    made: Tensor = op(*operands)
    return made


def _weighted(elements: Tensor, weight: Tensor, input: Tensor) -> Tensor:
    """Return the elements of a loss times weights, which are as many as the input's."""
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    return mul(elements, weight)  # type: ignore[no-any-return]


def _by_weights(
    name: str, reduction: str, input: Tensor, target: Tensor, weight: Tensor | None
) -> Tensor:
    """Return the elements of a loss, their sum or their mean, which is one by weights."""
    if weight is None:
        return _of_elements(name, reduction, input, target)
    weighted = _weighted(_of_elements(name, "none", input, target), weight, input)
    if reduction != "mean":
        return mean_or_sum(weighted, reduction)
    return div(weighted.sum(), weight.sum())  # type: ignore[no-any-return]


def mean_or_sum(elements: Tensor, reduction: str) -> Tensor:
    """Return elements, their mean or their sum."""
    if reduction == "none":
        return elements
    made: Tensor = elements.mean() if reduction == "mean" else elements.sum()
    return made


@wide
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return absolute differences, their mean or sum; by weights, over whose sum a mean is."""
    how = reduction_of(reduction, size_average, reduce)
    return _by_weights("l1", how, input, target, weight)


@wide
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return squares of differences, their mean or sum; by weights, over whose sum a mean is."""
    how = reduction_of(reduction, size_average, reduce)
    return _by_weights("mse", how, input, target, weight)


@wide
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return absolute differences, squares below beta, their mean or sum."""
    how = reduction_of(reduction, size_average, reduce)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return _of_elements("l1", how, input, target)
    return _of_elements("smooth_l1", how, input, target, beta)


@wide
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Return half of squares of differences, straight above delta, their mean or sum.

    Of what weights multiply a mean is over the number of elements, as PyTorch has it.
    """
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    how = reduction_of(reduction, None, None)
    if weight is None:
        return _of_elements("huber", how, input, target, delta)
    each = _of_elements("huber", "none", input, target, delta)
    return mean_or_sum(_weighted(each, weight, input), how)


_no_probabilities = ops.op("no_probabilities", vjp=None)
# Logarithms are never below -100, so that the loss is finite. So is the slope by the input: it is
# divided by 1e-12 at least, in float32 as PyTorch has it.
_BCE = """
def bce_{how}<T>(T(...) input, T(...) target, {weight} weight{count}) -> ({out} out) {{
  {whole}
}}

def bce_{how}_vjp<T>(T(...) input, T(...) target, {weight} weight{count}, {out} d_out)
    -> (T(...) d_input, T(...) d_target) {{
  d_input(...) = {d_e} * (input(...) - target(...))
      / max((1 - input(...)) * input(...), 9.999999960041972e-13)
  d_target(...) = {d_e} * (log1p(-input(...)) - log(input(...)))
}}
"""
_BCE_OF = {
    "none": {"out": "T(...)", "whole": "out(...) = {e}", "d_e": "d_out(...)", "count": ""},
    "sum": {"out": "T", "whole": "out +=! {e}", "d_e": "d_out", "count": ""},
    "mean": {
        "out": "T",
        "whole": "s +=! {e}\n  out = s / count",
        "d_e": "d_out / count",
        "count": ", int64 count",
    },
}


@cache
def _bce(reduction: str, is_weighted: bool) -> Op:
    """Return the op of binary cross entropies: each of them, their sum or their mean."""
    weight = "weight(...)" if is_weighted else "weight"
    element = (
        f"-{weight} * (target(...) * max(log(input(...)), -100)"
        " + (1 - target(...)) * max(log1p(-input(...)), -100))"
    )
    given = _BCE_OF[reduction]
    text = _BCE.format(
        how=reduction,
        weight="T(...)" if is_weighted else "T",
        out=given["out"],
        count=given["count"],
        whole=given["whole"].format(e=element),
        d_e=f"{given['d_e']} * {weight}",
    )
    name = f"bce_{reduction}"
    return op_of_text(
        text, name, types=promote, vjp=f"{name}_vjp", node=name_of_loss("bce", reduction)
    )


@wide
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
    if input.dtype is not target.dtype:
        raise RuntimeError(
            f"Found dtype {NAMES[target.dtype.name]} but expected {NAMES[input.dtype.name]}"
        )
    for name, x in (("input", input), ("target", target)):
        with unrecorded():
            if _no_probabilities(x).item():
                raise RuntimeError(f"all elements of {name} should be between 0 and 1")
    how = reduction_of(reduction, size_average, reduce)
    if weight is None:
        return _bce_called(how, input, target, 1.0)
    if weight.requires_grad:
        raise RuntimeError(
            "The function 'binary_cross_entropy' is not differentiable with respect to argument "
            "'weight'. This input cannot have requires_grad True."
        )
    return _bce_called(how, input, target, weight.expand(input.shape))


def _bce_called(reduction: str, input: Tensor, target: Tensor, weight: Tensor | float) -> Tensor:
    counted = (input.numel(),) if reduction == "mean" else ()
    made: Tensor = _bce(reduction, isinstance(weight, Tensor))(input, target, weight, *counted)
    return made


@wide
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
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            f"result type {NAMES[input.dtype.name]} can't be cast to the desired output type "
            f"{NAMES[target.dtype.name]}"
        )
    how = reduction_of(reduction, size_average, reduce)
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


@wide
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
    how = reduction_of(reduction, size_average, reduce)
    if how == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next major "
            "release.",
            UserWarning,
            stacklevel=2,
        )
    return _of_elements(name, how, input, target)


@wide
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
    how = reduction_of(reduction, size_average, reduce)
    if not full:
        if log_input:
            return _of_elements("poisson_nll", how, input, target)
        return _of_elements("poisson_nll_of_rates", how, input, target, eps)
    elements = poisson_nll_loss(input, target, log_input, eps=eps, reduction="none")
    return mean_or_sum(_of_elements("stirling", "none", elements, target), how)


@wide
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``log(1 + exp(-y * x))``, its mean or sum."""
    return _of_elements("soft_margin", reduction_of(reduction, size_average, reduce), input, target)


@wide
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
) -> Tensor:
    """Return distances where the target is 1, what they lack of a margin where it is -1."""
    how = reduction_of(reduction, size_average, reduce)
    return _of_elements("hinge_embedding", how, input, target, margin)


@wide
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
    how = reduction_of(reduction, size_average, reduce)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
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
    return mean_or_sum(elements.mean(-1), reduction_of(reduction, size_average, reduce))
