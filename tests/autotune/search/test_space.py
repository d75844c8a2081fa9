"""The space: what it holds, draws, varies and crosses."""

from __future__ import annotations

import random

import pytest

from tcdsl.autotune.search.space import Branch, SearchSpace
from tcdsl.codegen.machine.config import Config, Knob
from tests.autotune import surfaces

SPACE = surfaces.space(surfaces.rugged)


def test_every_draw_is_legal_and_in_the_space() -> None:
    rng = random.Random(1)
    drawn = {c for _ in range(300) if (c := SPACE.sample(rng)) is not None}
    assert len(drawn) > 100
    assert all(SPACE.holds(c) for c in drawn)


def test_all_gives_each_legal_config_once() -> None:
    configs = list(SPACE.all())
    assert len(set(configs)) == len(configs) < SPACE.size
    assert all(SPACE.holds(c) for c in configs)
    assert SPACE.default in configs


def test_neighbours_differ_in_one_knob_or_in_the_branch() -> None:
    config = surfaces.GROUPS.nearest(Config.of({"g0.mr": 6, "g0.nv": 4}))
    near = SPACE.neighbours(config)
    assert near
    for other in near:
        assert SPACE.holds(other)
        if surfaces.GROUPS.holds(other):
            assert len(set(other.items) - set(config.items)) == 1
    assert sum(surfaces.PLAIN.holds(c) for c in near) == 1


def test_a_crossing_takes_each_knob_from_a_parent_but_for_one_change() -> None:
    rng = random.Random(2)
    a = surfaces.GROUPS.nearest(Config.of({"g0.mr": 6, "g0.kc": 64, "g0.pack": True}))
    b = surfaces.GROUPS.nearest(Config.of({"g0.mr": 2, "g0.kc": 4, "g0.mc": 16}))
    for _ in range(50):
        child = SPACE.crossover(a, b, rng)
        assert child is not None
        assert SPACE.holds(child)
        assert len(set(child.items) - set(a.items) - set(b.items)) <= 1


def test_a_branch_keeps_what_it_can_of_a_config_of_another_branch() -> None:
    panel = surfaces.GROUPS.nearest(Config.of({"g0.mr": 6, "g0.kc": 64}))
    dot = surfaces.PLAIN.nearest(panel)
    assert dict(dot.items) == {"g0.form": "dot", "partition": 0, "g0.mr": 4, "g0.kc": 64}


def test_the_worst_config_is_legal_and_the_models_last() -> None:
    worst = SPACE.worst(random.Random(0), draws=10_000)
    assert surfaces.rugged(worst) == max(map(surfaces.rugged, SPACE.all()))


def test_a_rule_that_refuses_everything_ends_the_draw() -> None:
    none = SearchSpace(
        (Branch((), (Knob("a", (1, 2)),)),), Config(), lambda _: 1.0, lambda _: False
    )
    assert none.sample(random.Random(0)) is None
    assert not list(none.all())


@pytest.mark.parametrize("items", [{"g0.mr": 5}, {}, {"g0.form": "dot", "g0.mr": 1}])
def test_a_foreign_config_is_not_in_the_space(items: dict[str, int | str]) -> None:
    assert not SPACE.holds(Config.of(items))


@pytest.mark.parametrize("count", [2, 7, 40])
def test_a_spread_takes_from_every_branch_evenly(count: int) -> None:
    drawn = SPACE.spread(random.Random(2), count)
    assert len(set(drawn)) == len(drawn) <= count
    assert all(SPACE.holds(c) for c in drawn)
    assert {SPACE.branch_of(c) for c in drawn} == {0, 1}
