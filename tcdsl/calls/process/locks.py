"""Locks that a forked child finds open."""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType


class Lock:
    """A re-entrant lock, new in a forked child.

    `held` is the lock itself, which `with` takes sooner than this object.

    A child has only the thread that forked. Whatever another thread held would stay locked there
    for ever; what that thread was making (an executable, a table row) the child makes itself.
    """

    def __init__(self) -> None:
        self._renew()
        _all.add(self)

    def __enter__(self) -> None:
        self.held.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.held.release()

    def _renew(self) -> None:
        self.held = threading.RLock()


_all: weakref.WeakSet[Lock] = weakref.WeakSet()


def _after_fork() -> None:
    for lock in list(_all):
        lock._renew()


os.register_at_fork(after_in_child=_after_fork)
