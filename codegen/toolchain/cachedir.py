"""The one folder in which tcdsl keeps files: objects, tuned configs, what it knows of compilers.

Where it cannot be used, nothing that a call needs is missing: files are made in a temporary folder
for this process, a stand-in, after one warning.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import stat
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from tcdsl.grammar.text.errors import CompileError, TCError

T = TypeVar("T")

_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)
_OF_CODE = ("objects", "building")  # folders whose files are loaded
_MOST_BYTES = 1 << 28  # of a file that is read: an object has a thousandth of it
_PART_BYTES = 1 << 24  # of a file that one question does not read to its end
_ROOM_BYTES = 1 << 20  # a compiler that fails with less than this left may have failed for it


class CacheError(CompileError, OSError):
    """The cache folder cannot be used."""


def cache_dir() -> Path:
    """Return the cache folder, made with mode 0700 where it does not exist.

    ``TCDSL_CACHE`` names it; otherwise it is the user's cache folder of the platform.

    Raises
    ------
    CacheError
        If the folder cannot be made, or if someone else may write to it: what lies there is
        loaded as machine code.
    """
    path = usual_folder()
    try:
        try:
            status = os.stat(path)
        except FileNotFoundError:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            status = os.stat(path)
        if not stat.S_ISDIR(status.st_mode):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    except OSError as e:
        raise CacheError(
            f"the cache folder '{path}' cannot be used: {e.strerror}\n"
            "  note: set TCDSL_CACHE to a folder that you may write to"
        ) from e
    if status.st_uid != os.geteuid():
        raise CacheError(
            f"the cache folder '{path}' belongs to another user (id {status.st_uid})\n"
            "  note: set TCDSL_CACHE to a folder of your own"
        )
    # A folder that others write to is not ours to close: it may be everybody's, /tmp for one.
    if status.st_mode & 0o022:
        raise CacheError(
            f"others may write to the cache folder '{path}' (mode {status.st_mode & 0o777:04o})\n"
            f"  note: chmod 700 '{path}', or set TCDSL_CACHE to a folder of your own"
        )
    return path


def usual_folder() -> Path:
    """Return where the cache folder lies, whether or not it can be used."""
    named = os.environ.get("TCDSL_CACHE")
    if named:
        return _rooted(named) if named.startswith("/") else Path(named).expanduser().absolute()
    import platformdirs  # here, because a warm start with TCDSL_CACHE set does not need it

    return Path(platformdirs.user_cache_dir("tcdsl"))


@lru_cache(maxsize=8)
def _rooted(named: str) -> Path:
    return Path(named)


@lru_cache(maxsize=64)
def _within(folder: Path, name: str) -> Path:
    return folder / name


def usable_folder() -> Path:
    """Return the cache folder, or its stand-in where it cannot even be read."""
    try:
        return cache_dir()
    except CacheError as error:
        return _stand_in_for(error)


def subfolder(name: str) -> Path:
    """Return a folder to make files in: of the cache, or of its stand-in.

    Raises
    ------
    CacheError
        If there is no room for either.
    """
    if (stand_in := _stand_in.here()) is None:
        try:
            path = cache_dir() / name
            path.mkdir(exist_ok=True, mode=0o700)
            if name in _OF_CODE and not is_ours(path):
                raise CacheError(
                    f"'{path}', from which machine code is loaded, belongs to another user, or"
                    " others may write to it\n  note: remove it, or set TCDSL_CACHE to a folder of"
                    " your own"
                )
            if name in _OF_CODE and _is_noexec(path):
                raise CacheError(
                    f"the cache folder '{path.parent}' lies where no machine code may be loaded: "
                    "it is mounted with 'noexec'\n  note: set TCDSL_CACHE to a folder where it may"
                )
            if os.access(path, os.W_OK):
                return path
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        except OSError as error:  # a CacheError is one
            stand_in = _stand_in_for(error)
    path = stand_in / name
    path.mkdir(exist_ok=True, mode=0o700)
    return path


def places(name: str) -> tuple[Path, ...]:
    """Return the folders of this name that files are looked for in.

    A cache that cannot be written serves what it has.
    """
    found = []
    with suppress(CacheError):
        folder = _within(cache_dir(), name)
        if name not in _OF_CODE or not _is_noexec(folder):
            found.append(folder)
    if (stand_in := _stand_in.here()) is not None:
        found.append(stand_in / name)
    return tuple(found)


def with_room(make: Callable[[], T]) -> T:
    """Call what makes files in the cache; where that has no room for them, again in the stand-in.

    Raises
    ------
    CacheError
        If there is no room there either.
    """
    try:
        return make()
    except OSError as error:
        if isinstance(error, TCError) or error.errno not in _LOST:
            raise
        if _stand_in.here() is not None:
            raise CacheError(_no_room(error)) from error
        _stand_in_for(error)
    return with_room(make)


def is_lasting() -> bool:
    """Whether what is made now will be there for other processes, and not in a stand-in."""
    if _stand_in.here() is not None:
        return False
    try:
        folder = cache_dir()
    except CacheError:
        return False
    parts = [folder, *(p for name in _OF_CODE if (p := folder / name).exists())]
    return all(
        os.access(p, os.W_OK) and is_ours(p) and not _is_noexec(p) for p in parts
    ) and not lacks_room(folder)


def is_ours(folder: Path | str) -> bool:
    """Whether a folder is this user's, and nobody else may put a file there."""
    try:
        status = os.stat(folder)
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def lacks_room(folder: Path) -> bool:
    """Whether what failed in a folder may have failed because its disk is full."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return True
    return status.f_bavail * status.f_frsize < _ROOM_BYTES


def _is_noexec(folder: Path) -> bool:
    """Whether files of a folder cannot be loaded as machine code."""
    try:
        return bool(os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0))
    except OSError:
        return False


class _StandIn:
    """The temporary folder of this process; a forked child makes its own."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._pid = 0
        self._has_warned = False

    def here(self) -> Path | None:
        """Return the folder, if this process needed one."""
        return self._path if self._pid == os.getpid() else None

    def make(self, why: str) -> Path:
        """Make the folder where there is room, and warn once."""
        path = self._path = self._made(why)
        self._pid = os.getpid()
        atexit.register(self._remove, path, self._pid)
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{why}\n  kernels are compiled for this process alone, into '{path}'",
                stacklevel=5,
            )
        return path

    @staticmethod
    def _made(why: str) -> Path:
        from tempfile import mkdtemp  # on use: most folders can be written

        for base in (None, "/dev/shm"):
            with suppress(OSError):
                path = Path(mkdtemp(prefix="tcdsl-", dir=base))
                if not lacks_room(path) and not _is_noexec(path):
                    return path
                path.rmdir()
        raise CacheError(
            f"{why}\n  and there is no room in a temporary folder (TMPDIR), or it is 'noexec' too"
        )

    @staticmethod
    def _remove(path: Path, pid: int) -> None:
        import shutil  # on use, as above

        if pid == os.getpid():
            shutil.rmtree(path, ignore_errors=True)


_stand_in = _StandIn()


def _stand_in_for(error: OSError) -> Path:
    known = _stand_in.here()
    return known or _stand_in.make(str(error) if isinstance(error, TCError) else _no_room(error))


def _no_room(error: OSError) -> str:
    return (
        f"the cache folder '{usual_folder()}' cannot be written: {error.strerror}\n"
        "  note: set TCDSL_CACHE to a folder that you may write to, with room"
    )


def content_of(path: Path | str) -> bytes:
    """Return what a file of the cache holds; it is neither waited for nor read without end.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is a pipe or a device, another user's, or far larger than any that is kept.
    """
    # A pipe is opened without a writer, so that what it is can be asked of what was opened.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        is_file = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        if not is_file or status.st_size > _MOST_BYTES:
            raise ValueError(f"'{path}' is no file of the cache")
        content = os.read(handle, status.st_size)  # any other number would take as much memory
        while len(content) < status.st_size and (more := os.read(handle, _PART_BYTES)):
            content += more
        return content
    finally:
        os.close(handle)


def read_json(name: str) -> dict[str, Any]:
    """Return what `update_json` kept under a name; nothing if it is missing or damaged."""
    try:
        data = json.loads(content_of(cache_dir() / name).decode())
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def update_json(name: str, values: Mapping[str, Any]) -> None:
    """Add values to a file of facts that can be found out again, by an atomic rename.

    Where the folder cannot be written they are found out again.
    """
    from tempfile import mkstemp  # on use: most facts are known

    with suppress(OSError):
        folder = cache_dir()
        text = json.dumps({**read_json(name), **values}, indent=1, sort_keys=True)
        handle, path = mkstemp(prefix=f".{name}.", dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as f:
                f.write(text)
            os.replace(path, folder / name)
        except OSError:
            os.unlink(path)
            raise
