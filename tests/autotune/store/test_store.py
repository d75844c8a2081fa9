"""The store: every stage kept, nobody's crash met twice, two writers, corrupt rows and files."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import subprocess
import sys
import warnings
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tcdsl.autotune.store import best, owner
from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.store.trial import Trial
from tcdsl.codegen.machine.config import Config

KEY = ProblemKey("abc", ("float32",), "c", (100, 128), "cpu avx512", 2, "gcc 12", "1")
A, B, C = (Config.of({"g0.mr": n, "g0.pack": n > 1, "g0.form": "panel"}) for n in (1, 2, 3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tuned.db"


def disown(path: Path) -> None:
    """Make all rows those of a process that has ended."""
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                           capture_output=True, text=True, check=True)  # fmt: skip
    host = owner.begin().split(":")[0]
    with closing(sqlite3.connect(path)) as connection, connection:
        name = f"{host}:{ended.stdout.strip()}:1:x"
        connection.execute("UPDATE trials_v1 SET owner = ?", [name])


def test_a_trial_is_kept_at_each_stage(path: Path) -> None:
    with TuningStore(path) as store:
        a, b, c = store.propose(KEY, [A, B, C], "model")
        assert [r.status for r in store.trials(KEY)] == ["proposed"] * 3
        store.set_status([a.id, b.id], "compiled")
        store.set_status([a.id], "running")
        store.set_failed(c.id, "compile", "error: x")
        assert [r.status for r in store.trials(KEY)] == ["running", "compiled", "failed"]
        store.set_status([a.id], "checked")
        store.set_timed({a.id: (12.5, [12.0, 13.0])})
    with TuningStore(path) as store:
        assert store.ended(KEY) == [Trial(A, 12.5), Trial(C, math.inf, "compile", "error: x")]


def test_what_is_stored_comes_back_the_same_type_by_type(path: Path) -> None:
    with TuningStore(path) as store:
        store.propose(KEY, [B], "model")
        (row,) = store.trials(KEY)
    assert row.config == B
    assert [type(v) for _, v in row.config.items] == [type(v) for _, v in B.items]


def test_a_config_is_proposed_once(path: Path) -> None:
    with TuningStore(path) as store:
        (a,) = store.propose(KEY, [A], "model")
        store.set_timed({a.id: (1.0, [])})
        assert [r.config for r in store.propose(KEY, [A, B], "model")] == [B]


def test_another_problem_has_its_own_trials(path: Path) -> None:
    with TuningStore(path) as store:
        store.propose(KEY, [A], "model")
        assert store.trials(replace(KEY, sizes=(1, 2))) == []


def test_what_a_dead_process_was_running_has_crashed(path: Path) -> None:
    with TuningStore(path) as store:
        a, *_ = store.propose(KEY, [A, B], "model")
        store.set_status([a.id], "running")
    disown(path)
    with TuningStore(path) as store:
        assert [r.config for r in store.propose(KEY, [A, B], "model")] == [B]
        (crashed,) = store.ended(KEY)
        assert (crashed.config, crashed.reason) == (A, "crash")


def test_what_an_aborted_run_of_this_process_was_running_has_crashed(path: Path) -> None:
    with TuningStore(path) as store:
        a, *_ = store.propose(KEY, [A, B], "model")
        store.set_status([a.id], "running")
    with TuningStore(path) as store:
        assert [t.config for t in store.ended(KEY)] == [A]


@pytest.mark.parametrize("status", ["proposed", "compiled", "checked"])
def test_what_a_dead_process_had_not_run_is_taken_over(path: Path, status: str) -> None:
    with TuningStore(path) as store:
        (a,) = store.propose(KEY, [A], "model")
        store.set_status([a.id], status)  # type: ignore[arg-type]  # parametrised
    disown(path)
    with TuningStore(path) as store:
        assert [r.status for r in store.propose(KEY, [A], "model")] == ["proposed"]


def test_what_another_live_run_is_trying_is_left_to_it(path: Path) -> None:
    with TuningStore(path) as first, TuningStore(path) as second:
        (a,) = first.propose(KEY, [A], "model")
        first.set_status([a.id], "running")
        assert second.propose(KEY, [A], "model") == []
        assert second.ended(KEY) == []


def test_a_run_of_another_host_counts_as_alive() -> None:
    assert owner.is_alive("elsewhere:1:1:x")
    assert not owner.is_alive("nonsense")
    mine = owner.begin()
    assert owner.is_alive(mine)
    owner.end(mine)
    assert not owner.is_alive(mine)


def test_a_process_that_was_killed_and_not_waited_for_is_dead() -> None:
    code = "from tcdsl.autotune.store import owner; print(owner.begin(), flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    assert owner.is_alive(name)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not owner.is_alive(name)
    process.communicate()


def test_a_process_that_has_this_number_now_is_not_the_old_one() -> None:
    host, _, _, token = owner.begin().split(":")
    assert not owner.is_alive(f"{host}:{os.getppid()}:1:{token}")


WRITER = """
import sys
from pathlib import Path
from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.store import TuningStore
from tcdsl.codegen.machine.config import Config
key = ProblemKey("abc", ("float32",), "c", (100, 128), "cpu avx512", 2, "gcc 12", "1")
with TuningStore(Path(sys.argv[1])) as store:
    for i in range(40):
        for row in store.propose(key, [Config.of({"who": sys.argv[2], "i": i, "j": j})
                                       for j in range(3)], "t"):
            store.set_status([row.id], "running")
            store.set_timed({row.id: (1.0 + i, [])})
        store.set_best(key, Config.of({"who": sys.argv[2], "i": i}), 1.0 + i, 2.0, "t")
"""


def test_two_processes_write_at_once_and_lose_nothing(path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", WRITER, str(path), who])
        for who in ("a", "b")
    ]
    assert [w.wait(60) for w in writers] == [0, 0]
    with TuningStore(path) as store:
        assert len(store.ended(KEY)) == 240
    found = best.lookup(path, KEY)
    assert found is not None
    assert found.config.get("i") == 39


def test_a_corrupt_row_is_skipped_with_a_warning(path: Path) -> None:
    with TuningStore(path) as store:
        for config in (A, B):
            store.propose(KEY, [config], "model")
        store.set_best(KEY, A, 1.0, 2.0, "tuned")
        store.set_best(replace(KEY, sizes=(7, 7)), B, 1.0, 2.0, "tuned")
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("trials_v1", "configs_v1"):
            connection.execute(f"UPDATE {table} SET config = '{{' WHERE config = ?", [A.to_json()])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with TuningStore(path) as store:
            assert [r.config for r in store.trials(KEY)] == [B]
            assert [r.config for r in store.trials(KEY)] == [B]
        best.best_json(path).unlink()
        assert best.refresh(path).keys() == {replace(KEY, sizes=(7, 7)).digest}
    told = [str(w.message).split(" of ")[0] for w in caught]
    assert told == ["a corrupt trial", "a corrupt row"]  # once each


@pytest.mark.parametrize(
    "content", [b"this is no database" * 100, b"SQLite format 3\0" + b"\7" * 5000]
)
def test_a_corrupt_file_in_the_place_of_ours_is_moved_aside_and_a_new_one_begun(
    path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCDSL_CACHE", str(path.parent))
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="is corrupt; it now lies at"), TuningStore(path) as store:
        assert len(store.propose(KEY, [A], "model")) == 1
    (aside,) = path.parent.glob("tuned.db.corrupt-*")
    assert aside.read_bytes() == content


def test_a_torn_page_is_found_when_the_file_is_opened(path: Path) -> None:
    with TuningStore(path) as store:
        store.propose(KEY, [Config.of({"i": i}) for i in range(300)], "model")
    content = bytearray(path.read_bytes())
    content[4096 * 5 : 4096 * 9] = os.urandom(4096 * 4)
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="corrupt"), TuningStore(path) as store:
        assert store.trials(KEY) == []


def test_deleting_the_file_is_safe(path: Path) -> None:
    with TuningStore(path) as store:
        store.set_best(KEY, A, 1.0, 2.0, "tuned")
    path.unlink()
    assert best.lookup(path, KEY) is None
    with TuningStore(path) as store:
        assert store.trials(KEY) == []


def test_the_warm_path_reads_the_copy_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with TuningStore(path) as store:
        store.set_best(KEY, A, 1.0, 2.0, "tuned")

    def no_sqlite(*args: object, **kwargs: object) -> None:
        raise AssertionError("SQLite was asked")

    monkeypatch.setattr(best, "reading", no_sqlite)
    found = best.lookup(path, KEY)
    assert found == best.Best(KEY.digest, KEY.family, KEY.sizes, A, 1.0, 2.0)


@pytest.mark.parametrize("damage", ["missing", "torn", "old format", "stale"])
def test_a_copy_that_is_missing_or_stale_is_made_anew_from_sqlite(path: Path, damage: str) -> None:
    with TuningStore(path) as store:
        store.set_best(KEY, A, 1.0, 2.0, "tuned")
    copy = best.best_json(path)
    match damage:
        case "missing":
            copy.unlink()
        case "torn":
            copy.write_text(copy.read_text()[:30])
        case "old format":
            copy.write_text(json.dumps(json.loads(copy.read_text()) | {"format": 0}))
        case _:
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("UPDATE configs_v1 SET config = ?", [B.to_json()])
    found = best.lookup(path, KEY)
    assert found is not None
    assert found.config == (B if damage == "stale" else A)
    assert json.loads(copy.read_text())["best"]


def test_what_a_killed_process_left_of_the_copy_is_removed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TuningStore(path) as store:
        store.set_best(KEY, A, 1.0, 2.0, "tuned")
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(os, "replace", lambda *_: os._exit(9))
        best.refresh(path)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    best.refresh(path)
    assert [f.name for f in path.parent.glob("*json*")] == [best.best_json(path).name]


def test_a_best_of_another_process_is_found_in_this_one(path: Path) -> None:
    with TuningStore(path) as store:
        store.set_best(KEY, A, 1.0, 2.0, "tuned")
        assert best.lookup(path, KEY) is not None
        subprocess.run([sys.executable, "-c", WRITER, str(path), "x"], check=True)
        found = best.lookup(path, KEY)
    assert found is not None
    assert found.config.get("who") == "x"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_reading_works_where_nobody_may_write(path: Path) -> None:
    with TuningStore(path) as store:
        store.set_best(KEY, A, 1.0, 2.0, "tuned")
    best.best_json(path).unlink()
    for file in path.parent.glob("tuned.db-*"):
        file.unlink()
    path.parent.chmod(0o500)
    try:
        found = best.lookup(path, KEY)
    finally:
        path.parent.chmod(0o700)
    assert found is not None
    assert found.config == A


def test_relatives_are_the_same_kernel_at_other_sizes_nearest_first(path: Path) -> None:
    with TuningStore(path) as store:
        for sizes in ((400, 128), (100, 120), (50, 128)):
            store.set_best(replace(KEY, sizes=sizes), Config.of({"n": sizes[0]}), 1, 2, "tuned")
        store.set_best(replace(KEY, sizes=(100, 129), threads=1), A, 1, 2, "tuned")
        store.set_best(KEY, A, 1, 2, "tuned")
    assert [b.sizes for b in best.relatives(path, KEY)] == [(100, 120), (50, 128), (400, 128)]


@pytest.mark.parametrize(
    "other",
    [
        {"text": "x"},
        {"dtypes": ("float64",)},
        {"layout": "t"},
        {"sizes": (100, 129)},
        {"target": "cpu avx2"},
        {"threads": 1},
        {"compiler": "clang 17"},
        {"generator": "2"},
    ],
)
def test_no_config_serves_a_problem_that_differs_in_anything(
    path: Path, other: dict[str, object]
) -> None:
    with TuningStore(path) as store:
        store.set_best(KEY, A, 1, 2, "tuned")
    assert best.lookup(path, replace(KEY, **other)) is None  # type: ignore[arg-type]  # a table


def test_the_warm_path_imports_the_standard_library_alone() -> None:
    code = (
        "import sys, tcdsl; before = set(sys.modules); import tcdsl.autotune.store.best;"
        "print([m for m in set(sys.modules) - before"
        " if m.split('.')[0] not in sys.stdlib_module_names and not m.startswith('tcdsl')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_key_survives_json() -> None:
    assert ProblemKey.from_json(KEY.to_json()) == KEY
    assert ProblemKey.from_json(KEY.to_json()).digest == KEY.digest
