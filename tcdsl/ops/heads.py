"""Attention of several heads, with the projections before and behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcdsl.core import Tensor, dtypes
from tcdsl.ops.along import softmax
from tcdsl.ops.attention import scaled_dot_product_attention
from tcdsl.ops.copies import pad
from tcdsl.ops.dropout import dropout
from tcdsl.ops.joins import cat
from tcdsl.ops.products import linear

__all__ = ["attended", "multi_head_attention_forward"]

Mask = Tensor | None


def attended(
    inputs: tuple[Tensor, Tensor, Tensor],
    projections: tuple[Sequence[Any], Sequence[Any]],
    onto: tuple[Tensor, Mask],
    heads: int,
    own: tuple[Mask, Mask, bool],
    masks: tuple[Mask, Mask],
    part: float,
    need_weights: bool,
    in_time_order: bool,
    static: tuple[Mask, Mask] = (None, None),
) -> tuple[Tensor, Mask]:
    """Return what queries see, and the weights of each head.

    Parameters
    ----------
    inputs : queries (B, T, E), keys (B, S, K), values (B, S, V)
    projections : three weights (E, ...), and three biases (E,) or None
    onto : weight (E, E) and bias (E,) of the last projection
    heads : int
        H, which divides E.
    own : key (1, 1, E), value (1, 1, E) and whether there are a key and a value of zeros too
        What stands behind the keys of each sequence.
    masks : of keys (B, S), of scores (T, S) or (B H, T, S)
        True where a key is not looked at; floats are added to scores.
    part : float
        The part of weights that is left out.
    need_weights : bool
    in_time_order : bool
        Whether results lie as (T, B, E): dropout behind them draws in that order.
    static : keys, values (B H, S, E / H)
        In place of those that are projected.

    Returns
    -------
    (B, T, E), and (B, H, T, S') or None
    """
    b, t, e = inputs[0].shape
    q, *kv = [linear(*xs) for xs in zip(inputs, *projections, strict=True)]
    more, s = 0, inputs[1].shape[1]
    if own[0] is not None and own[1] is not None:
        more_kv = [o.expand(b, 1, e) for o in (own[0], own[1])]
        kv = [cat(pair, 1) for pair in zip(kv, more_kv, strict=True)]
        more += 1
    split = [x.view(b, x.shape[1], heads, e // heads).transpose(1, 2) for x in (q, *kv)]
    for n, given in enumerate(static, 1):
        if given is not None:
            split[n] = given.view(b, heads, *given.shape[1:])
            s = given.shape[1] if n == 1 else s
    if own[2]:
        split[1:] = [pad(x, (0, 0, 0, 1)) for x in split[1:]]
        more += 1
    mask = _mask(*masks, (b, heads, t, s), q)
    q, k, v = split
    if mask is not None and more:
        mask = pad(mask, (0, more))  # nothing hides what is added
    weights = None
    if need_weights:
        scores = q @ k.transpose(-2, -1) * ((e // heads) ** -0.5)
        weights = softmax(scores if mask is None else scores + mask, -1)
        if part:
            weights = dropout(weights, part)
        made = weights @ v
    else:
        made = scaled_dot_product_attention(q, k, v, mask, part)
    if in_time_order:
        made = linear(made.permute(2, 0, 1, 3).reshape(t, b, e), *onto).transpose(0, 1)
    else:
        made = linear(made.transpose(1, 2).reshape(b, t, e), *onto)
    return made, weights


def _mask(padding: Mask, attention: Mask, shape: tuple[int, int, int, int], like: Tensor) -> Mask:
    """Return what is added to scores, of a shape that broadcasts to (B, H, T, S)."""
    b, heads, t, s = shape
    made = None
    if attention is not None:
        wanted = {2: (t, s), 3: (b * heads, t, s)}.get(attention.ndim)
        if wanted is None:
            raise RuntimeError(f"attn_mask's dimension {attention.ndim} is not supported")
        if tuple(attention.shape) != wanted:
            raise RuntimeError(
                f"The shape of the {attention.ndim}D attn_mask is {attention.shape}, but "
                f"should be {wanted}."
            )
        made = _added("attn_mask", attention, like)
        made = made if attention.ndim == 2 else made.view(b, heads, t, s)
    if padding is not None:
        if tuple(padding.shape) != (b, s):
            raise AssertionError(
                f"expecting key_padding_mask shape of {(b, s)}, but got {padding.shape}"
            )
        more = _added("key_padding_mask", padding, like).view(b, 1, 1, s)
        made = more if made is None else made + more
    return made


def _added(name: str, mask: Tensor, like: Tensor) -> Tensor:
    """Return a mask as what is added to scores: -inf where a bool is True."""
    if mask.dtype.is_floating_point:
        return mask
    if mask.dtype is not dtypes.bool_:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    zeros: Tensor = like.detach().new_zeros(tuple(mask.shape))
    return zeros.masked_fill(mask, float("-inf"))  # type: ignore[no-any-return]


def check_inputs(query: Tensor, key: Tensor, value: Tensor, width: int) -> None:
    """Refuse what are no queries, keys and values, before they are batches of one."""
    if query.ndim not in (2, 3):
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{query.ndim}-D query tensor"
        )
    if query.ndim != key.ndim or query.ndim != value.ndim:
        raise AssertionError(
            f"For {'unbatched' if query.ndim == 2 else 'batched'} ({query.ndim}-D) `query`, "
            f"expected `key` and `value` to be {query.ndim}-D but found {key.ndim}-D and "
            f"{value.ndim}-D tensors respectively"
        )
    if query.shape[-1] != width:
        raise AssertionError(
            f"was expecting embedding dimension of {width}, but got {query.shape[-1]}"
        )


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Mask,
    in_proj_bias: Mask,
    bias_k: Mask,
    bias_v: Mask,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Mask,
    training: bool = True,
    key_padding_mask: Mask = None,
    need_weights: bool = True,
    attn_mask: Mask = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Mask = None,
    k_proj_weight: Mask = None,
    v_proj_weight: Mask = None,
    static_k: Mask = None,
    static_v: Mask = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Mask]:
    """Attend as `nn.MultiheadAttention` does, whose parameters are given.

    Parameters
    ----------
    query : Tensor, shape (T, B, E) or (T, E)
    key, value : Tensor, shape (S, B, ...), or (S, ...)
    embed_dim_to_check, num_heads : int
        E, and H.
    in_proj_weight : Tensor, shape (3 E, E), or None with `use_separate_proj_weight`
    in_proj_bias : Tensor, shape (3 E,), or None
    dropout_p, training : float, bool
        Which part of weights is left out in training.
    static_k, static_v : Tensor, shape (B H, S, E / H), optional
        Keys and values that are not projected.
    The others
        As the module's.

    Returns
    -------
    output, weights
        As of the module.
    """
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    check_inputs(query, key, value, embed_dim_to_check)
    if embed_dim_to_check % num_heads:
        raise AssertionError(
            f"embed_dim {embed_dim_to_check} not divisible by num_heads {num_heads}"
        )
    is_single = query.ndim == 2
    inputs = [x.unsqueeze(0) if is_single else x.transpose(0, 1) for x in (query, key, value)]
    if is_single and key_padding_mask is not None:
        key_padding_mask = key_padding_mask.unsqueeze(0)
    if use_separate_proj_weight:
        weights: Sequence[Any] = (q_proj_weight, k_proj_weight, v_proj_weight)
        for name, weight in zip("qkv", weights, strict=True):
            if weight is None:
                raise AssertionError(
                    f"use_separate_proj_weight is True but {name}_proj_weight is None"
                )
    elif in_proj_weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    else:
        weights = in_proj_weight.chunk(3)
    made, seen = attended(
        (inputs[0], inputs[1], inputs[2]),
        (weights, (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)),
        (out_proj_weight, out_proj_bias),
        num_heads,
        (bias_k, bias_v, add_zero_attn),
        (key_padding_mask, attn_mask),
        dropout_p if training else 0.0,
        need_weights,
        True,
        (static_k, static_v),
    )
    if seen is not None and average_attn_weights:
        seen = seen.mean(1)
    if is_single:
        return made.squeeze(0), None if seen is None else seen.squeeze(0)
    return made.transpose(0, 1), seen
