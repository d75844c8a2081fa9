"""What all tests of commands have in common."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Take Ctrl-C as Python does, then as before: an interrupted command ignores later ones."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
