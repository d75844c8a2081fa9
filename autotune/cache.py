"""What people do with a tuning file: list, show, export, merge, prune. Plain data in and out."""

from __future__ import annotations

import sqlite3
import time
import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tcdsl.autotune import best
from tcdsl.autotune.key import ProblemKey
from tcdsl.autotune.store import CONFIGS, PROBLEMS, TRIALS, Store
from tcdsl.autotune.trial import TuneError
from tcdsl.codegen.config import Config

_DAY_S = 86_400.0


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
    """Return what a file holds, the latest first; nothing if there is no file."""
    if not database.exists():
        return []
    with closing(best.connect_to_read(database)) as connection:
        if PROBLEMS not in _tables(connection):
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
        ).fetchall()
    found = []
    for digest, name, text, key, trials, failed, config, *rest in rows:
        try:
            parsed = None if config is None else Config.from_json(config)
            found.append(
                Problem(
                    digest, name, text, ProblemKey.from_json(key), trials, failed, parsed, *rest
                )
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            warnings.warn(f"a corrupt row of {database} is skipped: {digest!r}", stacklevel=2)
    return found


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
    with closing(best.connect_to_read(database)) as connection:
        rows = connection.execute(
            f"""SELECT config, status, reason, detail, time_ns, origin, created
                FROM {TRIALS} WHERE problem = ? ORDER BY id""",
            [problem.digest],
        ).fetchall()
    found = []
    for config, *rest in rows:
        try:
            found.append(TrialRecord(Config.from_json(config), *rest))
        except (ValueError, TypeError, AttributeError):
            warnings.warn(f"a corrupt trial of {database} is skipped", stacklevel=2)
    return found


def export(database: Path, target: Path) -> int:
    """Copy the tuned configs into a new file, for another machine to merge; return how many.

    Raises
    ------
    TuneError
        If the target exists.
    """
    if target.exists():
        raise TuneError(f"{target} exists\n  note: name a new file")
    with Store(target) as store:
        return _bring(database, store, "exported", replace=True)


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
    if not other.exists():
        raise TuneError(f"{other} does not exist")
    with Store(database) as store:
        return _bring(other, store, "merged", replace)


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
    if not database.exists():
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


def _bring(source: Path, store: Store, origin: str, replace: bool) -> int:
    """Copy problems with their tuned configs into a store."""
    _require_same_schema(source)
    here = {p.digest for p in problems(store.path) if p.config is not None}
    count = 0
    for problem in problems(source):
        if problem.config is None or problem.time_ns is None:
            continue
        if problem.digest in here and not replace:
            continue
        store.add_problem(problem.key, problem.name, problem.text)
        store.set_best(problem.key, problem.config, problem.time_ns, problem.default_ns, origin)
        count += 1
    return count


def _require_same_schema(database: Path) -> None:
    if not database.exists():
        return
    try:
        with closing(best.connect_to_read(database)) as connection:
            tables = _tables(connection)
    except sqlite3.DatabaseError as error:
        raise TuneError(f"{database} is not a tuning file: {error}") from error
    if CONFIGS in tables:
        return
    others = [name for name in tables if name.startswith(CONFIGS.rstrip("0123456789"))]
    if others:
        raise TuneError(
            f"{database} was written by another version of tcdsl: expected table '{CONFIGS}', got"
            f" '{others[0]}'\n  note: export it again with this version"
        )
    raise TuneError(f"{database} is not a tuning file: it has no table '{CONFIGS}'")


def _tables(connection: sqlite3.Connection) -> Sequence[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [name for (name,) in rows]
