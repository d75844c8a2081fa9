"""Executables for all sizes, built aside once a program is seen to change its sizes.

The first call that has to wait for one says so: a last batch, or another length of a text, is met
by kernel after kernel. Those that have had first sizes only follow in the order of their first
calls, every other one first: each call comes to one that is there or that it compiles itself, while
the next but one is built. One after the other, it would come to what was just begun, and wait for
all of it. Before that nobody builds them: most programs have one size.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Protocol
from weakref import WeakMethod

from tcdsl.calls.process.locks import Lock

_MOST = 1000  # that are known


class Follow(Protocol):
    """What builds aside."""

    def __call__(self, *, is_later: bool) -> bool:
        """Have it built, or later than others; return whether there is something to be built."""


class Changing:
    """What is to be built when sizes change, and whether they have."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._follow: list[WeakMethod[Follow]] = []
        self._has_changed = False
        self._is_later = False  # the next one that is built

    def met(self, follow: Follow) -> None:
        """Note what builds aside, a method; or call it, where sizes have changed before."""
        with self._lock:
            if not self._has_changed:
                del self._follow[: len(self._follow) + 1 - _MOST]
                self._follow.append(WeakMethod(follow))
                return
        self._build(follow)

    def changed(self) -> None:
        """Say that a call has to wait for an executable for all sizes.

        A thread builds those that follow: the caller has locks, and they want others.
        """
        with self._lock:
            self._has_changed = True
            follow, self._follow = self._follow, []
        if follow:
            _start(self._all, follow)

    def _all(self, follow: _Followers) -> None:
        for one in follow:
            if (build := one()) is not None:
                self._build(build)

    def _build(self, follow: Follow) -> None:
        if follow(is_later=self._is_later):
            self._is_later = not self._is_later


_Followers = Sequence[WeakMethod[Follow]]


def _start(build: Callable[[_Followers], None], follow: _Followers) -> None:
    thread = threading.Thread(target=build, args=(follow,), name="tcdsl sizes", daemon=True)
    with contextlib.suppress(RuntimeError):  # no more threads, or Python is ending
        thread.start()


sizes = Changing()  # of this process
