"""The search: the default, the model's leaders, then evolution around the best."""

from __future__ import annotations

import functools
import itertools
import random
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from tcdsl.autotune.search import cost_model
from tcdsl.autotune.search.budget import Budget
from tcdsl.autotune.search.space import SearchSpace
from tcdsl.autotune.store.trial import Trial
from tcdsl.codegen.machine.config import Config

# What comes next as far as is known before the times of the batch under way, and from where.
Ahead = Callable[[], tuple[Iterator[Config], str]]
# Proposals, of which no more are drawn than it takes; where they come from; how many candidates;
# what may be made ready for the next batch while compilers are at work, and is part of that one.
Measure = Callable[[Iterator[Config], str, int, Ahead], list[Trial]]
Following = Callable[[], tuple[Iterable[Config], str]]

BATCH = 16
_AHEAD = BATCH // 2  # of a batch; the other half knows the times of the batch before
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
        order, and new trials of older ones that it has timed again. What it draws ahead counts
        among the candidates of the next call.
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
    return _Search(space, measure, budget, rng, known, use_model, tell).run(start)


class _Search:
    """A search under way: what it has seen, and what it has drawn for the next batch."""

    def __init__(
        self,
        space: SearchSpace,
        measure: Measure,
        budget: Budget,
        rng: random.Random,
        known: Sequence[Trial],
        use_model: bool,
        tell: Callable[[str], None],
    ) -> None:
        self._space, self._measure, self._budget, self._rng = space, measure, budget, rng
        self._use_model, self._tell = use_model, tell
        self._seen = {t.config: t for t in known}
        self._meanings = set(map(space.meaning, self._seen))
        self._timed = _fastest_first(self._seen)
        self._carried: list[Config] = []  # drawn ahead: their trials come with the next batch

    def run(self, start: Sequence[Config]) -> list[Trial]:
        """Return all timed trials, fastest first."""
        budget = self._budget
        first = list(start) or [self._space.default]
        leaders = self._leaders()
        origin, most = ("model", BATCH) if self._use_model else ("spread", 2 * BATCH)
        self._attempt(first, "start", len(first), lambda: (leaders, origin))
        if not budget.is_spent:
            self._attempt(leaders, origin, most, self._children)
        patience = _PATIENCE if budget.is_unlimited else _PATIENCE_PAID
        idle = barren = 0
        while not budget.is_spent and idle < patience:
            before = self._timed[0].time_ns if self._timed else None
            children, origin = self._children()
            found = self._attempt(children, origin, BATCH, self._children)
            if budget.is_spent:
                break
            barren = 0 if found else barren + 1
            if not children or barren == _BARREN:
                if not budget.is_unlimited:
                    self._tell(_exhausted(self._seen.values()))
                break
            time_ns = self._timed[0].time_ns if self._timed else None
            gained = time_ns is not None and (before is None or time_ns < before * (1 - _GAIN))
            idle = 0 if gained else idle + 1
        return self._timed

    def _leaders(self) -> Iterator[Config]:
        """Yield what follows the first configs; it is asked for when the first one is drawn."""
        space, rng = self._space, self._rng
        if self._use_model:
            yield from cost_model.leaders(space, rng, _SPARE * BATCH, self._seen.keys())
        else:
            yield from space.spread(rng, 2 * BATCH)

    def _children(self) -> tuple[list[Config], str]:
        return (
            _children(self._space, self._timed, self._seen, self._rng, self._use_model),
            "evolution",
        )

    def _attempt(
        self, configs: Iterable[Config], origin: str, most: int, following: Following
    ) -> int:
        """Try at most so many; return how many there were that are no twins.

        following : what comes behind these, by what is known when it is asked for.
        """
        wanted, budget = most, self._budget

        def more() -> tuple[Iterable[Config], str]:
            return configs, origin

        while most > 0 and not budget.is_spent:
            count = budget.fitting(min(BATCH, most))
            if budget.trials_left is not None:
                count = min(count, budget.trials_left)
            drawn, self._carried = self._carried, []
            proposed = self._proposals(configs, drawn)
            begun = budget.clock()
            ahead = functools.partial(self._ahead, count, more if most > count else following)
            trials = self._measure(proposed, origin, count, ahead)
            self._seen.update((t.config, t) for t in trials)
            used = min(count, len(drawn) - sum(t.is_twin for t in trials))
            budget.used += used
            budget.note(used, budget.clock() - begun)
            most -= used
            if used < count:  # there are no more
                break
        self._timed = _fastest_first(self._seen)
        return wanted - most

    def _ahead(self, count: int, following: Following) -> tuple[Iterator[Config], str]:
        """Return some of the next batch, if there will be time for it after so many trials."""
        budget = self._budget
        most = min(_AHEAD, budget.fitting(count + _AHEAD) - count)
        if budget.trials_left is not None:
            most = min(most, budget.trials_left - count)
        if most <= 0 or budget.is_spent:
            return iter(()), ""
        configs, origin = following()
        return itertools.islice(self._proposals(configs, self._carried), most), origin

    def _proposals(self, configs: Iterable[Config], drawn: list[Config]) -> Iterator[Config]:
        """Yield configs of which none like it was seen, and note that they are drawn."""
        for config in configs:
            if config in self._seen:
                continue
            meaning = self._space.meaning(config)
            self._seen[config] = Trial(config, is_twin=meaning in self._meanings)
            if meaning not in self._meanings:
                self._meanings.add(meaning)
                drawn.append(config)
                yield config


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
