"""Executables for all sizes, built aside once a program is seen to change its sizes.

The first call that has to wait for one says so: a last batch, or another length of a text, is met
by kernel after kernel. Those that have had first sizes only follow in the order of their first
calls, and each is there, or half done, when its call comes. Before that nobody builds them: most
programs have one size.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from weakref import WeakMethod

from tcdsl.calls.process.locks import Lock

_MOST = 1000  # that are known


class Changing:
    """What is to be built when sizes change, and whether they have."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._follow: list[WeakMethod[Callable[[], None]]] = []
        self._has_changed = False

    def met(self, follow: Callable[[], None]) -> None:
        """Note what builds aside, a method; or call it, where sizes have changed before."""
        with self._lock:
            if not self._has_changed:
                del self._follow[: len(self._follow) + 1 - _MOST]
                self._follow.append(WeakMethod(follow))
                return
        follow()

    def changed(self) -> None:
        """Say that a call has to wait for an executable for all sizes.

        A thread builds those that follow: the caller has locks, and they want others.
        """
        with self._lock:
            self._has_changed = True
            follow, self._follow = self._follow, []
        if follow:
            _start(follow)


_Follow = Sequence[WeakMethod[Callable[[], None]]]


def _start(follow: _Follow) -> None:
    thread = threading.Thread(target=_all, args=(follow,), name="tcdsl sizes", daemon=True)
    with contextlib.suppress(RuntimeError):  # no more threads, or Python is ending
        thread.start()


def _all(follow: _Follow) -> None:
    for one in follow:
        if (build := one()) is not None:
            build()


sizes = Changing()  # of this process
