"""Tensor comprehensions: write a layer as mathematics, get a fast kernel for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcdsl.codegen.runtime import empty_cache, set_cache_limit
    from tcdsl.definitions import Definitions, define
    from tcdsl.faults import synchronize
    from tcdsl.gradient import grad
    from tcdsl.grammar.errors import TCError
    from tcdsl.kernel import Kernel

__version__ = "0.1.0"
__all__ = [
    "Definitions",
    "Kernel",
    "TCError",
    "define",
    "empty_cache",
    "grad",
    "set_cache_limit",
    "synchronize",
]

# Where the public names come from; each is loaded at its first use, so that the import is light.
_HOME = {
    "Definitions": "tcdsl.definitions",
    "Kernel": "tcdsl.kernel",
    "TCError": "tcdsl.grammar.errors",
    "define": "tcdsl.definitions",
    "empty_cache": "tcdsl.codegen.runtime",
    "grad": "tcdsl.gradient",
    "set_cache_limit": "tcdsl.codegen.runtime",
    "synchronize": "tcdsl.faults",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tcdsl' has no attribute '{name}'")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
