"""Where what is public is found: pickles look there, whatever file defines it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any

__all__ = ["found_in", "is_private"]

_ROOMS = {"tcdsl", "tcdsl.session"}  # public ones, as far as they are imported


def found_in(room: str, values: Mapping[str, Any] | None = None) -> None:
    """Let functions and classes say that they are found in a public room, unless in another one.

    Pickles hold what they say, and are read when files have been arranged in another way.

    Parameters
    ----------
    room : str
        A module, which has them.
    values : mapping from str to anything, optional
        By default what the module lists in ``__all__``. What is of others, and what has no name,
        is passed over.
    """
    if values is None:
        has = vars(sys.modules[room])
        values = {name: has[name] for name in has["__all__"]}
    _ROOMS.add(room)
    for name, value in values.items():
        if not is_private(value):
            continue
        if isinstance(value, FunctionType | BuiltinFunctionType | type):
            value.__module__ = room
            if not isinstance(value, BuiltinFunctionType):
                value.__qualname__ = name
        elif "__module__" in getattr(value, "__dict__", ()):  # a function of the core's
            value.__dict__.update(__module__=room, __qualname__=name)


def is_private(value: Any) -> bool:
    """Return whether what is ours says that it is found in a file, not in a public room."""
    at = getattr(value, "__module__", None)
    return isinstance(at, str) and at.startswith("tcdsl.") and at not in _ROOMS
