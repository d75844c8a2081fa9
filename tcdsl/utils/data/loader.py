"""Batches of a set, made here or by worker processes ahead of time."""

from __future__ import annotations

import collections
import concurrent.futures
import itertools
import multiprocessing
import os
import pickle
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import numpy as np

from tcdsl.chance.generator import default_generator, manual_seed
from tcdsl.utils.data.collate import default_collate
from tcdsl.utils.data.dataset import Dataset
from tcdsl.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler

__all__ = ["DataLoader"]

AHEAD = 2  # batches that each worker makes before they are asked for

Collate = Callable[[Sequence[Any]], Any]


class DataLoader:
    """A set in batches, as often as it is iterated over.

    Parameters
    ----------
    dataset : Dataset
        What has `__getitem__` and `__len__`.
    batch_size : int
        Samples of a batch.
    shuffle : bool
        Draw the samples by chance, anew each time.
    sampler : iterable of int, optional
        The order of the samples, in place of shuffle.
    batch_sampler : iterable of lists of int, optional
        The samples of each batch, in place of batch_size, shuffle, sampler and drop_last.
    num_workers : int
        Processes that make batches ahead; 0: they are made where they are asked for. Batch i is
        always worker i % num_workers's, and the batches come in their order, so that random numbers
        drawn in a set are the same in every run from one seed.
    collate_fn : callable
        Makes a batch of a list of samples.
    pin_memory : bool
        Taken for the sake of programs that say it; memory of the host is not pinned.
    drop_last : bool
        Leave out a last batch that is not full.
    timeout : float
        Seconds to wait for a batch of a worker; 0: as long as it takes.
    worker_init_fn : callable, optional
        Called in each worker with its number before it begins.

    Raises
    ------
    ValueError
        For settings that exclude each other or are out of range.
    RuntimeError
        While iterating: if a worker ended, or took longer than timeout. What a set raises in a
        worker is raised here in its type, with the worker's own traceback as its text.

    References
    ----------
    PyTorch 0.4 ``torch.utils.data.DataLoader``.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Collate = default_collate,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
    ) -> None:
        if timeout < 0:
            raise ValueError(f"timeout option should be non-negative, got {timeout}")
        if num_workers < 0:
            raise ValueError(
                f"num_workers option cannot be negative, got {num_workers}; "
                "use num_workers=0 to disable multiprocessing"
            )
        if batch_sampler is not None and (
            batch_size != 1 or shuffle or sampler is not None or drop_last
        ):
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                "and drop_last"
            )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is None:
            if sampler is None:
                sampler = RandomSampler(dataset) if shuffle else SequentialSampler(dataset)
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset: Any = dataset
        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.num_workers = num_workers
        self.collate_fn = collate_fn
        self.pin_memory = pin_memory
        self.drop_last = drop_last
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers:
            return _by_workers(self)
        return (
            self.collate_fn([self.dataset[i] for i in batch]) for batch in iter(self.batch_sampler)
        )

    def __len__(self) -> int:
        return len(self.batch_sampler)  # type: ignore[arg-type]  # who asks has a sampler with one


def _by_workers(loader: DataLoader) -> Iterator[Any]:
    """Yield the batches that workers make, `AHEAD` each ahead; end them when it is left."""
    base = default_generator.draw_seed() >> 1
    context = multiprocessing.get_context()
    workers = [
        concurrent.futures.ProcessPoolExecutor(
            1, context, _begin, (n, base, loader.dataset, loader.collate_fn, loader.worker_init_fn)
        )
        for n in range(loader.num_workers)
    ]
    _busy.append(workers)
    try:
        turns = itertools.cycle(range(loader.num_workers))
        asked = (
            (n, workers[n].submit(_make, batch))
            for n, batch in zip(turns, iter(loader.batch_sampler), strict=False)
        )
        ahead = collections.deque(itertools.islice(asked, AHEAD * loader.num_workers))
        while ahead:
            number, future = ahead.popleft()
            batch = _wait(number, future, loader.timeout)
            ahead.extend(itertools.islice(asked, 1))
            yield batch
    finally:
        _end(workers)


def _wait(number: int, future: concurrent.futures.Future[Any], timeout: float) -> Any:
    try:
        batch = future.result(timeout or None)
    except concurrent.futures.TimeoutError:
        raise RuntimeError(
            f"DataLoader timed out after {timeout} seconds: worker {number} has not made its batch"
        ) from None
    except BrokenProcessPool as error:
        why = "it was killed, for want of memory perhaps, or worker_init_fn raised"
        if error.__cause__ is not None:
            why = f"its batch cannot be read here: {str(error.__cause__).splitlines()[-1]}"
        raise RuntimeError(
            f"DataLoader worker {number} exited unexpectedly: {why}; "
            "num_workers=0 shows errors where they happen"
        ) from error
    except Exception as error:  # a batch that cannot be sent
        raise _caught(type(error), str(error.__cause__ or error).strip('\n" '), number) from error
    if isinstance(batch, _Raised):
        raise _caught(batch.kind, batch.text, number)
    return batch


class _Raised:
    """What a set raised in a worker, as it is sent: of an exception its class and its traceback.

    Not itself: one that does not come out of its pickle would break the pool, and SystemExit would
    end the process that it is raised in.
    """

    def __init__(self, error: BaseException) -> None:
        self.text = traceback.format_exc().strip()
        self.kind: type[BaseException] = type(error)
        try:
            pickle.dumps(self.kind)
        except Exception:  # of a function's own class, say
            self.kind = RuntimeError


def _caught(kind: type[BaseException], where: str, number: int) -> Exception:
    """Return what a worker raised in its own type, with its traceback as PyTorch shows it."""
    text = f"Caught {kind.__name__} in DataLoader worker process {number}.\nOriginal {where}"
    if issubclass(kind, Exception) and not issubclass(kind, StopIteration):
        try:
            return kind(text)
        except Exception:  # a type that takes other arguments
            pass
    return RuntimeError(text)


Workers = list[concurrent.futures.ProcessPoolExecutor]
_busy: list[Workers] = []
_GRACE_S = 1.0  # from asking a worker to end to ending it


def _end(workers: Workers) -> None:
    """End workers without waiting for batches that nobody will read."""
    if workers not in _busy:  # ended, or of the process that forked this one
        return
    _busy.remove(workers)
    processes = [p for worker in workers for p in (worker._processes or {}).values()]
    for worker in workers:
        worker.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    until = time.monotonic() + _GRACE_S
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
        if process.is_alive():
            process.kill()


def _end_all() -> None:
    """End the workers of iterators that are still there when the program ends."""
    while _busy:
        _end(_busy[-1])


# Earlier than atexit: Python waits before that for the pools, and they for their workers.
getattr(threading, "_register_atexit")(_end_all)  # noqa: B009
os.register_at_fork(after_in_child=_busy.clear)


_set: Any = None
_collate: Collate = default_collate


def _begin(number: int, base: int, dataset: Dataset, collate: Collate, init: Any) -> None:
    """Make this process a worker: its data, random numbers of its own, one thread."""
    global _set, _collate
    from tcdsl.codegen.runtime import set_num_threads  # late: a loader without workers has no need

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's, who then ends this
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    set_num_threads(1)
    _set, _collate = dataset, collate
    seed = base + number
    manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)  # noqa: NPY002  # sets of users draw from it
    if init is not None:
        init(number)


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, whose pipes it would wait at for ever."""
    made_by = multiprocessing.parent_process()
    while os.getppid() == parent and (made_by is None or made_by.is_alive()):
        time.sleep(0.5)
    os._exit(1)


def _make(batch: Sequence[int]) -> Any:
    try:
        return _collate([_set[i] for i in batch])
    except BaseException as error:
        return _Raised(error)
