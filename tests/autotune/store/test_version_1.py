"""What the first version of the schema wrote is read the same: files that users have today.

`tuned_v1.sql` is the dump of such a file, `tuned_v1.best.json` its copy (`of`, the state of the
file, is filled in here), `tuned_v1.shipped.json` its configs as they lie in a saved model.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tcdsl.autotune.store import best, records
from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.rows import TUNER_ENDED
from tcdsl.autotune.store.shipped import Shipped
from tcdsl.autotune.store.store import TuningStore
from tcdsl.codegen.machine.config import Config

HERE = Path(__file__).parent
KEY = ProblemKey(
    text="7d54ac62d9a9b1ce",
    dtypes=("float32",) * 4,
    layout="((1, ()), (1, ()), (1, ()), (1, ()))",
    sizes=(100, 128, 100),
    target="cpu avx512",
    threads=2,
    compiler="gcc 14.2.0",
    generator="0123456789ab",
)


def config(mr: int, pack: bool) -> Config:
    return Config.of(
        {
            "partition": "s0 s1",
            "threads": 2,
            "g0.form": "panel",
            "g0.mr": mr,
            "g0.nr": 32,
            "g0.pack": pack,
        }
    )


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "tuned.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id = 1952670835")
        connection.executescript((HERE / "tuned_v1.sql").read_text())
    return path


def schema(path: Path) -> dict[str, list[object]]:
    """Return the columns of each table, and what each index is over."""
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute(
            "SELECT type, name FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
        ).fetchall()
        return {
            name: connection.execute(f"PRAGMA {kind}_info({name})").fetchall()
            for kind, name in names
        }


def test_a_new_file_has_the_tables_of_an_old_one(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.db"
    TuningStore(new).close()
    assert schema(new) == schema(old)


def test_keys_have_their_old_names() -> None:
    assert (KEY.digest, KEY.family) == ("2a011ee2616aa436", "7f8f7fdcc0dcc7c2")


def test_tuned_configs_are_found(old: Path) -> None:
    found = best.lookup(old, KEY)
    assert found is not None
    assert found.config == config(6, False)
    assert (found.time_ns, found.default_ns) == (640.25, 812.5)
    (near,) = best.relatives(old, KEY)
    assert (near.sizes, near.config, near.default_ns) == ((64, 128, 100), config(6, True), None)


def test_the_copy_is_written_and_read_as_it_was(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = json.loads((HERE / "tuned_v1.best.json").read_text())
    copy["of"] = [old.stat().st_mtime_ns, old.stat().st_size, 0, 0]
    best.refresh(old)
    assert json.loads(best.best_json(old).read_text()) == copy
    monkeypatch.setattr(best, "refresh", None)  # SQLite is not asked
    best.best_json(old).write_text(json.dumps(copy))
    found = best.lookup(old, KEY)
    assert found is not None
    assert found.config == config(6, False)


def test_people_see_its_problems_and_trials(old: Path) -> None:
    first, second = sorted(records.problems(old), key=lambda p: p.name)
    assert (first.name, first.trials, first.failed) == ("fcrelu B=100 M=128 N=100", 6, 1)
    assert (first.origin, second.origin, second.trials) == ("tuned", "search", 0)
    shown = records.trials(old, first)
    assert [t.config for t in shown] == [config(m, p) for m in (6, 8, 12) for p in (True, False)]
    assert [t.time_ns for t in shown] == [812.5, 640.25, None, None, None, None]
    assert (shown[2].reason, shown[2].detail) == ("compile", "too many registers")


def test_a_run_goes_on_where_the_old_one_was_killed(old: Path) -> None:
    with TuningStore(old) as store:
        ended = {t.config: t for t in store.ended(KEY)}
        assert ended[config(6, True)].time_ns == 812.5
        assert (ended[config(8, False)].reason, ended[config(8, False)].detail) == (
            "crash",
            TUNER_ENDED,
        )
        left = [config(12, True), config(12, False)]
        assert [r.config for r in store.propose(KEY, left, "model")] == left


def test_configs_in_a_saved_model_are_read(old: Path) -> None:
    text = (HERE / "tuned_v1.shipped.json").read_text()
    assert Shipped.read(old).to_json() == text.strip()
    assert Shipped.from_json(text).lookup(KEY) == config(6, False)
