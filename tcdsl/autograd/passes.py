"""Whether the backward pass that a thread is at keeps what the graph has saved."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

__all__ = ["keeps", "running"]


class _Pass(threading.local):
    keeps = False  # of passes that the core begins by itself: ``loss.backward()``


_pass = _Pass()


def keeps() -> bool:
    """Whether what is saved is wanted again: True outside of a pass."""
    return _pass.keeps


@contextlib.contextmanager
def running(keep: bool) -> Iterator[None]:
    """Run a pass that keeps what is saved, or does not."""
    before, _pass.keeps = _pass.keeps, keep
    try:
        yield
    finally:
        _pass.keeps = before
