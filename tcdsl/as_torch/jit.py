"""`torch.jit`: functions and modules are what they are, compiled op by op or by `torch.compile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from tcdsl import nn

__all__ = [
    "Final",
    "ScriptModule",
    "annotate",
    "export",
    "freeze",
    "ignore",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "optimize_for_inference",
    "script",
    "script_method",
    "trace",
    "unused",
]

ScriptModule = nn.Module
_isinstance = isinstance


def script(obj: Any, *args: object, **kwargs: object) -> Any:
    """Return a function, a class or a module as it is."""
    return obj


def trace(func: Any, example_inputs: object = None, **kwargs: object) -> Any:
    """Return a function or a module as it is, whatever its branches depend on."""
    return func


def freeze(mod: Any, *args: object, **kwargs: object) -> Any:
    """Return a module as it is."""
    return mod


optimize_for_inference = freeze


def script_method(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method as it is."""
    return fn


export = script_method


def ignore(drop: Any = False, **kwargs: object) -> Any:
    """Return a function as it is, or what does so."""
    return drop if callable(drop) else script_method


def unused(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as it is."""
    return fn


def is_scripting() -> bool:
    """Return False: what runs is Python."""
    return False


def is_tracing() -> bool:
    """Return False: what runs is no record."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the value."""
    return cast(the_type, the_value)


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type, of which containers' elements are not asked."""
    return _isinstance(obj, getattr(target_type, "__origin__", target_type))
