"""load: zips of a pickle and of storages, and the files of PyTorch before 1.6."""

from __future__ import annotations

import _compat_pickle
import collections
import contextlib
import errno
import io
import os
import pickle
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from tcdsl.codegen.device import devices
from tcdsl.core.dtypes import DType
from tcdsl.serialization.names import ALLOWED, Held

__all__ = ["load"]

_MAGIC = 0x1950A86A20F9469CFC6C  # what the files of before begin with
_PROTOCOL = 1001


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
) -> Any:
    """Read what `save` has written, or PyTorch's.

    Parameters
    ----------
    f : str, path or file open for reading bytes, which can seek
    map_location : device, str, mapping of str to str, or callable, optional
        Where tensors go that lay elsewhere, as on 'cuda:0'; by default they have to lie there.
    pickle_module : ignored
        The format has one way.
    weights_only : bool
        Read tensors, numbers, strings and Python's own containers only. False also runs whatever
        the file says: only for files that you trust.
    mmap : ignored

    Returns
    -------
    object
        What was saved; tensors that shared memory share it.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    pickle.UnpicklingError
        If the file names something that is not allowed, or is no such file.
    RuntimeError
        If it is damaged, or tensors lie where this machine has nothing.
    """
    if not hasattr(f, "read"):
        with Path(os.fspath(f)).open("rb") as file:
            return load(file, map_location, weights_only=weights_only)
    begin = f.tell()
    head = f.read(4)
    if not isinstance(head, bytes):
        raise TypeError("load reads bytes: open the file by open(path, 'rb')")
    is_zip = head == b"PK\x03\x04"
    f.seek(begin)
    read = _read_zip if is_zip else _read_legacy
    return read(f, _placing(map_location), weights_only)


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


class _Careful(_Names, _Open):  # type: ignore[misc]  # its stub has none of what is used here
    """Reads a pickle of somebody unknown: allowed names make objects, and change nothing else.

    A step of a pickle sets any attribute of any object that it has, classes among them; others make
    a list of a range of any length, or ask for any amount of memory.
    """

    dispatch: ClassVar[dict[int, Any]] = _Open.dispatch.copy()

    def load_global(self) -> None:
        module, word = self.readline(), self.readline()
        if not word.endswith(b"\n"):
            raise pickle.UnpicklingError("the file is damaged: its pickle ends within a name")
        self.append(self.find_class(module[:-1].decode(), word[:-1].decode()))

    dispatch[pickle.GLOBAL[0]] = load_global

    def load_build(self) -> None:
        changed = type(self.stack[-2])
        if changed not in (collections.OrderedDict, _Nothing):
            raise pickle.UnpicklingError(
                f"Weights only load failed: the file sets attributes of a {changed.__name__}"
            )
        _Open.load_build(self)

    dispatch[pickle.BUILD[0]] = load_build

    def load_reduce(self) -> None:
        function, args = self.stack[-2:]
        if function in _CONTAINERS and any(isinstance(a, int | range) for a in args):
            raise pickle.UnpicklingError(
                f"Weights only load failed: the file makes a {function.__name__} of "
                f"{args[0]!r:.40}, which may be of any length"
            )
        _Open.load_reduce(self)

    dispatch[pickle.REDUCE[0]] = load_reduce

    def load_bytearray8(self) -> None:
        size = int.from_bytes(self.read(8), "little")
        self.append(bytearray(self.read(size)))  # of a file that is shorter, what there is

    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8

    def load_newobj(self) -> None:
        raise pickle.UnpicklingError(
            "Weights only load failed: the file makes an object by a class"
        )

    dispatch[pickle.NEWOBJ[0]] = dispatch[pickle.NEWOBJ_EX[0]] = load_newobj
    dispatch[pickle.OBJ[0]] = dispatch[pickle.INST[0]] = load_newobj


_CONTAINERS = (
    list, set, frozenset, bytearray, collections.Counter, collections.OrderedDict,
    collections.defaultdict,
)  # fmt: skip


def _unpickled(
    file: IO[bytes], held: Callable[[Any], Any], weights_only: bool, **settings: Any
) -> Any:
    """Read a pickle; whatever is wrong with its bytes is one error."""
    reader = _Careful if weights_only else _Trusting
    with _damage():
        return reader(file, held, weights_only, **settings).load()


@contextlib.contextmanager
def _damage() -> Iterator[None]:
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


@contextlib.contextmanager
def _damaged_zip() -> Iterator[None]:
    """Make one error of all that a damaged zip leads to."""
    try:
        yield
    except (
        zipfile.BadZipFile, EOFError, ValueError, LookupError, OverflowError, NotImplementedError,
        struct.error,
    ) as error:  # fmt: skip
        raise RuntimeError(f"the file is damaged: {error}") from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # a place before the file's first byte
            raise
        raise RuntimeError("the file is damaged: its parts lie outside of it") from error


def _described(pid: Any) -> tuple[DType, str, str, int]:
    """Return what a reference says of a storage: type, name, place, elements."""
    if (
        not isinstance(pid, tuple)
        or len(pid) < 5
        or pid[0] != "storage"
        or not isinstance(pid[1], DType)
        or not all(isinstance(word, str) for word in pid[2:4])
        or type(pid[4]) is not int
        or pid[4] < 0
    ):
        raise pickle.UnpicklingError(f"the file refers to no storage: {pid!r:.80}")
    return pid[1], pid[2], pid[3], pid[4]


def _read_zip(f: IO[bytes], place: Callable[[str], str], weights_only: bool) -> Any:
    with _damaged_zip():
        archive = zipfile.ZipFile(f)
    with archive:
        entries = {info.filename: info for info in archive.infolist()}
        text = next((name for name in entries if name.endswith("/data.pkl")), None)
        if text is None:
            raise RuntimeError("the file is a zip without data.pkl: nothing that save has written")
        root = text.removesuffix("data.pkl")

        def entry(name: str) -> bytes:
            info = entries.get(root + name)
            if info is None:
                raise RuntimeError(f"the file is damaged: it has no '{root + name}'")
            if info.compress_type != zipfile.ZIP_STORED:
                raise RuntimeError(f"the file is damaged: '{root + name}' is compressed")
            with _damaged_zip():
                return archive.read(info)

        order = entry("byteorder") if root + "byteorder" in entries else b"little"
        if order not in (b"little", b"big"):
            raise RuntimeError(f"the file is damaged: its order of bytes is {order!r:.40}")
        known: dict[tuple[str, DType], Held] = {}

        def held(pid: Any) -> Held:
            kind, key, location, count = _described(pid)
            if (key, kind) not in known:
                device = place(location)
                raw = bytearray(entry(f"data/{key}"))
                known[key, kind] = Held(_elements(raw, kind, count, order.decode()), device)
            return known[key, kind]

        return _unpickled(io.BytesIO(entry("data.pkl")), held, weights_only, encoding="utf-8")


def _elements(raw: bytearray, kind: DType, count: int, order: str) -> np.ndarray[Any, Any]:
    """Return the elements of a storage in this machine's order of bytes."""
    if len(raw) < count * kind.itemsize:
        raise RuntimeError(
            f"the file is damaged: a storage of {count} {kind.name} has {len(raw)} bytes"
        )
    array = np.frombuffer(raw, np.uint8, count * kind.itemsize).view(kind.numpy)
    return array if order == sys.byteorder else array.view().byteswap(inplace=True)


def _read_legacy(f: IO[bytes], place: Callable[[str], str], weights_only: bool) -> Any:
    """Read a file of pickles one behind the other, then of storages: PyTorch before 1.6."""
    nothing: Callable[[Any], Any] = _described

    def plain() -> Any:
        return _unpickled(f, nothing, True)

    if plain() != _MAGIC:
        raise pickle.UnpicklingError("the file is none that save has written")
    if plain() != _PROTOCOL:
        raise pickle.UnpicklingError("the file has a format that is not known")
    system = plain()
    order = "little" if not isinstance(system, dict) or system.get("little_endian") else "big"
    known: dict[str, tuple[DType, int, Held]] = {}

    def held(pid: Any) -> Held:
        kind, key, location, count = _described(pid)
        if len(pid) > 5 and pid[5] is not None:
            raise RuntimeError("the file has a storage that is a part of another: not supported")
        if key not in known:
            known[key] = kind, count, Held(np.empty(0, kind.numpy), place(location))
        return known[key][2]

    # tensors are made when their storages are there: the pickle is read twice
    begin = f.tell()
    with _damage():
        _Skipper(f, held, weights_only).load()
    keys = plain()
    after = f.tell()
    room = f.seek(0, os.SEEK_END) - after
    f.seek(after)
    for key in keys if isinstance(keys, list) else [None]:
        if not isinstance(key, str) or key not in known:
            raise RuntimeError("the file is damaged: it has a storage that nothing refers to")
        kind, count, storage = known[key]
        head = f.read(8)
        if len(head) != 8 or struct.unpack("<q" if order == "little" else ">q", head)[0] != count:
            raise RuntimeError("the file is damaged: a storage has another extent")
        if count * kind.itemsize > room:
            raise RuntimeError("the file is damaged: it ends within a storage")
        raw = bytearray(f.read(count * kind.itemsize))
        storage.elements = _elements(raw, kind, count, order)
    end = f.tell()
    f.seek(begin)
    result = _unpickled(f, held, weights_only, encoding="utf-8")
    f.seek(end)
    return result


class _Skipper(_Careful):
    """Reads a pickle for the storages that it refers to, and makes nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return storages' types as they are; all else makes nothing."""
        known = super().find_class(module, name)
        return known if isinstance(known, DType) else _Nothing


class _Nothing:
    """Takes the place of whatever a pickle makes."""

    def __new__(cls, *args: object, **kwargs: object) -> Any:
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


def _placing(map_location: Any) -> Callable[[str], str]:
    """Return what says where a storage shall lie, by where it lay; raises where nothing can."""

    def place(location: str) -> str:
        wanted = location
        if isinstance(map_location, dict):
            wanted = str(map_location.get(location, location))
        elif map_location is not None and not callable(map_location):
            wanted = str(map_location)
        elif map_location is not None:
            wanted = "cpu"
        if wanted != "cpu" and not devices.count():
            raise RuntimeError(
                "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() "
                "is False. If you are running on a CPU-only machine, please use torch.load with "
                f"map_location=torch.device('cpu') to map your storages to the CPU: '{wanted}'"
            )
        return wanted

    return place
