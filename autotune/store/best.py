"""The warm path: the tuned config of a problem, from `best.json` by the standard library alone.

The SQLite file is the truth; the JSON file beside it is a copy of its best configs. The copy names
the state of the SQLite file it was made from (times and sizes of the file and of its write-ahead
log), so that a reader sees with two `stat` calls whether it is fresh. If it is missing or stale the
reader asks SQLite and writes a fresh copy. (To trust whoever wrote last to have rewritten it was
refused: a kill in between would hide a result for ever.)
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.schema import CONFIGS
from tcdsl.autotune.store.tuning_file import (
    MOST_ROWS,
    DamagedError,
    StoreError,
    bytes_of,
    reading,
    tables_of,
    warn_once,
)
from tcdsl.autotune.store.untrusted import optional_time_in, sizes_in, text_in, time_in
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.plainjson import loads
from tcdsl.grammar.text.dataclass import dataclass

_FORMAT = 1
_MOST_BYTES = 1 << 26  # of the copy
_BEGINNING = b'{"format": '
_UNFINISHED = ".new"  # ends the name of a copy in the making

Signature = list[int]


@dataclass(frozen=True, slots=True)
class Best:
    """The tuned config of one problem, its time, and the default's in the same run if known."""

    problem: str
    family: str
    sizes: tuple[int, ...]
    config: Config
    time_ns: float
    default_ns: float | None


def lookup(database: Path, key: ProblemKey) -> Best | None:
    """Return the tuned config of a problem, or None."""
    return _table(database).get(key.digest)


def relatives(database: Path, key: ProblemKey) -> tuple[Best, ...]:
    """Return the tuned configs of the same problem at other sizes, nearest sizes first."""
    others = [
        b
        for b in _table(database).values()
        if b.family == key.family and b.problem != key.digest and len(b.sizes) == len(key.sizes)
    ]
    return nearest(others, key)


def nearest(others: Iterable[Best], key: ProblemKey) -> tuple[Best, ...]:
    """Return configs of other sizes, those of the sizes nearest to a problem's first."""
    return tuple(sorted(others, key=lambda b: (_distance(b.sizes, key.sizes), b.sizes)))


def refresh(database: Path) -> dict[str, Best]:
    """Read the best configs from SQLite, rewrite `best.json` if possible, return them."""
    before = _signature(database)
    try:
        with reading(database) as connection:
            if CONFIGS not in tables_of(connection, database):  # of another version, or empty yet
                return {}
            table = {b.problem: b for b in _rows(connection, database)}
    except StoreError as error:
        damage = " (the next tuning makes a new one)" if isinstance(error, DamagedError) else ""
        warn_once(f"{error}{damage}; no tuned config of it is used")
        return {}
    # A commit in between may or may not be in what was read: then the copy is not written.
    if before == _signature(database):
        with suppress(OSError):  # a read-only cache still serves its configs
            _write_json(best_json(database), before, table)
    return table


def readable(damaged: Path, copy: Path) -> Iterator[Best]:
    """Yield what can be read of a damaged file, then what its copy has."""
    with suppress(StoreError), reading(damaged) as connection:
        if CONFIGS in tables_of(connection, damaged):
            yield from _rows(connection, damaged)
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        yield from map(_best, json.loads(bytes_of(copy, _MOST_BYTES))["best"])


def best_json(database: Path) -> Path:
    """Return where the copy lies: of `tuned.db` in `tuned.best.json`."""
    return database.with_suffix(".best.json")


_loaded: dict[Path, tuple[Signature, dict[str, Best]]] = {}


def _table(database: Path) -> Mapping[str, Best]:
    signature = _signature(database)
    if signature[0] == 0:
        return {}
    seen = _loaded.get(database)
    if seen is not None and seen[0] == signature:
        return seen[1]
    table = _read_json(best_json(database), signature)
    if table is None:
        table = refresh(database)
        signature = _signature(database)
    _loaded[database] = (signature, table)
    return table


def _distance(a: tuple[int, ...], b: tuple[int, ...]) -> float:
    """Sum over dimensions of how many times one size is the other, less one."""
    pairs = [(abs(x), abs(y)) for x, y in zip(a, b, strict=True)]
    return sum((max(x, y) + 1) / (min(x, y) + 1) - 1 for x, y in pairs)


def _signature(database: Path) -> Signature:
    """Return modification time and size of a SQLite file and of its write-ahead log; 0: none."""
    parts: Signature = []
    for path in (database, f"{database}-wal"):
        try:
            stat = os.stat(path)
        except OSError:
            parts += (0, 0)
        else:  # an empty log, as readers leave it behind, says nothing
            parts += (stat.st_mtime_ns, stat.st_size) if stat.st_size else (0, 0)
    return parts


def _read_json(path: Path, signature: Signature) -> dict[str, Best] | None:
    """Return the copy if it is there, whole and fresh."""
    try:
        content = json.loads(bytes_of(path, _MOST_BYTES))
        if content["format"] != _FORMAT or content["of"] != signature:
            return None
        return {b.problem: b for b in map(_best, content["best"])}
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None


def _write_json(path: Path, signature: Signature, table: Mapping[str, Best]) -> None:
    rows = [
        [b.problem, b.family, json.dumps(b.sizes), b.config.to_json(), b.time_ns, b.default_ns]
        for b in table.values()
    ]
    text = json.dumps({"format": _FORMAT, "of": signature, "best": rows})
    try:
        begins = bytes_of(path, _MOST_BYTES)[: len(_BEGINNING)]
    except FileNotFoundError:
        begins = b""
    except ValueError:
        return
    if begins and begins != _BEGINNING:
        return  # something of the user's has that name
    _remove_unfinished(path)
    begin = f"{path.name}.{os.getpid()}."
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=begin, suffix=_UNFINISHED)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise


def _remove_unfinished(path: Path) -> None:
    """Remove what processes that were killed have left of the copy.

    One of another host may be removed while it is written: then that one makes no copy.
    """
    for name in os.listdir(path.parent):
        if not (name.startswith(f"{path.name}.") and name.endswith(_UNFINISHED)):
            continue
        pid = name.removeprefix(f"{path.name}.").partition(".")[0]
        if pid.isdecimal() and not _is_alive(int(pid)):
            with suppress(OSError):
                os.unlink(path.parent / name)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _rows(connection: sqlite3.Connection, database: Path) -> Iterator[Best]:
    columns = "problem, family, sizes, config, time_ns, default_ns"
    for row in connection.execute(f"SELECT {columns} FROM {CONFIGS} LIMIT {MOST_ROWS}"):
        try:
            yield _best(row)
        except ValueError as error:
            warn_once(f"a corrupt row of {database} is skipped: {row[0]!r:.40}: {error}")


def _best(row: object) -> Best:
    """Return a row of the table or of its copy.

    Raises
    ------
    ValueError
        If it holds anything else than what `set_best` writes.
    """
    if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != 6:
        raise ValueError("a row has six columns")
    problem, family, sizes, config, time_ns, default_ns = row
    return Best(
        text_in(problem),
        text_in(family),
        sizes_in(loads(sizes)),
        Config.from_json(config),
        time_in(time_ns),
        optional_time_in(default_ns),
    )
