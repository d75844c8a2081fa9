"""What a tuning file holds, for people: its problems, their trials and tuned configs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.rows import TrialRow, trial_rows
from tcdsl.autotune.store.schema import COLUMNS, CONFIGS, PROBLEMS, TRIALS
from tcdsl.autotune.store.trial import TuneError
from tcdsl.autotune.store.tuning_file import (
    MOST_ROWS,
    not_ours,
    reading,
    require_file,
    tables_of,
    warn_once,
)
from tcdsl.autotune.store.untrusted import date_in, optional_time_in, text_in
from tcdsl.codegen.machine.config import Config
from tcdsl.grammar.text.dataclass import dataclass

_ORIGINS = ("", "tuned", "search", "merged", "exported", "rescued")


@dataclass(frozen=True, slots=True)
class StoredProblem:
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


def problems(database: Path) -> list[StoredProblem]:
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
) -> StoredProblem:
    """Return a row of the tables.

    Raises
    ------
    ValueError
        If it holds anything else than what a store writes.
    """
    parsed = ProblemKey.from_json(key)
    if digest != parsed.digest:
        raise ValueError("its digest is not that of its key")
    if origin not in _ORIGINS:
        raise ValueError("it has an unknown origin")
    return StoredProblem(
        parsed.digest,
        text_in(name),
        text_in(text),
        parsed,
        trials,
        failed,
        None if config is None else Config.from_json(config),
        optional_time_in(time_ns),
        optional_time_in(default_ns),
        str(origin),
        date_in(updated),
    )


def find(database: Path, beginning: str) -> StoredProblem:
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


def trials(database: Path, problem: StoredProblem) -> list[TrialRow]:
    """Return the trials of a problem, oldest first."""
    with reading(database, alone=True) as connection:
        if TRIALS not in tables_of(connection, database):
            return []
        names = list(COLUMNS[TRIALS])
        query = f"SELECT {', '.join(names)} FROM {TRIALS} WHERE problem = ? ORDER BY id"
        rows = connection.execute(query, [problem.digest]).fetchmany(MOST_ROWS)
    return list(trial_rows((dict(zip(names, row, strict=True)) for row in rows), database))


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
