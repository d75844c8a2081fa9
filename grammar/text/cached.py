"""Values that an object computes once, without a lock.

Until Python 3.12 `functools.cached_property` holds a lock while it computes, one for all objects of
a class: two threads that compute values of each other's wait for ever, and so does a forked child
if another thread of its parent was computing. Here both compute, and the first value counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property:  # noqa: N801  # in the place of the standard library's
        """A method without arguments whose value is kept in the object's ``__dict__``."""

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self.compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = self.compute(instance)
            return instance.__dict__.setdefault(self.name, value)
