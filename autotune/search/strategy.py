"""The search: the default, the model's leaders, then evolution around the best."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from tcdsl.autotune.search import cost_model
from tcdsl.autotune.search.budget import Budget
from tcdsl.autotune.search.space import SearchSpace
from tcdsl.autotune.store.trial import Trial
from tcdsl.codegen.machine.config import Config

# Proposals, of which no more are drawn than it takes; where they come from; how many candidates.
Measure = Callable[[Iterator[Config], str, int], list[Trial]]

BATCH = 16
_SPARE = 4  # times the candidates wanted: proposals among which twins are passed over
_ELITE = 8
_ELITE_BRANCHES = 3  # of the elite: the fastest of other boxes of the space than the fastest's
_PATIENCE = 8  # rounds without gain after which a search ends
_PATIENCE_PAID = 32  # the same where the user gave it time or trials
_GAIN = 0.005
_EXHAUSTIBLE = 10_000
_BARREN = 2  # rounds of children of which each one is a twin: the space has no other texts


def search(
    space: SearchSpace,
    measure: Measure,
    budget: Budget,
    rng: random.Random,
    *,
    start: Sequence[Config] = (),
    known: Sequence[Trial] = (),
    use_model: bool = True,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Trial]:
    """Look for the fastest config and return all timed trials, fastest first.

    Twins count for no budget, so rounds that bring nothing else end the search: the space is
    exhausted, however many configs it has.

    Parameters
    ----------
    space : SearchSpace
    measure : callable
        Draws proposals until it has as many candidates as it is asked for; those whose text another
        one has are twins and no candidates. Gives a trial for each that it was able to try, in any
        order, and new trials of older ones that it has timed again.
    budget : Budget
    rng : random.Random
        All choices come from it: the same seed and the same times give the same path.
    start : sequence of Config
        Tried first; the default where it is empty.
    known : sequence of Trial
        Of an earlier run: they join the population and are not tried again.
    use_model : bool
        Whether the analytic model proposes and orders candidates; without it, chance does.
    tell : callable
        Told in words if the space is exhausted before the budget.
    """
    seen = {t.config: t for t in known}
    meanings = set(map(space.meaning, seen))
    timed = _fastest_first(seen)

    def attempt(configs: Iterable[Config], origin: str, most: int) -> int:
        """Try at most so many; return how many there were that are no twins."""
        wanted = most
        drawn: list[Config] = []

        def proposals() -> Iterator[Config]:
            for config in configs:
                if config in seen:
                    continue
                meaning = space.meaning(config)
                seen[config] = Trial(config, is_twin=meaning in meanings)
                if meaning not in meanings:
                    meanings.add(meaning)
                    drawn.append(config)
                    yield config

        proposed = proposals()
        while most > 0 and not budget.is_spent:
            count, before = budget.fitting(min(BATCH, most)), len(drawn)
            if budget.trials_left is not None:
                count = min(count, budget.trials_left)
            begun = budget.clock()
            trials = measure(proposed, origin, count)
            seen.update((t.config, t) for t in trials)
            used = len(drawn) - before - sum(t.is_twin for t in trials)
            budget.used += used
            budget.note(used, budget.clock() - begun)
            most -= used
            if used < count:  # there are no more
                break
        timed[:] = _fastest_first(seen)
        return wanted - most

    first = list(start) or [space.default]
    attempt(first, "start", len(first))
    if use_model and not budget.is_spent:
        attempt(cost_model.leaders(space, rng, _SPARE * BATCH, seen.keys()), "model", BATCH)
    elif not budget.is_spent:
        attempt(space.spread(rng, 2 * BATCH), "spread", 2 * BATCH)
    patience = _PATIENCE if budget.is_unlimited else _PATIENCE_PAID
    idle = barren = 0
    while not budget.is_spent and idle < patience:
        before = timed[0].time_ns if timed else None
        children = _children(space, timed, seen, rng, use_model)
        found = attempt(children, "evolution", BATCH)
        if budget.is_spent:
            break
        barren = 0 if found else barren + 1
        if not children or barren == _BARREN:
            if not budget.is_unlimited:
                tell(_exhausted(seen.values()))
            break
        gained = bool(timed) and (before is None or timed[0].time_ns < before * (1 - _GAIN))
        idle = 0 if gained else idle + 1
    return timed


def _children(
    space: SearchSpace,
    timed: Sequence[Trial],
    seen: Collection[Config],
    rng: random.Random,
    use_model: bool,
) -> list[Config]:
    """Propose in turn: half steps from the elite, a quarter crossings, a quarter fresh samples.

    Of each kind the model picks one half and chance the other, so that neither a wrong model nor
    bad luck can keep a good config out for long. There are more than a batch: some are twins.
    """
    elite = elite_of(space, timed)
    steps: dict[Config, None] = {}
    for config in elite:  # the best config's steps first: they fill the share while there are any
        if len(steps) < 2 * BATCH:
            steps.update((c, None) for c in space.neighbours(config) if c not in seen)
    pairs = [rng.sample(elite, 2) for _ in range(2 * BATCH)] if len(elite) > 1 else []
    crossings = [c for a, b in pairs if (c := space.crossover(a, b, rng)) is not None]
    samples = [c for _ in range(2 * BATCH) if (c := space.sample(rng)) is not None]

    queues: list[deque[Config]] = []
    for pool in (steps, crossings, samples):
        new = [c for c in dict.fromkeys(pool) if c not in seen]
        by_chance = rng.sample(new, len(new))
        liked = cost_model.ranked(space, new) if use_model else by_chance
        by_turns = itertools.chain.from_iterable(itertools.zip_longest(liked, by_chance))
        queues.append(deque(c for c in dict.fromkeys(by_turns) if c is not None))
    found: dict[Config, None] = {}
    while any(queues):
        for queue in (queues[0], queues[1], queues[0], queues[2]):
            if queue:
                found[queue.popleft()] = None
    if not found and space.size <= _EXHAUSTIBLE:
        return [c for c in space.all() if c not in seen]
    return list(found)


def _exhausted(seen: Collection[Trial]) -> str:
    """Return for people that there is nothing more to try."""
    kernels = sum(trial.is_timed and not trial.is_twin for trial in seen)
    return f"nothing more to try: {len(seen)} configs are {kernels} different kernels that run"


def elite_of(space: SearchSpace, timed: Sequence[Trial]) -> list[Config]:
    """Return the fastest configs, among them the fastest of other branches.

    Forms differ by more than their knobs: a branch whose best knobs are not found yet would
    otherwise be gone as soon as another one has eight good configs. (From the worst softmax a
    search stayed with three kernels, 1.2 times the best, none of them a step from the fused one.)
    """
    fastest = [t.config for t in timed[: _ELITE - _ELITE_BRANCHES]]
    known = {space.branch_of(c) for c in fastest}
    others: list[Config] = []
    for trial in timed[len(fastest) :]:
        branch = space.branch_of(trial.config)
        if branch not in known and len(others) < _ELITE_BRANCHES:
            known.add(branch)
            others.append(trial.config)
    rest = [t.config for t in timed[len(fastest) : _ELITE] if t.config not in others]
    return [*fastest, *others, *rest][:_ELITE]


def _fastest_first(seen: Mapping[Config, Trial]) -> list[Trial]:
    return sorted(
        (t for t in seen.values() if t.is_timed and not t.is_twin),
        key=lambda t: (t.time_ns, t.config.to_json()),
    )
