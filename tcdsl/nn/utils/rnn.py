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
    "unpack_sequence",
    "unpad_sequence",
]


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None


class PackedSequence(_Packed):
    """The elements of sequences, first elements first, without padding.

    Attributes
    ----------
    data : Tensor, shape (sum of lengths, ...)
    batch_sizes : Tensor, shape (longest,), int64
        How many sequences have an element at each step; they do not ascend.
    sorted_indices : Tensor, shape (B,), int64, or None
        The sequences in the order in which they are packed, the longest first; None: as given.
    unsorted_indices : Tensor, shape (B,), int64, or None
        Where each of them is in that order.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        """Make one; of two orders that turn each other round, the first gives the second."""
        if unsorted_indices is None and sorted_indices is not None:
            unsorted_indices = sorted_indices.argsort()
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the elements, as `Tensor.to` does; the orders go to the same place."""
        return self._with(self.data.to(*args, **kwargs))

    def _with(self, data: Tensor) -> Self:
        orders = (None if i is None else i.to(data.device) for i in self[2:])
        return type(self)(data, self.batch_sizes, *orders)

    def cpu(self) -> Self:
        """Move the elements to the host's memory."""
        return self.to("cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """Move the elements to a GPU's memory."""
        return self._with(self.data.cuda(*args, **kwargs))

    def double(self) -> Self:
        """Make the elements float64."""
        return self._with(self.data.double())

    def float(self) -> Self:
        """Make the elements float32."""
        return self._with(self.data.float())

    def half(self) -> Self:
        """Make the elements float16."""
        return self._with(self.data.half())

    def long(self) -> Self:
        """Make the elements int64."""
        return self._with(self.data.long())

    def int(self) -> Self:
        """Make the elements int32."""
        return self._with(self.data.int())

    def short(self) -> Self:
        """Make the elements int16."""
        return self._with(self.data.short())

    def char(self) -> Self:
        """Make the elements int8."""
        return self._with(self.data.char())

    def byte(self) -> Self:
        """Make the elements uint8."""
        return self._with(self.data.byte())

    @property
    def is_cuda(self) -> bool:
        """Whether the elements lie in a GPU's memory."""
        return bool(self.data.is_cuda)


def _places(sizes: Sequence[int], batch: int) -> Tensor:
    """Return the rows of packed elements in padded sequences, (T, B) as one dimension."""
    return library.tensor(
        [t * batch + b for t, n in enumerate(sizes) for b in range(n)], dtype=library.int64
    )


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack padded sequences.

    Parameters
    ----------
    input : Tensor, shape (T, B, ...), or (B, T, ...) if batch_first
        The longest sequence first, unless enforce_sorted is False.
    lengths : Tensor or sequence of int, shape (B,)
    batch_first : bool
    enforce_sorted : bool
        False: sequences in any order, which the result remembers.

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
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    order = None
    if not enforce_sorted:
        by_length = sorted(range(batch), key=lambda b: -ends[b])
        order = library.tensor(by_length, dtype=library.int64)
        ends = [ends[b] for b in by_length]
        input = input.index_select(1, order.to(input.device))
    if ends != sorted(ends, reverse=True):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    if ends and ends[0] > steps:
        raise RuntimeError(f"expected lengths of at most {steps}, got {ends[0]}")
    sizes = [sum(n > t for n in ends) for t in range(ends[0] if ends else 0)]
    flat = input.reshape(steps * batch, *input.shape[2:])
    data = flat.index_select(0, _places(sizes, batch))
    sizes_of_steps = library.tensor(sizes, dtype=library.int64)
    return PackedSequence(data, sizes_of_steps, None if order is None else order.to(data.device))


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
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths.index_select(0, sequence.unsorted_indices.cpu())
    return padded.transpose(0, 1) if batch_first else padded, lengths


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0,
    padding_side: str = "right",
) -> Tensor:
    """Put sequences of several lengths beside each other.

    Parameters
    ----------
    sequences : sequence of Tensor, shape (L, ...)
    batch_first : bool
        Whether the result is (B, T, ...), not (T, B, ...).
    padding_value : float
    padding_side : {"right", "left"}
        Behind each sequence, or before it.

    Returns
    -------
    Tensor, shape (T, B, ...)
        T is the longest of them.

    Raises
    ------
    RuntimeError
        If there is no sequence, or padding_side is another word.
    """
    if padding_side not in ("right", "left"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    steps = max(s.size(0) for s in sequences)

    def longer(s: Tensor) -> Tensor:
        if s.size(0) == steps:
            return s
        more = s.new_full((steps - s.size(0), *s.shape[1:]), padding_value)
        return library.cat([s, more] if padding_side == "right" else [more, s], 0)

    rows = [longer(s) for s in sequences]
    return library.stack(rows, 0 if batch_first else 1)


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of several lengths, the longest first unless enforce_sorted is False."""
    lengths = [s.size(0) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """Return the sequences of a padded tensor, each without what is behind its end.

    Parameters
    ----------
    padded_sequences : Tensor, shape (T, B, ...), or (B, T, ...) if batch_first
    lengths : Tensor, shape (B,)
    batch_first : bool

    Returns
    -------
    list of Tensor, shape (L, ...)
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(rows, lengths.tolist(), strict=True)]


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences that are packed, in the order they were given in."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences))
