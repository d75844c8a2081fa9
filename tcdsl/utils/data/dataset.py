"""Samples by number and samples one after the other: sets of them, joined, cut and split."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from tcdsl.chance.generator import Generator
from tcdsl.core import Tensor
from tcdsl.library import randperm

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

T = TypeVar("T")


class Dataset(Generic[T]):
    """Samples by number. A subclass says `__getitem__(index)`, and `__len__()` where there is one.

    One that has `__getitems__(indices)` is asked for the samples of a batch at once.
    """

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Any) -> Any:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Samples one after the other. A subclass says `__iter__()`.

    Each worker of a loader iterates over a copy of its own: `get_worker_info` tells it which part
    is its own.
    """

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Any) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples are the rows of tensors: number i is the tuple of all their rows i.

    Parameters
    ----------
    *tensors : Tensor, shape (N, ...)

    Raises
    ------
    AssertionError
        If their first dimensions differ.
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(t.size(0) != tensors[0].size(0) for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))


class StackDataset(Dataset[Any]):
    """Sets beside each other: sample i is the tuple of all their samples i, or a dict by name.

    Parameters
    ----------
    *args, **kwargs : Dataset
        Of as many samples each; all by place or all by name.

    Raises
    ------
    ValueError
        If there is none, if some have names and others have not, or if their lengths differ.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like "
                "input/output, but both types are given."
                if args
                else "At least one dataset should be passed"
            )
        self.datasets: Any = args or kwargs
        self._length = len(self._sets()[0])
        if any(len(s) != self._length for s in self._sets()):
            raise ValueError("Size mismatch between datasets")

    def _sets(self) -> list[Any]:
        held = self.datasets
        return list(held.values() if isinstance(held, dict) else held)

    def __getitem__(self, index: int) -> Any:
        found = [s[index] for s in self._sets()]
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, found, strict=True))
        return tuple(found)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[Any]):
    """Sets one behind the other.

    Parameters
    ----------
    datasets : iterable of Dataset
        At least one, none of them iterable only.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if index < -len(self):
            raise ValueError("absolute value of index should not exceed dataset length")
        if index >= len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        at = index + len(self) if index < 0 else index
        part = bisect.bisect_right(self.cumulative_sizes, at)
        begin = self.cumulative_sizes[part - 1] if part else 0
        return self.datasets[part][at - begin]


class ChainDataset(IterableDataset[Any]):
    """Iterable sets one behind the other.

    Parameters
    ----------
    datasets : iterable of IterableDataset
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for part in self.datasets:
            if not isinstance(part, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from part

    def __len__(self) -> int:
        return sum(len(part) for part in self.datasets)


class Subset(Dataset[Any]):
    """Some samples of a set, in an order.

    Parameters
    ----------
    dataset : Dataset
    indices : sequence of int
        Sample i of this is sample `indices[i]` of the set.
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        wanted = [self.indices[i] for i in indices]
        at_once = getattr(self.dataset, "__getitems__", None)
        return list(at_once(wanted)) if at_once else [self.dataset[i] for i in wanted]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset]:
    """Cut a set into parts by chance, none of which share a sample.

    Parameters
    ----------
    dataset : Dataset
    lengths : sequence of int or of float
        Samples of each part, together those of the set; or their shares, which add up to 1. What
        shares leave over when they are rounded down goes to the first parts, one sample each.
    generator : Generator, optional
        The process's own by default.

    Raises
    ------
    ValueError
        If they are not.
    """
    count = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _counts(count, lengths)
    if sum(lengths) != count:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = randperm(count, generator=generator).tolist()
    sizes = [int(n) for n in lengths]
    ends = itertools.accumulate(sizes)
    return [Subset(dataset, order[end - n : end]) for n, end in zip(sizes, ends, strict=True)]


def _counts(count: int, shares: Sequence[float]) -> list[int]:
    """Return how many samples each share of a set is."""
    for number, share in enumerate(shares):
        if not 0 <= share <= 1:
            raise ValueError(f"Fraction at index {number} is not between 0 and 1")
    counts = [math.floor(count * share) for share in shares]
    for left in range(count - sum(counts)):
        counts[left % len(counts)] += 1
    for number, length in enumerate(counts):
        if not length:
            warnings.warn(
                f"Length of split at index {number} is 0. This might result in an empty dataset.",
                stacklevel=3,
            )
    return counts
