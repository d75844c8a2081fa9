"""Worker processes that make batches ahead of time; how they begin, fail and end."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import itertools
import multiprocessing
import os
import pickle
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import numpy as np

from tcdsl.chance.generator import manual_seed
from tcdsl.utils.data.fetching import Failed, Fetch, Fetcher, WorkerInfo, begin_as

__all__ = ["Workers"]

Init = Callable[[int], object]
_GRACE_S = 1.0  # from asking a worker to end to ending it
_walks = itertools.count()  # over sets; a worker keeps them apart by number


class Workers:
    """Processes, each an executor of one, so that who makes which batch is known beforehand.

    Parameters
    ----------
    count : int
    fetch : Fetch
    seed : int
        Worker i draws its random numbers from seed + i.
    init : callable, optional
        Called in each worker with its number.
    context : context of multiprocessing
    timeout : float
        Seconds to wait for a batch; 0: as long as it takes.
    ahead : int
        Batches that each worker makes before they are asked for.
    """

    def __init__(
        self,
        count: int,
        fetch: Fetch,
        seed: int,
        init: Init | None,
        context: Any,
        timeout: float,
        ahead: int,
    ) -> None:
        self._timeout, self._ahead = timeout, ahead
        self._executors = [
            concurrent.futures.ProcessPoolExecutor(
                1, context, _begin, (n, count, seed, fetch, init)
            )
            for n in range(count)
        ]
        _busy.append(self)

    def walk(self, wanted: Iterable[Any]) -> Iterator[Any]:
        """Yield the batches of what is wanted, in order; a worker that has no more is left out.

        Raises
        ------
        RuntimeError
            If a worker cannot be started, ended, or took longer than the timeout. What a set raises
            in a worker comes as a Failed of its type, with the worker's own traceback as its text.
        """
        walk, rest = next(_walks), iter(wanted)
        turns = collections.deque(range(len(self._executors)))
        ahead: collections.deque[tuple[int, concurrent.futures.Future[Any]]] = collections.deque()

        def ask() -> None:
            for numbers in itertools.islice(rest, 1) if turns else ():
                ahead.append((turns[0], self._submit(turns[0], walk, numbers)))
                turns.rotate(-1)

        try:
            for _ in range(max(1, self._ahead * len(turns))):
                ask()
            while ahead:
                number, future = ahead.popleft()
                batch = self._wait(number, future)
                if isinstance(batch, _Over):
                    if number in turns:
                        turns.remove(number)
                    ask()
                    continue
                ask()
                yield batch
        finally:
            if self in _busy:
                self._leave(walk, [future for _, future in ahead])

    def _submit(self, number: int, walk: int, numbers: Any) -> concurrent.futures.Future[Any]:
        try:
            return self._executors[number].submit(_make, walk, numbers)
        except (OSError, RuntimeError) as error:
            if not isinstance(error, OSError) and "new thread" not in str(error):
                raise
            why = error.strerror if isinstance(error, OSError) else error
            raise RuntimeError(
                f"DataLoader worker {number} cannot be started: {why}; more processes, memory or "
                "open files may be needed (ulimit -u, -v, -n), num_workers=0 needs none"
            ) from error

    def _leave(self, walk: int, asked: Iterable[concurrent.futures.Future[Any]]) -> None:
        """Let nobody make what nobody will read."""
        for future in asked:
            future.cancel()
        for executor in self._executors:
            with contextlib.suppress(RuntimeError, OSError):  # one that has ended, or never began
                executor.submit(_forget, walk)

    def _wait(self, number: int, future: concurrent.futures.Future[Any]) -> Any:
        try:
            batch = future.result(self._timeout or None)
        except concurrent.futures.TimeoutError:
            raise RuntimeError(
                f"DataLoader timed out after {self._timeout} seconds: worker {number} has not made "
                "its batch"
            ) from None
        except BrokenProcessPool as error:
            why = "it was killed, for want of memory perhaps"
            if error.__cause__ is not None:
                why = f"its batch cannot be read here: {str(error.__cause__).splitlines()[-1]}"
            raise RuntimeError(
                f"DataLoader worker {number} exited unexpectedly: {why}; "
                "num_workers=0 shows errors where they happen"
            ) from error
        except Exception as error:  # a batch that cannot be sent
            text = str(error.__cause__ or error).strip('\n" ')
            failed = _caught(type(error), text, number)
            failed.__cause__ = error
            return Failed(failed)
        if isinstance(batch, _Raised):
            return Failed(_caught(batch.kind, batch.text, number))
        return batch

    def end(self) -> None:
        """End them without waiting for batches that nobody will read."""
        if self not in _busy:  # ended, or of the process that forked this one
            return
        _busy.remove(self)
        processes = [p for e in self._executors for p in (e._processes or {}).values()]
        for executor in self._executors:
            executor.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        until = time.monotonic() + _GRACE_S
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()


_busy: list[Workers] = []


def _end_all() -> None:
    """End the workers of iterators that are still there when the program ends."""
    while _busy:
        _busy[-1].end()


# Earlier than atexit: Python waits before that for the pools, and they for their workers.
getattr(threading, "_register_atexit")(_end_all)  # noqa: B009
os.register_at_fork(after_in_child=_busy.clear)


class _Over:
    """What a worker sends at the end of its set."""


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


class _Lines(str):
    """A message whose lines stay lines where its repr is shown, as a KeyError's is."""

    __slots__ = ()
    __repr__ = str.__str__


def _caught(kind: type[BaseException], where: str, number: int) -> Exception:
    """Return what a worker raised in its own type, with its traceback as PyTorch shows it."""
    text = f"Caught {kind.__name__} in DataLoader worker process {number}.\nOriginal {where}"
    if issubclass(kind, Exception) and not issubclass(kind, StopIteration):
        try:
            return kind(_Lines(text) if kind is KeyError else text)
        except Exception:  # a type that takes other arguments
            pass
    return RuntimeError(text)


# Of a worker: what it makes, the walks that it is at, what it raised when it began.
_fetch: Fetch | None = None
_fetchers: dict[int, Fetcher] = {}
_failed: _Raised | None = None


def _begin(number: int, count: int, seed: int, fetch: Fetch, init: Init | None) -> None:
    """Make this process a worker: its data, random numbers of its own, one thread."""
    global _fetch, _failed
    from tcdsl.codegen.runtime import set_num_threads  # late: a loader without workers has no need

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's, who then ends this
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    set_num_threads(1)
    _fetch = fetch
    _fetchers.clear()  # a worker that is a parent's of this one has its own
    _failed = None
    manual_seed(seed + number)
    random.seed(seed + number)
    np.random.seed(seed + number & 0xFFFFFFFF)  # noqa: NPY002  # sets of users draw from it
    begin_as(WorkerInfo(number, count, seed + number, fetch.dataset))
    if init is not None:
        try:
            init(number)
        except BaseException as error:
            _failed = _Raised(error)


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, whose pipes it would wait at for ever."""
    made_by = multiprocessing.parent_process()
    while os.getppid() == parent and (made_by is None or made_by.is_alive()):
        time.sleep(0.5)
    os._exit(1)


def _make(walk: int, wanted: Any) -> Any:
    assert _fetch is not None
    if _failed is not None:
        return _failed
    try:
        if walk not in _fetchers:
            _fetchers[walk] = Fetcher(_fetch)
        return _fetchers[walk](wanted)
    except StopIteration as error:
        return _Over() if _fetch.is_in_turn else _Raised(error)
    except BaseException as error:
        return _Raised(error)


def _forget(walk: int) -> None:
    _fetchers.pop(walk, None)
