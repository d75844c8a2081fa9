"""Sequences of several lengths in one tensor: packed, or padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from tcdsl import library
from tcdsl.core import Tensor

__all__ = [
    "PackedSequence",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
]


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor


class PackedSequence(_Packed):
    """The elements of sequences, first elements first, without padding.

    Attributes
    ----------
    data : Tensor, shape (sum of lengths, ...)
    batch_sizes : Tensor, shape (longest,), int64
        How many sequences have an element at each step; they do not ascend.
    """

    __slots__ = ()

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the elements, as `Tensor.to` does."""
        return type(self)(self.data.to(*args, **kwargs), self.batch_sizes)

    def cpu(self) -> Self:
        """Move the elements to the host's memory."""
        return self.to("cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """Move the elements to a GPU's memory."""
        return type(self)(self.data.cuda(*args, **kwargs), self.batch_sizes)

    @property
    def is_cuda(self) -> bool:
        """Whether the elements lie in a GPU's memory."""
        return bool(self.data.is_cuda)


def _places(sizes: Sequence[int], batch: int) -> Tensor:
    """Return the rows of packed elements in padded sequences, (T, B) as one dimension."""
    return library.tensor(
        [t * batch + b for t, n in enumerate(sizes) for b in range(n)], dtype=library.int64
    )


def pack_padded_sequence(input: Tensor, lengths: Any, batch_first: bool = False) -> PackedSequence:
    """Pack padded sequences.

    Parameters
    ----------
    input : Tensor, shape (T, B, ...), or (B, T, ...) if batch_first
        The longest sequence first.
    lengths : Tensor or sequence of int, shape (B,)
    batch_first : bool

    Raises
    ------
    RuntimeError
        If the lengths ascend, are not as many as sequences, or one is 0.
    """
    if batch_first:
        input = input.transpose(0, 1)
    steps, batch = input.size(0), input.size(1)
    ends = [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    if len(ends) != batch:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to {batch}, got {len(ends)}")
    if any(n <= 0 for n in ends):
        raise RuntimeError("Length of all samples has to be greater than 0")
    if ends != sorted(ends, reverse=True):
        raise RuntimeError("`lengths` array must be sorted in decreasing order")
    if ends and ends[0] > steps:
        raise RuntimeError(f"expected lengths of at most {steps}, got {ends[0]}")
    sizes = [sum(n > t for n in ends) for t in range(ends[0] if ends else 0)]
    flat = input.reshape(steps * batch, *input.shape[2:])
    data = flat.index_select(0, _places(sizes, batch))
    return PackedSequence(data, library.tensor(sizes, dtype=library.int64))


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Pad packed sequences.

    Parameters
    ----------
    sequence : PackedSequence
    batch_first : bool
        Whether the result is (B, T, ...).
    padding_value : float
    total_length : int, optional
        T, not less than the longest sequence.

    Returns
    -------
    padded : Tensor, shape (T, B, ...)
    lengths : Tensor, shape (B,), int64

    Raises
    ------
    ValueError
        If total_length is less than the longest sequence.
    """
    sizes = [int(n) for n in sequence.batch_sizes.tolist()]
    steps = len(sizes) if total_length is None else total_length
    if steps < len(sizes):
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length={total_length} and max sequence length being {len(sizes)}"
        )
    batch = sizes[0] if sizes else 0
    data = sequence.data
    shape = (steps * batch, *data.shape[1:])
    blank = library.full(shape, padding_value, dtype=data.dtype, device=data.device)
    padded = blank.index_copy(0, _places(sizes, batch), data)
    padded = padded.reshape(steps, batch, *data.shape[1:])
    lengths = library.tensor([sum(n > b for n in sizes) for b in range(batch)], dtype=library.int64)
    return padded.transpose(0, 1) if batch_first else padded, lengths


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0
) -> Tensor:
    """Put sequences of several lengths beside each other.

    Parameters
    ----------
    sequences : sequence of Tensor, shape (L, ...)
    batch_first : bool
        Whether the result is (B, T, ...), not (T, B, ...).
    padding_value : float

    Returns
    -------
    Tensor, shape (T, B, ...)
        T is the longest of them.
    """
    steps = max(s.size(0) for s in sequences)
    rows = [
        s
        if s.size(0) == steps
        else library.cat([s, s.new_full((steps - s.size(0), *s.shape[1:]), padding_value)], 0)
        for s in sequences
    ]
    return library.stack(rows, 0 if batch_first else 1)


def pack_sequence(sequences: Sequence[Tensor]) -> PackedSequence:
    """Pack sequences of several lengths, the longest first."""
    return pack_padded_sequence(pad_sequence(sequences), [s.size(0) for s in sequences])
