"""Attention: means of values by how alike queries and keys are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tcdsl.core import Tensor, dtypes
from tcdsl.ops.arranged import repeat_interleave
from tcdsl.ops.casting import lower
from tcdsl.ops.dropout import dropout
from tcdsl.ops.products import matmul
from tcdsl.ops.rules import broadcast, broadcast_shape, promote
from tcdsl.ops.table import Family
from tcdsl.ops.views import sum_to, transpose

ops = Family(__file__)
_weights = ops.op("weights", vjp="weights_vjp")
_causal_weights = ops.op("causal_weights", vjp="weights_vjp")
_weights_vjp = ops.op("weights_vjp")


def _spread(operands: Sequence[Any]) -> Sequence[Any] | None:
    """Return scores, and the last dimension of a mask, in the shape to which both broadcast."""
    scores, mask, factor = operands
    shape = broadcast_shape([tuple(scores.shape), tuple(mask.shape)])
    last = (*mask.shape[:-1], shape[-1])
    if scores.shape == shape and mask.shape == last:
        return None
    return scores.expand(shape), mask.expand(last), factor


def _beside_vjp(
    needs: int, d_out: Tensor, out: Tensor, mask: Tensor, scale: float
) -> tuple[Tensor | None, ...]:
    """Return the gradients of scores and of the mask that is added to them."""
    d_scores = _weights_vjp(out, d_out, scale) if needs & 1 else None
    d_mask = sum_to(_weights_vjp(out, d_out, 1.0), tuple(mask.shape)) if needs & 2 else None
    return d_scores, d_mask, None


_masked_weights = ops.op("masked_weights", shape=broadcast, vjp="weights_vjp", spread=_spread)
_weights_beside = ops.op(
    "weights_beside",
    types=promote,
    shape=broadcast,
    vjp=_beside_vjp,
    saves=("out", "like:mask", "scale"),
    spread=_spread,
)


@lower
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return means of values, weighted by the softmax of products of queries and keys.

    Parameters
    ----------
    query : Tensor, shape (..., T, E)
    key : Tensor, shape (..., S, E)
    value : Tensor, shape (..., S, V)
    attn_mask : Tensor, shape that broadcasts to (..., T, S), optional
        bool: True where a key is looked at; floats are added to the products.
    dropout_p : float
        The part of weights that is left out.
    is_causal : bool
        Each query looks at no key behind it. Excludes attn_mask.
    scale : float, optional
        Of the products; ``1 / sqrt(E)`` by default.
    enable_gqa : bool
        Heads, dimension -3, of key and value are repeated to those of query.

    Returns
    -------
    Tensor, shape (..., T, V)
        A query that looks at no key gets 0.
    """
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
            "is_causal=True"
        )
    if enable_gqa:
        often = query.shape[-3] // key.shape[-3]
        key, value = (repeat_interleave(x, often, -3) for x in (key, value))
    factor = scale
    if factor is None:  # of no features there are no products either
        factor = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else math.inf
    scores = matmul(query, transpose(key, -2, -1))
    if attn_mask is None:
        weights = (_causal_weights if is_causal else _weights)(scores, factor)
    else:
        _check_mask(query, attn_mask)
        by_mask = _masked_weights if attn_mask.dtype is dtypes.bool_ else _weights_beside
        weights = by_mask(scores, attn_mask, factor)
    if dropout_p:
        weights = dropout(weights, dropout_p)
    return matmul(weights, value)


def _check_mask(query: Tensor, attn_mask: Tensor) -> None:
    """Refuse a mask of integers."""
    if not (attn_mask.dtype is dtypes.bool_ or attn_mask.dtype.is_floating_point):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {attn_mask.dtype.name} and query.dtype: {query.dtype.name} "
            "instead."
        )
