"""load: zips of a pickle and of storages, and the files of PyTorch before 1.6."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from tcdsl.codegen.device import devices
from tcdsl.core.dtypes import DType
from tcdsl.serialization.legacy import read_legacy
from tcdsl.serialization.names import Held
from tcdsl.serialization.storages import described, elements
from tcdsl.serialization.unpickling import unpickled

__all__ = ["load"]


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
    read = _read_zip if is_zip else read_legacy
    return read(f, _placing(map_location), weights_only)


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
            kind, key, location, count = described(pid)
            if (key, kind) not in known:
                device = place(location)
                raw = bytearray(entry(f"data/{key}"))
                known[key, kind] = Held(elements(raw, kind, count, order.decode()), device)
            return known[key, kind]

        return unpickled(io.BytesIO(entry("data.pkl")), held, weights_only, encoding="utf-8")


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
