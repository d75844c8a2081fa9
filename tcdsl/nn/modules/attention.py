"""Attention of several heads."""

from __future__ import annotations

from typing import Any

from tcdsl.core import Tensor
from tcdsl.nn import init
from tcdsl.nn.modules.linear import NonDynamicallyQuantizableLinear
from tcdsl.nn.modules.module import Module
from tcdsl.nn.parameter import Parameter
from tcdsl.nn.placed import blank, placed
from tcdsl.ops import heads

__all__ = ["MultiheadAttention"]

Mask = Tensor | None


class MultiheadAttention(Module):
    """Attention of several heads: each looks at a part of the features.

    Parameters
    ----------
    embed_dim : int
        E, of queries and results.
    num_heads : int
        H, which divides E.
    dropout : float
        The part of weights that is left out in training.
    bias : bool
        Whether projections add a bias.
    add_bias_kv : bool
        Whether a key and a value that are parameters stand behind those of each sequence.
    add_zero_attn : bool
        Whether a key and a value of zeros do, which lets a query look at nothing.
    kdim, vdim : int, optional
        Of keys and values; E by default.
    batch_first : bool
        Tensors are (B, T, E), not (T, B, E).

    Attributes
    ----------
    in_proj_weight : Parameter, shape (3 E, E)
        Of queries, keys and values; None where kdim or vdim differ from E: then q_proj_weight,
        k_proj_weight and v_proj_weight are there.
    in_proj_bias : Parameter, shape (3 E,), or None
    out_proj : Linear
    bias_k, bias_v : Parameter, shape (1, 1, E), or None

    References
    ----------
    Vaswani et al., "Attention is all you need", 2017.
    """

    @placed
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.batch_first = batch_first
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        parts = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(blank(3 * embed_dim, embed_dim))
            for name in parts:
                self.register_parameter(name, None)
        else:
            for name, width in parts.items():
                setattr(self, name, Parameter(blank(embed_dim, width)))
            self.register_parameter("in_proj_weight", None)
        made = Parameter(blank(3 * embed_dim)) if bias else None
        self.register_parameter("in_proj_bias", made)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias)
        self.bias_k = self.bias_v = None
        if add_bias_kv:
            self.bias_k = Parameter(blank(1, 1, embed_dim))
            self.bias_v = Parameter(blank(1, 1, embed_dim))
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Draw the parameters anew."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = getattr(self, name)
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.constant_(bias, 0.0)
        for row in (self.bias_k, self.bias_v):
            if row is not None:
                init.xavier_normal_(row)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Mask = None,
        need_weights: bool = True,
        attn_mask: Mask = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend.

        Parameters
        ----------
        query : Tensor, shape (T, B, E), (B, T, E) if batch_first, or (T, E)
        key, value : Tensor, shape (S, B, kdim), (S, B, vdim), likewise
        key_padding_mask : Tensor, shape (B, S), bool or float, optional
            True where a key is not looked at; floats are added to scores.
        need_weights : bool
            Whether the weights are returned.
        attn_mask : Tensor, shape (T, S) or (B H, T, S), bool or float, optional
        average_attn_weights : bool
            Over heads.
        is_causal : bool
            A hint that attn_mask is the causal one, which must be given.

        Returns
        -------
        output : Tensor, as query; weights : Tensor, shape (B, T, S') or (B, H, T, S'), or None
            S' is S and one for each key that the module adds.
        """
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        heads.check_inputs(query, key, value, self.embed_dim)
        is_single = query.ndim == 2
        if is_single:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        if not key.shape[:2] == value.shape[:2] == (query.shape[0], key.shape[1]):
            raise AssertionError(
                f"key's sequence and batch dims {tuple(key.shape[:2])} do not match value's "
                f"{tuple(value.shape[:2])} or query's batch {query.shape[0]}"
            )
        if self.in_proj_weight is not None:
            weights: Any = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        made, seen = heads.attended(
            (query, key, value),
            (weights, biases),
            (self.out_proj.weight, self.out_proj.bias),
            self.num_heads,
            (self.bias_k, self.bias_v, self.add_zero_attn),
            (key_padding_mask, attn_mask),
            self.dropout if self.training else 0.0,
            need_weights,
            self.training or not self.batch_first,
        )
        if seen is not None and average_attn_weights:
            seen = seen.mean(1)
        if is_single:
            return made.squeeze(0), None if seen is None else seen.squeeze(0)
        return made if self.batch_first else made.transpose(0, 1), seen
