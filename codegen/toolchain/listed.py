"""Records that are lists, to which processes add: read once, and again where others have added."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from tcdsl.codegen.toolchain import records
from tcdsl.codegen.toolchain.contentfile import files_of, last_changes

T = TypeVar("T")


class Listed(Generic[T]):
    """What the lists of a kind say of some parts, one after the other.

    Whoever adds writes a list with all that he has found, in place of those. Where two do so at
    once there are two lists.

    Parameters
    ----------
    kind, parts
        As of `records.read`.
    decode : callable
        Gets the values of all lists, which may be anything that is JSON. What it raises a
        `ValueError` for is removed.
    """

    def __init__(
        self, kind: str, parts: Sequence[str], decode: Callable[[Iterable[object]], T]
    ) -> None:
        self._kind, self._parts, self._decode = kind, parts, decode
        self._key = records.key_of(kind, parts)
        self._names: tuple[str, ...] | None = None
        self._changes: object = None  # of the folders that these are in, where they tell
        self._found = decode(())

    @property
    def known(self) -> T:
        """What the lists said when they were read last; of none, where they were not yet."""
        return self._found

    @property
    def found(self) -> T:
        """What all lists say."""
        changes = None if self._key is None else last_changes(self._key)
        if changes is None or changes != self._changes:
            names = self._files()
            if names != self._names:
                lists = [*records.read_all(self._kind, self._parts, self._list)]
                self._found = self._decode(value for one in lists for value in one)
                self._names = names
            self._changes = changes
        return self._found

    def write(self, values: Sequence[object], name: str) -> None:
        """Keep a list in place of those that were found; name: as of `records.write`."""
        before = self._names or ()
        records.write(self._kind, self._parts, values, name)
        now = self._files()
        if not {*now} <= {*before}:  # else it is the same list, or could not be kept
            for path in {*now} & {*before}:
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def _files(self) -> tuple[str, ...]:
        return () if self._key is None else files_of(self._key, records.SUFFIX)

    def _list(self, value: object) -> list[object]:
        if not isinstance(value, list):
            raise ValueError("it is no list")
        self._decode(value)
        return value
