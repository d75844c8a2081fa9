"""Tensor comprehensions: write a layer as mathematics, get a fast kernel for it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from tcdsl.names import LIBRARY, ROOMS

if TYPE_CHECKING:
    from tcdsl import autograd
    from tcdsl.autograd.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
    from tcdsl.calls.gpu.faults import synchronize
    from tcdsl.codegen.runtime import (
        empty_cache,
        get_num_threads,
        set_cache_limit,
        set_num_threads,
    )
    from tcdsl.definitions import Definitions, define, define_all
    from tcdsl.forward_mode import jvp
    from tcdsl.gradient import grad
    from tcdsl.grammar.text.errors import (
        AllocationError,
        BoundsError,
        CompileError,
        DeviceError,
        DeviceMemoryError,
        Diagnostic,
        FileError,
        InternalError,
        NoDeviceError,
        Note,
        NumberError,
        RangeError,
        ScheduleError,
        ShapeError,
        TCError,
        TCSyntaxError,
        TCTypeError,
    )
    from tcdsl.kernel import Kernel
    from tcdsl.ops import Tensor
    from tcdsl.warming import Warmed, warm

__version__ = "0.1.0"
__all__ = [
    "AllocationError",
    "BoundsError",
    "CompileError",
    "Definitions",
    "DeviceError",
    "DeviceMemoryError",
    "Diagnostic",
    "FileError",
    "InternalError",
    "NoDeviceError",
    "Kernel",
    "Note",
    "NumberError",
    "RangeError",
    "ScheduleError",
    "ShapeError",
    "TCError",
    "TCSyntaxError",
    "TCTypeError",
    "Tensor",
    "Warmed",
    "autograd",
    "define",
    "define_all",
    "empty_cache",
    "enable_grad",
    "get_num_threads",
    "grad",
    "is_grad_enabled",
    "jvp",
    "no_grad",
    "set_cache_limit",
    "set_grad_enabled",
    "set_num_threads",
    "synchronize",
    "warm",
]

# Where the public names come from; each is loaded at its first use, so that the import is light.
_HOME = {
    "AllocationError": "tcdsl.grammar.text.errors",
    "BoundsError": "tcdsl.grammar.text.errors",
    "CompileError": "tcdsl.grammar.text.errors",
    "DeviceError": "tcdsl.grammar.text.errors",
    "DeviceMemoryError": "tcdsl.grammar.text.errors",
    "Diagnostic": "tcdsl.grammar.text.errors",
    "FileError": "tcdsl.grammar.text.errors",
    "InternalError": "tcdsl.grammar.text.errors",
    "NoDeviceError": "tcdsl.grammar.text.errors",
    "Note": "tcdsl.grammar.text.errors",
    "NumberError": "tcdsl.grammar.text.errors",
    "RangeError": "tcdsl.grammar.text.errors",
    "ScheduleError": "tcdsl.grammar.text.errors",
    "ShapeError": "tcdsl.grammar.text.errors",
    "TCError": "tcdsl.grammar.text.errors",
    "TCSyntaxError": "tcdsl.grammar.text.errors",
    "TCTypeError": "tcdsl.grammar.text.errors",
    "Definitions": "tcdsl.definitions",
    "Kernel": "tcdsl.kernel",
    "Tensor": "tcdsl.library",
    "Warmed": "tcdsl.warming",
    "define": "tcdsl.definitions",
    "define_all": "tcdsl.definitions",
    "autograd": "tcdsl.autograd",
    "empty_cache": "tcdsl.codegen.runtime",
    "enable_grad": "tcdsl.autograd",
    "get_num_threads": "tcdsl.codegen.runtime",
    "grad": "tcdsl.gradient",
    "is_grad_enabled": "tcdsl.autograd",
    "jvp": "tcdsl.forward_mode",
    "no_grad": "tcdsl.autograd",
    "set_cache_limit": "tcdsl.codegen.runtime",
    "set_grad_enabled": "tcdsl.autograd",
    "set_num_threads": "tcdsl.codegen.runtime",
    "synchronize": "tcdsl.calls.gpu.faults",
    "warm": "tcdsl.warming",
}


if not TYPE_CHECKING:  # to a checker a name that is not above is a slip of the pen

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            home = _loaded(_HOME[name])
            value = home if home.__name__ == f"tcdsl.{name}" else getattr(home, name)
        elif name in ROOMS:
            return _loaded(f"tcdsl.{name}")
        elif name in LIBRARY:
            value = getattr(_loaded("tcdsl.library"), name)
        else:
            raise AttributeError(f"module 'tcdsl' has no attribute '{name}'")
        globals()[name] = value
        return value

    def _loaded(name: str) -> Any:
        from importlib import import_module

        from tcdsl.grammar.text.garbage import sought_seldom

        with sought_seldom():
            return import_module(name)


def _await_imports() -> None:
    """Let other threads finish the imports that they are at, before a fork.

    Our modules, and those that they need, are imported at their first use, in whatever thread. A
    forked child could never finish that: a module that was half run is locked there by a thread
    that it does not have.
    """
    if threading := sys.modules.get("threading"):
        from time import monotonic, sleep

        me = threading.get_ident()
        give_up = monotonic() + 5  # an import that waits for who forks would never end
        while _importers() - {None, me} and monotonic() < give_up:
            sleep(0.001)


def _importers() -> set[Any]:
    """Return the threads that are importing modules."""
    held = getattr(sys.modules["_frozen_importlib"], "_module_locks", {})
    return {getattr(lock(), "owner", None) for lock in list(held.values())}


os.register_at_fork(before=_await_imports)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *ROOMS, *LIBRARY})
