"""Batches of a set, where they are asked for: in the program itself or in a worker."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any

from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.utils.data.dataset import IterableDataset

__all__ = ["Batches", "Collate", "Failed", "Fetch", "Fetcher", "WorkerInfo", "get_worker_info"]

Collate = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Which worker this process is: its number of how many, its seed, its copy of the set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return which worker of a loader this process is; None where it is none."""
    return _info


def begin_as(info: WorkerInfo) -> None:
    """Let this process be a worker."""
    global _info
    _info = info


@dataclass(frozen=True, slots=True)
class Fetch:
    """How batches are made of a set: joined or one sample each, by number or in turn."""

    dataset: Any
    is_batched: bool
    collate: Collate
    drop_last: bool

    @property
    def is_in_turn(self) -> bool:
        """Whether the set has no numbers."""
        return isinstance(self.dataset, IterableDataset)


class Failed:
    """Stands for a batch that raised: the walk goes on behind it."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Batches(Iterator[Any]):
    """One walk over a loader's batches; where one raised its error is raised, and the next comes.

    Parameters
    ----------
    made : iterator of batches, or of Failed
    loader : Sized
        Whose length it has.
    """

    def __init__(self, made: Iterator[Any], loader: Sized) -> None:
        self._made, self._loader = made, loader

    def __next__(self) -> Any:
        batch = next(self._made)
        if isinstance(batch, Failed):
            raise batch.error
        return batch

    def __len__(self) -> int:
        return len(self._loader)


class Fetcher:
    """Makes the batches of one walk over a set.

    Raises
    ------
    StopIteration
        When called at the end of a set without numbers.
    """

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._rest = iter(fetch.dataset) if fetch.is_in_turn else None
        self._is_over = False

    def __call__(self, wanted: Any) -> Any:
        """Return the batch of some numbers; of a set without them, of as many samples."""
        fetch = self._fetch
        if self._rest is None:
            made = self._by_number(wanted) if fetch.is_batched else fetch.dataset[wanted]
            return fetch.collate(made)
        if self._is_over:
            raise StopIteration
        if not fetch.is_batched:
            return fetch.collate(next(self._rest))
        samples = list(itertools.islice(self._rest, len(wanted)))
        self._is_over = len(samples) < len(wanted)
        if not samples or (self._is_over and fetch.drop_last):
            raise StopIteration
        return fetch.collate(samples)

    def _by_number(self, numbers: Sequence[int]) -> Sequence[Any]:
        at_once = getattr(self._fetch.dataset, "__getitems__", None)
        if at_once:
            return list(at_once(numbers))
        return [self._fetch.dataset[i] for i in numbers]
