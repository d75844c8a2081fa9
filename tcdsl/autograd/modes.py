"""Whether calls are recorded: per thread, for a block, a function, or until further notice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from inspect import isgeneratorfunction
from typing import Any, ClassVar, TypeVar

from tcdsl import core
from tcdsl.core import is_grad_enabled, is_inference_mode

F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
]


class _Mode:
    """A context manager and decorator under which calls are recorded or not."""

    def __init__(self, on: bool) -> None:
        self._on = on
        self._before: list[Any] = []

    def _begin(self) -> Any:
        """Switch, and return what was before."""
        return core.set_grad_enabled(self._on)

    def _end(self, before: Any) -> None:
        """Switch back."""
        core.set_grad_enabled(before)

    def __enter__(self) -> None:
        self._before.append(self._begin())

    def __exit__(self, *exception: object) -> None:
        self._end(self._before.pop())

    def __call__(self, function: F) -> F:
        """Return a function whose calls are in this mode; of a generator, its steps."""
        if isgeneratorfunction(function):
            return self._of_generator(function)

        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            before = self._begin()
            try:
                return function(*args, **kwargs)
            finally:
                self._end(before)

        return wrapped  # type: ignore[return-value]

    def _of_generator(self, function: Any) -> Any:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            step: Callable[[], Any] = partial(next, generator)
            while True:
                before = self._begin()
                try:
                    value = step()
                except StopIteration as end:
                    return end.value
                finally:
                    self._end(before)
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
    """Record nothing, whatever is said within; what is made within stays out of recorded calls.

    Tensors made within, and views of them, are inference tensors (`Tensor.is_inference`): later,
    outside of the mode, they cannot be written, cannot require grad and cannot be kept for a
    gradient. A clone made outside is a normal tensor.

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
        super().__init__(on=bool(mode))

    def _begin(self) -> Any:
        before = is_inference_mode(), is_grad_enabled()
        core.set_inference_mode(self._on)
        return before

    def _end(self, before: Any) -> None:
        core.set_inference_mode(before[0])
        core.set_grad_enabled(before[1])


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in `inference_mode`."""
    return is_inference_mode()
