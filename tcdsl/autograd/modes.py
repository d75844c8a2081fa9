"""Whether calls are recorded: per thread, for a block, a function, or until further notice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from inspect import isgeneratorfunction
from typing import Any, ClassVar, TypeVar

from tcdsl import core
from tcdsl.core import is_grad_enabled

F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["enable_grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled"]


class _Mode:
    """A context manager and decorator under which calls are recorded or not."""

    def __init__(self, on: bool) -> None:
        self._on = on
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(core.set_grad_enabled(self._on))

    def __exit__(self, *exception: object) -> None:
        core.set_grad_enabled(self._before.pop())

    def __call__(self, function: F) -> F:
        """Return a function whose calls are in this mode; of a generator, its steps."""
        on = self._on
        if isgeneratorfunction(function):
            return self._of_generator(function)

        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            before = core.set_grad_enabled(on)
            try:
                return function(*args, **kwargs)
            finally:
                core.set_grad_enabled(before)

        return wrapped  # type: ignore[return-value]

    def _of_generator(self, function: Any) -> Any:
        on = self._on

        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            step: Callable[[], Any] = partial(next, generator)
            while True:
                before = core.set_grad_enabled(on)
                try:
                    value = step()
                except StopIteration as end:
                    return end.value
                finally:
                    core.set_grad_enabled(before)
                try:
                    sent = yield value
                    step = partial(generator.send, sent)
                except GeneratorExit:
                    generator.close()
                    raise
                except BaseException as error:
                    step = partial(generator.throw, error)

        return wrapped


class _Named(_Mode):
    """A mode with a name of its own, which may stand before a function without brackets."""

    _records: ClassVar[bool]

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """Return the mode, or the function that it stands before."""
        made = super().__new__(cls)
        if function is None:
            return made
        made.__init__()  # type: ignore[misc]
        return made(function)

    def __init__(self, function: None = None) -> None:
        super().__init__(on=self._records)


class no_grad(_Named):  # noqa: N801 - PyTorch's name
    """Record nothing: in a ``with`` block, or in calls of a function that it decorates.

    Examples
    --------
    >>> with no_grad():
    ...     is_grad_enabled()
    False
    """

    _records = False


class enable_grad(_Named):  # noqa: N801 - PyTorch's name
    """Record calls, also within `no_grad`: in a block, or in calls of a function."""

    _records = True


class set_grad_enabled(_Mode):  # noqa: N801 - PyTorch's name
    """Record calls or not, from now on; as a context manager, until its block ends.

    Parameters
    ----------
    mode : bool
    """

    def __init__(self, mode: bool) -> None:
        super().__init__(on=bool(mode))
        self._first: bool | None = core.set_grad_enabled(bool(mode))

    def __enter__(self) -> None:
        if self._first is None:
            super().__enter__()
            return
        self._before.append(self._first)
        self._first = None

    def __call__(self, function: F) -> F:
        """Return a function whose calls are in this mode."""
        if self._first is not None:  # to decorate is not to switch
            core.set_grad_enabled(self._first)
            self._first = None
        return super().__call__(function)


class inference_mode(_Mode):  # noqa: N801 - PyTorch's name
    """Record nothing: what `no_grad` is. Tensors made within may be used in recorded calls later.

    Parameters
    ----------
    mode : bool or callable
        With False calls are recorded, as with `enable_grad`; a function is one that
        `@inference_mode` stands before.
    """

    def __new__(cls, mode: Any = True) -> Any:
        """Return the mode, or the function that `@inference_mode` stands before."""
        made = super().__new__(cls)
        if not callable(mode):
            return made
        made.__init__()  # type: ignore[misc]
        return made(mode)

    def __init__(self, mode: bool = True) -> None:
        super().__init__(on=not mode)
