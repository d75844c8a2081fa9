"""Open a tuning file to write it: another file is refused as it is, a damaged one moved aside."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from tcdsl.autotune.store import tuning_file
from tcdsl.autotune.store.schema import APPLICATION_ID, NAME
from tcdsl.autotune.store.tuning_file import (
    DamagedError,
    ForeignError,
    StoreError,
    is_marked,
    reading,
    require_file,
    require_ours,
    restrict,
)
from tcdsl.codegen.toolchain.cachedir import usual_folder

_POLL_S = 0.01


def open_to_write(path: Path) -> tuple[Any, Path | None]:
    """Return a `sqlite_utils.Database`, and where a damaged file lies that was in its place.

    Raises
    ------
    StoreError
        If it is another file than a tuning file.
    """
    import sqlite_utils

    _require_ours(path)  # before anything lies beside it
    with locked(path):  # two processes that find a damaged file would move the new one aside too
        aside = _move_aside(path) if _is_damaged(path) else None
        connection = sqlite3.connect(path, timeout=tuning_file.PATIENCE_S)
        # Plugins of other programs have nothing to do in our file, and take time to be looked for.
        opened = sqlite_utils.Database(connection, execute_plugins=False)
        if opened.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
            opened.execute(f"PRAGMA application_id = {APPLICATION_ID}")  # before there is a log
        opened.enable_wal()
    # The log alone survives the end of a process, however it ends; a power cut could cost the
    # last commits, never the file. A commit takes 0.2 ms, so every stage has one.
    opened.execute("PRAGMA synchronous = NORMAL")
    opened.execute("PRAGMA trusted_schema = OFF")
    return opened, aside


def _is_own(path: Path) -> bool:
    """Whether a file lies where the user's own store does: whatever it is, it was made by us."""
    return path.absolute() == usual_folder() / NAME


def _require_ours(path: Path) -> None:
    """Refuse a file that is no tuning file, without touching it.

    Raises
    ------
    StoreError
        If it is another one, or too damaged to tell.
    """
    if not require_file(path) or _is_own(path):
        return
    try:
        with reading(path, alone=True) as connection:
            require_ours(connection, path)
    except (DamagedError, ForeignError) as error:
        is_unread = not isinstance(error.__cause__, sqlite3.Error)
        if is_unread or not is_marked(path):
            raise


def _is_damaged(path: Path) -> bool:
    """Whether a file that is ours cannot be read whole; a missing or empty one is none yet.

    Raises
    ------
    StoreError
        If it is marked as ours and holds what does not belong to us.
    """
    if not require_file(path):
        return False
    with closing(sqlite3.connect(path, timeout=tuning_file.PATIENCE_S)) as connection:
        try:
            restrict(connection)
            require_ours(connection, path)
            answer: tuple[str] = connection.execute("PRAGMA quick_check(1)").fetchone()
        except ForeignError:
            if _is_own(path):
                return True
            raise
        except sqlite3.OperationalError:  # busy, full, not permitted: says nothing of the content
            raise
        except sqlite3.DatabaseError:
            return True
        return answer[0] != "ok"


def _move_aside(path: Path) -> Path:
    """Rename a file that SQLite cannot read, and its log; tell the user where it is."""
    aside = path.with_name(f"{path.name}.corrupt-{time.time_ns()}")
    os.rename(path, aside)
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.rename(f"{path}{suffix}", f"{aside}{suffix}")
    warnings.warn(f"{path} is corrupt; it now lies at {aside}, and a new one begins", stacklevel=4)
    return aside


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process opens a file.

    Raises
    ------
    StoreError
        If one does so for longer than it takes.
    """
    lock = f"{path}.lock"
    # Whatever lies there is not waited for.
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        end = time.monotonic() + tuning_file.PATIENCE_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise StoreError(f"{lock} is locked{tuning_file.in_use(lock)}") from None
                time.sleep(_POLL_S)
        yield
    finally:
        with suppress(OSError):  # closing alone leaves it to a forked child
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)
