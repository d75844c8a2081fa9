"""Who hears that a call waited for its executable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["listeners", "waiting"]

listeners: list[Callable[[str, int], None]] = []  # name of the definition, begin by perf_counter_ns


@contextmanager
def waiting(name: str) -> Iterator[None]:
    """Tell the listeners when the block ends, if there are any then."""
    start_ns = time.perf_counter_ns()
    try:
        yield
    finally:
        for hear in tuple(listeners):
            hear(name, start_ns)
