"""Names, methods and operators that mean one thing to scripts and another to the library.

The library computes with its own names too, and goes on to mean what it has always meant: a swapped
name looks who calls it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from tcdsl.core import Tensor, operator
from tcdsl.ops.table import METHODS, PUBLIC

__all__ = ["OF_TORCH", "for_scripts", "swap_method", "swap_name", "swap_operator"]

OF_TORCH: dict[str, Any] = {}  # names of the module `torch` that are not the library's


def for_scripts(then: Callable[..., Any], now: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is `then` to scripts and `now` to the library."""

    def either(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        chosen = now if caller.startswith("tcdsl.") else then
        return chosen(*args, **kwargs)

    functools.update_wrapper(either, then, updated=())
    return either


def swap_name(name: str, then: Callable[..., Any]) -> None:
    """Let `torch.NAME` be another function."""
    OF_TORCH[name] = then


def swap_method(name: str, then: Callable[..., Any]) -> None:
    """Let a method of tensors be another function where scripts call it."""
    setattr(Tensor, name, for_scripts(then, getattr(Tensor, name)))


def swap_operator(name: str, then: Callable[..., Any], now: Callable[..., Any]) -> None:
    """Let an operator of the language on tensors be another function in scripts."""
    operator(name, for_scripts(then, now))


def swap_everywhere(name: str, then: Callable[..., Any]) -> None:
    """Let `torch.NAME` and the method be another function where they are there."""
    if name in PUBLIC:
        swap_name(name, then)
    if name in METHODS:
        swap_method(name, then)
