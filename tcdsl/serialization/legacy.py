"""Files of PyTorch before 1.6: pickles one behind the other, then storages."""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from tcdsl.core.dtypes import DType
from tcdsl.serialization.names import Held
from tcdsl.serialization.storages import described, elements
from tcdsl.serialization.unpickling import Careful, Nothing, damage, unpickled

__all__ = ["read_legacy"]

_MAGIC = 0x1950A86A20F9469CFC6C  # what the files of before begin with
_PROTOCOL = 1001


def read_legacy(f: IO[bytes], place: Callable[[str], str], weights_only: bool) -> Any:
    """Read a file of pickles one behind the other, then of storages: PyTorch before 1.6."""
    nothing: Callable[[Any], Any] = described

    def plain() -> Any:
        return unpickled(f, nothing, True)

    if plain() != _MAGIC:
        raise pickle.UnpicklingError("the file is none that save has written")
    if plain() != _PROTOCOL:
        raise pickle.UnpicklingError("the file has a format that is not known")
    system = plain()
    order = "little" if not isinstance(system, dict) or system.get("little_endian") else "big"
    known: dict[str, tuple[DType, int, Held]] = {}

    def held(pid: Any) -> Held:
        kind, key, location, count = described(pid)
        if len(pid) > 5 and pid[5] is not None:
            raise RuntimeError("the file has a storage that is a part of another: not supported")
        if key not in known:
            known[key] = kind, count, Held(np.empty(0, kind.numpy), place(location))
        return known[key][2]

    # tensors are made when their storages are there: the pickle is read twice
    begin = f.tell()
    with damage():
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
        storage.elements = elements(raw, kind, count, order)
    end = f.tell()
    f.seek(begin)
    result = unpickled(f, held, weights_only, encoding="utf-8")
    f.seek(end)
    return result


class _Skipper(Careful):
    """Reads a pickle for the storages that it refers to, and makes nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return storages' types as they are; all else makes nothing."""
        known = super().find_class(module, name)
        return known if isinstance(known, DType) else Nothing
