"""Names for blocks of a program, which profiles show."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, Self, TypeVar

from tcdsl.profiler import tracing

__all__ = ["record_function"]

F = TypeVar("F", bound=Callable[..., Any])


class record_function:  # noqa: N801 - PyTorch's name
    """Show a block, or each call of a function, under a name.

    Examples
    --------
    >>> from tcdsl.profiler import profile, record_function
    >>> with profile() as prof, record_function("my block"):
    ...     pass
    >>> [e.name for e in prof.events()]
    ['my block']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name if args is None else f"{name}({args})"
        self._starts: list[int] = []  # of blocks that are within each other

    def __enter__(self) -> Self:
        self._starts.append(time.perf_counter_ns())
        return self

    def __exit__(self, *exception: object) -> None:
        start = self._starts.pop()
        if tracing.is_recording():
            tracing.label(self.name, start)

    def __call__(self, function: F) -> F:
        """Return the function, whose calls are shown."""

        @functools.wraps(function)
        def labelled(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.name):
                return function(*args, **kwargs)

        return labelled  # type: ignore[return-value] # the signature of what it wraps
