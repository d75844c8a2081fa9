"""Results of several tensors: named tuples that print as PyTorch's do."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

__all__ = ["named", "result"]


def _shown(self: Any) -> str:
    parts = (f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
    return f"torch.return_types.{type(self).__name__}(\n" + ",\n".join(parts) + ")"


def _reduced(self: Any) -> Any:
    return _remade, (type(self).__name__, self._fields, tuple(self))


def _remade(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return result(name, *fields)(*values)


@cache
def result(name: str, *fields: str) -> Any:
    """Return the type of a function's results.

    Parameters
    ----------
    name : str
        The function's, which its results print.
    fields : str
    """
    methods = {"__slots__": (), "__repr__": _shown, "__reduce__": _reduced, "__module__": __name__}
    return type(name, (namedtuple(name, fields),), methods)


def named(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose results of values and indices, where it gives them, have its name."""
    kind = result(function.__name__, "values", "indices")

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        return kind(*found) if isinstance(found, tuple) else found

    return called
