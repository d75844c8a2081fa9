"""Tune problems: budget, store, search and verdict in one call, stoppable and resumable."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import FrameType

from tcdsl.autotune.comparison import verdict_on
from tcdsl.autotune.measure import Measurement
from tcdsl.autotune.report import Reporter, Silent
from tcdsl.autotune.search.budget import Budget
from tcdsl.autotune.search.strategy import search
from tcdsl.autotune.store import best
from tcdsl.autotune.store.shipped import Shipped
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.store.trial import FINAL, UntunedError, Verdict
from tcdsl.autotune.worker.problem import TuningProblem
from tcdsl.autotune.worker.runner import StoppedError
from tcdsl.codegen.machine.config import Config
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.garbage import sought_seldom

_NEIGHBOURS = 4  # configs of other sizes that a search tries after the default


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The result for one problem.

    number : which of the problems it is.
    trials : how many new ones this run ended.
    is_complete : False where the user stopped it.
    """

    number: int
    verdict: Verdict
    trials: int
    is_complete: bool

    @property
    def config(self) -> Config:
        """The config to use."""
        return self.verdict.config


def tune(
    problems: Sequence[TuningProblem],
    *,
    cache: Path,
    seconds: float | None = None,
    trials: int | None = None,
    seed: int = 0,
    report: Reporter | None = None,
    start: Sequence[Config] = (),
    use_model: bool = True,
    shipped: Shipped | None = None,
    begun: float | None = None,
) -> list[TuningResult]:
    """Find and store the fastest config of each problem.

    Parameters
    ----------
    problems : sequence of TuningProblem
        Usually one kernel at several sizes. A later one tries the best configs of earlier ones.
    cache : Path
        SQLite file; what it knows is not tried again.
    seconds, trials : optional
        For each problem; `trials` counts new ones. Seconds that a problem leaves, or takes more,
        are the next one's. Without both a search ends by itself, when it no longer gains.
    seed : int
        The same seed, times and cache give the same path.
    report : Reporter, optional
        Told of all progress; silent by default.
    start : sequence of Config, optional
        Tried first, in place of the default; the default still takes part in the last comparison.
    use_model : bool
        Whether the analytic model proposes and orders candidates.
    shipped : Shipped, optional
        Configs that came with a model; those of each problem are tried early.
    begun : float, optional
        When the seconds began, by `time.monotonic()`: with the user's call. Now, by default.

    Returns
    -------
    list of TuningResult
        One per problem; shorter where the user stopped it: the first Ctrl-C ends the search with
        the best so far, a second one aborts with `KeyboardInterrupt`. So it is where there was no
        time for some, or no verdict: then that is told.

    Raises
    ------
    TuneError
        If the default config of a problem does not run or gives a wrong answer; `UntunedError`
        where there is no verdict for any problem, as when the seconds are too few for a first.
    """
    report = report or Silent()
    begun = time.monotonic() if begun is None else begun
    latest = None if seconds is None else begun + len(problems) * seconds
    results: list[TuningResult] = []
    untuned: UntunedError | None = None
    # Nests and configs stay, or go without a search: it was a fifth of our time a candidate.
    with sought_seldom(), TuningStore(cache) as store, _interruptible(report) as stop:
        for number, problem in enumerate(problems):
            since = begun if number == 0 else time.monotonic()
            if stop.is_set():
                break
            if number and latest is not None and since >= latest:
                report.note(f"no time was left for {len(problems) - number} of {len(problems)}")
                break
            share = None if seconds is None else max(0.0, begun + (number + 1) * seconds - since)
            budget = Budget(share, trials, begun=since, latest=latest)
            stop.budget = budget
            verdict = None
            report.begin(problem, budget)
            try:
                verdict = _verdict(problem, store, budget, seed, report, start, use_model, shipped)
            except UntunedError as error:
                untuned = error
                if len(problems) > 1:
                    report.note(str(error))
            finally:
                report.finish(verdict)
            if verdict is not None:
                found = TuningResult(number, verdict, budget.used, not budget.is_stopped)
                results.append(found)
    if untuned is not None and not results:
        raise untuned
    return results


def _verdict(
    problem: TuningProblem,
    store: TuningStore,
    budget: Budget,
    seed: int,
    report: Reporter,
    start: Sequence[Config],
    use_model: bool,
    shipped: Shipped | None,
) -> Verdict | None:
    key = problem.key
    store.add_problem(key, problem.name, problem.text)
    with suppress(StoppedError), Measurement(problem, store, budget, report) as measure:
        space = problem.space
        # A file says anything: what is no config of this space is nobody's trial.
        known = [trial for trial in store.ended(key) if space.lists(trial.config)]
        found = search(
            space,
            measure,
            budget,
            random.Random(seed),
            start=[*(start or [space.default]), *_promising(problem, store, shipped)],
            known=known,
            use_model=use_model,
            tell=lambda text: report.note(f"{problem.name}: {text}"),
        )
        return verdict_on(measure, found)
    return None  # stopped before there was anything to compare


def _promising(
    problem: TuningProblem, store: TuningStore, shipped: Shipped | None
) -> Iterator[Config]:
    """Yield what is tried before all proposals: the best known, shipped, begun, of other sizes."""
    key, space = problem.key, problem.space
    kept = best.lookup(store.path, key)  # it may have come from another file, and has no trial
    if kept is not None and space.holds(kept.config):
        yield kept.config
    if shipped is not None and (config := shipped.lookup(key)) is not None and space.holds(config):
        yield config
    for row in store.trials(key):  # of a run that was killed
        if row.status not in FINAL and space.lists(row.config):
            yield row.config
    relatives = (b.config for b in best.relatives(store.path, key) if space.holds(b.config))
    yield from islice(relatives, _NEIGHBOURS)


class _Stop(threading.Event):
    """The user's wish to end, and the budget of the problem under way."""

    budget: Budget | None = None


@contextmanager
def _interruptible(report: Reporter) -> Iterator[_Stop]:
    """Turn the first Ctrl-C into a stopped budget; the second one is Python's own again."""
    stop = _Stop()
    previous = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or previous is None:  # signals are the main thread's; or it is not Python's
        yield stop
        return

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()
        if stop.budget is not None:
            stop.budget.stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        report.note("stopping with the best so far; Ctrl-C again aborts")

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)
