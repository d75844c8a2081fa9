"""Work that nobody waits for, done while a compiler is at work.

What a process keeps for later ones takes milliseconds (most of them to ask whether the generator
is still the same), and a compiler that has its text leaves this process nothing else to do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Work = Callable[[], object]


class _Here(threading.local):
    """Of a thread: what is left to do, None where work is done at once."""

    left: list[Work] | None = None


_here = _Here()


@contextmanager
def held() -> Iterator[None]:
    """Hold work until a compiler is waited for in here, or the end; an error leaves it undone."""
    if _here.left is not None:
        yield
        return
    _here.left = []
    try:
        yield
        do()
    finally:
        _here.left = None


def later(work: Work) -> None:
    """Do some work while a compiler is at work in this thread; now, where nobody holds it."""
    if _here.left is None:
        work()
    else:
        _here.left.append(work)


def do() -> None:
    """Do what is held in this thread: a compiler was started, and is waited for next."""
    while _here.left:
        _here.left.pop(0)()
