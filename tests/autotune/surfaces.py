"""Made-up cost surfaces and a fake clock."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import islice

from tcdsl.autotune.search.space import Branch, SearchSpace
from tcdsl.autotune.search.strategy import Ahead, Measure
from tcdsl.autotune.store.trial import Trial
from tcdsl.codegen.machine.config import Config, Knob

POWERS = tuple(2**i for i in range(8))
GROUPS = Branch(
    (("g0.form", "panel"), ("partition", 0)),
    (
        Knob("g0.mr", (1, 2, 3, 4, 6, 8, 12)),
        Knob("g0.nv", (1, 2, 3, 4)),
        Knob("g0.mc", POWERS),
        Knob("g0.kc", POWERS),
        Knob("g0.pack", (False, True)),
    ),
)
PLAIN = Branch(
    (("g0.form", "dot"), ("partition", 0)),
    (Knob("g0.mr", (1, 2, 4)), Knob("g0.kc", POWERS)),
)


def rugged(config: Config) -> float:
    """Two valleys, a rule between knobs, and steps of ten per cent; the optimum is OPTIMUM."""
    v = dict(config.items)
    if v["g0.form"] == "dot":
        return 500.0 + 40 * abs(math.log2(int(v["g0.kc"])) - 3)
    tile = int(v["g0.mr"]) * int(v["g0.nv"])
    cost = 100.0 + 12 * abs(tile - 24) + (25 if int(v["g0.nv"]) == 3 else 0)
    cost += 9 * abs(math.log2(int(v["g0.mc"])) - 5) + 9 * abs(math.log2(int(v["g0.kc"])) - 6)
    # packing pays only with large tiles of k
    cost += -30 if v["g0.pack"] and int(v["g0.kc"]) >= 32 else 20 * bool(v["g0.pack"])
    return cost


def is_legal(config: Config) -> bool:
    v = dict(config.items)
    return v["g0.form"] == "dot" or int(v["g0.mr"]) * int(v["g0.nv"]) <= 28


def default() -> Config:
    return PLAIN.nearest(Config.of({"g0.mr": 1, "g0.kc": 1}))


def space(cost_ns: Callable[[Config], float]) -> SearchSpace:
    return SearchSpace((GROUPS, PLAIN), default(), cost_ns, is_legal)


class FakeClock:
    """A clock that only measuring moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def measure(
    surface: Callable[[Config], float],
    clock: FakeClock | None = None,
    path: list[Config] | None = None,
    noise: random.Random | None = None,
) -> Measure:
    """Return a measure that reads a surface; 0.05 s of fake time a trial."""

    def run(configs: Iterator[Config], origin: str, count: int, ahead: Ahead) -> list[Trial]:
        del origin
        trials = []
        for config in islice(configs, count):
            if clock is not None:
                clock.now += 0.05
            if path is not None:
                path.append(config)
            factor = 1 + (noise.random() * 0.04 if noise else 0.0)
            trials.append(Trial(config, surface(config) * factor))
        return trials

    return run
