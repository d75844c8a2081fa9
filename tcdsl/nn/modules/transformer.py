"""The layers of Transformers: attention and two linear maps, each added to its input."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

from tcdsl import library
from tcdsl.core import Tensor
from tcdsl.nn import functional, init
from tcdsl.nn.modules.attention import Mask, MultiheadAttention
from tcdsl.nn.modules.container import ModuleList
from tcdsl.nn.modules.dropout import Dropout
from tcdsl.nn.modules.linear import Linear
from tcdsl.nn.modules.module import Module
from tcdsl.nn.modules.norms import LayerNorm
from tcdsl.nn.placed import placed

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = str | Callable[[Tensor], Tensor]


def _activation(which: Activation) -> Callable[[Tensor], Tensor]:
    if callable(which):
        return which
    if which not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {which}")
    return functional.relu if which == "relu" else functional.gelu


class _Layer(Module):
    """What layers of both sides have: attentions, the two linear maps behind them, and norms."""

    _attentions: ClassVar[tuple[str, ...]]  # in the order in which they come

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
        for name in self._attentions:
            made = MultiheadAttention(d_model, nhead, dropout, bias=bias, batch_first=batch_first)
            setattr(self, name, made)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias)
        self.norm_first = norm_first
        parts = range(1, len(self._attentions) + 2)
        for n in parts:
            setattr(self, f"norm{n}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias))
        for n in parts:
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

    _attentions = ("self_attn",)

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

    _attentions = ("self_attn", "multihead_attn")

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
