"""Which file is a tuning file, and how one is read that anybody may have written.

Standard library only: every process start reads. A file is looked at before SQLite opens it, is
opened so that nothing is written, and of its tables only ordinary ones with our columns are read:
no view, no virtual table, no column that is computed. What a statement may take is counted.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tcdsl.autotune.store.schema import APPLICATION_ID, COLUMNS, CONFIGS, PREFIXES, TRIALS
from tcdsl.autotune.store.trial import TuneError

PATIENCE_S = 60.0  # with who holds a file that is to be written
READING_S = 5.0  # a call waits for it; who writes lets others read all the while
MOST_ROWS = 100_000  # of a table that is read whole
ELSEWHERE = "\n  note: keep tuned configs where you may write: --cache FILE, cache="
_MAGIC = b"SQLite format 3\0"
_HEAD = 4096
_MOST_BYTES = 1 << 24  # of a row
_STEPS = 100_000  # of SQLite's machine, between two counts
_MOST_COUNTS = 10_000  # a million trials take a hundred


class StoreError(TuneError, OSError):
    """A file that tuned configs were to come from or go to cannot be used."""


class ForeignError(StoreError):
    """A file that is no tuning file."""


class DamagedError(StoreError):
    """A tuning file that SQLite cannot read whole."""


def require_file(path: Path) -> bool:
    """Return whether there is a file with anything in it.

    It is not opened: to close a file that SQLite has open too drops SQLite's locks on it.

    Raises
    ------
    StoreError
        If something else has that name.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        if path.is_symlink():
            raise not_ours(path, "it is a link to nothing") from None
        return False
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise not_ours(path, f"it is {_kind(status.st_mode)}")
    return status.st_size > 0


def bytes_of(path: Path, most: int) -> bytes:
    """Return what a file beside a tuning file holds: what is no file is not waited for.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is a pipe, a device or the like, or larger than `most`.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            raise ValueError(f"{path} is no file of ours")
        return file.read(status.st_size)


def is_marked(path: Path) -> bool:
    """Whether the beginning of a file that SQLite cannot read says that it is ours all the same."""
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    names = (TRIALS.encode(), CONFIGS.encode())
    return head.startswith(_MAGIC) and (
        head[68:72] == APPLICATION_ID.to_bytes(4, "big") or all(n in head for n in names)
    )


@contextmanager
def reading(path: Path, *, alone: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a tuning file to read it; nothing is written, also where nobody may write.

    Parameters
    ----------
    path : Path
    alone : bool
        Whether nobody writes it now: then SQLite makes no files beside it either.

    Raises
    ------
    StoreError
        If it is none, or what is read takes too long.
    """
    if not require_file(path):
        raise not_ours(path, "it is empty" if path.exists() else "it does not exist")
    try:
        with closing(_connect(path, alone)) as connection:
            restrict(connection)
            connection.execute("PRAGMA query_only = ON")
            yield connection
    except sqlite3.Error as error:
        raise explained(path, error) from error
    except UnicodeDecodeError as error:  # of SQLite's message, which quotes what is damaged
        raise DamagedError(f"{path} is damaged: it names what is no text") from error


def restrict(connection: sqlite3.Connection) -> None:
    """Let a file's own definitions do nothing, and no statement go on for ever."""
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
    counts = 0

    def count() -> int:
        nonlocal counts
        counts += 1
        return counts > _MOST_COUNTS

    connection.set_progress_handler(count, _STEPS)


def tables_of(connection: sqlite3.Connection, path: Path) -> tuple[str, ...]:
    """Return which of our tables a file has, looked at before they are read.

    Raises
    ------
    StoreError
        If one of them is a view or the like, or lacks a column.
    """
    found = []
    query = "SELECT type, name, rootpage, sql FROM sqlite_master"
    for kind, name, page, text in connection.execute(query).fetchmany(MOST_ROWS):
        if name not in COLUMNS:
            continue
        if kind != "table" or not page or "VIRTUAL" in str(text)[:40].upper():
            raise not_ours(path, f"'{name}' is no table")
        info = connection.execute(f"PRAGMA table_xinfo({name})").fetchmany(MOST_ROWS)
        plain = {column for _, column, _, _, _, _, hidden in info if not hidden}
        if missing := [c for c in COLUMNS[name] if c not in plain]:
            raise not_ours(path, f"table '{name}' has no column '{missing[0]}'")
        found.append(name)
    return tuple(found)


def require_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Accept a file that will be written: an empty one, or a tuning file without programs in it.

    Raises
    ------
    StoreError
        If it is another application's, or has triggers or views, which would run as we write.
    """
    ours = tables_of(connection, path)
    query = "SELECT type, name FROM sqlite_master"
    rows = connection.execute(query).fetchmany(MOST_ROWS)
    if rows and not ours and not any(name.startswith(PREFIXES) for _, name in rows):
        raise not_ours(path, f"it has no table '{CONFIGS}'")
    for kind, name in rows:
        if kind in ("view", "trigger"):
            raise not_ours(path, f"it has a {kind} '{name}'")


def explained(path: Path, error: sqlite3.Error) -> StoreError:
    """Return what SQLite says of a file as an error of ours."""
    text, code = str(error), getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_INTERRUPT:
        return not_ours(path, "reading it takes too long")
    if code == sqlite3.SQLITE_NOTADB:
        return not_ours(path, "it is no SQLite database")
    if code & 0xFF == sqlite3.SQLITE_CORRUPT:
        return DamagedError(f"{path} is damaged: {text}")
    if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        text += in_use(path)
    if code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        text += (
            "; what was found before is kept\n"
            "  note: free some space there, or let files be larger (ulimit -f, quota), or keep"
            " tuned configs elsewhere: --cache FILE, cache="
        )
    if code & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        text += ELSEWHERE
    return StoreError(f"{path} cannot be used: {text}")


def in_use(path: Path | str) -> str:
    """Return what to do where another process does not let go of a tuning file."""
    return (
        ": another process holds it, which may be stopped\n"
        f"  note: `fuser {path}` tells which; end it, or keep tuned configs elsewhere:"
        " --cache FILE, cache="
    )


def not_ours(path: Path, why: str) -> ForeignError:
    """Return the error for what is no tuning file."""
    return ForeignError(f"{path} is not a tuning file: {why}")


_warned: set[str] = set()


def warn_once(text: str) -> None:
    """Warn, once a process: a bad row is met at every call."""
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=3)


def _connect(path: Path, alone: bool) -> sqlite3.Connection:
    uri = path.absolute().as_uri()
    beside = [f"{path}-wal", f"{path}-journal"]
    if alone and not any(map(os.path.exists, beside)):
        return sqlite3.connect(f"{uri}?immutable=1", uri=True, timeout=READING_S)
    for is_last in (False, False, True):
        connection = sqlite3.connect(f"{uri}?mode=ro", uri=True, timeout=READING_S)
        try:
            connection.execute("SELECT 1 FROM sqlite_master")
            return connection
        except sqlite3.OperationalError as error:
            connection.close()
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise
            # In a folder that cannot be written SQLite cannot make the index of the log: then
            # nobody writes the file either. Else the last writer has just removed that index.
            if not os.access(path.parent, os.W_OK):
                break
            if is_last:
                raise
        except BaseException:
            connection.close()
            raise
    return sqlite3.connect(f"{uri}?immutable=1", uri=True, timeout=READING_S)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a pipe" if stat.S_ISFIFO(mode) else "no file"
