"""Where a module's new tensors lie, and of which type: `device=` and `dtype=`, once for all."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tcdsl import library
from tcdsl.core import Tensor

__all__ = ["blank", "is_undrawn", "place", "placed", "undrawn"]


class _Place(threading.local):
    """What the constructor that a thread is in was told."""

    device: Any = None
    dtype: Any = None
    draws = True


_here = _Place()


def placed(init: Callable[..., None]) -> Callable[..., None]:
    """Give a constructor the last parameters `device` and `dtype`, as PyTorch's have.

    They hold for every tensor that `blank` makes while it runs, so for the modules that it is made
    of too; one that is None leaves what a constructor around it has said.
    """
    told = inspect.signature(init)
    listed = list(told.parameters.values())
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    at = sum(p.kind is kind for p in listed)
    more = [inspect.Parameter(name, kind, default=None) for name in ("device", "dtype")]

    @functools.wraps(init)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        own = args[: at - 1]
        given = dict(zip(("device", "dtype"), args[at - 1 :], strict=False))
        own += args[at + 1 :]  # too many: the constructor says so
        given |= {name: kwargs.pop(name) for name in ("device", "dtype") if name in kwargs}
        if not given:
            init(self, *own, **kwargs)
            return
        with _told(**given):
            init(self, *own, **kwargs)

    wrapped.__signature__ = told.replace(  # type: ignore[attr-defined]
        parameters=[*listed[:at], *more, *listed[at:]]
    )
    return wrapped


@contextlib.contextmanager
def _told(device: Any = None, dtype: Any = None) -> Iterator[None]:
    before = _here.device, _here.dtype
    _here.device = before[0] if device is None else device
    _here.dtype = before[1] if dtype is None else dtype
    try:
        yield
    finally:
        _here.device, _here.dtype = before


def blank(*sizes: Any) -> Tensor:
    """Return a tensor of undefined contents, where and of the type that constructors are told."""
    made: Tensor = library.empty(*sizes, dtype=_here.dtype, device=_here.device)
    return made


def place() -> Any:
    """Return the device that the constructor is told, None for the default."""
    return _here.device


@contextlib.contextmanager
def undrawn() -> Iterator[None]:
    """Leave parameters as they are found: no number is drawn in this block, none written."""
    before, _here.draws = _here.draws, False
    try:
        yield
    finally:
        _here.draws = before


def is_undrawn() -> bool:
    """Whether parameters are to be left as they are found."""
    return not _here.draws
