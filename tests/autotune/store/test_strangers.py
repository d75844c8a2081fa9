"""Files that anybody may have written: refused as they are, or read without harm."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tcdsl.autotune.store import best, records, transfer, tuning_file
from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.schema import COLUMNS, CONFIGS
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.store.tuning_file import StoreError
from tcdsl.codegen.machine.config import Config
from tests.tiers import sampled

KEY = ProblemKey("abc", ("float32",), "c", (100, 128), "cpu avx512", 2, "gcc 12", "1")
OTHER = replace(KEY, sizes=(7, 7))
A, B = Config.of({"g0.mr": 1}), Config.of({"g0.mr": 2})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tuned.db"


def fill(path: Path) -> Path:
    with TuningStore(path) as store:
        for key in (KEY, OTHER):
            store.add_problem(key, "mm", "def mm ...")
            (row,) = store.propose(key, [A], "model")
            store.set_timed({row.id: (10.0, [10.0])})
            store.set_best(key, A, 10.0, 12.0, "tuned")
    best.best_json(path).unlink()
    return path


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def state(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


# ---- what is no tuning file

PLAIN = "CREATE TABLE notes (text)"
LIKE_OURS = f"CREATE TABLE configs_v1 ({', '.join(COLUMNS[CONFIGS])})"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
A_VIEW = (
    f"CREATE VIEW configs_v1 AS {ENDLESS} i AS problem, i AS family, '[1]' AS sizes, '{{}}' AS"
    " config, '' AS origin, 1.0 AS time_ns, 1.0 AS default_ns, 1.0 AS updated FROM n"
)


def a_huge_one(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def with_tables(*statements: str) -> Callable[[Path], None]:
    return lambda path: change(path, *statements)


def a_damaged_one(path: Path) -> None:
    change(path, PLAIN, *["INSERT INTO notes VALUES (hex(randomblob(2000)))"] * 30)
    content = bytearray(path.read_bytes())
    content[100:4096] = bytes(3996)
    path.write_bytes(content)


STRANGERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "text": (lambda p: p.write_text("def f(float(N) x) -> (y) ..."), "it is no SQLite database"),
    "folder": (lambda p: p.mkdir(), "it is a folder"),
    "pipe": (os.mkfifo, "it is a pipe"),
    "link to nothing": (lambda p: p.symlink_to("nowhere"), "it is a link to nothing"),
    "huge": (a_huge_one, "it is no SQLite database"),
    "application": (with_tables(PLAIN), "it has no table 'configs_v1'"),
    "damaged": (a_damaged_one, "is damaged: "),
    "view": (with_tables(A_VIEW), "'configs_v1' is no table"),
    "no column": (
        with_tables("CREATE TABLE configs_v1 (problem TEXT)"),
        "table 'configs_v1' has no column 'family'",
    ),
    "computed column": (
        with_tables(LIKE_OURS.replace(", config", ", config AS (zeroblob(1000000000))")),
        "table 'configs_v1' has no column 'config'",
    ),
    "virtual table": (
        with_tables("CREATE VIRTUAL TABLE configs_v1 USING fts5(problem, config)"),
        "'configs_v1' is no table",
    ),
    "newer": (
        with_tables("CREATE TABLE configs_v9 (x)"),
        "written by another version of tcdsl: expected table 'configs_v1', got 'configs_v9'",
    ),
}


@sampled("name", STRANGERS, keep=6)
@pytest.mark.parametrize("use", [records.problems, "merge"])
def test_what_is_no_tuning_file_is_refused_and_left_as_it_is(
    tmp_path: Path, name: str, use: object
) -> None:
    make, message = STRANGERS[name]
    other, here = tmp_path / "other.db", tmp_path / "in" / "here.db"
    make(other)
    before = state(tmp_path) if name != "huge" else {}
    with pytest.raises(StoreError) as caught:
        transfer.merge(here, other) if use == "merge" else records.problems(other)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(other))
    if name != "huge":
        assert state(tmp_path) == before
    assert not here.exists()


@pytest.mark.wide
@pytest.mark.parametrize("name", [n for n in STRANGERS if n != "newer"])
def test_no_store_is_opened_in_its_place_and_calls_go_on(tmp_path: Path, name: str) -> None:
    make, _ = STRANGERS[name]
    other = tmp_path / "other.db"
    make(other)
    before = os.lstat(other), sorted(tmp_path.iterdir())
    with pytest.raises(StoreError), TuningStore(other):
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert best.lookup(other, KEY) is None
    after = os.lstat(other), sorted(tmp_path.iterdir())
    assert (after[0].st_mtime_ns, after[0].st_size) == (before[0].st_mtime_ns, before[0].st_size)
    assert after[1] == before[1]


@pytest.mark.parametrize("what", ["TRIGGER t AFTER INSERT ON trials_v1 BEGIN SELECT 1; END",
                                  "VIEW v AS SELECT 1"])  # fmt: skip
def test_a_store_with_programs_in_it_is_not_written(path: Path, what: str) -> None:
    change(fill(path), f"CREATE {what}")
    with pytest.raises(StoreError, match=r"is not a tuning file: it has a (trigger|view)"):
        TuningStore(path)
    assert len(records.problems(path)) == 2  # to read is safe: nothing of it runs


def test_reading_that_never_ends_is_ended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_file, "_MOST_COUNTS", 10)
    with (
        pytest.raises(StoreError, match="reading it takes too long"),
        tuning_file.reading(fill(path)) as connection,
    ):
        connection.execute(f"{ENDLESS} max(i) FROM n").fetchall()


def test_reading_cannot_write(path: Path) -> None:
    with (
        pytest.raises(StoreError, match="readonly"),
        tuning_file.reading(fill(path)) as connection,
    ):
        connection.execute("DELETE FROM trials_v1")


# ---- our own store, damaged


def test_a_damaged_store_is_moved_aside_and_its_configs_are_kept(path: Path) -> None:
    with TuningStore(fill(path)) as store:
        store.propose(KEY, [Config.of({"i": i}) for i in range(300)], "model")
    content = bytearray(path.read_bytes())
    content[4096 * 9 : 4096 * 12] = os.urandom(4096 * 3)
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="corrupt; it now lies at"), TuningStore(path):
        pass
    assert {b.config for b in best.refresh(path).values()} == {A}
    (aside,) = (p for p in path.parent.glob("*.corrupt-*") if p.name[-4:] not in ("-wal", "-shm"))
    assert aside.read_bytes() == bytes(content)


# ---- rows

BAD_CONFIGS = {
    "a list": "[1]",
    "a number": "7",
    "a list in a knob": '{"g0.mr": [1, 2]}',
    "a float": '{"g0.mr": 1.5}',
    "none": '{"g0.mr": null}',
    "infinite": '{"g0.mr": Infinity}',
    "large": '{"g0.mr": ' + "9" * 30 + "}",
    "larger": '{"g0.mr": ' + "9" * 5000 + "}",
    "deep": "[" * 100_000,
    "deep knob": '{"g0.mr": ' + "[" * 50 + "]" * 50 + "}",
    "long": '{"g0.mr": "' + "x" * 100_000 + '"}',
    "escapes": '{"g0.mr": "\\u001b[31m"}',
    "a name of nothing": '{"": 1}',
    "torn": "{",
}
BAD_ROWS = {
    **{f"config {k}": ("config", v) for k, v in BAD_CONFIGS.items()},
    "config blob": ("config", b"{}"),
    "sizes infinite": ("sizes", "[Infinity, 128]"),
    "sizes NaN": ("sizes", "[NaN, 128]"),
    "sizes float": ("sizes", "[1.5, 128]"),
    "sizes true": ("sizes", "[true, 128]"),
    "sizes a number": ("sizes", "100"),
    "sizes huge": ("sizes", f"[{2**63}, 1]"),
    "sizes deep": ("sizes", "[" * 100_000),
    "time text": ("time_ns", "soon"),
    "time none": ("time_ns", None),
    "time infinite": ("time_ns", 9e999),
    "time negative": ("time_ns", -1.0),
    "default text": ("default_ns", "soon"),
}


@sampled("name", BAD_ROWS, keep=8)
def test_a_bad_row_is_a_warning_and_the_others_serve(path: Path, name: str) -> None:
    column, value = BAD_ROWS[name]
    with closing(sqlite3.connect(fill(path))) as connection, connection:
        statement = f"UPDATE configs_v1 SET {column} = ? WHERE problem = ?"
        connection.execute(statement, [value, KEY.digest])
    with pytest.warns(UserWarning, match="a corrupt row of"):
        assert best.lookup(path, KEY) is None
    assert best.lookup(path, OTHER) is not None
    assert [b.problem for b in best.relatives(path, KEY)] == [OTHER.digest]
    if column != "sizes":  # a list shows the key's
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shown = [p.key for p in records.problems(path)]
            assert OTHER in shown
            assert (KEY in shown) == (value is None)
            assert transfer.merge(path.parent / "new.db", path) == 1


@pytest.mark.wide
@pytest.mark.parametrize("name", BAD_CONFIGS)
def test_a_bad_copy_is_made_anew_from_the_file(path: Path, name: str) -> None:
    fill(path)
    assert best.lookup(path, KEY) is not None
    copy = best.best_json(path)
    content = json.loads(copy.read_text())
    content["best"][0][3] = BAD_CONFIGS[name]
    copy.write_text(json.dumps(content))
    best._loaded.clear()
    found = best.lookup(path, KEY)
    assert found is not None
    assert found.config == A
    assert json.loads(copy.read_text()) != content


@pytest.mark.parametrize(
    "content", ["[" * 200_000, "null", '{"format": 1}', '{"format": 1, "of": 7, "best": [7]}']
)
def test_a_copy_that_is_anything_is_made_anew(path: Path, content: str) -> None:
    copy = best.best_json(fill(path))
    copy.write_text(content)
    assert best.lookup(path, KEY) is not None


def test_a_copy_is_not_written_over_a_file_of_the_users(path: Path) -> None:
    copy = best.best_json(fill(path))
    copy.write_text("mine")
    assert best.lookup(path, KEY) is not None
    assert copy.read_text() == "mine"


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_in_the_place_of_a_copy_is_neither_waited_for_nor_read(
    path: Path, put: Callable[[Path], None]
) -> None:
    copy = best.best_json(fill(path))
    copy.unlink(missing_ok=True)
    put(copy)
    best._loaded.clear()
    assert best.lookup(path, KEY) is not None
    assert not copy.is_file()


def test_a_store_that_another_process_holds_for_ever_is_told_with_the_cure(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(path)
    monkeypatch.setattr(tuning_file, "PATIENCE_S", 0.05)
    with open(f"{path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match=r"is locked: .*\n.*fuser .*--cache FILE"):
            TuningStore(path)
    with TuningStore(path) as store, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"is locked: .*\n.*fuser .*--cache FILE"):
            store.add_problem(KEY, "mm", "def mm ...")
    monkeypatch.setattr(tuning_file, "READING_S", 0.05)
    best.best_json(path).unlink(missing_ok=True)
    best._loaded.clear()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.warns(UserWarning, match=r"is locked: .*\n.*fuser .*"):
            assert best.lookup(path, KEY) is None


def test_sizes_below_zero_are_no_ones_trouble(path: Path) -> None:
    with TuningStore(path) as store:
        store.set_best(replace(KEY, sizes=(-1, 128)), A, 1.0, 1.0, "tuned")
    assert [b.sizes for b in best.relatives(path, KEY)] == [(-1, 128)]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("status", "gone"),
        ("reason", 7),
        ("owner", None),
        ("detail", b"x"),
        ("updated", "now"),
        ("time_ns", None),
        ("time_ns", 9e999),
        ("config", '{"g0.mr": [1]}'),
    ],
)
def test_a_bad_trial_is_a_warning(path: Path, column: str, value: object) -> None:
    with closing(sqlite3.connect(fill(path))) as connection, connection:
        statement = f"UPDATE trials_v1 SET {column} = ? WHERE problem = ?"
        connection.execute(statement, [value, KEY.digest])
    with TuningStore(path) as store:
        with pytest.warns(UserWarning, match="a corrupt trial of"):
            assert store.trials(KEY) == []
        assert len(store.trials(OTHER)) == 1


@pytest.mark.parametrize(
    "key",
    ["7", "{}", '{"text": 1}', "[" * 100_000, OTHER.to_json(), KEY.to_json()[:-1] + ', "x": 1}'],
)
def test_a_merge_brings_only_what_its_key_says(path: Path, key: str) -> None:
    with closing(sqlite3.connect(fill(path))) as connection, connection:
        connection.execute("UPDATE problems_v1 SET key = ? WHERE digest = ?", [key, KEY.digest])
    with pytest.warns(UserWarning, match="a corrupt row"):
        assert transfer.merge(path.parent / "new.db", path) == 1


def test_a_merge_makes_no_file_beside_what_it_reads(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    fill(other / "t.db")
    before = state(other)
    assert transfer.merge(tmp_path / "here.db", other / "t.db") == 2
    assert state(other) == before
