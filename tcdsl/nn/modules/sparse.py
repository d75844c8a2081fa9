"""Embeddings: rows of a table by number, and their sums and means."""

from __future__ import annotations

from typing import Any, Self

from tcdsl.calls.process.caller import warn
from tcdsl.core import Tensor
from tcdsl.nn import functional, init
from tcdsl.nn.modules.module import Module
from tcdsl.nn.parameter import Parameter
from tcdsl.nn.placed import blank, placed

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """What both layers have: rows that are looked up, one of which may be padding."""

    weight: Parameter
    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    sparse: bool

    def _set_table(self, given: Tensor | None) -> None:
        """Take a table over, or draw one."""
        shape = self.num_embeddings, self.embedding_dim
        if self.sparse:
            warn(
                f"{type(self).__name__}(sparse=True): there are no sparse tensors here, gradients "
                "are dense: the numbers are the same, but a step costs as much as the whole table"
            )
        if given is None:
            self.weight = Parameter(blank(*shape))
            self.reset_parameters()
        elif tuple(given.shape) != shape:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        else:
            self.weight = Parameter(given)

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.data[self.padding_idx])

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, **settings: Any) -> Self:
        """Make a layer of a table.

        Parameters
        ----------
        embeddings : Tensor, shape (N, D)
        freeze : bool
            Whether it is not trained.
        **settings
            As of the class.
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        make: Any = cls  # a constructor of `Module` takes no table
        layer: Self = make(rows, columns, _weight=embeddings, **settings)
        layer.weight.requires_grad = not freeze
        return layer


class Embedding(_Table):
    """Rows of a table by number.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        N and D.
    padding_idx : int, optional
        A row that begins as 0 and gets no gradient; a negative one counts from the end.
    max_norm : float, optional
        Rows that are looked up and whose norm is larger are scaled to it, in the table.
    norm_type : float
        Of that norm.
    scale_grad_by_freq : bool
        Divide gradients of rows by how often they are looked up in a call.
    sparse : bool
        Taken for the sake of programs that say it: it warns, and gradients are dense.

    Attributes
    ----------
    weight : Parameter, shape (N, D)
        At first normal of mean 0 and deviation 1.
    """

    @placed
    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise AssertionError("Padding_idx must be within num_embeddings")
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._set_table(_weight)

    def forward(self, input: Tensor) -> Tensor:
        """Look integers up, (...) to (..., D)."""
        return functional.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        """Return the sizes, and what differs from the defaults."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += ", scale_grad_by_freq=True"
        return text + ", sparse=True" if self.sparse else text


class EmbeddingBag(_Table):
    """Sums, means or maxima of rows of a table, without the rows.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        N and D.
    max_norm, norm_type, scale_grad_by_freq
        As of `Embedding`.
    mode : str
        'sum', 'mean' or 'max'.
    sparse : bool
        Taken for the sake of programs that say it: it warns, and gradients are dense.
    _weight : Tensor, shape (N, D), optional
        The table to begin with, in place of a random one.
    include_last_offset, padding_idx
        As of `functional.embedding_bag`; the row of padding_idx is 0 at first.

    Attributes
    ----------
    weight : Parameter, shape (N, D)
        At first normal of mean 0 and deviation 1.
    """

    @placed
    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise AssertionError("padding_idx must be within num_embeddings")
        self.include_last_offset = include_last_offset
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self._set_table(_weight)

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """Look bags of integers up.

        Parameters
        ----------
        input : Tensor, shape (B, L) or (L,)
        offsets : Tensor, shape (B,), optional
            Where bags begin in an input of one dimension.
        per_sample_weights : Tensor, as input, optional
            What rows are multiplied by, in sums.

        Returns
        -------
        Tensor, shape (B, D)
        """
        return functional.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Return the sizes, and what differs from the defaults."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += ", scale_grad_by_freq=True"
        text += f", mode='{self.mode}'"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"
