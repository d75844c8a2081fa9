"""How near vectors are, and losses by it, under the names of PyTorch's nn.functional."""

from __future__ import annotations

from functools import cache

from tcdsl.core import Op, Tensor, made_by
from tcdsl.ops.casting import wide
from tcdsl.ops.functions import clamp_min
from tcdsl.ops.losses import Reduced, mean_or_sum, reduction_of
from tcdsl.ops.over import op_over
from tcdsl.ops.pointwise import div, sub, where
from tcdsl.ops.rules import broadcast_shape, same
from tcdsl.ops.table import Family, publish
from tcdsl.ops.views import dim_of

ops = Family(__file__)
_cosine_of_squares = ops.op("cosine_of_squares", types=same)
_pairwise_distance = ops.op("pairwise_distance", vjp="pairwise_distance_vjp")


@cache
def _cosine_op(rank: int, dim: int) -> Op:
    return op_over(ops, "cosine_similarity", rank, (dim,))


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return products of vectors over the product of their lengths, which are at least eps."""
    shape = broadcast_shape([tuple(x1.shape), tuple(x2.shape)])
    x1, x2 = (x if tuple(x.shape) == shape else x.expand(shape) for x in (x1, x2))
    made: Tensor = _cosine_op(x1.ndim, dim_of(dim, x1.ndim))(x1, x2, eps)
    return made


@wide
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Reduced = None,
    reduce: Reduced = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``1 - cosine`` where the target is 1, the cosine above a margin where it is -1.

    Where it is neither the loss is 0.
    """
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input1.ndim != target.ndim + 1 or input2.ndim != target.ndim + 1:
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found "
            f"inputs with sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    shape = broadcast_shape([tuple(input1.shape), tuple(input2.shape)])
    x1, x2 = (x if tuple(x.shape) == shape else x.expand(shape) for x in (input1, input2))
    cosine = _cosine_of_squares(x1, x2)
    apart = where(target == -1, clamp_min(sub(cosine, margin), 0), 0.0)
    elements = where(target == 1, 1 - cosine, apart)
    return mean_or_sum(elements, reduction_of(reduction, size_average, reduce))


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """Return norms of differences along the last dimension, to which eps is added."""
    from tcdsl.ops.reductions import norm

    is_alike = x1.ndim and x1.shape == x2.shape and x1.dtype is x2.dtype
    if p == 2 and not keepdim and is_alike and x1.dtype.is_floating_point:
        return made_by(_pairwise_distance(x1, x2, eps), "NormBackward1")
    return made_by(norm(sub(x1, x2) + eps, p, -1, keepdim), "NormBackward1")


@wide
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
    elements = clamp_min(near - far + margin, 0)
    return mean_or_sum(elements, reduction_of(reduction, size_average, reduce))


def normalize(
    input: Tensor,
    p: float = 2.0,
    dim: int = 1,
    eps: float = 1e-12,
    out: Tensor | None = None,
) -> Tensor:
    """Divide vectors by their norm, which is at least eps."""
    from tcdsl.ops.reductions import norm

    norms = clamp_min(norm(input, p, dim, True), eps).expand(tuple(input.shape))
    made: Tensor = input / norms if out is None else div(input, norms, out=out)
    return made


publish(cosine_similarity, ("cosine_similarity",), on=("torch",))
