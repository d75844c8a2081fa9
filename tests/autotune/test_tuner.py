"""The whole tuner on hand-written candidates, right and wrong ones, in real processes."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tcdsl.autotune.finals import (
    ROUNDS,
    finalists,
    first_seconds,
    is_no_slower,
    rounds_for,
    verdict_of,
)
from tcdsl.autotune.measure import Measurement
from tcdsl.autotune.report import Silent
from tcdsl.autotune.search.budget import Budget
from tcdsl.autotune.store import best
from tcdsl.autotune.store.rows import TUNER_ENDED
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.store.trial import FINAL, Trial, TuneError
from tcdsl.autotune.tuner import tune
from tcdsl.autotune.worker.candidate import Candidate
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.autotune.worker.runner import Runner
from tcdsl.codegen.machine.config import Config
from tests.autotune.toy import FAULTS, Toy, config

pytestmark = pytest.mark.cc

REASONS = {
    "wrong": ("wrong", "output 'y': expected"),
    "unwritten": ("wrong", "at (999)"),
    "crash": ("crash", "SIGSEGV"),
    "reads past": ("crash", "SIGSEGV"),
    "writes past": ("crash", "SIGSEGV"),
    "writes before": ("wrong", "bytes next to it were written"),
    "writes its input": ("crash", "SIGSEGV"),
    "workspace": ("crash", "SIGSEGV"),
    "order": ("wrong", "output 'y': expected"),
    "hang": ("slow", "no answer in"),
    "compile": ("compile", "this is no C"),
    "refused": ("schedule", "it does not fit"),
}


def test_each_fault_costs_its_candidate_only_and_is_recorded_with_its_reason(
    tmp_path: Path,
) -> None:
    problem = Toy(kinds=("right", *FAULTS), turns=(0, 3000))
    configs = [config(kind, 0) for kind in REASONS] + [problem.default, config("right", 0)]
    with (
        TuningStore(tmp_path / "t.db") as store,
        Measurement(problem, store, Budget(), Silent()) as measure,
    ):
        measure([problem.default], "start")
        trials = {str(t.config.get("kind")): t for t in measure(configs, "all")}
        rows = {str(r.config.get("kind")): r for r in store.trials(problem.key) if r.reason}
    for kind, (reason, detail) in REASONS.items():
        assert (trials[kind].reason, rows[kind].reason) == (reason, reason), kind
        assert detail in rows[kind].detail, kind
    assert trials["right"].is_timed


def test_a_search_finds_the_fast_one_and_later_calls_find_it(tmp_path: Path) -> None:
    problem = Toy(kinds=("right", "wrong", "crash"), turns=(0, 300, 3000, 30000))
    cache = tmp_path / "t.db"
    (tuned,) = tune([problem], cache=cache, trials=30)
    assert tuned.config == config("right", 0)
    assert tuned.is_complete
    assert (tuned.verdict.time_ns, tuned.verdict.default_ns) == (1000, 4000)
    found = best.lookup(cache, problem.key)
    assert found is not None
    assert found.config == tuned.config
    with TuningStore(cache) as store:
        assert all(r.status in ("timed", "failed") for r in store.trials(problem.key))


@pytest.mark.wide
def test_a_default_that_is_fastest_stays(tmp_path: Path) -> None:
    problem = Toy(default=config("right", 0), turns=(0, 3000, 30000))
    (tuned,) = tune([problem], cache=tmp_path / "t.db")
    assert tuned.config == problem.default


@pytest.mark.wide
def test_a_search_may_start_from_a_slow_config_without_the_default(tmp_path: Path) -> None:
    problem = Toy(default=config("right", 300), turns=(0, 300, 100000))
    slow = config("right", 100000)
    (tuned,) = tune([problem], cache=tmp_path / "t.db", start=[slow], trials=6)
    assert tuned.config == config("right", 0)
    assert (tuned.verdict.time_ns, tuned.verdict.default_ns) == (1000, 1300)


def test_seconds_begin_with_the_users_call(tmp_path: Path) -> None:
    long_ago = time.monotonic() - 1000
    (tuned,) = tune([Toy()], cache=tmp_path / "t.db", seconds=1000, begun=long_ago)
    assert tuned.trials == 0  # the default alone ran, for the verdict


@pytest.mark.wide
def test_a_very_slow_candidate_is_cut_and_leaves_the_others_their_time(tmp_path: Path) -> None:
    slow, fast = config("right", 2_000_000_000), config("right", 0)  # seconds a call
    problem = Toy(turns=(0, 300, 3000, 2_000_000_000))
    budget = Budget(8.0, clock=lambda: 0.0)
    with (
        TuningStore(tmp_path / "t.db") as store,
        Measurement(problem, store, budget, Silent()) as measure,
    ):
        measure([problem.default], "start")
        ended = {t.config: t for t in measure([slow, fast], "all")}
    assert (ended[slow].reason, ended[slow].detail[:13]) == ("slow", "no answer in ")
    assert ended[fast].time_ns == 1000


def test_a_config_wins_that_is_faster_than_the_default_all_the_time() -> None:
    default, fast, lucky, near = (config("right", turns) for turns in range(4))
    samples = {
        default: [100.0] * 20,
        fast: [98.0] * 20,
        lucky: [90.0] * 10 + [101.0] * 10,
        near: [99.5] * 20,
    }
    verdict = verdict_of(samples, default)
    assert (verdict.config, verdict.time_ns, verdict.default_ns) == (fast, 98.0, 100.0)
    assert verdict_of({default: [1.0], lucky: [0.5]}, default).config == lucky
    del samples[fast]
    assert verdict_of(samples, default).config == default


def test_a_config_that_is_fast_in_rare_calls_alone_does_not_win() -> None:
    default, rare, steady = (config("right", turns) for turns in range(3))
    samples = {
        default: [100.0] * 40,
        rare: ([70.0] + [180.0] * 9) * 4,  # in both halves
        steady: [97.0] * 40,
    }
    assert verdict_of(samples, default).config == steady
    del samples[steady]
    assert verdict_of(samples, default).config == default


def test_a_config_that_is_slower_when_called_otherwise_does_not_win() -> None:
    default, fast, second, third = (config("right", turns) for turns in range(4))
    samples = {default: [100.0] * 20, fast: [80.0] * 20, second: [90.0] * 20, third: [95.0] * 20}
    assert verdict_of(samples, default, lambda c: c != fast).config == second
    asked: list[Config] = []

    def refuse(config: Config) -> bool:
        asked.append(config)
        return False

    assert verdict_of(samples, default, refuse).config == default
    assert asked == [fast, second]
    assert verdict_of(samples, default, refuse, lambda: True).config == default
    assert asked == [fast, second, fast]  # there was no time for another one


def test_ways_of_calling_are_compared_in_pairs_of_turns() -> None:
    rng = random.Random(0)
    busy = [rng.choice((1.0, 1.0, 4.0)) for _ in range(30)]
    default = [100 * f for f in busy]
    assert is_no_slower({})
    assert is_no_slower({"read": [default, default], "cold": [[0.9 * t for t in default], default]})
    slower = [1.05 * t for t in default]
    assert not is_no_slower({"read": [default, default], "cold": [slower, default]})
    assert not is_no_slower({"read": [slower, default]})


def test_who_is_not_asked_for_want_of_time_has_to_be_clearly_faster() -> None:
    unasked: dict[str, list[list[float]]] = {"read": [[1.0], [1.0]], "cold": [[], []]}
    assert not is_no_slower(unasked, 1.2)
    assert is_no_slower(unasked, 1.4)
    assert not is_no_slower({**unasked, "read": [[1.1], [1.0]]}, 1.4)
    assert first_seconds(None) is None
    assert first_seconds(4.0) == 3.5
    assert first_seconds(4.0, 0.25) == pytest.approx(2.4)  # long calls: pairs of them take longer
    assert first_seconds(0.0) == 0.0


@pytest.mark.wide
def test_a_winner_call_upon_call_that_loses_otherwise_leaves_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, pairs = Toy(turns=(0, 3000)), list[list[int]]()
    timed = Runner.in_other_ways

    def lose(
        runner: Runner, candidates: Sequence[Candidate], seconds: float | None = None
    ) -> dict[str, list[list[float]]]:
        found = timed(runner, candidates, seconds)
        assert set(found) == {"read", "cold"}
        assert all(times == [t] * len(times) for w in found.values() for times in w for t in times)
        pairs.append([int(times[0]) for times in found["cold"]])
        return {way: [[9 * t for t in its], those] for way, (its, those) in found.items()}

    monkeypatch.setattr(Runner, "in_other_ways", lose)
    (tuned,) = tune([problem], cache=tmp_path / "t.db", trials=4)
    assert pairs == [[1000, 4000]]
    assert tuned.config == problem.default


def test_of_few_samples_a_config_has_to_win_by_more() -> None:
    default, near, far = (config("right", turns) for turns in range(3))
    samples = {default: [100.0] * 3, near: [95.0] * 3, far: [80.0] * 3}
    assert verdict_of(samples, default).config == far
    del samples[far]
    assert verdict_of(samples, default).config == default
    assert verdict_of({c: 10 * s for c, s in samples.items()}, default).config == near


def test_where_hardly_any_time_is_left_few_take_part_in_many_rounds() -> None:
    default = config("right", 0)
    trials = [Trial(config("right", turns), 100.0 + turns) for turns in range(9)]
    of_all, of_few, busy = (
        finalists(trials, default, lambda _: "", s, turn_s)
        for s, turn_s in ((None, 0.0), (0.65, 0.002), (0.8, 0.02))
    )
    assert (len(of_all), len(of_few), len(busy)) == (6, 2, 1)
    assert of_all[:2] == of_few
    assert rounds_for(trials, 3, 0.0) == ROUNDS == 20


def test_a_machine_that_is_busy_in_half_of_the_rounds_decides_nothing() -> None:
    default, fast, slow = (config("right", turns) for turns in range(3))
    rng = random.Random(0)
    for busy in ((3.0, 1.0), (1.0, 3.0)):  # they take turns: it is busy for all

        def times(each_ns: float, busy: tuple[float, float] = busy) -> list[float]:
            return [each_ns * f * (1 + rng.random() / 50) for f in busy for _ in range(600)]

        samples = {default: times(100), fast: times(95), slow: times(103)}
        assert verdict_of(samples, default).config == fast
        del samples[fast]
        assert verdict_of(samples, default).config == default


def test_what_is_not_compiled_when_the_time_is_over_is_left_for_a_later_run(tmp_path: Path) -> None:
    now = [0.0]

    class Late(Toy):
        def emit(self, config: Config) -> Emitted:
            if config.get("turns") == 300:
                now[0] = 7.5  # less than a tenth is left
            return super().emit(config)

    problem = Late(turns=(0, 300, 1000, 3000))
    configs = [config("right", turns) for turns in (0, 300, 1000)]
    with TuningStore(tmp_path / "t.db") as store:
        budget = Budget(8.0, clock=lambda: now[0])
        with Measurement(problem, store, budget, Silent()) as measure:
            measure([problem.default], "start")
            assert measure(configs, "late") == []
        left = [r for r in store.trials(problem.key) if r.status not in FINAL]
        assert {r.config for r in left} == set(configs[:2])  # nothing more was begun
        assert "proposed" in {r.status for r in left}
        with Measurement(problem, store, Budget(), Silent()) as measure:
            assert all(t.is_timed for t in measure(configs, "again"))


def test_a_deadline_follows_the_shortest_check_and_the_time_left() -> None:
    now = 0.0
    runner = Runner(Toy(), Budget(80.0, clock=lambda: now))
    assert runner.limit_s == 10.0  # nothing is known: an eighth of what is left
    runner.knows(0.25)
    assert runner.limit_s == 5.0
    runner.knows(2.0)  # the shortest counts
    assert runner.limit_s == 5.0
    now = 64.0
    assert runner.limit_s == 2.0
    now = 79.9
    assert runner.limit_s == 1.0
    runner.knows(0.25, own_s=0.05)  # four fifths of it others had the core
    assert runner.limit_s == 5.0
    large = Runner(Toy(), Budget(8.0, clock=lambda: now))
    large.knows(2.0)
    assert large.limit_s == 6.0  # near the fastest nobody is cut, however short the time
    unbounded = Runner(Toy(), Budget())
    assert unbounded.limit_s == 60.0
    unbounded.knows(2.0)
    assert unbounded.limit_s == 40.0


def test_a_default_that_is_wrong_ends_the_run_with_an_error(tmp_path: Path) -> None:
    problem = Toy(kinds=("right", "wrong"), default=config("wrong", 0))
    with pytest.raises(TuneError, match="the default config does not serve: wrong: output 'y'"):
        tune([problem], cache=tmp_path / "t.db", trials=3)


def test_a_unit_that_does_not_compile_is_split_until_the_guilty_one_stands_alone(
    tmp_path: Path,
) -> None:
    problem = Toy(kinds=("right", "compile"), turns=tuple(range(8)))
    bad = config("compile", 3)
    with (
        TuningStore(tmp_path / "t.db") as store,
        Measurement(problem, store, Budget(), Silent()) as measure,
    ):
        trials = measure([config("right", t) for t in range(8)] + [bad], "x", 9)
    assert {t.config for t in trials if not t.is_timed} == {bad}
    first, later = problem.built[: len(problem.built) - 2], problem.built[-2:]
    assert sum(first) >= len(trials)
    assert 1 in later
    assert max(first) > 1


def test_configs_of_one_text_are_one_candidate(tmp_path: Path) -> None:
    class Twins(Toy):
        def emit(self, config: Config) -> Emitted:
            return super().emit(Config.of({"kind": "right", "turns": 0}))

    problem = Twins()
    with (
        TuningStore(tmp_path / "t.db") as store,
        Measurement(problem, store, Budget(), Silent()) as measure,
    ):
        trials = measure([config("right", 0), config("right", 100)], "x")
        later = measure([config("right", 300)], "x")
    assert problem.built == [1]
    assert len({t.time_ns for t in (*trials, *later)}) == 1
    assert [t.is_twin for t in (*trials, *later)] == [False, True, True]


@pytest.mark.wide
def test_a_later_run_goes_on_where_the_earlier_one_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    problem = Toy(kinds=("right", "crash"), turns=(0, 300, 3000), log=log)
    cache = tmp_path / "t.db"
    tune([problem], cache=cache, trials=5)
    first = log.read_text().splitlines()
    tune([problem], cache=cache, trials=100)
    crashed = [line for line in log.read_text().splitlines() if line.endswith("crash")]
    assert len(crashed) == len(set(crashed))
    with TuningStore(cache) as store:
        assert len(store.ended(problem.key)) == problem.space.size
    tune([problem], cache=cache, trials=100)
    fresh = set(log.read_text().splitlines()) - set(first) - set(crashed)
    assert len(fresh) <= problem.space.size


def test_a_default_that_ran_when_its_tuner_was_killed_is_tried_again(tmp_path: Path) -> None:
    problem = Toy(kinds=("right",), turns=(0,))
    cache = tmp_path / "t.db"
    with TuningStore(cache) as store:
        (row,) = store.propose(problem.key, [problem.space.default], "default")
        store.set_failed(row.id, "crash", TUNER_ENDED)
    (tuned,) = tune([problem], cache=cache, trials=1)
    assert tuned.config.get("kind") == "right"


def test_a_later_size_tries_what_was_best_at_an_earlier_one(tmp_path: Path) -> None:
    small, large = Toy(turns=tuple(range(0, 30000, 300))), Toy(turns=tuple(range(0, 30000, 300)))
    large.size = 2 * large.size
    cache = tmp_path / "t.db"
    with TuningStore(cache) as store:
        store.set_best(small.key, config("right", 0), 1.0, 2.0, "tuned")
    (tuned,) = tune([large], cache=cache, trials=2)
    assert tuned.config == config("right", 0)
