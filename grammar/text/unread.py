"""Fields of frozen objects that are made when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

C = TypeVar("C")


class Unread:
    """Stands in a field until the field is asked for, then what it makes does."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], object]) -> None:
        self.make = make


def read_on_use(field: str) -> Callable[[type[C]], type[C]]:
    """Make a field of a class with slots one that may be given as an `Unread`.

    Of two threads that ask at once the later one's stays; both are the same.
    """

    def decorate(cls: type[C]) -> type[C]:
        setattr(cls, field, _OnUse(cls.__dict__[field]))
        return cls

    return decorate


class _OnUse:
    """Reads and writes a slot."""

    def __init__(self, slot: Any) -> None:
        self._slot = slot

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        found = self._slot.__get__(instance, owner)
        if type(found) is Unread:
            found = found.make()
            self._slot.__set__(instance, found)
        return found

    def __set__(self, instance: object, value: object) -> None:
        self._slot.__set__(instance, value)
