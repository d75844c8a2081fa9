"""Trials and tuned configs in SQLite: written at every stage, resumed, exported, merged.

Any number of processes may write one file (write-ahead log, 60 s of patience). Deleting the file is
always safe. The version stands in the names of the tables: another schema is other tables.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import sqlite3
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tcdsl.autotune import best, owner
from tcdsl.autotune.key import ProblemKey
from tcdsl.autotune.trial import FINAL, Reason, Status, Trial
from tcdsl.codegen.config import Config

PROBLEMS, TRIALS, CONFIGS = "problems_v1", "trials_v1", best.TABLE


def _columns(texts: str, numbers: str) -> dict[str, type]:
    return dict.fromkeys(texts.split(), str) | dict.fromkeys(numbers.split(), float)


# By table: its key, and its columns with their types.
_SCHEMA: Mapping[str, tuple[str, Mapping[str, type]]] = {
    PROBLEMS: ("digest", _columns("digest family name key text", "created")),
    TRIALS: (
        "id",
        {"id": int}
        | _columns(
            "problem config status reason detail times_ns owner origin text",
            "time_ns created updated",
        ),
    ),
    CONFIGS: (
        "problem",
        _columns("problem family sizes config origin", "time_ns default_ns updated"),
    ),
}


# Why a config is out that ran when its tuner ended: it may be to blame, or a user's kill.
TUNER_ENDED = "the tuning process ended while this config ran"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table of trials."""

    id: int
    config: Config
    status: Status
    reason: Reason
    detail: str
    time_ns: float
    owner: str
    origin: str
    text: str
    created: float
    updated: float

    @property
    def trial(self) -> Trial:
        """The trial of a row that is timed or failed."""
        return Trial(self.config, self.time_ns, self.reason, self.detail)


class Store:
    """The tuner's SQLite file, open for writing.

    Parameters
    ----------
    path : Path
        Made with its folder where it is missing. A file that is not a whole SQLite database is
        moved aside with a warning.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._db = _open(path)
        self._create_tables()
        self._owner = owner.begin()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and leave a fresh `best.json`."""
        owner.end(self._owner)
        self._db.conn.close()
        best.refresh(self.path)

    def add_problem(self, key: ProblemKey, name: str, text: str) -> None:
        """Note a problem with its name and TC text, for people who list the cache."""
        row = {
            "digest": key.digest,
            "family": key.family,
            "name": name,
            "key": key.to_json(),
            "text": text,
            "created": time.time(),
        }
        with self._writing():
            self._db[PROBLEMS].insert(row, ignore=True)

    def propose(self, key: ProblemKey, configs: Sequence[Config], origin: str) -> list[Row]:
        """Commit the rows of new trials and return those that are this run's to try.

        A config that has ended, or that another live run is trying, is left out. One that a dead
        run left behind is taken over, unless it was running: that one has crashed.
        """
        if not configs:
            return []
        now = time.time()
        rows = [
            {
                "problem": key.digest,
                "config": config.to_json(),
                "status": "proposed",
                "reason": "",
                "detail": "",
                "time_ns": None,
                "times_ns": "[]",
                "owner": self._owner,
                "origin": origin,
                "text": "",
                "created": now,
                "updated": now,
            }
            for config in configs
        ]
        wanted = [row["config"] for row in rows]
        with self._writing():
            self._db[TRIALS].insert_all(rows, ignore=True)
        self._inherit(key)
        mine = {
            row.config.to_json(): row for row in self._unfinished(key) if row.owner == self._owner
        }
        return [mine[text] for text in wanted if text in mine]

    # The rows of another live run stay as they are: what is set there is not written.

    def set_status(self, ids: Sequence[int], status: Status) -> None:
        """Commit that trials have reached a stage."""
        self._update([(i, {"status": status}) for i in ids])

    def set_text(self, texts: Mapping[int, str]) -> None:
        """Commit what trials emit, as digests: configs of one text are one candidate."""
        self._update([(i, {"text": text}) for i, text in texts.items()])

    def set_failed(self, row: int, reason: Reason, detail: str) -> None:
        """Commit the end of a trial without a time."""
        self._update([(row, {"status": "failed", "reason": reason, "detail": detail})])

    def set_timed(self, results: Mapping[int, tuple[float, Sequence[float]]]) -> None:
        """Commit times per call of trials, by row: the one that counts, and what it came from."""
        changes = []
        for row, (time_ns, samples) in results.items():
            times = json.dumps([round(t, 1) for t in samples])
            changes.append((row, {"status": "timed", "time_ns": time_ns, "times_ns": times}))
        self._update(changes)

    def set_best(
        self, key: ProblemKey, config: Config, time_ns: float, default_ns: float | None, origin: str
    ) -> None:
        """Commit the tuned config of a problem and rewrite `best.json`.

        What a search has found on its way ("search") does not replace a faster one of this
        machine: another run may have ended meanwhile.
        """
        row = {
            "problem": key.digest,
            "family": key.family,
            "sizes": json.dumps(key.sizes),
            "config": config.to_json(),
            "time_ns": time_ns,
            "default_ns": default_ns,
            "origin": origin,
            "updated": time.time(),
        }
        with self._writing():
            if origin != "search" or not self._has_faster(key, time_ns):
                self._db[CONFIGS].upsert(row, pk="problem")
        best.refresh(self.path)

    def _has_faster(self, key: ProblemKey, time_ns: float) -> bool:
        where = "problem = ? AND origin IN ('search', 'tuned') AND time_ns < ?"
        return bool(self._db[CONFIGS].count_where(where, [key.digest, time_ns]))

    def trials(self, key: ProblemKey) -> list[Row]:
        """Return the trials of a problem, oldest first; corrupt rows are skipped with a warning."""
        return list(self._rows("problem = ? ORDER BY id", [key.digest]))

    def find(self, key: ProblemKey, config: Config) -> Row | None:
        """Return the trial of a config."""
        where = "problem = ? AND config = ?"
        return next(self._rows(where, [key.digest, config.to_json()]), None)

    def ended(self, key: ProblemKey) -> list[Trial]:
        """Return the trials of a problem that have a time or a reason."""
        self._inherit(key)
        return [row.trial for row in self.trials(key) if row.status in FINAL]

    def delete(self, table: str, where: str, values: Sequence[object]) -> int:
        """Remove rows and return how many."""
        with self._writing():
            cursor = self._db.conn.execute(f"DELETE FROM {table} WHERE {where}", list(values))
            return int(cursor.rowcount)

    def _inherit(self, key: ProblemKey) -> None:
        """Take over what a dead run left behind; what it was running has crashed."""
        now = time.time()
        with self._writing():
            for row in self._unfinished(key):
                if row.owner == self._owner or owner.is_alive(row.owner, now - row.updated):
                    continue
                heir: dict[str, object] = {"owner": self._owner, "status": "proposed"}
                if row.status == "running":
                    heir = {"status": "failed", "reason": "crash", "detail": TUNER_ENDED}
                self._db[TRIALS].update(row.id, heir)

    def _unfinished(self, key: ProblemKey) -> list[Row]:
        return list(self._rows("problem = ? AND status NOT IN ('timed', 'failed')", [key.digest]))

    def _rows(self, where: str, values: Sequence[object]) -> Iterator[Row]:
        for row in self._db[TRIALS].rows_where(where, list(values)):
            try:
                yield Row(
                    int(row["id"]),
                    Config.from_json(row["config"]),
                    row["status"],
                    row["reason"],
                    row["detail"],
                    math.inf if row["time_ns"] is None else float(row["time_ns"]),
                    row["owner"],
                    row["origin"],
                    row["text"],
                    float(row["created"]),
                    float(row["updated"]),
                )
            except (ValueError, TypeError, AttributeError):
                warnings.warn(f"a corrupt trial of {self.path} is skipped", stacklevel=2)

    def _update(self, changes: Sequence[tuple[int, Mapping[str, object]]]) -> None:
        now = time.time()
        with self._writing():
            for row, values in changes:
                new = {**values, "updated": now}
                assigned = ", ".join(f"{column} = ?" for column in new)
                self._db.conn.execute(
                    f"UPDATE {TRIALS} SET {assigned}"
                    " WHERE id = ? AND (owner = ? OR status IN ('timed', 'failed'))",
                    [*new.values(), row, self._owner],
                )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Take the write lock at once: one that begins with a read cannot wait for it."""
        connection = self._db.conn
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            connection.rollback()
            raise
        connection.commit()

    def _create_tables(self) -> None:
        with self._writing():
            for name, (pk, columns) in _SCHEMA.items():
                self._db[name].create(columns, pk=pk, if_not_exists=True)
            self._db[TRIALS].create_index(["problem", "config"], unique=True, if_not_exists=True)


def _open(path: Path) -> Any:  # sqlite_utils.Database; its tables are typed Any
    import sqlite_utils

    with _locked(path):  # two processes that find a corrupt file would move the new one aside too
        if not _is_whole(path):
            _move_aside(path)
        database = sqlite_utils.Database(sqlite3.connect(path, timeout=60))
        database.enable_wal()
    # The log alone survives the end of a process, however it ends; a power cut could cost the
    # last commits, never the file.
    database.execute("PRAGMA synchronous = NORMAL")
    return database


def _is_whole(path: Path) -> bool:
    """Whether SQLite can read the file; a missing or empty one counts as whole."""
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        try:
            answer: tuple[str] = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError:  # busy, full, not permitted: says nothing of the content
            raise
        except sqlite3.DatabaseError:
            return False
        return answer[0] == "ok"


def _move_aside(path: Path) -> None:
    """Rename a file that SQLite cannot read, and its log; tell the user where it is."""
    aside = path.with_name(f"{path.name}.corrupt-{time.time_ns()}")
    os.rename(path, aside)
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.rename(f"{path}{suffix}", f"{aside}{suffix}")
    warnings.warn(f"{path} is corrupt; it now lies at {aside}, and a new one begins", stacklevel=4)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(f"{path}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:  # closing alone leaves it to a child that another thread has forked meanwhile
            fcntl.flock(file, fcntl.LOCK_UN)
