"""What stands beside a model: its data, and memory for time."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    """Load a room when it is named: `tcdsl.utils.data` needs no import of its own, as in torch."""
    if name in ("checkpoint", "data"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
