"""The search space of a definition: its partitions into groups, their forms, their knobs."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Hashable, Sequence
from typing import Any

from tcdsl.autotune.search.space import Branch, SearchSpace
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config, Knob, Value
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.program.program import Program
from tcdsl.grammar.text.errors import ScheduleError

_MOST_BRANCHES = 64


def space_of(program: Program, spec: Spec, machine: Machine | Gpu) -> SearchSpace:
    """Return the search space: a branch for each partition and choice of its groups' forms."""
    assert spec.sizes is not None
    sizes = dict(spec.sizes)
    choices = compiler.choices(program, spec, machine, sizes)
    branches = []
    for partition, groups in choices.items():
        for forms in _combinations(groups):
            fixed: dict[str, Any] = {"partition": partition}
            fixed |= {f"g{i}.form": form.name for i, form in enumerate(forms)}
            knobs = [
                Knob(f"g{i}.{knob.name}", knob.values)
                for i, form in enumerate(forms)
                for knob in form.knobs
            ]
            branches.append(Branch(tuple(sorted(fixed.items())), tuple(knobs)))

    @functools.cache
    def group_cost(partition: str, index: int, values: tuple[tuple[str, Any], ...]) -> float:
        chosen = dict(values)
        forms = {form.name: form for form in choices[partition][index]}
        try:
            return forms[chosen.pop("form")].cost_ns(chosen)
        except ScheduleError:
            return math.inf

    @functools.cache  # proposals are asked for again and again while they are put in order
    def cost_ns(config: Config) -> float:
        partition = str(config.get("partition"))
        parts = _groups(config, len(choices[partition]))
        return sum(group_cost(partition, i, values) for i, values in enumerate(parts))

    @functools.cache
    def group_meaning(partition: str, index: int, values: tuple[tuple[str, Any], ...]) -> Hashable:
        chosen = dict(values)
        forms = {form.name: form for form in choices[partition][index]}
        return forms[chosen.pop("form")].meaning(chosen)

    def meaning(config: Config) -> Hashable:
        if not any(branch.holds(config) for branch in branches):
            return config  # a user's, or another compiler's: whether it is one, emitting it tells
        partition = str(config.get("partition"))
        try:
            parts = _groups(config, len(choices[partition]))
            return tuple(group_meaning(partition, i, values) for i, values in enumerate(parts))
        except ScheduleError:  # of an earlier run: its own
            return config

    default = compiler.default_config(program, spec, machine, sizes)

    def is_legal(config: Config) -> bool:
        return math.isfinite(cost_ns(config))

    return SearchSpace(tuple(branches), default, cost_ns, is_legal, meaning)


def _groups(config: Config, count: int) -> list[tuple[tuple[str, Value], ...]]:
    """Return the knobs of each of so many groups, as `Config.group` does; all in one pass."""
    found: dict[str, list[tuple[str, Value]]] = {}
    for name, value in config.items:
        group, _, knob = name.partition(".")
        found.setdefault(group, []).append((knob, value))
    return [tuple(found.get(f"g{i}", ())) for i in range(count)]


def _combinations(
    groups: Sequence[Sequence[compiler.FormChoice]],
) -> list[tuple[compiler.FormChoice, ...]]:
    """Return the combinations of forms; where they are too many, one group at a time changes."""
    if math.prod(map(len, groups)) <= _MOST_BRANCHES:
        return list(itertools.product(*groups))
    first = tuple(forms[0] for forms in groups)
    return [first] + [
        (*first[:i], form, *first[i + 1 :]) for i, forms in enumerate(groups) for form in forms[1:]
    ]
