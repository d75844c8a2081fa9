"""The order in which samples are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Generic, TypeVar

import numpy as np

from tcdsl.chance.generator import Generator, default_generator
from tcdsl.library import from_numpy, multinomial, randint, randperm

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]


T = TypeVar("T")


class Sampler(Generic[T]):
    """Numbers of samples in an order. A subclass says `__iter__()`, and `__len__()` if it has one.

    Parameters
    ----------
    data_source : Sized, optional
        The set that is drawn from.
    """

    def __init__(self, data_source: Sized | None = None) -> None:
        """Take the set; what it is good for the subclass says."""

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__()")


class SequentialSampler(Sampler[int]):
    """All samples in their order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """All samples by chance, each once; or `num_samples` of them.

    Parameters
    ----------
    data_source : Sized
    replacement : bool
        Whether a sample may come again.
    num_samples : int, optional
        How many are drawn. More than there are without replacement are several orders of all, one
        behind the other.
    generator : Generator, optional
        The process's own by default.

    Raises
    ------
    TypeError, ValueError
        If replacement is no bool, or num_samples no positive int.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got {replacement=}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        _check_count(self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many samples are drawn."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count, wanted = len(self.data_source), self.num_samples
        source = self.generator
        if source is None:  # one seed of the process's, whatever the number of samples
            source = Generator().manual_seed(default_generator.draw_seed() & (1 << 63) - 1)
        if self.replacement:
            for begin in range(0, wanted, 32):
                size = (min(32, wanted - begin),)
                yield from randint(count, size, generator=source).tolist()
            return
        for _ in range(wanted // count if count else 0):
            yield from randperm(count, generator=source).tolist()
        if count:
            yield from randperm(count, generator=source).tolist()[: wanted % count]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Samples of given numbers by chance, each once."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Samples by chance, each as likely as its weight says.

    Parameters
    ----------
    weights : sequence of float
        One a sample, not negative; they need not add up to 1.
    num_samples : int
        How many are drawn.
    replacement : bool
        Whether a sample may come again.
    generator : Generator, optional
        The process's own by default.

    Raises
    ------
    ValueError
        If num_samples is not positive, if weights are no row, if one is negative or not finite, if
        all are 0, or if fewer samples than are to be drawn without replacement have a weight.
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _check_count(num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got {replacement=}")
        known = np.array([getattr(w, "tolist", lambda w=w: w)() for w in weights], np.float64)
        if known.ndim != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(known.shape)}"
            )
        if not np.isfinite(known).all() or (known < 0).any() or not known.any():
            raise ValueError("expected finite weights, none negative and not all 0")
        there = np.count_nonzero(known)
        if not replacement and there < num_samples:
            raise ValueError(
                f"expected at most {there} samples without replacement, got {num_samples}"
            )
        self.weights = known
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        yield from multinomial(
            from_numpy(self.weights), self.num_samples, self.replacement, generator=self.generator
        ).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
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


def _check_count(num_samples: int) -> None:
    if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
        raise ValueError(
            f"num_samples should be a positive integer value, but got num_samples={num_samples}"
        )
