"""List, show, export, merge, prune."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tcdsl.autotune.store import best, records, transfer
from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.store.trial import TuneError
from tcdsl.codegen.machine.config import Config

KEY = ProblemKey("abc", ("float32",), "c", (100,), "cpu avx512", 2, "gcc 12", "1")
OTHER = replace(KEY, sizes=(200,))
A, B = Config.of({"mr": 1}), Config.of({"mr": 2})


def fill(path: Path, config: Config = A, key: ProblemKey = KEY) -> Path:
    with TuningStore(path) as store:
        store.add_problem(key, f"mm N={key.sizes[0]}", "def mm ...")
        good, bad = store.propose(key, [A, B], "model")
        store.set_timed({good.id: (10.0, [10.0])})
        store.set_failed(bad.id, "crash", "SIGSEGV")
        store.set_best(key, config, 10.0, 12.0, "tuned")
    return path


def test_a_file_lists_its_problems_with_trials_and_best(tmp_path: Path) -> None:
    path = fill(tmp_path / "t.db")
    (found,) = records.problems(path)
    assert (found.digest, found.name, found.key) == (KEY.digest, "mm N=100", KEY)
    assert (found.trials, found.failed) == (2, 1)
    assert (found.config, found.time_ns, found.default_ns, found.origin) == (A, 10, 12, "tuned")
    first, second = records.trials(path, found)
    assert (first.status, first.time_ns) == ("timed", 10.0)
    assert (second.status, second.reason, second.time_ns) == ("failed", "crash", None)


def test_no_file_lists_nothing(tmp_path: Path) -> None:
    assert records.problems(tmp_path / "none.db") == []
    assert transfer.prune(tmp_path / "none.db", failed=True) == 0


def test_a_problem_is_found_by_the_beginning_of_digest_or_name(tmp_path: Path) -> None:
    path = fill(fill(tmp_path / "t.db"), key=OTHER)
    assert records.find(path, KEY.digest[:6]).key == KEY
    assert records.find(path, "mm N=2").key == OTHER
    with pytest.raises(TuneError, match="has no problem 'conv'"):
        records.find(path, "conv")
    with pytest.raises(TuneError, match="'mm' begins 2 problems"):
        records.find(path, "mm")


def test_an_export_holds_configs_and_no_trials(tmp_path: Path) -> None:
    path = fill(tmp_path / "t.db")
    assert transfer.export(path, tmp_path / "out.db") == 1
    (found,) = records.problems(tmp_path / "out.db")
    assert (found.config, found.trials, found.origin) == (A, 0, "exported")
    with pytest.raises(TuneError, match="exists"):
        transfer.export(path, tmp_path / "out.db")


def test_a_merge_brings_configs_only_and_leaves_what_was_tuned_here(tmp_path: Path) -> None:
    here = fill(tmp_path / "here.db")
    there = fill(fill(tmp_path / "there.db", B), B, OTHER)
    assert transfer.merge(here, there) == 1
    configs = {p.key: (p.config, p.trials) for p in records.problems(here)}
    assert configs == {KEY: (A, 2), OTHER: (B, 0)}
    found = best.lookup(here, OTHER)
    assert found is not None
    assert found.config == B
    assert transfer.merge(here, there, replace=True) == 2
    assert {p.config for p in records.problems(here)} == {B}


def test_a_file_of_another_schema_is_refused_with_the_tables_named(tmp_path: Path) -> None:
    old = fill(tmp_path / "old.db")
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("ALTER TABLE configs_v1 RENAME TO configs_v0")
    here = fill(tmp_path / "here.db")
    with pytest.raises(TuneError, match="expected table 'configs_v1', got 'configs_v0'"):
        transfer.merge(here, old)
    assert len(records.problems(here)) == 1


@pytest.mark.parametrize("content", [b"no database" * 500, b""])
def test_what_is_no_tuning_file_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    other = tmp_path / "other.db"
    other.write_bytes(content)
    with pytest.raises(TuneError, match="is not a tuning file"):
        transfer.merge(tmp_path / "here.db", other)
    assert other.read_bytes() == content
    with pytest.raises(TuneError, match="does not exist"):
        transfer.merge(tmp_path / "here.db", tmp_path / "none.db")


def test_pruning_by_age_keeps_the_configs(tmp_path: Path) -> None:
    path = fill(tmp_path / "t.db")
    assert transfer.prune(path, older_than_days=1) == 0
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE trials_v1 SET updated = updated - 200000")
    assert transfer.prune(path, older_than_days=1) == 2
    (found,) = records.problems(path)
    assert (found.trials, found.config) == (0, A)


def test_pruning_failures_lets_them_be_tried_again(tmp_path: Path) -> None:
    path = fill(tmp_path / "t.db")
    assert transfer.prune(path, failed=True) == 1
    with TuningStore(path) as store:
        assert [r.config for r in store.propose(KEY, [A, B], "x")] == [B]


def test_a_corrupt_row_is_skipped_with_a_warning(tmp_path: Path) -> None:
    path = fill(fill(tmp_path / "t.db"), key=OTHER)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE problems_v1 SET key = 'x' WHERE digest = ?", [KEY.digest])
    with pytest.warns(UserWarning, match="corrupt row"):
        assert [p.key for p in records.problems(path)] == [OTHER]
