"""A fork waits for what other threads import: a child could never finish it.

Our modules, and those that they need, are imported at their first use, in whatever thread. A module
that was half run is locked in a forked child by a thread that it does not have.

Of what is registered for forks the last goes first, so `logging` is imported before: a module that
asks it for a logger as it is imported would wait for the lock that it holds over a fork.

Not part of `tcdsl/__init__.py`: names of the library, as `min`, are that module's own.
"""

from __future__ import annotations

import _imp
import logging  # noqa: F401 - see above
import os
import sys
import threading
import time
from contextlib import suppress

_STUCK_S = 5  # an import that waits for who forks would never end
_MOST_S = 30  # nor does that of a whole program


def _await() -> None:
    """Let other threads finish their imports, as long as they go on; then let none begin.

    While we hold Python's lock of all imports no module is locked anew.
    """
    me = threading.get_ident()
    begun = moved = time.monotonic()
    before: set[tuple[int, int, int]] = set()
    while time.monotonic() < min(moved + _STUCK_S, begun + _MOST_S):
        _imp.acquire_lock()
        if (importers := _importers()) <= {me}:
            return
        _imp.release_lock()
        time.sleep(0.001)
        frames = sys._current_frames().items()
        at = {(one, id(f), f.f_lasti) for one, f in frames if one in importers}
        if at != before:  # on a busy machine a module may take seconds
            before, moved = at, time.monotonic()


def _go_on() -> None:
    """Let other threads import again, behind a fork: in the parent and in the child."""
    with suppress(RuntimeError):  # nobody holds the lock: it was waited for in vain
        _imp.release_lock()


def _importers() -> set[int | None]:
    """Return the threads that are importing modules; None is one that is about to."""
    held = getattr(sys.modules["_frozen_importlib"], "_module_locks", {})
    locks = [lock for found in [*held.values()] if (lock := found()) is not None]
    return {getattr(lock, "owner", None) for lock in locks}


os.register_at_fork(before=_await, after_in_parent=_go_on, after_in_child=_go_on)
