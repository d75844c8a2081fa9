"""Attention and the layers of Transformers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tcdsl import library
from tcdsl.core import Tensor
from tcdsl.nn import functional, init
from tcdsl.nn.modules.container import ModuleList
from tcdsl.nn.modules.dropout import Dropout
from tcdsl.nn.modules.linear import Linear, NonDynamicallyQuantizableLinear
from tcdsl.nn.modules.module import Module
from tcdsl.nn.modules.norms import LayerNorm
from tcdsl.nn.parameter import Parameter
from tcdsl.nn.placed import blank, placed

__all__ = [
    "MultiheadAttention",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Mask = Tensor | None
Activation = str | Callable[[Tensor], Tensor]


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
    add_bias_kv, add_zero_attn : bool
        Refused unless False.
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
        if add_bias_kv or add_zero_attn:
            raise NotImplementedError(
                "MultiheadAttention: add_bias_kv and add_zero_attn are not implemented"
            )
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
        output : Tensor, as query; weights : Tensor, shape (B, T, S) or (B, H, T, S), or None
        """
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        is_single = query.ndim == 2
        if query.ndim not in (2, 3):
            raise AssertionError(
                "query should be unbatched 2D or batched 3D tensor but received "
                f"{query.ndim}-D query tensor"
            )
        if query.ndim != key.ndim or query.ndim != value.ndim:
            raise AssertionError(
                f"For {'unbatched' if is_single else 'batched'} ({query.ndim}-D) `query`, expected "
                f"`key` and `value` to be {query.ndim}-D but found {key.ndim}-D and "
                f"{value.ndim}-D tensors respectively"
            )
        if is_single:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        if query.shape[-1] != self.embed_dim:
            raise AssertionError(
                f"was expecting embedding dimension of {self.embed_dim}, but got {query.shape[-1]}"
            )
        if not key.shape[:2] == value.shape[:2] == (query.shape[0], key.shape[1]):
            raise AssertionError(
                f"key's sequence and batch dims {tuple(key.shape[:2])} do not match value's "
                f"{tuple(value.shape[:2])} or query's batch {query.shape[0]}"
            )
        b, t, s = query.shape[0], query.shape[1], key.shape[1]
        q, k, v = (
            x.view(b, x.shape[1], self.num_heads, self.head_dim).transpose(1, 2)
            for x in self._projected(query, key, value)
        )
        mask = self._mask(key_padding_mask, attn_mask, (b, t, s), q)
        part = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scores = q @ k.transpose(-2, -1) * (self.head_dim**-0.5)
            weights = functional.softmax(scores if mask is None else scores + mask, -1)
            if part:
                weights = functional.dropout(weights, part)
            made = weights @ v
        else:
            made = functional.scaled_dot_product_attention(q, k, v, mask, part)
        # In training as PyTorch's lies in memory: dropout behind it draws in that order.
        if self.training or not self.batch_first:
            made = made.permute(2, 0, 1, 3).reshape(t, b, self.embed_dim)
            made = self.out_proj(made).transpose(0, 1)
        else:
            made = self.out_proj(made.transpose(1, 2).reshape(b, t, self.embed_dim))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if is_single:
            return made.squeeze(0), None if weights is None else weights.squeeze(0)
        return made if self.batch_first else made.transpose(0, 1), weights

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        biases: Any = [None] * 3
        if self.in_proj_bias is not None:
            biases = self.in_proj_bias.chunk(3)
        if self._qkv_same_embed_dim:
            weights: Any = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        tensors = (query, key, value)
        return [functional.linear(*xs) for xs in zip(tensors, weights, biases, strict=True)]

    def _mask(
        self, padding: Mask, attention: Mask, shape: tuple[int, int, int], like: Tensor
    ) -> Mask:
        """Return what is added to scores, of a shape that broadcasts to (B, H, T, S)."""
        b, t, s = shape
        made = None
        if attention is not None:
            wanted = {2: (t, s), 3: (b * self.num_heads, t, s)}.get(attention.ndim)
            if wanted is None:
                raise RuntimeError(f"attn_mask's dimension {attention.ndim} is not supported")
            if tuple(attention.shape) != wanted:
                raise RuntimeError(
                    f"The shape of the {attention.ndim}D attn_mask is {attention.shape}, but "
                    f"should be {wanted}."
                )
            made = _added("attn_mask", attention, like)
            made = made if attention.ndim == 2 else made.view(b, self.num_heads, t, s)
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
    if mask.dtype is not library.bool:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    zeros = library.zeros(tuple(mask.shape), dtype=like.dtype, device=like.device)
    return zeros.masked_fill(mask, float("-inf"))


def _activation(which: Activation) -> Callable[[Tensor], Tensor]:
    if callable(which):
        return which
    if which not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {which}")
    return functional.relu if which == "relu" else functional.gelu


class _Layer(Module):
    """What layers of both sides have: the two linear maps behind attention, and norms."""

    def _set_up(
        self,
        d_model: int,
        dim_feedforward: int,
        dropout: float,
        activation: Activation,
        norms: int,
        eps: float,
        norm_first: bool,
        bias: bool,
    ) -> None:
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias)
        self.norm_first = norm_first
        for n in range(1, norms + 1):
            setattr(self, f"norm{n}", LayerNorm(d_model, eps=eps, bias=bias))
        for n in range(1, norms + 1):
            setattr(self, f"dropout{n}", Dropout(dropout))
        self.activation = _activation(activation)

    def _added(self, n: int, x: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
        """Return x and what a block makes of it, normalised before or behind."""
        norm, dropout = getattr(self, f"norm{n}"), getattr(self, f"dropout{n}")
        if self.norm_first:
            made: Tensor = x + dropout(block(norm(x)))
        else:
            made = norm(x + dropout(block(x)))
        return made

    def _fed_forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return made


class TransformerEncoderLayer(_Layer):
    """Attention of a sequence to itself, then two linear maps; each is added to its input.

    Parameters
    ----------
    d_model, nhead, dim_feedforward : int
        Features, heads, features between the two maps.
    dropout : float
    activation : "relu", "gelu" or callable
    layer_norm_eps : float
    batch_first : bool
        Tensors are (B, T, E), not (T, B, E).
    norm_first : bool
        Normalise what goes into each part, not the sum behind it.
    bias : bool
    """

    @placed
    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias=bias, batch_first=batch_first
        )
        self._set_up(d_model, dim_feedforward, dropout, activation, 2, layer_norm_eps,
                     norm_first, bias)  # fmt: skip

    def forward(
        self,
        src: Tensor,
        src_mask: Mask = None,
        src_key_padding_mask: Mask = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Go through the layer; masks as of `MultiheadAttention`."""

        def attend(x: Tensor) -> Tensor:
            return _attended(self.self_attn, x, x, src_mask, src_key_padding_mask, is_causal)

        return self._added(2, self._added(1, src, attend), self._fed_forward)


class TransformerDecoderLayer(_Layer):
    """Attention to itself, to an encoder's result, then two linear maps; each is added.

    Parameters
    ----------
    As of `TransformerEncoderLayer`.
    """

    @placed
    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias=bias, batch_first=batch_first
        )
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout, bias=bias, batch_first=batch_first
        )
        self._set_up(d_model, dim_feedforward, dropout, activation, 3, layer_norm_eps,
                     norm_first, bias)  # fmt: skip

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Mask = None,
        memory_mask: Mask = None,
        tgt_key_padding_mask: Mask = None,
        memory_key_padding_mask: Mask = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Go through the layer; masks as of `MultiheadAttention`."""

        def attend(x: Tensor) -> Tensor:
            return _attended(self.self_attn, x, x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def look(x: Tensor) -> Tensor:
            return _attended(self.multihead_attn, x, memory, memory_mask, memory_key_padding_mask,
                             memory_is_causal)  # fmt: skip

        return self._added(3, self._added(2, self._added(1, tgt, attend), look), self._fed_forward)


def _attended(
    by: MultiheadAttention, x: Tensor, to: Tensor, mask: Mask, padding: Mask, is_causal: bool
) -> Tensor:
    made: Tensor = by(
        x, to, to, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal
    )[0]
    return made


class _Layers(Module):
    """Copies of a layer one behind the other, and a norm behind the last.

    Parameters
    ----------
    layer : Module
    num_layers : int
    norm : Module, optional
    """

    def __init__(
        self, layer: Module, num_layers: int, norm: Module | None = None, **_: bool
    ) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm


class TransformerEncoder(_Layers):
    __doc__ = _Layers.__doc__

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self,
        src: Tensor,
        mask: Mask = None,
        src_key_padding_mask: Mask = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Go through all layers."""
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask,
                        is_causal=bool(is_causal))  # fmt: skip
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(_Layers):
    __doc__ = _Layers.__doc__

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Mask = None,
        memory_mask: Mask = None,
        tgt_key_padding_mask: Mask = None,
        memory_key_padding_mask: Mask = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Go through all layers."""
        settings = {
            "tgt_mask": tgt_mask,
            "memory_mask": memory_mask,
            "tgt_key_padding_mask": tgt_key_padding_mask,
            "memory_key_padding_mask": memory_key_padding_mask,
            "tgt_is_causal": bool(tgt_is_causal),
            "memory_is_causal": memory_is_causal,
        }
        for layer in self.layers:
            tgt = layer(tgt, memory, **settings)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder that looks at its result.

    Parameters
    ----------
    d_model, nhead, num_encoder_layers, num_decoder_layers, dim_feedforward : int
    dropout, activation, layer_norm_eps, batch_first, norm_first, bias
        As of `TransformerEncoderLayer`.
    custom_encoder, custom_decoder : Module, optional
        In place of those.
    """

    @placed
    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps,
                    batch_first, norm_first, bias)  # fmt: skip
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*settings),
            num_encoder_layers,
            LayerNorm(d_model, eps=layer_norm_eps, bias=bias),
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*settings),
            num_decoder_layers,
            LayerNorm(d_model, eps=layer_norm_eps, bias=bias),
        )
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Mask = None,
        tgt_mask: Mask = None,
        memory_mask: Mask = None,
        src_key_padding_mask: Mask = None,
        tgt_key_padding_mask: Mask = None,
        memory_key_padding_mask: Mask = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Encode src, decode tgt beside it; masks as of `MultiheadAttention`."""
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        made: Tensor = self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            tgt_is_causal, memory_is_causal,
        )  # fmt: skip
        return made

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return the causal mask of floats: -inf above the diagonal."""
        made: Tensor = library.full((sz, sz), float("-inf"), dtype=dtype, device=device).triu(1)
        return made
