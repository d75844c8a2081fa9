"""Several runs at one problem: nobody fails, nobody's rows are changed, trials are shared."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tcdsl.autotune.finals import no_default
from tcdsl.autotune.measure import Measurement
from tcdsl.autotune.report import Silent
from tcdsl.autotune.search.budget import Budget
from tcdsl.autotune.store import best, owner
from tcdsl.autotune.store.opening import locked
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.store.trial import TuneError, UntunedError
from tcdsl.autotune.trial_log import TrialLog
from tcdsl.autotune.tuner import tune
from tests.autotune.toy import Toy, config

FAST, SLOW = config("right", 0), config("right", 3000)
TOY = Toy(turns=(0, 3000))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tuned.db"


def written_before(path: Path, seconds: float) -> None:
    """Let the last change of every trial lie so far back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE trials_v1 SET updated = updated - ?", [seconds])


@pytest.mark.cc
@pytest.mark.parametrize("status", ["proposed", "running"])
def test_a_run_ends_well_where_another_one_is_trying_all_there_is(path: Path, status: str) -> None:
    with TuningStore(path) as other:
        rows = other.propose(TOY.key, list(TOY.space.all()), "start")
        other.set_status([r.id for r in rows], status)  # type: ignore[arg-type]  # parametrised
        before = other.trials(TOY.key)
        (tuned,) = tune([TOY], cache=path, trials=4)
        assert tuned.config == TOY.default
        assert other.trials(TOY.key) == before
    found = best.lookup(path, TOY.key)
    assert found is not None
    assert found.config == TOY.default


@pytest.mark.cc
def test_what_another_run_has_timed_meanwhile_is_known_and_takes_part_in_the_end(
    path: Path,
) -> None:
    with (
        TuningStore(path) as other,
        TuningStore(path) as store,
        Measurement(TOY, store, Budget(), Silent()) as measure,
    ):
        (row,) = other.propose(TOY.key, [FAST], "start")
        assert measure([FAST], "start") == []
        other.set_timed({row.id: (1.0, [1.0])})
        (trial,) = measure([FAST], "start")
        assert (trial.config, trial.time_ns) == (FAST, 1.0)
        assert FAST in [t.config for t in TrialLog(TOY, store, Silent()).with_others([])]


def test_a_search_does_not_replace_what_another_run_found_faster(path: Path) -> None:
    with TuningStore(path) as a, TuningStore(path) as b:
        a.set_best(TOY.key, FAST, 10.0, 20.0, "tuned")
        b.set_best(TOY.key, SLOW, 15.0, None, "search")
        assert best.refresh(path)[TOY.key.digest].config == FAST
        b.set_best(TOY.key, SLOW, 9.0, None, "search")
        assert best.refresh(path)[TOY.key.digest].config == SLOW
        b.set_best(TOY.key, FAST, 12.0, 20.0, "tuned")  # a last comparison always counts
        assert best.refresh(path)[TOY.key.digest].config == FAST


def test_rows_of_another_live_run_are_not_written(path: Path) -> None:
    with TuningStore(path) as a, TuningStore(path) as b:
        (row,) = a.propose(TOY.key, [FAST], "start")
        b.set_failed(row.id, "crash", "mine")
        b.set_status([row.id], "running")
        (same,) = a.trials(TOY.key)
        assert (same.status, same.reason) == ("proposed", "")
        a.set_timed({row.id: (1.0, [])})
        b.set_timed({row.id: (2.0, [])})  # it has ended: who times it again may say so
        assert [r.time_ns for r in a.trials(TOY.key)] == [2.0]


def test_rows_of_another_host_are_taken_over_when_nothing_was_written_for_long(path: Path) -> None:
    with TuningStore(path) as store:
        store.propose(TOY.key, [FAST], "start")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE trials_v1 SET owner = 'elsewhere/x/1:7:1:token'")
    with TuningStore(path) as store:
        assert store.propose(TOY.key, [FAST], "start") == []
        written_before(path, owner.LEASE_S + 60)
        assert [r.config for r in store.propose(TOY.key, [FAST], "start")] == [FAST]


def test_a_process_number_of_another_container_or_boot_says_nothing() -> None:
    mine = owner.begin()
    place, *rest = mine.split(":")
    host, boot, space = place.split("/")
    for other in (f"{host}/{boot}/1", f"{host}/0/{space}", host):
        name = ":".join([other, *rest])
        assert owner.is_alive(name)
        assert not owner.is_alive(name, owner.LEASE_S)
    assert owner.is_alive(mine, 2 * owner.LEASE_S)
    owner.end(mine)


def test_a_clock_that_was_ahead_keeps_no_run_alive() -> None:
    assert owner.is_alive("elsewhere/x/1:7:1:token", -60)
    assert not owner.is_alive("elsewhere/x/1:7:1:token", -2 * owner.LEASE_S)


def test_a_forked_child_leaves_the_runs_of_its_parent_alone(path: Path) -> None:
    with TuningStore(path) as store:
        store.propose(TOY.key, [FAST], "start")
        child = os.fork()
        if child == 0:
            with TuningStore(path) as own:
                os._exit(0 if own.propose(TOY.key, [FAST], "start") == [] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_child_that_was_forked_while_a_file_was_opened_holds_no_lock(path: Path) -> None:
    end, keep = os.pipe()
    with locked(path):
        child = os.fork()
        if child == 0:
            os.close(keep)
            os.read(end, 1)
            os._exit(0)
    try:
        with open(f"{path}.lock") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(keep)
        os.waitpid(child, 0)


@pytest.mark.cc
@pytest.mark.wide
def test_a_default_that_was_cut_on_a_busy_machine_is_tried_again(path: Path) -> None:
    with TuningStore(path) as store:
        (row,) = store.propose(TOY.key, [TOY.default], "start")
        store.set_failed(row.id, "slow", "no answer in 1.0 s")
    (tuned,) = tune([TOY], cache=path, trials=1)
    assert tuned.verdict.default_ns > 0


def test_no_verdict_for_want_of_time_is_no_defect(path: Path) -> None:
    with TuningStore(path) as store:
        log = TrialLog(TOY, store, Silent())
        (row,) = store.propose(TOY.key, [TOY.default], "start")
        store.set_failed(row.id, "slow", "no answer in 1.0 s")
        error = no_default(TOY.name, log.failure_of(TOY.default))
        assert isinstance(error, UntunedError)
        assert str(error) == (
            "toy: no config can be compared with the default: no answer in 1.0 s\n"
            "  note: tune again when the machine has less to do, or with more seconds or memory"
        )
        store.set_failed(row.id, "wrong", "7")
        error = no_default(TOY.name, log.failure_of(TOY.default))
        assert type(error) is TuneError
        assert "the default config does not serve: wrong: 7" in str(error)
