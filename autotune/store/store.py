"""Trials and tuned configs in SQLite: written at every stage, resumed by the next run.

Any number of processes may write one file (write-ahead log, 60 s of patience). Deleting the file is
always safe.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tcdsl.autotune.store import best, owner
from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.opening import open_to_write
from tcdsl.autotune.store.rows import TUNER_ENDED, TrialRow, trial_rows
from tcdsl.autotune.store.schema import COLUMNS, CONFIGS, PRIMARY, PROBLEMS, TRIALS
from tcdsl.autotune.store.trial import FINAL, Reason, Status, Trial
from tcdsl.autotune.store.tuning_file import ELSEWHERE, StoreError, explained
from tcdsl.codegen.machine.config import Config

_OURS = "problem = ? AND origin IN ('search', 'tuned')"  # times of two machines do not compare


class TuningStore:
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
            self._db, aside = open_to_write(path)
            self._create_tables()
            if aside is not None:
                self._rescue(aside)
        except sqlite3.Error as error:
            raise explained(path, error) from error
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"{path} cannot be written: {error.strerror}{ELSEWHERE}") from error
        self._owner = owner.begin()

    def __enter__(self) -> TuningStore:
        return self

    def __exit__(self, *error: object) -> None:
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

    def propose(self, key: ProblemKey, configs: Sequence[Config], origin: str) -> list[TrialRow]:
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
        places = ", ".join("?" * len(wanted))
        ours = self._unfinished(key, f"owner = ? AND config IN ({places})", self._owner, *wanted)
        mine = {row.config.to_json(): row for row in ours}
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
        found = best.Best(key.digest, key.family, key.sizes, config, time_ns, default_ns)
        with self._writing():
            if origin != "search" or not self._has_faster(key, time_ns):
                self._db[CONFIGS].upsert(_config_row(found, origin), pk=PRIMARY[CONFIGS])
        best.refresh(self.path)

    def tuned_here(self, key: ProblemKey) -> best.Best | None:
        """Return the config of a problem that this machine has found, with its time; None: none."""
        found = best.lookup(self.path, key)
        if found is None or not self._db[CONFIGS].count_where(_OURS, [key.digest]):
            return None
        return found

    def _has_faster(self, key: ProblemKey, time_ns: float) -> bool:
        where = f"{_OURS} AND time_ns < ?"
        return bool(self._db[CONFIGS].count_where(where, [key.digest, time_ns]))

    def trials(self, key: ProblemKey) -> list[TrialRow]:
        """Return the trials of a problem, oldest first; corrupt rows are skipped with a warning."""
        return list(self._rows("problem = ? ORDER BY id", [key.digest]))

    def find(self, key: ProblemKey, config: Config) -> TrialRow | None:
        """Return the trial of a config."""
        where = "problem = ? AND config = ?"
        return next(self._rows(where, [key.digest, config.to_json()]), None)

    def ended(self, key: ProblemKey) -> list[Trial]:
        """Return the trials of a problem that have a time or a reason."""
        self._inherit(key)
        return [row.trial for row in self.trials(key) if row.status in FINAL]

    def delete_trials(self, where: str, values: Sequence[object] = ()) -> int:
        """Remove trials and return how many."""
        with self._writing():
            cursor = self._db.conn.execute(f"DELETE FROM {TRIALS} WHERE {where}", list(values))
            return int(cursor.rowcount)

    def _inherit(self, key: ProblemKey) -> None:
        """Take over what a dead run left behind; what it was running has crashed."""
        now = time.time()
        with self._writing():
            for row in self._unfinished(key, "owner IS NOT ?", self._owner):
                if owner.is_alive(row.owner, now - row.updated):
                    continue
                heir: dict[str, object] = {"owner": self._owner, "status": "proposed"}
                if row.status == "running":
                    heir = {"status": "failed", "reason": "crash", "detail": TUNER_ENDED}
                self._db[TRIALS].update(row.id, heir)

    def _unfinished(self, key: ProblemKey, where: str, *values: object) -> list[TrialRow]:
        begun = f"problem = ? AND status NOT IN ('timed', 'failed') AND {where}"
        return list(self._rows(begun, [key.digest, *values]))

    def _rows(self, where: str, values: Sequence[object]) -> Iterator[TrialRow]:
        return trial_rows(self._db[TRIALS].rows_where(where, list(values)), self.path)

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
            row = _config_row(found, "rescued")
            with self._writing():
                self._db[CONFIGS].insert(row, pk=PRIMARY[CONFIGS], ignore=True)

    def _create_tables(self) -> None:
        with self._writing():
            for name, columns in COLUMNS.items():
                self._db[name].create(columns, pk=PRIMARY[name], if_not_exists=True)
            self._db[TRIALS].create_index(["problem", "config"], unique=True, if_not_exists=True)


def _config_row(found: best.Best, origin: str) -> dict[str, object]:
    return {
        "problem": found.problem,
        "family": found.family,
        "sizes": json.dumps(found.sizes),
        "config": found.config.to_json(),
        "time_ns": found.time_ns,
        "default_ns": found.default_ns,
        "origin": origin,
        "updated": time.time(),
    }
