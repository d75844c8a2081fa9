"""Trials and tuned configs in SQLite: written at every stage, resumed, exported, merged.

Any number of processes may write one file (write-ahead log, 60 s of patience). Deleting the file is
always safe. The version stands in the names of the tables: another schema is other tables. A file
that is no tuning file is refused as it is (`tuning_file.py`).
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
from typing import Any, get_args

from tcdsl.autotune.store import best, owner, tuning_file
from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.trial import FINAL, Reason, Status, Trial
from tcdsl.autotune.store.tuning_file import (
    APPLICATION_ID,
    CONFIGS,
    PROBLEMS,
    TRIALS,
    DamagedError,
    ForeignError,
    StoreError,
    explained,
    warn_once,
)
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.cachedir import usual_folder


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
        Made with its folder where it is missing. A tuning file that is damaged is moved aside with
        a warning, and what can be read of its configs is brought into a new one.

    Raises
    ------
    StoreError
        If it is another file than a tuning file, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db, aside = _open(path)
            self._create_tables()
            if aside is not None:
                self._rescue(aside)
        except sqlite3.Error as error:
            raise explained(path, error) from error
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"{path} cannot be written: {error.strerror}") from error
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
        with suppress(sqlite3.Error):  # a full disk: what was committed stays in the log
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
                yield _row(row)
            except ValueError as error:
                warn_once(f"a corrupt trial of {self.path} is skipped: {row['id']!r:.40}: {error}")

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
        """Take the write lock at once: one that begins with a read cannot wait for it.

        Raises
        ------
        StoreError
            If the file cannot be written, as on a full disk: what was committed before stays.
        """
        connection = self._db.conn
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                connection.commit()
            except BaseException:
                connection.rollback()
                raise
        except sqlite3.Error as error:
            raise explained(self.path, error) from error

    def _rescue(self, aside: Path) -> None:
        """Bring what can be read of the tuned configs of a damaged file, and of their copy."""
        for found in best.readable(aside, best.best_json(self.path)):
            row = {
                "problem": found.problem,
                "family": found.family,
                "sizes": json.dumps(found.sizes),
                "config": found.config.to_json(),
                "time_ns": found.time_ns,
                "default_ns": found.default_ns,
                "origin": "rescued",
                "updated": time.time(),
            }
            with self._writing():
                self._db[CONFIGS].insert(row, pk="problem", ignore=True)

    def _create_tables(self) -> None:
        with self._writing():
            for name, (pk, columns) in _SCHEMA.items():
                self._db[name].create(columns, pk=pk, if_not_exists=True)
            self._db[TRIALS].create_index(["problem", "config"], unique=True, if_not_exists=True)


def _row(row: Mapping[str, Any]) -> Row:
    """Return a row of the table of trials.

    Raises
    ------
    ValueError
        If it holds anything else than what a store writes.
    """
    texts = [row[name] for name in ("detail", "owner", "origin", "text")]
    times = [row[name] for name in ("created", "updated")]
    if not all(isinstance(t, str) for t in texts) or not all(map(_is_number, times)):
        raise ValueError("it has a value of another type")
    if row["status"] not in get_args(Status) or row["reason"] not in get_args(Reason):
        raise ValueError("it has an unknown status or reason")
    time_ns = math.inf if row["time_ns"] is None else best.time_in(row["time_ns"])
    if row["status"] == "timed" and time_ns == math.inf:
        raise ValueError("it is timed and has no time")
    detail, of, origin, text = texts
    config = Config.from_json(row["config"])
    return Row(
        row["id"], config, row["status"], row["reason"], detail, time_ns, of, origin, text, *times
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) < math.inf


def _open(path: Path) -> tuple[Any, Path | None]:
    """Return a `sqlite_utils.Database`, and where a damaged file lies that was in its place."""
    import sqlite_utils

    _require_ours(path)  # before anything lies beside it
    with _locked(path):  # two processes that find a damaged file would move the new one aside too
        aside = _move_aside(path) if _is_damaged(path) else None
        opened = sqlite_utils.Database(sqlite3.connect(path, timeout=60))
        if opened.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
            opened.execute(f"PRAGMA application_id = {APPLICATION_ID}")  # before there is a log
        opened.enable_wal()
    # The log alone survives the end of a process, however it ends; a power cut could cost the
    # last commits, never the file.
    opened.execute("PRAGMA synchronous = NORMAL")
    opened.execute("PRAGMA trusted_schema = OFF")
    return opened, aside


def _is_own(path: Path) -> bool:
    """Whether a file lies where the user's own store does: whatever it is, it was made by us."""
    return path.absolute() == usual_folder() / tuning_file.NAME


def _require_ours(path: Path) -> None:
    """Refuse a file that is no tuning file, without touching it.

    Raises
    ------
    StoreError
        If it is another one, or too damaged to tell.
    """
    if not tuning_file.require_file(path) or _is_own(path):
        return
    try:
        with tuning_file.reading(path, alone=True) as connection:
            tuning_file.require_ours(connection, path)
    except (DamagedError, ForeignError) as error:
        is_unread = not isinstance(error.__cause__, sqlite3.Error)
        if is_unread or not tuning_file.is_marked(path):
            raise


def _is_damaged(path: Path) -> bool:
    """Whether a file that is ours cannot be read whole; a missing or empty one is none yet.

    Raises
    ------
    StoreError
        If it is marked as ours and holds what does not belong to us.
    """
    if not tuning_file.require_file(path):
        return False
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        try:
            tuning_file.restrict(connection)
            tuning_file.require_ours(connection, path)
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
def _locked(path: Path) -> Iterator[None]:
    with open(f"{path}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:  # closing alone leaves it to a child that another thread has forked meanwhile
            fcntl.flock(file, fcntl.LOCK_UN)
