"""The folder of a case under `building/` of the cache: gone with its tuner, however that ends."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tcdsl.codegen.toolchain.cachedir import subfolder

_PREFIX = "case-"
_LOCK = "tuner"


@contextmanager
def new_case_folder() -> Iterator[Path]:
    """Give a new folder, removed in the end; those of killed tuners go now."""
    building = subfolder("building")
    _clear(building)
    # It gets the name that is looked for only once it is locked.
    folder = Path(tempfile.mkdtemp(dir=building, prefix="new-"))
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with suppress(OSError):  # a file system without locks: then nobody clears it either
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder = folder.rename(building / folder.name.replace("new-", _PREFIX, 1))
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # a forked child's copy of the handle holds nothing
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _clear(building: Path) -> None:
    """Remove the folders whose tuner is dead: the system gave back its lock."""
    for folder in building.glob(f"{_PREFIX}*"):
        try:
            handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:  # it is just being removed, or was made before there were locks
            continue
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # its tuner lives
            pass
        finally:
            os.close(handle)
