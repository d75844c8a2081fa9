"""The legal configs of a problem: sample, vary, cross, count.

A space is a union of boxes. A branch fixes the knobs that decide which others there are (the
partition into groups, the form of each group) and names the free ones with their legal values.
Rules between knobs are a cost of inf or the form's `ScheduleError`. (One flat product of all
knobs was refused: most of its configs mean the same kernel.)
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Hashable, Iterator

from tcdsl.codegen.machine.config import Config, Knob, Value, is_same
from tcdsl.grammar.text.dataclass import dataclass

_PATIENCE = 200  # draws that a rule may refuse in a row before we give up


@dataclass(frozen=True, slots=True)
class Branch:
    """One box: fixed knobs, and free ones with their values in natural order."""

    fixed: tuple[tuple[str, Value], ...]
    knobs: tuple[Knob, ...]

    @property
    def size(self) -> int:
        """Number of configs."""
        return math.prod(len(k.values) for k in self.knobs)

    def holds(self, config: Config) -> bool:
        """Whether a config lies in this box."""
        values = dict(config.items)
        return (
            len(values) == len(self.fixed) + len(self.knobs)
            and all(name in values and is_same(values[name], v) for name, v in self.fixed)
            and all(
                k.name in values and any(is_same(values[k.name], v) for v in k.values)
                for k in self.knobs
            )
        )

    def nearest(self, config: Config) -> Config:
        """Return the config of this box that keeps all it can of another one."""
        old = dict(config.items)
        new = dict(self.fixed)
        for knob in self.knobs:
            new[knob.name] = _nearest(knob, old.get(knob.name))
        return Config.of(new)


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """What a search may ask about a problem.

    default : the analytic choice, legal by construction.
    cost_ns : the model's prediction, inf for what cannot run.
    is_legal : rules between knobs, by arithmetic (registers, cache footprints).
    meaning : what decides the kernel of a config: those that share it are one.
    """

    branches: tuple[Branch, ...]
    default: Config
    cost_ns: Callable[[Config], float]
    is_legal: Callable[[Config], bool] = lambda _: True
    meaning: Callable[[Config], Hashable] = lambda config: config

    @property
    def size(self) -> int:
        """Number of configs, the illegal ones of each box counted too."""
        return sum(b.size for b in self.branches)

    def lists(self, config: Config) -> bool:
        """Whether a config lies in one of the boxes, legal or not."""
        return self.branch_of(config) is not None

    def holds(self, config: Config) -> bool:
        """Whether a config lies in the space and is legal."""
        return self.lists(config) and self.is_legal(config)

    def all(self) -> Iterator[Config]:
        """Return every legal config; for small spaces."""
        for branch in self.branches:
            names = [k.name for k in branch.knobs]
            for values in itertools.product(*(k.values for k in branch.knobs)):
                config = Config.of(dict(branch.fixed) | dict(zip(names, values, strict=True)))
                if self.is_legal(config):
                    yield config

    def sample(self, rng: random.Random) -> Config | None:
        """Draw a legal config: a branch, then each knob, each evenly. None: only illegal draws."""
        for _ in range(_PATIENCE):
            branch = rng.choice(self.branches)
            values = dict(branch.fixed) | {k.name: rng.choice(k.values) for k in branch.knobs}
            config = Config.of(values)
            if self.is_legal(config):
                return config
        return None

    def branch_of(self, config: Config) -> int | None:
        """Return the number of the box that holds a config."""
        return next((i for i, b in enumerate(self.branches) if b.holds(config)), None)

    def spread(self, rng: random.Random, count: int) -> list[Config]:
        """Draw legal configs from one branch after the other, as evenly as count allows."""
        order = rng.sample(self.branches, len(self.branches))
        drawn = (
            Config.of(dict(b.fixed) | {k.name: rng.choice(k.values) for k in b.knobs})
            for _ in range(_PATIENCE)
            for b in order
        )
        legal = dict.fromkeys(itertools.islice(filter(self.is_legal, drawn), 4 * count))
        return list(legal)[:count]

    def neighbours(self, config: Config) -> tuple[Config, ...]:
        """Return the legal configs that differ in one knob, or in the branch and what it forces."""
        values = dict(config.items)
        here = next((b for b in self.branches if b.holds(config)), None)
        near = [b.nearest(config) for b in self.branches if b is not here]
        if here is not None:
            for knob in here.knobs:
                near += [
                    Config.of(values | {knob.name: v})
                    for v in knob.values
                    if v != values[knob.name]
                ]
        return tuple(c for c in dict.fromkeys(near) if self.is_legal(c))

    def crossover(self, a: Config, b: Config, rng: random.Random) -> Config | None:
        """Draw a legal config with each knob from one of two, in the branch of the first.

        Every other child has one knob changed besides: two steps at once leave a valley that no
        single step leaves.
        """
        branch = next((x for x in self.branches if x.holds(a)), None)
        if branch is None:
            return None
        first, second = dict(a.items), dict(b.items)
        for _ in range(_PATIENCE):
            child = dict(branch.fixed)
            for knob in branch.knobs:
                other = second.get(knob.name, first[knob.name])
                takes = rng.random() < 0.5 and _has(knob, other)
                child[knob.name] = other if takes else first[knob.name]
            if branch.knobs and rng.random() < 0.5:
                changed = rng.choice(branch.knobs)
                child[changed.name] = rng.choice(changed.values)
            config = Config.of(child)
            if self.is_legal(config):
                return config
        return None

    def worst(self, rng: random.Random, draws: int = 2000) -> Config:
        """Return the legal config that the model likes least: a hard start for a search."""
        seen = list(self.all()) if self.size <= draws else []
        seen += [c for _ in range(draws * (not seen)) if (c := self.sample(rng)) is not None]
        finite = [(cost, str(c), c) for c in seen if math.isfinite(cost := self.cost_ns(c))]
        return max(finite)[2] if finite else self.default


def _has(knob: Knob, value: Value) -> bool:
    return any(is_same(value, v) for v in knob.values)  # 1 is not True


def _nearest(knob: Knob, value: Value | None) -> Value:
    """Return the value of a knob nearest to another knob's; numbers by ratio, else the first."""
    if value is not None and _has(knob, value):
        return value
    if isinstance(value, int):
        numbers = [v for v in knob.values if isinstance(v, int)]
        if numbers:
            return min(numbers, key=lambda v: (max(v, value) + 1) / (min(v, value) + 1))
    return knob.values[0]
