"""A stack of known size for passes that recurse, wherever their caller stands.

A text nests up to 200 deep, and a pass takes some frames for each: more than Python's usual 1,000,
or than a caller in deep recursion, or a thread with a small stack, has left. So the entry of each
pass runs its work in a thread of its own (`on_own_stack`); passes inside it stay in that thread.
How deep it may go is Python's one setting for all threads: it is raised while such a thread runs.

While one runs, cycles of garbage are looked for seldom: a pass makes many small objects that stay,
none of which is a cycle, and to go through them again and again was a fourteenth of a first step's
own time.

Refused: an explicit stack in every walker (forty functions that read worse, and one that is
forgotten breaks the promise); the caller's stack first (a small one ends the process before Python
counts to its limit); a higher limit for good. Chains of binary operators are walked by loops all
the same, since equality and hashes go through C.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import gc
import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

from tcdsl.grammar.text.errors import Diagnostic, Note, raise_one
from tcdsl.grammar.text.garbage import OBJECTS, search_after

P = ParamSpec("P")
R = TypeVar("R")

FRAMES = 200_000
STACK_BYTES = 512 << 20  # for FRAMES calls through C; only what is used becomes memory
_IDLE_S = 0.5  # after which a thread without work ends
_END_S = 1.0  # that one may take for it
_SIGNAL_S = 0.2  # a signal that comes just before Python waits is handled when the wait ends

_here = threading.local()


class _Worker(threading.Thread):
    """A thread with a stack for FRAMES calls: it runs one pass after the other, while some come.

    To start a thread takes longer than most passes do, and a first step of a model has hundreds. A
    daemon: after Ctrl-C nobody waits for it, and it changes nothing that others see.
    """

    def __init__(self) -> None:
        super().__init__(name="tcdsl passes", daemon=True)
        self._has_work, self._is_done = _held(), _held()
        self._work: Callable[[], None] | None = None

    def do(self, work: Callable[[], None]) -> None:
        """Have some work done, and wait for its end or a signal that interrupts."""
        self._work = work
        self._has_work.release()
        while not self._is_done.acquire(timeout=_SIGNAL_S):
            pass

    def give_up(self) -> None:
        """Let whoever waits for it go on: a forked child has no such thread."""
        with contextlib.suppress(RuntimeError):  # it is done
            self._is_done.release()

    def leave(self) -> None:
        """Let it end once it has done what it is at."""
        self._work = None
        with contextlib.suppress(RuntimeError):  # it has not seen its last work yet
            self._has_work.release()

    def run(self) -> None:
        _here.is_ours = True
        while True:
            if not self._has_work.acquire(timeout=_IDLE_S) and not _stacks.is_left(self):
                continue
            work, self._work = self._work, None
            if work is None:
                return
            work()
            del work  # with all that it holds
            self._is_done.release()


def _held() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


class _Pass:
    """A pass at work, in which thread."""

    def __init__(self) -> None:
        self.worker: _Worker | None = None
        self.is_done = False


class _Stacks:
    """The passes at work, the threads that wait for more, and the settings that were raised."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal's handler may come here while it is held
        self.running: set[_Pass] = set()
        self.idle: list[_Worker] = []
        self.usual = sys.getrecursionlimit()
        self.usual_objects = 0  # 0: it was not raised

    def run(self, work: Callable[[], None]) -> None:
        """Do work with a stack for FRAMES calls, to its end or until a signal interrupts."""
        one = _Pass()
        try:
            self._start(one).do(work)
            one.is_done = True
        finally:  # also of a start that Ctrl-C interrupts
            self._ended(one)

    def _start(self, one: _Pass) -> _Worker:
        with self.lock:
            if not self.running:
                self.usual = sys.getrecursionlimit()
                sys.setrecursionlimit(max(FRAMES, self.usual))
                objects = gc.get_threshold()[0]
                if 0 < objects < OBJECTS:  # 0: there is no search
                    self.usual_objects = objects
                    search_after(OBJECTS)
            self.running.add(one)
            if self.idle:
                one.worker = self.idle.pop()
                return one.worker
            one.worker = worker = _Worker()
            size = threading.stack_size(STACK_BYTES)
            try:
                worker.start()
            finally:
                threading.stack_size(size)
            return worker

    def _ended(self, one: _Pass) -> None:
        """Set things back after the last of them, but for what others set meanwhile."""
        with self.lock:
            self.running.discard(one)
            if one.worker is not None:
                if one.is_done:
                    self.idle.append(one.worker)
                else:
                    one.worker.leave()
            if not self.running:
                self.set_back()

    def is_left(self, worker: _Worker) -> bool:
        """Whether nobody has work for a thread that has waited for it; nobody will from now on."""
        with self.lock:
            if any(one.worker is worker for one in self.running):
                return False
            if worker in self.idle:
                self.idle.remove(worker)
            return True

    def end_idle(self) -> None:
        """Let threads end that wait for work: Python warns of those that a fork would lose."""
        with self.lock:
            idle, self.idle = self.idle, []
        for worker in idle:
            worker.leave()
        for worker in idle:
            worker.join(_END_S)

    def give_up(self) -> None:
        """Let passes that threads of a forked process's parent run end without a result."""
        self.lock = threading.RLock()
        for one in self.running:
            if one.worker is not None and one.worker is not threading.current_thread():
                one.worker.give_up()

    def set_back(self) -> None:
        """Set back what still is as it was raised."""
        if sys.getrecursionlimit() == FRAMES:
            sys.setrecursionlimit(self.usual)
        if self.usual_objects and gc.get_threshold()[0] == OBJECTS:
            search_after(self.usual_objects)
        self.usual_objects = 0


_stacks = _Stacks()


def _after_fork() -> None:
    """Forget threads that a forked child does not have."""
    global _stacks
    if _stacks.running and not is_on_own_stack():
        _stacks.set_back()
    _stacks.give_up()
    _stacks = _Stacks()


def _before_fork() -> None:
    _stacks.end_idle()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


def is_on_own_stack() -> bool:
    """Whether this thread has a stack for FRAMES calls."""
    return getattr(_here, "is_ours", False)


def on_own_stack(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function run in a thread whose stack holds whatever a text may nest.

    For functions that take no locks: the thread is another one than the caller's.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if is_on_own_stack() or sys.is_finalizing():  # then no thread gets to run
            return function(*args, **kwargs)
        context = contextvars.copy_context()
        results: list[R] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(context.run(function, *args, **kwargs))
            except BaseException as error:  # the caller's: raised there
                errors.append(error)

        try:
            _stacks.run(work)
        except RuntimeError:  # no more threads, or Python is ending: on the stack that there is
            return function(*args, **kwargs)
        if errors:
            try:
                raise errors[0]
            finally:
                errors.clear()  # a traceback holds this frame
        # Without a result it did not come to its work: the thread is not in a child that a signal's
        # handler forked.
        return results[0] if results else function(*args, **kwargs)

    return run


class stack_for:  # noqa: N801  # in the place of a function: calls enter it for each new form
    """Make an expression of a definition too deep for the stack an error of its text.

    Raises
    ------
    TCSyntaxError
        TC012, with the cure.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None or not issubclass(kind, RecursionError):
            return
        what = f"an expression of '{self._name}' is deeper than the stack of Python"
        cure = Note("split it by temporaries, each a statement: t(i) = ..., then use t(i)")
        limit = Note(f"sys.getrecursionlimit() is {sys.getrecursionlimit()}")
        raise_one(Diagnostic("TC012", what, notes=(cure, limit)))
