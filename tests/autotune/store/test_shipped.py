"""Tuned configs that come with a model: one file, whoever wrote it, wherever it lies."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.autotune.store import records, transfer
from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.shipped import Shipped
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.store.trial import TuneError
from tcdsl.autotune.store.tuning_file import StoreError
from tcdsl.autotune.targets.space import space_of
from tcdsl.calls.bindings.tuned import problem_key
from tcdsl.calls.bindings.variant import spec_for
from tcdsl.codegen.machine.config import Config

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
SIZES = {"M": 33, "K": 35, "N": 37}
KEY = ProblemKey("abc", ("float32",), "c", (100,), "cpu avx512", 2, "gcc 12", "1")
A, B = Config.of({"mr": 1}), Config.of({"mr": 2})


def arrays(sizes: dict[str, int] = SIZES) -> tuple[Any, Any]:
    m, k, n = sizes.values()
    return np.ones((m, k), np.float32), np.ones((k, n), np.float32)


def others(sizes: dict[str, int] = SIZES) -> tuple[ProblemKey, list[Config]]:
    """Return the key of mm, and legal configs whose kernels are not that of its default."""
    variant = tc.define(MM, tune="off").variant()
    spec = spec_for(variant, sizes)
    space = space_of(variant.program, spec, variant.machine)
    of_default = space.meaning(space.default)
    found = [c for c in space.neighbours(space.default) if space.meaning(c) != of_default]
    return problem_key(variant, spec), found


def fill(path: Path, *rows: tuple[ProblemKey, Config]) -> Path:
    with TuningStore(path) as store:
        for key, config in rows:
            store.add_problem(key, "mm", MM)
            store.set_best(key, config, 10.0, 12.0, "tuned")
    return path


def exported(path: Path, *rows: tuple[ProblemKey, Config]) -> Path:
    transfer.export(fill(path.with_name("store.db"), *rows), path)
    for left in path.parent.glob("store.*"):
        left.unlink()
    return path


def test_an_export_is_one_file_and_readers_leave_it_alone(tmp_path: Path) -> None:
    source = fill(tmp_path / "here" / "tuned.db", (KEY, A))
    target = tmp_path / "model" / "configs.db"
    assert transfer.export(source, target) == 1
    assert os.listdir(target.parent) == ["configs.db"]
    with closing(sqlite3.connect(f"{target.as_uri()}?mode=ro", uri=True)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    before = target.read_bytes(), target.stat().st_mtime_ns
    assert Shipped.read(target).lookup(KEY) == A
    assert [p.config for p in records.problems(target)] == [A]
    assert transfer.merge(tmp_path / "other" / "tuned.db", target) == 1
    assert os.listdir(target.parent) == ["configs.db"]
    assert (target.read_bytes(), target.stat().st_mtime_ns) == before
    with pytest.raises(TuneError, match="exists"):
        transfer.export(source, target)
    notes = tmp_path / "notes.txt"
    notes.touch()
    with pytest.raises(StoreError, match=r"configs\.db cannot be written: File exists"):
        transfer.export(source, notes / "configs.db")


def test_a_store_that_was_copied_as_it_was_serves_too(tmp_path: Path) -> None:
    source = fill(tmp_path / "tuned.db", (KEY, A))
    (tmp_path / "model").mkdir()
    copy = shutil.copy(source, tmp_path / "model" / "c.db")
    assert Shipped.read(Path(copy)).lookup(KEY) == A
    assert os.listdir(tmp_path / "model") == ["c.db"]


def test_versions_do_not_part_a_config_from_its_problem(tmp_path: Path) -> None:
    older = replace(KEY, compiler="gcc 9", generator="0")
    shipped = Shipped.read(fill(tmp_path / "a.db", (older, B)))
    assert shipped.lookup(KEY) == shipped.lookup(older) == B
    both = Shipped.read(fill(tmp_path / "a.db", (KEY, A)))
    assert (both.lookup(KEY), both.lookup(older)) == (A, B)
    assert both.lookup(replace(KEY, generator="2")) == A  # the latest
    for other in ({"text": "x"}, {"threads": 3}, {"sizes": (7,)}, {"target": "cpu avx2"}):
        assert both.lookup(replace(KEY, **other)) is None
    far, near = (replace(older, sizes=(n,)) for n in (400, 90))
    both = Shipped.read(fill(tmp_path / "a.db", (far, A), (near, B)))
    assert [b.sizes for b in both.relatives(KEY)] == [(90,), (400,)]


def test_configs_are_text_and_the_same_rows_the_same_object(tmp_path: Path) -> None:
    shipped = Shipped.read(fill(tmp_path / "a.db", (KEY, A)))
    assert Shipped.from_json(shipped.to_json()) is shipped
    assert pickle.loads(pickle.dumps(shipped)) is shipped
    assert Shipped.read(tmp_path / "a.db") is shipped
    many = Shipped(replace(shipped.rows[0], key=replace(KEY, sizes=(n,))) for n in range(999))
    assert pickle.loads(pickle.dumps(many)) == many
    good = json.loads(shipped.to_json())
    for wrong in (
        "no json",
        "[" * 100_000,
        "[]",
        json.dumps({**good, "format": "tcdsl configs 2"}),
        *(
            json.dumps({**good, "rows": [[*good["rows"][0][:i], None, *good["rows"][0][i + 1 :]]]})
            for i in (0, 1, 2, 4)
        ),
        *(
            json.dumps({**good, "rows": [[*good["rows"][0][:i], wrong, *good["rows"][0][i + 1 :]]]})
            for i in (2, 3, 4)
            for wrong in (10**400, -(10**400), True)
        ),
        json.dumps({**good, "rows": [good["rows"][0][:4]]}),
    ):
        with pytest.raises(ValueError, match=r"."):
            Shipped.from_json(wrong)


@pytest.mark.parametrize("name", ["missing.db", "empty.db", "text.db", "folder"])
def test_what_is_no_file_of_configs_is_refused_by_define(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty.db").touch()
    (tmp_path / "text.db").write_text(MM * 100)
    (tmp_path / "folder").mkdir()
    with pytest.raises(tc.TCError, match="is not a tuning file") as caught:
        tc.define(MM, configs=tmp_path / name)
    assert isinstance(caught.value, OSError)


def test_a_file_damaged_where_sqlite_quotes_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "damaged.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE zzz(a)")
        connection.commit()
    damaged = path.read_bytes().replace(b"zzz", b"z\xc1z").replace(b"CREATE TABLE", b"CREATE TABL(")
    path.write_bytes(damaged)
    with pytest.raises(StoreError, match="is damaged"):
        Shipped.read(path)


def test_rows_of_a_stranger_are_left_out_with_a_warning(tmp_path: Path) -> None:
    path = exported(tmp_path / "c.db", (KEY, A), (replace(KEY, sizes=(7,)), B))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE configs_v1 SET config = '[1' WHERE sizes = '[7]'")
        connection.commit()
    with pytest.warns(UserWarning, match="a corrupt row of .* is skipped"):
        assert [r.config for r in Shipped.read(path).rows] == [A]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE configs_v1")
        connection.execute("CREATE VIEW configs_v1 AS SELECT 1")
    with pytest.raises(StoreError, match="'configs_v1' is no table"):
        Shipped.read(path)


@pytest.mark.cc
def test_calls_use_what_came_with_the_model_where_nothing_was_tuned_here(tmp_path: Path) -> None:
    key, (first, second, *_) = others()
    model = exported(tmp_path / "model" / "c.db", (key, first))
    own = tmp_path / "own.db"
    k = tc.define(MM, cache=own, configs=model)
    assert k.tuned_config(*arrays()) == first
    assert (k(*arrays()) == 35).all()
    ((made,),) = [[c.config for c in v.executables] for v in [k.variant()]]
    assert made == first
    assert tc.define(MM, cache=own, configs=model, tune="off").tuned_config(*arrays()) is None
    assert tc.define(MM, cache=own).tuned_config(*arrays()) is None
    assert k.with_configs(None).tuned_config(*arrays()) is None
    assert tc.define(MM, cache=own).with_configs(model).tuned_config(*arrays()) == first
    assert os.listdir(model.parent) == ["c.db"]
    assert not own.exists()
    fill(own, (key, second))
    assert k.tuned_config(*arrays()) == second  # timed on this machine
    model.unlink()
    own.unlink()
    again = pickle.loads(pickle.dumps(k))  # in another process there is no such file
    assert again.tuned_config(*arrays()) == first


@pytest.mark.cc
def test_a_config_that_is_none_of_the_program_is_refused_with_a_warning(tmp_path: Path) -> None:
    key, _ = others()
    k = tc.define(MM, cache=tmp_path / "no.db", configs=exported(tmp_path / "c.db", (key, A)))
    with pytest.warns(UserWarning, match="those that came with the model is none of this program"):
        assert k.tuned_config(*arrays()) is None
    assert (k(*arrays()) == 35).all()


@pytest.mark.cc
def test_tuning_here_tries_what_came_with_the_model(tmp_path: Path) -> None:
    key, configs = others()
    last = configs[-1]
    own = tmp_path / "own.db"
    k = tc.define(MM, cache=own, configs=exported(tmp_path / "c.db", (key, last)))
    k.autotune(sizes=[SIZES], trials=2, quiet=True)
    (problem,) = records.problems(own)
    assert last in [t.config for t in records.trials(own, problem)]


@pytest.mark.cc
def test_a_first_call_does_not_tune_what_came_with_the_model(tmp_path: Path) -> None:
    key, (first, *_) = others()
    model = exported(tmp_path / "c.db", (key, first))
    k = tc.define(MM, cache=tmp_path / "own.db", configs=model, tune="first-call")
    k(*arrays())
    assert not (tmp_path / "own.db").exists()
