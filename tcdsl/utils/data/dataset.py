"""Samples by number: sets of them, joined, cut and split."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from tcdsl.chance.generator import default_generator
from tcdsl.core import Tensor

__all__ = ["ConcatDataset", "Dataset", "Subset", "TensorDataset", "random_split"]


class Dataset:
    """Samples by number. A subclass says `__getitem__(index)` and `__len__()`."""

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__(index)")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__()")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class TensorDataset(Dataset):
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
            sizes = ", ".join(str(t.size(0)) for t in tensors)
            raise AssertionError(f"expected tensors of as many rows each, got {sizes}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))


class ConcatDataset(Dataset):
    """Sets one behind the other.

    Parameters
    ----------
    datasets : iterable of Dataset
        At least one.
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("expected at least one dataset")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        part = bisect.bisect_right(self.cumulative_sizes, at)
        begin = self.cumulative_sizes[part - 1] if part else 0
        return self.datasets[part][at - begin]


class Subset(Dataset):
    """Some samples of a set, in an order.

    Parameters
    ----------
    dataset : Dataset
    indices : sequence of int
        Sample i of this is sample `indices[i]` of the set.
    """

    def __init__(self, dataset: Dataset, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset, lengths: Sequence[int]) -> list[Subset]:
    """Cut a set into parts by chance, none of which share a sample.

    Parameters
    ----------
    dataset : Dataset
    lengths : sequence of int
        Samples of each part; together those of the set.

    Raises
    ------
    ValueError
        If they are not.
    """
    if sum(lengths) != len(dataset):
        raise ValueError(
            f"expected lengths that add up to {len(dataset)}, got {list(lengths)}, {sum(lengths)}"
        )
    with default_generator.numpy() as source:
        order = source.permutation(len(dataset)).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, order[end - n : end]) for n, end in zip(lengths, ends, strict=True)]
