"""The warm path: the tuned config of a problem, from `best.json` by the standard library alone.

The SQLite file is the truth; the JSON file beside it is a copy of its best configs. The copy names
the state of the SQLite file it was made from (times and sizes of the file and of its write-ahead
log), so that a reader sees with two `stat` calls whether it is fresh. If it is missing or stale the
reader asks SQLite and writes a fresh copy.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from tcdsl.autotune.key import ProblemKey
from tcdsl.codegen.config import Config

TABLE = "configs_v1"
_FORMAT = 1
_COLUMNS = "problem, family, sizes, config, time_ns, default_ns"

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
    return tuple(sorted(others, key=lambda b: (_distance(b.sizes, key.sizes), b.sizes)))


def refresh(database: Path) -> dict[str, Best]:
    """Read the best configs from SQLite, rewrite `best.json` if possible, return them."""
    before = _signature(database)
    table = _read_sqlite(database)
    # A commit in between may or may not be in what was read: then the copy is not written.
    if before == _signature(database):
        with suppress(OSError):  # a read-only cache still serves its configs
            _write_json(best_json(database), before, table)
    return table


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
    return sum((max(x, y) + 1) / (min(x, y) + 1) - 1 for x, y in zip(a, b, strict=True))


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
        content = json.loads(path.read_bytes())
        if content["format"] != _FORMAT or content["of"] != signature:
            return None
        return {row[0]: _best(row) for row in content["best"]}
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def _write_json(path: Path, signature: Signature, table: Mapping[str, Best]) -> None:
    rows = [
        [b.problem, b.family, json.dumps(b.sizes), b.config.to_json(), b.time_ns, b.default_ns]
        for b in table.values()
    ]
    text = json.dumps({"format": _FORMAT, "of": signature, "best": rows})
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise


def _read_sqlite(database: Path) -> dict[str, Best]:
    try:
        return {b.problem: b for b in _rows(database)}
    except sqlite3.Error as error:
        if "no such table" in str(error):  # of another schema version, or still empty
            return {}
        warnings.warn(f"tuned configs in {database} cannot be read: {error}", stacklevel=2)
        return {}


def _rows(database: Path) -> Iterator[Best]:
    with closing(connect_to_read(database)) as connection:
        for row in connection.execute(f"SELECT {_COLUMNS} FROM {TABLE}"):
            try:
                yield _best(row)
            except (ValueError, TypeError, AttributeError):
                warnings.warn(f"a corrupt row of {database} is skipped: {row[0]!r}", stacklevel=2)


def connect_to_read(database: Path) -> sqlite3.Connection:
    """Open a SQLite file without writing to it, also where nobody may write."""
    uri = database.absolute().as_uri()
    connection = sqlite3.connect(f"{uri}?mode=ro", uri=True, timeout=60)
    try:
        connection.execute("SELECT 1 FROM sqlite_master")
    except sqlite3.OperationalError:
        connection.close()
        # In a folder that cannot be written SQLite cannot make the index of the log: then nobody
        # writes the file either.
        if os.access(database.parent, os.W_OK):
            raise
        return sqlite3.connect(f"{uri}?immutable=1", uri=True, timeout=60)
    return connection


def _best(row: tuple[object, ...]) -> Best:
    problem, family, sizes, config, time_ns, default_ns = row
    return Best(
        str(problem),
        str(family),
        tuple(int(n) for n in json.loads(str(sizes))),
        Config.from_json(str(config)),
        float(str(time_ns)),
        None if default_ns is None else float(str(default_ns)),
    )
