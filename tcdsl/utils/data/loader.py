"""Batches of a set, made here or by worker processes ahead of time."""

from __future__ import annotations

import itertools
import multiprocessing
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import GenericAlias
from typing import Any

from tcdsl.chance.generator import Generator, default_generator
from tcdsl.utils.data.collate import default_collate, default_convert
from tcdsl.utils.data.dataset import IterableDataset
from tcdsl.utils.data.fetching import Batches, Collate, Failed, Fetch, Fetcher
from tcdsl.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from tcdsl.utils.data.workers import Workers

__all__ = ["DataLoader"]

AHEAD = 2  # batches that each worker makes before they are asked for
FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader:
    """A set in batches, as often as it is iterated over.

    Parameters
    ----------
    dataset : Dataset or IterableDataset
        What has `__getitem__` and `__len__`, or samples one after the other.
    batch_size : int, optional
        Samples of a batch; None: one sample after the other, joined to nothing.
    shuffle : bool
        Draw the samples by chance, anew each time.
    sampler : iterable of int, optional
        The order of the samples, in place of shuffle.
    batch_sampler : iterable of lists of int, optional
        The samples of each batch, in place of batch_size, shuffle, sampler and drop_last.
    num_workers : int
        Processes that make batches ahead; 0: they are made where they are asked for. Batch i is
        always worker i % num_workers's, and the batches come in their order, so that random numbers
        drawn in a set are the same in every run from one seed. A set without numbers is iterated
        over in each worker: see `get_worker_info`.
    collate_fn : callable, optional
        Makes a batch of a list of samples; `default_collate` by default, without batches
        `default_convert`.
    pin_memory, pin_memory_device
        Taken for the sake of programs that say it; memory of the host is not pinned.
    drop_last : bool
        Leave out a last batch that is not full.
    timeout : float
        Seconds to wait for a batch of a worker; 0: as long as it takes.
    worker_init_fn : callable, optional
        Called in each worker with its number before it begins.
    multiprocessing_context : str or context, optional
        How workers are started: "fork", "spawn" or "forkserver"; Python's default.
    generator : Generator, optional
        What the order and the seeds of workers are drawn from; the process's own by default.
    prefetch_factor : int, optional
        Batches that each worker makes before they are asked for; 2 by default.
    persistent_workers : bool
        Keep the workers, and their sets, for the next iteration. They end with the loader.
    in_order : bool
        Batches come in order, whatever is said.

    Raises
    ------
    ValueError
        For settings that exclude each other or are out of range; later, if one is changed that the
        loader was made by.
    RuntimeError
        While iterating: if a worker ended, or took longer than timeout. What a set raises in a
        worker is raised here in its type, with the worker's own traceback as its text.

    References
    ----------
    PyTorch 2.13 ``torch.utils.data.DataLoader``.
    """

    __class_getitem__: Any = classmethod(
        GenericAlias
    )  # of the type of batches, for whoever says it

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Sequence[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Collate | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if isinstance(dataset, IterableDataset):
            _check_in_turn(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                    "and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None:
            sampler = _order(dataset, bool(shuffle), generator)
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.dataset: Any = dataset
        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.num_workers = num_workers
        self.collate_fn = collate_fn
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.drop_last = drop_last
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = _context(multiprocessing_context, num_workers)
        self.generator = generator
        self.prefetch_factor = AHEAD if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self._kept: Workers | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and "_kept" in vars(self):
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the workers: a copy starts its own."""
        return {**vars(self), "_kept": None}

    def __iter__(self) -> Iterator[Any]:
        seed = 0
        if self._kept is None:  # drawn by a walk without workers too, as PyTorch does
            source = default_generator if self.generator is None else self.generator
            seed = source.draw_seed() & (1 << 63) - 1
        return Batches(self._by_workers(seed) if self.num_workers else self._here(), self)

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self._wanted())  # type: ignore[arg-type]  # who asks has a sampler with one
        count = len(self.dataset)  # type: ignore[arg-type]  # as above, of the set
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def _wanted(self) -> Iterable[Any]:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def _fetch(self) -> Fetch:
        is_batched = self.batch_sampler is not None
        return Fetch(self.dataset, is_batched, self.collate_fn, self.drop_last)

    def _here(self) -> Iterator[Any]:
        fetch = self._fetch()
        fetcher = Fetcher(fetch)
        for wanted in iter(self._wanted()):
            try:
                batch = fetcher(wanted)
            except StopIteration:
                if fetch.is_in_turn:
                    return
                raise
            except Exception as error:
                batch = Failed(error)
            yield batch

    def _by_workers(self, seed: int) -> Iterator[Any]:
        workers = self._kept or self._workers(seed)
        if self.persistent_workers and self._kept is None:
            self._kept = workers
            weakref.finalize(self, workers.end)
        try:
            yield from workers.walk(iter(self._wanted()))
        except RuntimeError:
            workers.end()
            self._kept = None
            raise
        finally:
            if not self.persistent_workers:
                workers.end()

    def _workers(self, seed: int) -> Workers:
        return Workers(
            self.num_workers,
            self._fetch(),
            seed,
            self.worker_init_fn,
            self.multiprocessing_context or multiprocessing.get_context(),
            self.timeout,
            AHEAD if self.prefetch_factor is None else self.prefetch_factor,
        )


def _order(dataset: Any, shuffle: bool, generator: Generator | None) -> Iterable[Any]:
    if isinstance(dataset, IterableDataset):
        return _Endless()
    if shuffle:
        return RandomSampler(dataset, generator=generator)
    return SequentialSampler(dataset)


class _Endless:
    """The order of a set without numbers: the next one, and the next one."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


def _check_workers(count: int, timeout: float, ahead: int | None, are_kept: bool) -> None:
    if count < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            "multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if not count and ahead is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 "
            "to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if ahead is not None and ahead < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if are_kept and not count:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_in_turn(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    """Refuse what only a set with numbers can have."""
    given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                f"{name}={value}"
            )


def _context(given: Any, workers: int) -> Any:
    """Return how workers are started, of its name or itself; None: as Python does by default."""
    if given is None:
        return None
    if not workers:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > "
            f"0), but got num_workers={workers}"
        )
    if isinstance(given, str):
        known = multiprocessing.get_all_start_methods()
        if given not in known:
            raise ValueError(
                "multiprocessing_context option should specify a valid start method in "
                f"{known!r}, but got multiprocessing_context={given!r}"
            )
        return multiprocessing.get_context(given)
    if not isinstance(given, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string "
            f"specifying the start method, but got multiprocessing_context={given}"
        )
    return given
