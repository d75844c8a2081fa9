"""Configs from one tuning file to another, and rows that go: export, merge, prune.

What travels is configs, never trials: times of two machines do not compare.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from tcdsl.autotune.store.records import StoredProblem, problems, require_same_schema
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.store.trial import TuneError
from tcdsl.autotune.store.tuning_file import StoreError, not_ours, reading, require_file

_DAY_S = 86_400.0


def export(database: Path, target: Path) -> int:
    """Copy the tuned configs into a new file, to merge or to ship with a model; return how many.

    It is one file, whole or not there, with no log and no copy beside it: it is made beside its
    name and renamed, and readers make none either.

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
            with TuningStore(made) as store:
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
    with TuningStore(database) as store:
        if not replace:
            here = {p.digest for p in problems(database) if p.config is not None}
            found = [p for p in found if p.digest not in here]
        return _bring(found, store, "merged")


def prune(
    database: Path,
    *,
    older_than_days: float | None = None,
    failed: bool = False,
) -> int:
    """Remove trials, and return how many; problems and tuned configs stay.

    Parameters
    ----------
    database : Path
    older_than_days : float, optional
        Trials whose last change is older.
    failed : bool
        Trials that failed; they may be tried again then.
    """
    if not require_file(database):
        return 0
    removed = 0
    with TuningStore(database) as store:
        if older_than_days is not None:
            limit = time.time() - older_than_days * _DAY_S
            removed += store.delete_trials("updated < ?", [limit])
        if failed:
            removed += store.delete_trials("status = 'failed'")
    return removed


def _bring(found: Sequence[StoredProblem], store: TuningStore, origin: str) -> int:
    """Copy problems with their tuned configs into a store; return how many."""
    count = 0
    for problem in found:
        if problem.config is None or problem.time_ns is None:
            continue
        store.add_problem(problem.key, problem.name, problem.text)
        store.set_best(problem.key, problem.config, problem.time_ns, problem.default_ns, origin)
        count += 1
    return count
