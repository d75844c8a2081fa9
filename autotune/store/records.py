"""What people do with a tuning file: list, show, export, merge, prune. Plain data in and out."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from tcdsl.autotune.store import best
from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.store import Store
from tcdsl.autotune.store.trial import Reason, Status, TuneError
from tcdsl.autotune.store.tuning_file import (
    CONFIGS,
    MOST_ROWS,
    PROBLEMS,
    TRIALS,
    StoreError,
    not_ours,
    reading,
    require_file,
    tables_of,
    warn_once,
)
from tcdsl.codegen.machine.config import Config

_DAY_S = 86_400.0
_ORIGINS = ("", "tuned", "search", "merged", "exported", "rescued")


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a tuning file; digest names it, and so does any beginning of the digest.

    config, time_ns, default_ns : of the tuned config; None where there is none yet, or (default_ns)
        where the run did not come to the last comparison.
    origin : "tuned", "search" (the run did not come to the last comparison), "merged".
    """

    digest: str
    name: str
    text: str
    key: ProblemKey
    trials: int
    failed: int
    config: Config | None
    time_ns: float | None
    default_ns: float | None
    origin: str
    updated: float


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """One trial, for a table or a plot; time_ns is None where it failed or has not ended."""

    config: Config
    status: str
    reason: str
    detail: str
    time_ns: float | None
    origin: str
    created: float


def problems(database: Path) -> list[Problem]:
    """Return what a file holds, the latest first; nothing if there is no file.

    Rows that no store has written are left out, with a warning.

    Raises
    ------
    StoreError
        If it is no tuning file.
    """
    if not require_file(database):
        return []
    with reading(database, alone=True) as connection:
        if not {PROBLEMS, TRIALS, CONFIGS} <= {*require_same_schema(connection, database)}:
            return []
        rows = connection.execute(
            f"""SELECT p.digest, p.name, p.text, p.key,
                       (SELECT count(*) FROM {TRIALS} t WHERE t.problem = p.digest),
                       (SELECT count(*) FROM {TRIALS} t
                        WHERE t.problem = p.digest AND t.status = 'failed'),
                       c.config, c.time_ns, c.default_ns, coalesce(c.origin, ''),
                       coalesce(c.updated, p.created)
                FROM {PROBLEMS} p LEFT JOIN {CONFIGS} c ON c.problem = p.digest
                ORDER BY 11 DESC, p.digest"""
        ).fetchmany(MOST_ROWS)
    found = []
    for row in rows:
        try:
            found.append(_problem(*row))
        except ValueError as error:
            warn_once(f"a corrupt row of {database} is skipped: {row[0]!r:.40}: {error}")
    return found


def _problem(
    digest: object,
    name: object,
    text: object,
    key: object,
    trials: int,
    failed: int,
    config: object,
    time_ns: object,
    default_ns: object,
    origin: object,
    updated: object,
) -> Problem:
    """Return a row of the tables.

    Raises
    ------
    ValueError
        If it holds anything else than what a store writes.
    """
    parsed = ProblemKey.from_json(key)
    if digest != parsed.digest:
        raise ValueError("its digest is not that of its key")
    if not isinstance(name, str) or not isinstance(text, str) or origin not in _ORIGINS:
        raise ValueError("it has a value of another type")
    if isinstance(updated, bool) or not isinstance(updated, int | float):
        raise ValueError("it has a value of another type")
    return Problem(
        parsed.digest,
        name,
        text,
        parsed,
        trials,
        failed,
        None if config is None else Config.from_json(config),
        None if time_ns is None else best.time_in(time_ns),
        None if default_ns is None else best.time_in(default_ns),
        str(origin),
        updated,
    )


def find(database: Path, beginning: str) -> Problem:
    """Return the one problem whose digest or name begins so.

    Raises
    ------
    TuneError
        If there is none, or more than one.
    """
    every = problems(database)
    found = [p for p in every if p.digest.startswith(beginning)]
    found = found or [p for p in every if p.name.startswith(beginning)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise TuneError(f"{database} has no problem '{beginning}'")
    names = "\n".join(f"  note: {p.digest} is {p.name}" for p in found)
    raise TuneError(f"'{beginning}' begins {len(found)} problems of {database}\n{names}")


def trials(database: Path, problem: Problem) -> list[TrialRecord]:
    """Return the trials of a problem, oldest first."""
    with reading(database, alone=True) as connection:
        if TRIALS not in tables_of(connection, database):
            return []
        rows = connection.execute(
            f"""SELECT config, status, reason, detail, time_ns, origin, created
                FROM {TRIALS} WHERE problem = ? ORDER BY id""",
            [problem.digest],
        ).fetchmany(MOST_ROWS)
    found = []
    for row in rows:
        try:
            found.append(_trial(*row))
        except ValueError as error:
            warn_once(f"a corrupt trial of {database} is skipped: {error}")
    return found


def _trial(
    config: object,
    status: object,
    reason: object,
    detail: object,
    time_ns: object,
    origin: object,
    created: object,
) -> TrialRecord:
    """Return a row of the table of trials.

    Raises
    ------
    ValueError
        If it holds anything else than what a store writes.
    """
    parsed = Config.from_json(config)
    if status not in get_args(Status) or reason not in get_args(Reason):
        raise ValueError("it has an unknown status or reason")
    if not isinstance(created, int | float):
        raise ValueError("it has a value of another type")
    time = None if time_ns is None else best.time_in(time_ns)
    return TrialRecord(parsed, str(status), str(reason), str(detail), time, str(origin), created)


def export(database: Path, target: Path) -> int:
    """Copy the tuned configs into a new file, to merge or to ship with a model; return how many.

    It is one file, with no log and no copy beside it: readers make none either.

    Raises
    ------
    TuneError
        If the target exists, or cannot be written.
    """
    if target.exists() or target.is_symlink():
        raise TuneError(f"{target} exists\n  note: name a new file")
    found = problems(database)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as folder:
            made = Path(folder) / target.name
            with Store(made) as store:
                count = _bring(found, store, "exported")
            with closing(sqlite3.connect(made)) as connection:
                connection.execute("PRAGMA journal_mode = DELETE")
                connection.execute("VACUUM")
            os.rename(made, target)
    except (OSError, sqlite3.Error) as error:
        if isinstance(error, StoreError):
            raise
        why = error.strerror if isinstance(error, OSError) else error
        raise StoreError(f"{target} cannot be written: {why}") from error
    return count


def merge(database: Path, other: Path, *, replace: bool = False) -> int:
    """Bring the tuned configs of another file, nothing else of it; return how many came.

    Parameters
    ----------
    database, other : Path
    replace : bool
        Whether the other file's config replaces one that is here: times of two machines do not
        compare, so what was tuned here stays unless asked.

    Raises
    ------
    TuneError
        If the other file is missing, not a tuning file, or of another version of tcdsl.
    """
    if not require_file(other):
        raise not_ours(other, "it is empty" if other.exists() else "it does not exist")
    with reading(other, alone=True) as connection:
        require_same_schema(connection, other)
    found = problems(other)
    with Store(database) as store:
        if not replace:
            here = {p.digest for p in problems(database) if p.config is not None}
            found = [p for p in found if p.digest not in here]
        return _bring(found, store, "merged")


def prune(
    database: Path,
    *,
    older_than_days: float | None = None,
    generator: str | None = None,
    failed: bool = False,
    now: float | None = None,
) -> int:
    """Remove trials, and problems that have none left to speak of; return how many rows went.

    Parameters
    ----------
    database : Path
    older_than_days : float, optional
        Trials whose last change is older; the tuned configs stay.
    generator : str, optional
        The present version of the code generator: problems of other versions go, configs too.
    failed : bool
        Trials that failed; they may be tried again then.
    """
    if not require_file(database):
        return 0
    removed = 0
    with Store(database) as store:
        if older_than_days is not None:
            limit = (time.time() if now is None else now) - older_than_days * _DAY_S
            removed += store.delete(TRIALS, "updated < ?", [limit])
        if failed:
            removed += store.delete(TRIALS, "status = 'failed'", [])
        if generator is not None:
            old = [p.digest for p in problems(database) if p.key.generator != generator]
            for digest in old:
                for table, column in (
                    (TRIALS, "problem"),
                    (CONFIGS, "problem"),
                    (PROBLEMS, "digest"),
                ):
                    removed += store.delete(table, f"{column} = ?", [digest])
    return removed


def _bring(found: Sequence[Problem], store: Store, origin: str) -> int:
    """Copy problems with their tuned configs into a store; return how many."""
    count = 0
    for problem in found:
        if problem.config is None or problem.time_ns is None:
            continue
        store.add_problem(problem.key, problem.name, problem.text)
        store.set_best(problem.key, problem.config, problem.time_ns, problem.default_ns, origin)
        count += 1
    return count


def require_same_schema(connection: sqlite3.Connection, path: Path) -> tuple[str, ...]:
    """Return which of our tables a file has.

    Raises
    ------
    StoreError
        If it has tables, and none of ours.
    """
    ours = tables_of(connection, path)
    if CONFIGS in ours:
        return ours
    query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    names = [str(name) for (name,) in connection.execute(query).fetchmany(MOST_ROWS)]
    others = [name for name in names if name.startswith(CONFIGS.rstrip("0123456789"))]
    if others:
        raise not_ours(
            path,
            f"it was written by another version of tcdsl: expected table '{CONFIGS}', got"
            f" '{others[0]}'\n  note: export it again with this version",
        )
    raise not_ours(path, f"it has no table '{CONFIGS}'")
