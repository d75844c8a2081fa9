"""Tensor comprehensions: write a layer as mathematics, get a fast kernel for it."""

from __future__ import annotations

import sys as _sys
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING, Any

from tcdsl.calls.process import imports as _imports  # noqa: F401 - forks wait for those now
from tcdsl.calls.process.places import found_in as _found_in
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
    from tcdsl.reverse_mode import grad
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
    "grad": "tcdsl.reverse_mode",
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
        if not isinstance(value, type):  # pickles of classes name their files
            _found_in("tcdsl", {name: value})
        globals()[name] = value
        return value

    def _loaded(name: str) -> Any:
        from importlib import import_module

        from tcdsl.grammar.text.garbage import sought_seldom

        with sought_seldom():
            return import_module(name)

    # A file of that name would take the place of the function `tcdsl.gradient`: an import sets it.
    # Programs and pickles of earlier versions find here what `tcdsl.reverse_mode` has.
    _earlier = _ModuleType("tcdsl.gradient")
    _earlier.__getattr__ = lambda name: getattr(_loaded("tcdsl.reverse_mode"), name)
    _sys.modules[_earlier.__name__] = _earlier


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *ROOMS, *LIBRARY})
