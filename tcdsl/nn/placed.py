"""Where a module's new tensors lie, and of which type: `device=` and `dtype=`, once for all."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec

from tcdsl import library
from tcdsl.core import Tensor
from tcdsl.ops.arguments import parameters_of

__all__ = ["blank", "is_undrawn", "place", "placed", "undrawn"]

P = ParamSpec("P")


class _Place(threading.local):
    """What the constructor that a thread is in was told."""

    device: Any = None
    dtype: Any = None
    draws = True


_here = _Place()


def placed(init: Callable[P, None]) -> Callable[P, None]:
    """Let what a constructor's last parameters `device` and `dtype` say hold while it runs.

    They hold for every tensor that `blank` makes, so for the modules that it is made of too; one
    that is None leaves what a constructor around it has said. The constructor need not read them.
    """
    names = parameters_of(init)
    places = {name: names.index(name) for name in ("device", "dtype")}

    @functools.wraps(init)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        said = {n: args[at] if at < len(args) else kwargs.get(n) for n, at in places.items()}
        with _told(**said):
            init(*args, **kwargs)

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
