"""The search on a fake clock and made-up surfaces."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from tcdsl.autotune.search.budget import Budget
from tcdsl.autotune.search.strategy import BATCH, Ahead, elite_of, search
from tcdsl.autotune.store.trial import Trial
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.codegen.machine.config import Config
from tests.autotune import surfaces

OPTIMUM_NS = min(map(surfaces.rugged, surfaces.space(surfaces.rugged).all()))


def run(seed: int, budget: Budget, path: list[Config] | None = None) -> list[Trial]:
    space = surfaces.space(lambda _: 1.0)
    return search(space, surfaces.measure(surfaces.rugged, path=path), budget, random.Random(seed))


def test_with_a_true_model_the_leaders_hold_the_optimum() -> None:
    space = surfaces.space(surfaces.rugged)
    budget = Budget(trials=1 + BATCH)
    found = search(space, surfaces.measure(surfaces.rugged), budget, random.Random(0))
    assert found[0].time_ns == OPTIMUM_NS


@pytest.mark.deep
def test_without_a_model_evolution_finds_the_optimum_in_an_eighth_of_the_space() -> None:
    times = [run(seed, Budget(trials=400))[0].time_ns for seed in range(8)]
    assert sorted(times)[5] == OPTIMUM_NS
    assert max(times) < 1.5 * OPTIMUM_NS


@pytest.mark.wide
def test_a_model_that_is_upside_down_does_not_keep_the_optimum_out() -> None:
    space = surfaces.space(lambda c: 1000 - surfaces.rugged(c))
    best = [
        search(space, surfaces.measure(surfaces.rugged), Budget(trials=400), random.Random(seed))[
            0
        ].time_ns
        for seed in range(8)
    ]
    assert sorted(best)[4] == OPTIMUM_NS


def test_from_the_worst_config_with_noisy_times_it_comes_within_5_per_cent() -> None:
    space = surfaces.space(surfaces.rugged)
    worst = space.worst(random.Random(0), draws=10_000)
    measure = surfaces.measure(surfaces.rugged, noise=random.Random(3))
    found = search(space, measure, Budget(trials=300), random.Random(1), start=[worst])
    assert surfaces.rugged(found[0].config) <= 1.05 * OPTIMUM_NS


def test_same_seed_same_path_and_another_seed_another() -> None:
    first: list[Config] = []
    second: list[Config] = []
    other: list[Config] = []
    run(7, Budget(trials=120), first)
    run(7, Budget(trials=120), second)
    run(8, Budget(trials=120), other)
    assert first == second != other


def test_the_default_is_tried_first_and_nothing_twice() -> None:
    path: list[Config] = []
    run(3, Budget(trials=200), path)
    assert path[0] == surfaces.default()
    assert len(set(path)) == len(path)


def test_seconds_bound_the_search_by_the_clock() -> None:
    clock = surfaces.FakeClock()
    space = surfaces.space(lambda _: 1.0)
    measure = surfaces.measure(surfaces.rugged, clock)
    search(space, measure, Budget(seconds=4.0, clock=clock), random.Random(0))
    assert 3.5 <= clock.now <= 3.65  # a tenth is for the last comparison


@pytest.mark.parametrize(("each_s", "largest"), [(0.01, BATCH), (0.3, 13), (0.9, 3), (3.0, 1)])
def test_a_batch_is_no_larger_than_the_time_that_is_left(each_s: float, largest: int) -> None:
    clock, sizes = surfaces.FakeClock(), list[int]()

    def measure(configs: Iterator[Config], origin: str, count: int, ahead: Ahead) -> list[Trial]:
        del origin
        drawn = list(islice(configs, count))
        sizes.append(len(drawn))
        clock.now += each_s * len(drawn) + (len(sizes) == 1)  # the first one makes the case
        return [Trial(c, surfaces.rugged(c)) for c in drawn]

    space = surfaces.space(lambda _: 1.0)
    search(space, measure, Budget(seconds=8.0, clock=clock), random.Random(0))
    assert clock.now <= 8.0
    assert max(sizes) == largest
    assert sum(sizes) >= min(BATCH, 0.8 * (7.2 - 1) / each_s - 1)


def test_trials_bound_the_search_exactly() -> None:
    path: list[Config] = []
    run(0, Budget(trials=37), path)
    assert len(path) == 37


def test_the_search_ends_by_itself_when_the_space_is_exhausted() -> None:
    path: list[Config] = []
    space = surfaces.space(lambda _: 1.0)
    small = type(space)((surfaces.PLAIN,), space.default, space.cost_ns)
    search(small, surfaces.measure(surfaces.rugged, path=path), Budget(), random.Random(0))
    assert set(path) == set(small.all())


def test_a_flat_surface_ends_a_search_later_where_it_was_given_time() -> None:
    space = surfaces.space(lambda _: 1.0)
    tried: dict[float | None, list[Config]] = {None: [], 1e6: []}
    for seconds, path in tried.items():
        budget = Budget(seconds, clock=surfaces.FakeClock())
        search(space, surfaces.measure(lambda _: 1.0, path=path), budget, random.Random(0))
    short, long = map(len, tried.values())
    assert short <= 1 + 9 * BATCH
    assert 3 * short < long <= 1 + 34 * BATCH


def test_the_elite_keeps_the_fastest_of_other_branches() -> None:
    space = surfaces.space(lambda _: 1.0)
    plain, *others = surfaces.PLAIN.nearest(Config()), *space.spread(random.Random(0), 60)
    trials = [Trial(c, 1.0 + i) for i, c in enumerate(c for c in others if c != plain)]
    fast = [t for t in trials if space.branch_of(t.config) == 0]
    slow = [Trial(plain, 1000.0)]
    elite = elite_of(space, [*fast, *slow])
    assert elite[:5] == [t.config for t in fast[:5]]
    assert plain in elite
    assert len(set(elite)) == len(elite) == 8


def test_what_is_drawn_ahead_is_part_of_the_next_batch_and_tried_once() -> None:
    path, batches = list[Config](), list[list[Config]]()
    waiting: list[Config] = []

    def measure(configs: Iterator[Config], origin: str, count: int, ahead: Ahead) -> list[Trial]:
        del origin
        batch = [*waiting, *islice(configs, count - len(waiting))]
        waiting[:] = list(ahead()[0])
        batches.append(batch)
        path.extend(batch)
        return [Trial(c, surfaces.rugged(c)) for c in batch]

    budget = Budget(trials=5 * BATCH)
    found = search(surfaces.space(surfaces.rugged), measure, budget, random.Random(0))
    assert len(path) == len(set(path)) == len(found) == budget.used == 5 * BATCH
    assert [*map(len, batches)] == [1, *[BATCH] * 4, BATCH - 1]
    assert waiting == []  # none would have been tried
    assert found[0].time_ns == OPTIMUM_NS


@pytest.mark.parametrize(("use_model", "origin"), [(True, "model"), (False, "spread")])
def test_what_is_drawn_ahead_of_the_default_comes_from_where_the_next_batch_does(
    use_model: bool, origin: str
) -> None:
    origins = list[str]()

    def measure(configs: Iterator[Config], origin: str, count: int, ahead: Ahead) -> list[Trial]:
        origins.extend([origin, ahead()[1]])
        return [Trial(c, surfaces.rugged(c)) for c in islice(configs, count)]

    space = surfaces.space(surfaces.rugged)
    search(space, measure, Budget(trials=BATCH), random.Random(0), use_model=use_model)
    assert origins[:3] == ["start", origin, origin]


def test_what_is_drawn_ahead_of_the_rest_of_an_attempt_is_the_rest() -> None:
    spread, found = list[Config](), list[tuple[str, str]]()
    waiting: list[Config] = []

    def measure(configs: Iterator[Config], origin: str, count: int, ahead: Ahead) -> list[Trial]:
        batch = [*waiting, *islice(configs, count - len(waiting))]
        spread.extend(batch if origin == "spread" else [])
        drawn, of = ahead()
        waiting[:] = list(drawn)
        found.append((origin, of))
        return [Trial(c, surfaces.rugged(c)) for c in batch]

    space, rng = surfaces.space(surfaces.rugged), random.Random(0)
    search(space, measure, Budget(trials=4 * BATCH), rng, use_model=False)
    assert found[:3] == [("start", "spread"), ("spread", "spread"), ("spread", "evolution")]
    of_both = {*space.spread(random.Random(0), 2 * BATCH)}
    assert {*spread} <= of_both
    assert len(spread) == 2 * BATCH


def test_nothing_is_drawn_ahead_that_there_will_be_no_time_for() -> None:
    clock, drawn = surfaces.FakeClock(), list[int]()
    waiting: list[Config] = []

    def measure(configs: Iterator[Config], origin: str, count: int, ahead: Ahead) -> list[Trial]:
        del origin
        batch = [*waiting, *islice(configs, count - len(waiting))]
        waiting[:] = list(ahead()[0])
        drawn.append(len(waiting))
        clock.now += 0.19 * len(batch)
        return [Trial(c, surfaces.rugged(c)) for c in batch]

    budget = Budget(seconds=9.0, clock=clock)
    search(surfaces.space(lambda _: 1.0), measure, budget, random.Random(0))
    assert drawn[:4] == [BATCH // 2, BATCH // 2, 4, 0]
    assert not any(drawn[3:])


def test_failures_are_survived_and_left_alone() -> None:
    clean = surfaces.measure(surfaces.rugged)
    tried: list[Config] = []

    def measure(configs: Iterator[Config], origin: str, count: int, ahead: Ahead) -> list[Trial]:
        trials = [
            Trial(t.config, math.inf, "crash") if dict(t.config.items)["g0.kc"] == 64 else t
            for t in clean(configs, origin, count, ahead)
        ]
        tried.extend(t.config for t in trials)
        return trials

    space = surfaces.space(surfaces.rugged)
    found = search(space, measure, Budget(trials=200), random.Random(0))
    assert all(t.is_timed for t in found)
    assert found[0].time_ns == min(
        surfaces.rugged(c) for c in space.all() if dict(c.items)["g0.kc"] != 64
    )
    assert len(set(tried)) == len(tried)


def test_all_failing_ends_the_search_without_a_result() -> None:
    found = search(
        surfaces.space(lambda _: 1.0),
        lambda configs, _, count, ahead: [Trial(c, reason="crash") for c in islice(configs, count)],
        Budget(trials=500),
        random.Random(0),
    )
    assert found == []


def test_known_trials_are_not_tried_again_and_seed_the_population() -> None:
    first = run(1, Budget(trials=60))
    path: list[Config] = []
    found = search(
        surfaces.space(lambda _: 1.0),
        surfaces.measure(surfaces.rugged, path=path),
        Budget(trials=60),
        random.Random(2),
        known=first,
    )
    assert not {t.config for t in first} & set(path)
    assert found[0].time_ns <= first[0].time_ns


def test_a_stopped_budget_ends_the_search_after_the_batch() -> None:
    budget = Budget()
    path: list[Config] = []
    clean = surfaces.measure(surfaces.rugged, path=path)

    def measure(configs: Iterator[Config], origin: str, count: int, ahead: Ahead) -> list[Trial]:
        if len(path) > 40:
            budget.stop()
        return clean(configs, origin, count, ahead)

    search(surfaces.space(lambda _: 1.0), measure, budget, random.Random(0))
    assert len(path) <= 41 + 2 * BATCH


def test_a_batch_has_so_many_candidates_however_many_of_the_proposals_are_twins() -> None:
    met, batches = dict[float, Config](), list[int]()

    def measure(configs: Iterator[Config], origin: str, count: int, ahead: Ahead) -> list[Trial]:
        # What comes to one time is one text: 263 of 3224 configs.
        del origin
        trials: list[Trial] = []
        while sum(not t.is_twin for t in trials) < count:
            config = next(configs, None)
            if config is None:
                break
            time_ns = surfaces.rugged(config)
            trials.append(Trial(config, time_ns, is_twin=time_ns in met))
            met.setdefault(time_ns, config)
        batches.append(sum(not t.is_twin for t in trials))
        return trials

    space = surfaces.space(lambda _: 1.0)
    budget = Budget(trials=1 + 3 * BATCH)
    found = search(space, measure, budget, random.Random(0))
    assert batches == [1, BATCH, BATCH, BATCH]
    assert budget.used == 1 + 3 * BATCH == len({t.time_ns for t in found}) == len(found)


def test_of_configs_of_one_meaning_one_is_tried() -> None:
    path: list[Config] = []
    surface = surfaces.space(lambda _: 1.0)
    space = replace(surface, meaning=lambda c: (c.get("g0.form"), c.get("g0.kc")))
    measure = surfaces.measure(surfaces.rugged, path=path)
    search(space, measure, Budget(trials=1000), random.Random(0))
    meanings = [space.meaning(c) for c in path]
    assert len(meanings) == len(set(meanings)) == len({space.meaning(c) for c in space.all()})


def test_a_space_whose_further_configs_are_all_twins_ends_a_run_of_trials_and_says_so() -> None:
    said, drawn = list[str](), list[Config]()

    def measure(configs: Iterator[Config], origin: str, count: int, ahead: Ahead) -> list[Trial]:
        # There are two kernels, whatever the knobs say.
        del origin
        trials: list[Trial] = []
        while sum(not t.is_twin for t in trials) < count:
            config = next(configs, None)
            if config is None:
                break
            trials.append(Trial(config, 1.0, is_twin=len(drawn) >= 2))
            drawn.append(config)
        return trials

    budget = Budget(trials=1000)
    found = search(
        surfaces.space(lambda _: 1.0), measure, budget, random.Random(0), tell=said.append
    )
    assert (budget.used, len(found)) == (2, 2)
    assert len(drawn) < 600  # of 3224: a few rounds of proposals
    assert said == [f"nothing more to try: {len(drawn)} configs are 2 different kernels that run"]


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("/* mr=4 */ void k1(void) {}", "/* mr=6 */\nvoid k2(void)  {}", True),
        ("void k1(void) {} // x", "void k2(void) { ; }", False),
    ],
)
def test_a_fingerprint_forgets_comments_spacing_and_the_name(a: str, b: str, same: bool) -> None:
    assert (Emitted("k1", a).fingerprint == Emitted("k2", b).fingerprint) is same


PATH = """
import hashlib, random
from tcdsl.autotune.search.budget import Budget
from tcdsl.autotune.search.strategy import search
from tests.autotune import surfaces
path = []
space = surfaces.space(surfaces.rugged)
search(space, surfaces.measure(surfaces.rugged, path=path), Budget(trials=80), random.Random(1))
print(hashlib.sha256(repr(path).encode()).hexdigest())
"""


def test_the_path_is_the_same_in_every_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", PATH],
            cwd=Path(__file__).parents[3],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
