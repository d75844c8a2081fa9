"""Files of the cache whose names hold their content: made once, never torn, checked when read.

A file is called `NAME-KEY-SUM.SUFFIX`: KEY hashes everything that decides its content, SUM is the
hash of the content itself, checked before the file is handed out. Files are made elsewhere in the
cache and renamed into place, so that none is ever seen half written. While one is made its key is
locked by a lock of the kernel's (flock), which ends with the process that holds it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tcdsl.codegen.toolchain.cachedir import cache_dir, content_of, is_ours, places, subfolder

OBJECT = ".so"  # the suffix of shared objects
_LONGEST_STEM = 64  # characters of a name in a file's; a file system takes 255 bytes in all
_SETTLED_NS = 2_000_000_000  # in which a file system gives no time to two changes
_NAME = re.compile(r"\w+(?:\.\w+)?-([0-9a-f]{32})-([0-9a-f]{16})\.\w+", re.ASCII)


def hash_of(parts: Iterable[str]) -> str:
    """Return a key: the hash of all that decides the content of a file."""
    return hashlib.sha256("".join([f"{part}\0" for part in parts]).encode()).hexdigest()[:32]


def is_name(name: str, suffix: str) -> bool:
    """Whether a file of the cache may be called so."""
    return name.endswith(suffix) and _NAME.fullmatch(name) is not None


def lookup(key: str, suffix: str) -> Path | None:
    """Return the file of a key, or None; a damaged one is removed."""
    return next((path for path, _ in contents(key, suffix)), None)


def contents(key: str, suffix: str) -> Iterator[tuple[Path, bytes]]:
    """Yield the files of a key and what they hold; damaged ones are removed."""
    for path in [p for place in places("objects") for p in _named(place, key, suffix)]:
        name = os.path.splitext(os.path.basename(path))[0].rsplit("-", 2)
        if len(name) == 3 and name[1] == key:
            content = _checked(path, name[2])
            if content is not None:
                yield Path(path), content


def named(name: str) -> Path | None:
    """Return the file of exactly this name, or None; a damaged one is removed.

    Who has the name from a record asks for that file only: no folder is gone through.

    Raises
    ------
    ValueError
        If no file of the cache may be called so.
    """
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise ValueError("no file of the cache is called so")
    key, of = parts.groups()
    for place in places("objects"):
        folder = f"{place}/{key[:2]}"
        path = f"{folder}/{name}"
        if is_ours(folder) and is_ours(place) and _checked(path, of) is not None:
            return Path(path)
    return None


def _checked(path: str, of: str) -> bytes | None:
    """Return what a file holds, if that has this sum; what is none of ours is removed."""
    try:
        content = content_of(path)
    except (FileNotFoundError, PermissionError):  # pruned meanwhile, or not to be read
        return None
    except (OSError, ValueError):  # a folder, a pipe, a link in a circle: nothing of ours
        remove(Path(path))
        return None
    if _sum(content) != of:
        remove(Path(path))
        return None
    with contextlib.suppress(OSError):  # a cache that may only be read serves too
        os.utime(path)
    return content


def files_of(key: str, suffix: str) -> tuple[str, ...]:
    """Return the paths of the files of a key, unread."""
    return tuple(sorted(p for place in places("objects") for p in _named(place, key, suffix)))


def last_changes(key: str) -> tuple[tuple[str, int], ...] | None:
    """Return the folders in which the files of a key are, with the times of their last changes.

    While these are the same no file has come or gone, which is asked in a tenth of the time that it
    takes to go through them. None where one has changed so lately that more may at that time.
    """
    folders = [f"{place}/{key[:2]}" for place in places("objects")]
    try:
        found = tuple([(folder, os.stat(folder).st_mtime_ns) for folder in folders])
    except OSError:
        return None
    settled = time.time_ns() - _SETTLED_NS
    return found if all(changed_ns < settled for _, changed_ns in found) else None


def stem(name: str) -> str:
    """Return a name as part of a file's: a name of the language has any length."""
    return name[:_LONGEST_STEM]


def move_into_place(made: Path, name: str, key: str, suffix: str) -> Path:
    """Return where a file made in the cache lies from now on."""
    place = subfolder("objects") / key[:2]
    place.mkdir(exist_ok=True, mode=0o700)
    if not is_ours(place):
        raise OSError(errno.EACCES, "others may write to it, or own it", str(place))
    target = place / f"{stem(name)}-{key}-{_sum(made.read_bytes())}{suffix}"
    made.chmod(0o700)  # whatever a compiler gave it
    os.replace(made, target)
    return target


def keep(content: bytes, name: str, key: str, suffix: str) -> None:
    """Keep in the cache what can be found out again; where it cannot be written it is not kept."""
    from tempfile import mkstemp  # on use: warm programs keep nothing

    with contextlib.suppress(OSError):
        place = cache_dir() / "objects" / key[:2]
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        target = place / f"{stem(name)}-{key}-{_sum(content)}{suffix}"
        # Under a name that nobody looks for; of a process that is killed, prune removes it.
        handle, made = mkstemp(dir=place)
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(content)
            os.replace(made, target)
        except OSError:
            os.unlink(made)
            raise


def building_folder() -> Path:
    """Return a new folder to make a file in."""
    from tempfile import mkdtemp  # on use, as above

    return Path(mkdtemp(dir=subfolder("building")))


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _named(place: Path, key: str, suffix: str) -> list[str]:
    """Return the files of a place that have a key and a suffix in their names.

    None where others may put files there: to know the sum of its content, anybody can name a file.
    Paths are texts: a new size asks several times, and to make objects of them takes as long.
    """
    folder = f"{place}/{key[:2]}"
    try:
        found = [f"{folder}/{n}" for n in os.listdir(folder) if key in n and n.endswith(suffix)]
    except OSError:
        return []
    return found if found and is_ours(folder) and is_ours(place) else []


def remove(path: Path) -> None:
    """Remove what lies under a name that only a file of the cache has: make room for one."""
    import shutil  # on use, as above

    with contextlib.suppress(OSError):
        try:
            path.unlink()
        except IsADirectoryError:
            shutil.rmtree(path, ignore_errors=True)


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


class KeyLock:
    """A lock file held by flock: between processes and, each taking its own, between threads."""

    def __init__(self, path: Path, handle: int) -> None:
        self._path, self._handle = path, handle
        _held.add(self)

    @staticmethod
    def take(key: str) -> KeyLock | None:
        """Return the lock of a key, or None if it is held."""
        path = subfolder("locks") / key
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            if e.errno in (errno.EWOULDBLOCK, errno.EACCES):
                os.close(handle)
                return None
            if e.errno not in (errno.ENOLCK, errno.ENOTSUP):
                os.close(handle)
                raise
            # A file system without locks: a text may be compiled twice, the rename keeps it right.
        try:
            ours = os.path.samestat(os.fstat(handle), os.stat(path))
        except FileNotFoundError:
            ours = False
        if not ours:  # the last holder has removed the file since we opened it
            os.close(handle)
            return None
        return KeyLock(path, handle)

    def release(self) -> None:
        """Remove the file, then let go."""
        if self not in _held:  # in a forked child: it is the parent's
            return
        _held.remove(self)
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        with contextlib.suppress(OSError):
            fcntl.flock(self._handle, fcntl.LOCK_UN)
        os.close(self._handle)

    @staticmethod
    def forget_all() -> None:
        """Close the handles that a forked child has of its parent's locks.

        Else they stay locked as long as the child lives, however long its parent has been dead.
        """
        for lock in _held:
            os.close(lock._handle)
        _held.clear()


_held: set[KeyLock] = set()
os.register_at_fork(after_in_child=KeyLock.forget_all)


# ---- housekeeping


def files() -> Iterator[tuple[Path, os.stat_result]]:
    """Walk over all files with their status; the time of change is that of the last use."""
    for folder in _listed(subfolder("objects")):
        for path in _listed(folder):
            with contextlib.suppress(FileNotFoundError):
                yield path, path.lstat()


def size() -> tuple[int, int]:
    """Return how many files there are and their bytes."""
    sizes = [status.st_size for _, status in files()]
    return len(sizes), sum(sizes)


def prune(max_bytes: int = 0) -> int:
    """Remove the files unused for longest until at most max_bytes are left; return bytes freed.

    Always safe: what is loaded stays loaded, what is needed again is compiled again.
    """
    import shutil  # on use, as above

    found = sorted(files(), key=lambda item: item[1].st_mtime)
    total = left = sum(status.st_size for _, status in found)
    for path, status in found:
        if left <= max_bytes:
            break
        remove(path)
        left -= status.st_size
    day_ago = time.time() - 86400
    for folder in _listed(subfolder("building")):  # of processes that were killed
        with contextlib.suppress(FileNotFoundError):  # its process has just ended
            if folder.stat().st_mtime < day_ago:
                shutil.rmtree(folder, ignore_errors=True)
    return total - left
