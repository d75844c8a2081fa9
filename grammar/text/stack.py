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

_here = threading.local()


class _Stacks:
    """The threads at work, and the settings that they raised."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal's handler may come here while it is held
        self.running: set[threading.Thread] = set()
        self.usual = sys.getrecursionlimit()
        self.usual_objects = 0  # 0: it was not raised

    def run(self, thread: threading.Thread) -> None:
        """Run a thread with a stack for FRAMES calls, to its end or until a signal interrupts."""
        try:
            self._start(thread)
            thread.join()
        finally:  # also of a start that Ctrl-C interrupts
            self._ended(thread)

    def _start(self, thread: threading.Thread) -> None:
        with self.lock:
            if not self.running:
                self.usual = sys.getrecursionlimit()
                sys.setrecursionlimit(max(FRAMES, self.usual))
                objects = gc.get_threshold()[0]
                if 0 < objects < OBJECTS:  # 0: there is no search
                    self.usual_objects = objects
                    search_after(OBJECTS)
            self.running.add(thread)
            size = threading.stack_size(STACK_BYTES)
            try:
                thread.start()
            finally:
                threading.stack_size(size)

    def _ended(self, thread: threading.Thread) -> None:
        """Set things back after the last of them, but for what others set meanwhile."""
        with self.lock:
            self.running.discard(thread)
            if not self.running:
                self.set_back()

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
    _stacks = _Stacks()


os.register_at_fork(after_in_child=_after_fork)


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
            _here.is_ours = True
            try:
                results.append(context.run(function, *args, **kwargs))
            except BaseException as error:  # the caller's: raised there
                errors.append(error)

        # A daemon: after Ctrl-C nobody waits for it, and it changes nothing that others see.
        thread = threading.Thread(target=work, name=f"tcdsl {function.__name__}", daemon=True)
        try:
            _stacks.run(thread)
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
