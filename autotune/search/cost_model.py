"""What the analytic model is asked: an order of candidates, and a config for an untuned size."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable, Sequence

from tcdsl.autotune.search.space import SearchSpace
from tcdsl.autotune.store.best import Best
from tcdsl.autotune.store.key import digest_of
from tcdsl.codegen.machine.config import Config

_DRAWS = 250  # a prediction takes about a millisecond
_CLIMBS = 4


def ranked(space: SearchSpace, configs: Iterable[Config]) -> list[Config]:
    """Return configs by predicted time, those that cannot run left out."""
    costs = {c: space.cost_ns(c) for c in configs}
    possible = [c for c, cost in costs.items() if math.isfinite(cost)]
    # Where the model sees no difference the order is arbitrary, but the same in every process.
    return sorted(possible, key=lambda c: (costs[c], digest_of(c.to_json())))


def leaders(
    space: SearchSpace, rng: random.Random, count: int, but: Collection[Config]
) -> list[Config]:
    """Return the configs that the model likes best: of all if they are few.

    Otherwise of a sample and the default, improved by steps of one knob from the best of them.
    """
    if space.size <= _DRAWS:
        pool = list(space.all())
    else:
        drawn = (space.sample(rng) for _ in range(_DRAWS))
        pool = ranked(space, {space.default, *(c for c in drawn if c is not None)})
        stepped: set[Config] = set()
        for _ in range(_CLIMBS):
            for config in [c for c in pool[:2] if c not in stepped]:
                stepped.add(config)
                pool += space.neighbours(config)
            pool = ranked(space, dict.fromkeys(pool))
    return ranked(space, (c for c in dict.fromkeys(pool) if c not in but))[:count]


def choose(space: SearchSpace, tuned: Sequence[Best], most: int = 8) -> Config:
    """Return the config for an untuned size.

    Parameters
    ----------
    space : SearchSpace
        Of the untuned size.
    tuned : sequence of Best
        Tuned configs of other sizes, nearest first (`best.relatives`).
    most : int
        How many different ones the model is asked about.

    Returns
    -------
    Config
        The tuned config that the model puts furthest above this size's default, else the default.
    """
    candidates = [c for c in dict.fromkeys(b.config for b in tuned) if space.holds(c)][:most]
    limit = space.cost_ns(space.default)
    return next((c for c in ranked(space, candidates) if space.cost_ns(c) < limit), space.default)
