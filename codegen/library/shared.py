"""Shared objects in this process, by the dynamic loader's own functions.

`ctypes.CDLL` makes classes for each object that it opens, which takes longer than to open it.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_itself = ctypes.CDLL(None)
_open, _find, _why = _itself.dlopen, _itself.dlsym, _itself.dlerror
_open.argtypes, _open.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
_find.argtypes, _find.restype = (ctypes.c_void_p, ctypes.c_char_p), ctypes.c_void_p
_why.argtypes, _why.restype = (), ctypes.c_char_p


def opened(path: Path) -> int:
    """Return the handle of a shared object, which stays loaded.

    Raises
    ------
    OSError
        If it is none.
    """
    handle: int | None = _open(os.fsencode(path), os.RTLD_NOW)
    if not handle:
        raise OSError(f"'{path}' cannot be loaded: {(_why() or b'?').decode(errors='replace')}")
    return handle


def address_in(handle: int, symbol: str) -> int | None:
    """Return the address of what an object exports by this name, None where it has no such."""
    address: int | None = _find(handle, symbol.encode())
    return address
