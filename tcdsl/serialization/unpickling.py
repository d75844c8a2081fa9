"""Pickles of somebody unknown: which steps they may take, and what is wrong with them."""

from __future__ import annotations

import _compat_pickle
import collections
import contextlib
import pickle
import struct
from collections.abc import Callable, Iterator
from typing import IO, Any, ClassVar

from tcdsl.serialization.names import ALLOWED

__all__ = ["Careful", "Nothing", "damage", "unpickled"]


class _Names:
    """What names and storages of a pickle mean."""

    def __init__(
        self, file: IO[bytes], held: Callable[[Any], Any], weights_only: bool, **settings: Any
    ) -> None:
        super().__init__(file, **settings)  # type: ignore[call-arg]  # of an unpickler
        self._held = held
        self._weights_only = weights_only

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name means here."""
        now = _compat_pickle.NAME_MAPPING.get((module, name), (module, name))  # of Python 2
        known = ALLOWED.get((_compat_pickle.IMPORT_MAPPING.get(now[0], now[0]), now[1]))
        if known is not None:
            return known
        if self._weights_only:
            raise pickle.UnpicklingError(
                f"Weights only load failed: the file names {module}.{name}, which is no tensor, "
                "number or container\n  if you trust the file, which may run anything then: "
                "load(..., weights_only=False)"
            )
        return super().find_class(module, name)  # type: ignore[misc]

    def persistent_load(self, pid: Any) -> Any:
        """Return the storage that a pickle refers to."""
        return self._held(pid)


class _Trusting(_Names, pickle.Unpickler):
    """Reads a pickle that may do anything."""


_Open: Any = getattr(pickle, "_Unpickler")  # noqa: B009  # Python's own, whose steps are open


class Careful(_Names, _Open):  # type: ignore[misc]  # its stub has none of what is used here
    """Reads a pickle of somebody unknown: allowed names make objects, and change nothing else.

    A step of a pickle sets any attribute of any object that it has, classes among them; others make
    a list of a range of any length, or ask for any amount of memory.
    """

    dispatch: ClassVar[dict[int, Any]] = _Open.dispatch.copy()

    def load_global(self) -> None:
        """Take a name, which has to end."""
        module, word = self.readline(), self.readline()
        if not word.endswith(b"\n"):
            raise pickle.UnpicklingError("the file is damaged: its pickle ends within a name")
        self.append(self.find_class(module[:-1].decode(), word[:-1].decode()))

    dispatch[pickle.GLOBAL[0]] = load_global

    def load_build(self) -> None:
        """Set attributes of mappings only."""
        changed = type(self.stack[-2])
        if changed not in (collections.OrderedDict, Nothing):
            raise pickle.UnpicklingError(
                f"Weights only load failed: the file sets attributes of a {changed.__name__}"
            )
        _Open.load_build(self)

    dispatch[pickle.BUILD[0]] = load_build

    def load_reduce(self) -> None:
        """Call a function, but make no container of any length."""
        function, args = self.stack[-2:]
        if function in _CONTAINERS and any(isinstance(a, int | range) for a in args):
            raise pickle.UnpicklingError(
                f"Weights only load failed: the file makes a {function.__name__} of "
                f"{args[0]!r:.40}, which may be of any length"
            )
        _Open.load_reduce(self)

    dispatch[pickle.REDUCE[0]] = load_reduce

    def load_bytearray8(self) -> None:
        """Take bytes, as many as the file has."""
        size = int.from_bytes(self.read(8), "little")
        self.append(bytearray(self.read(size)))  # of a file that is shorter, what there is

    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8

    def load_newobj(self) -> None:
        """Refuse to make an object by a class."""
        raise pickle.UnpicklingError(
            "Weights only load failed: the file makes an object by a class"
        )

    dispatch[pickle.NEWOBJ[0]] = dispatch[pickle.NEWOBJ_EX[0]] = load_newobj
    dispatch[pickle.OBJ[0]] = dispatch[pickle.INST[0]] = load_newobj


_CONTAINERS = (
    list, set, frozenset, bytearray, collections.Counter, collections.OrderedDict,
    collections.defaultdict,
)  # fmt: skip


def unpickled(
    file: IO[bytes], held: Callable[[Any], Any], weights_only: bool, **settings: Any
) -> Any:
    """Read a pickle; whatever is wrong with its bytes is one error."""
    reader = Careful if weights_only else _Trusting
    with damage():
        return reader(file, held, weights_only, **settings).load()


@contextlib.contextmanager
def damage() -> Iterator[None]:
    """Make one error of all that a damaged pickle leads to."""
    try:
        yield
    except (pickle.UnpicklingError, RuntimeError, ImportError, MemoryError):
        raise
    except (
        EOFError, ValueError, TypeError, LookupError, AttributeError, AssertionError,
        OverflowError, struct.error,
    ) as error:  # fmt: skip
        raise pickle.UnpicklingError(
            f"the file is damaged, or no file of tensors: {error}"
        ) from error


class Nothing:
    """Takes the place of whatever a pickle makes."""

    def __new__(cls, *args: object, **kwargs: object) -> Any:
        """Take whatever an object is made of, and forget it."""
        return object.__new__(cls)

    def __setstate__(self, state: object) -> None:
        """Take a state in and forget it."""

    def __setitem__(self, key: object, value: object) -> None:
        """Take a member in and forget it."""

    def append(self, value: object) -> None:
        """Take a member in and forget it."""

    def extend(self, values: object) -> None:
        """Take members in and forget them."""

    def add(self, value: object) -> None:
        """Take a member in and forget it."""
