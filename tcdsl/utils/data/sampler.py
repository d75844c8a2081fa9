"""The order in which samples are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

import numpy as np

from tcdsl.chance.generator import default_generator

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]


class Sampler:
    """Numbers of samples in an order. A subclass says `__iter__()` and `__len__()`.

    Parameters
    ----------
    data_source : Sized, optional
        The set that is drawn from.
    """

    def __init__(self, data_source: Sized | None = None) -> None:
        """Take the set; what it is good for the subclass says."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__()")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__()")


class SequentialSampler(Sampler):
    """All samples in their order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """All samples by chance, each once; or `num_samples` of them, each as often as chance has it.

    Parameters
    ----------
    data_source : Sized
    replacement : bool
        Whether a sample may come again.
    num_samples : int, optional
        How many are drawn; only with `replacement`.

    Raises
    ------
    ValueError
        If num_samples is given without replacement, or is not positive.
    """

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None
    ) -> None:
        if num_samples is not None and not replacement:
            raise ValueError(
                "expected num_samples with replacement=True only: without it each sample comes once"
            )
        if num_samples is not None and num_samples <= 0:
            raise ValueError(f"expected a positive num_samples, got {num_samples}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        """How many samples are drawn."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count = len(self.data_source)
        with default_generator.numpy() as source:
            if self.replacement:
                order = source.integers(0, count, self.num_samples)
            else:
                order = source.permutation(count)
        return iter(order.tolist())

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Samples of given numbers by chance, each once."""

    def __init__(self, indices: Sequence[int]) -> None:
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        with default_generator.numpy() as source:
            order = source.permutation(len(self.indices)).tolist()
        return iter([self.indices[i] for i in order])

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Samples by chance, each as likely as its weight says.

    Parameters
    ----------
    weights : sequence of float
        One a sample, not negative; they need not add up to 1.
    num_samples : int
        How many are drawn.
    replacement : bool
        Whether a sample may come again.

    Raises
    ------
    ValueError
        If num_samples is not positive, if a weight is negative or not finite, if all are 0, or if
        fewer samples than are to be drawn without replacement have a weight.
    """

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True
    ) -> None:
        if isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"expected a positive num_samples, got {num_samples}")
        self.weights = np.array([float(w) for w in weights])
        if (
            not np.isfinite(self.weights).all()
            or (self.weights < 0).any()
            or not self.weights.any()
        ):
            raise ValueError("expected finite weights, none negative and not all 0")
        there = np.count_nonzero(self.weights)
        if not replacement and there < num_samples:
            raise ValueError(
                f"expected at most {there} samples without replacement, got {num_samples}"
            )
        self.num_samples = num_samples
        self.replacement = replacement

    def __iter__(self) -> Iterator[int]:
        p = self.weights / self.weights.sum()
        with default_generator.numpy() as source:
            drawn = source.choice(len(p), self.num_samples, replace=self.replacement, p=p)
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Numbers of another sampler in lists.

    Parameters
    ----------
    sampler : iterable of int
    batch_size : int
        Numbers of a list.
    drop_last : bool
        Whether a last list that is not full is left out.

    Raises
    ------
    ValueError
        If batch_size is no positive int, or drop_last no bool.
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]  # who asks for the length has a sampler with one
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
