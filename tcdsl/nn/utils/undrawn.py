"""Modules whose parameters are not drawn: something else fills them."""

from __future__ import annotations

import inspect
from typing import Any

from tcdsl.nn.modules.module import Module
from tcdsl.nn.placed import undrawn

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """Make a module of a class with parameters of undefined contents; no random number is drawn.

    Raises
    ------
    RuntimeError
        If the class is no module, or its constructor takes no `device`.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with undrawn():
        return module_cls(*args, **kwargs)
