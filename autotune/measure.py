"""From configs to trials: emit, compile many at once, check, time; each stage committed.

The order of the stages is the safety of the whole: a row says `running` before its candidate is
loaded, so that no crash, of the candidate, of the tuner or of the machine, is met twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from types import TracebackType

from tcdsl.autotune.report import Reporter
from tcdsl.autotune.search.strategy import Budget
from tcdsl.autotune.store.rows import TUNER_ENDED, TrialRow
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.store.trial import FINAL, Failure, Trial, TuneError, UntunedError, Verdict
from tcdsl.autotune.worker.builder import Built
from tcdsl.autotune.worker.candidate import Candidate, emitted
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.autotune.worker.problem import TuningProblem
from tcdsl.autotune.worker.process import WorkerDiedError
from tcdsl.autotune.worker.runner import Runner
from tcdsl.autotune.worker.timing import SLICE_NS, quantile_ns
from tcdsl.codegen.machine.config import Config
from tcdsl.grammar.text.errors import ScheduleError

_ROUNDS = 5
_FINAL_ROUNDS = 60
_FINAL_NS = 1e9
_FINALISTS = 6
_NEAR = 1.15  # times the fastest: who is slower was not only unlucky
_MARGIN = 0.01  # by which a config has to be faster than the default
_MOST_SAMPLES = 400  # of the best so far, which is timed in every round


class Measurement:
    """Measures configs of one problem; a context manager that owns the worker process.

    Parameters
    ----------
    problem : TuningProblem
    store : TuningStore
    budget : Budget
        Looked at between candidates.
    report : Reporter
    """

    def __init__(
        self, problem: TuningProblem, store: TuningStore, budget: Budget, report: Reporter
    ) -> None:
        self._problem, self._store = problem, store
        self._budget, self._report = budget, report
        self._runner = Runner(problem, budget)
        self._kept: dict[Config, Candidate] = {}  # timed ones: they can be loaded again
        rows = store.trials(problem.key)
        rows = [r for r in rows if problem.space.lists(r.config)]
        self._by_text = {r.text: r.trial for r in rows if r.text and r.status in FINAL}
        self._text_of = {r.config: r.text for r in rows}
        self._text_of_code: dict[str, str] = {}
        self._times = {r.config: r.trial.time_ns for r in rows if r.status == "timed"}
        self._failures: dict[Config, Failure] = {}

    def __enter__(self) -> Measurement:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._runner.__exit__(kind, error, trace)

    def __call__(self, configs: Sequence[Config], origin: str) -> list[Trial]:
        """Try configs.

        Returns
        -------
        list of Trial
            In any order. Configs that the budget leaves untried, or that another run is trying,
            have none; what another run has ended meanwhile has its end; the best config so far,
            timed again beside the others, has a new one.
        """
        return self._try(configs, origin, self._may_go_on)

    def verdict(self, trials: Sequence[Trial]) -> Verdict | None:
        """Time the fastest trials and the default head to head and commit the winner.

        Among them are those that other runs have timed meanwhile. The default wins unless another
        one is faster by more than one per cent. None if the user stopped the run before there was
        anything to compare.

        Raises
        ------
        TuneError
            If the default does not run or gives a wrong answer; `UntunedError` where it only did
            not answer in time.
        """
        if self._budget.is_stopped and not trials:
            return None
        default = self._problem.space.default
        trials = self._with_others(trials)
        finalists = self._finalists(trials)
        self._report.stage("final", len(finalists) + 1)
        while True:
            ready = [self._ready(config) for config in (default, *finalists)]
            by_text = {c.text: c for c in reversed(ready) if c is not None}  # twins are one
            batch = self._together([c for c in ready if c in by_text.values() and c is not None])
            if not batch or batch[0].config != default:
                raise self._no_default()
            try:
                rounds = self._final_rounds(trials, len(batch))
                samples = self._runner.samples(batch, rounds, drops=False)
                break
            except WorkerDiedError as death:
                self._blame(death, batch, [])
                finalists = [c for c in finalists if c in self._kept]
        times = {c.config: quantile_ns(s) for c, s in zip(batch, samples, strict=True)}
        winner = min(times, key=lambda c: times[c] * (1 if c == default else 1 + _MARGIN))
        verdict = Verdict(winner, times[winner], times[default])
        self._store.set_best(
            self._problem.key, verdict.config, verdict.time_ns, verdict.default_ns, "tuned"
        )
        return verdict

    def _with_others(self, trials: Sequence[Trial]) -> list[Trial]:
        """Return trials and those that other runs have timed meanwhile, fastest first."""
        known = {row.config: row for row in self._store.trials(self._problem.key)}
        others = {
            config: row.trial
            for config, row in known.items()
            if row.status == "timed" and self._problem.space.lists(config)
        }
        self._text_of |= {config: known[config].text for config in others}
        timed = others | {t.config: t for t in trials}
        return sorted(timed.values(), key=lambda t: (t.time_ns, t.config.to_json()))

    def _finalists(self, trials: Sequence[Trial]) -> list[Config]:
        """Return the fastest trials but the default; one of those that emit the same text."""
        default = self._problem.space.default
        chosen: dict[object, Config] = {self._text_of.get(default) or default: default}
        for trial in trials:
            if trial.time_ns <= _NEAR * trials[0].time_ns:
                chosen.setdefault(self._text_of.get(trial.config) or trial.config, trial.config)
        return list(chosen.values())[1 : 1 + (1 if self._budget.is_stopped else _FINALISTS)]

    # Stages, in order. Each appends the trials that end in it.

    def _try(
        self, configs: Sequence[Config], origin: str, may_go_on: Callable[[], bool]
    ) -> list[Trial]:
        ended: list[Trial] = []
        rows = self._store.propose(self._problem.key, configs, origin)
        self._learn({*configs} - {row.config for row in rows}, ended)
        twins: list[Candidate] = []
        candidates = self._compile(rows, twins, ended)
        self._report.stage("check", len(candidates))
        if not self._runner.is_calibrated and self._best is not None:
            self._ready(self._best)  # a good one tells how long a check takes
        candidates = [c for c in candidates if may_go_on() and self._load(c, ended)]
        self._report.stage("time", len(candidates))
        self._time(candidates, ended)
        for twin in twins:
            if (trial := self._by_text.get(twin.text)) is not None:
                self._end_as(twin.row, trial, ended)
        return ended

    def _learn(self, configs: Collection[Config], ended: list[Trial]) -> None:
        """Take over the ends of trials that another run has made meanwhile."""
        for config in configs:
            row = self._store.find(self._problem.key, config)
            if row is None or row.status not in FINAL:
                continue
            if row.status == "timed":
                self._times.setdefault(config, row.trial.time_ns)
            if row.text:
                self._by_text.setdefault(row.text, row.trial)
            self._text_of[config] = row.text
            ended.append(row.trial)

    def _emit(
        self, rows: Sequence[TrialRow], twins: list[Candidate], ended: list[Trial]
    ) -> Iterator[Candidate]:
        """Yield candidates; those whose text another one has are twins, they share its end."""
        texts: set[str] = set()
        for row in rows:
            try:
                candidate = emitted(self._problem, row)
            except ScheduleError as error:
                self._fail(row, Failure("schedule", str(error)), ended)
                continue
            self._text_of[row.config] = candidate.text
            if candidate.text in self._by_text or candidate.text in texts:
                twins.append(candidate)
            else:
                texts.add(candidate.text)
                yield candidate

    def _compile(
        self, rows: Sequence[TrialRow], twins: list[Candidate], ended: list[Trial]
    ) -> list[Candidate]:
        """Emit and compile, both at once; return those that have code of their own."""
        self._report.stage("compile", len(rows))
        candidates: list[Candidate] = []

        def sources() -> Iterator[Emitted]:
            for candidate in self._emit(rows, twins, ended):
                candidates.append(candidate)
                yield candidate.source

        failures: list[tuple[Candidate, Failure]] = []
        compiled: dict[str, Candidate] = {}
        for number, built in self._problem.builder.build(sources(), len(rows)):
            candidate = candidates[number]
            if isinstance(built, Built) and built.objection and not self._is_default(candidate):
                built = Failure("resources", built.objection)
            if isinstance(built, Failure):
                failures.append((candidate, built))
                continue
            self._take(candidate, built)
            if candidate.text in self._by_text or candidate.text in compiled:
                twins.append(candidate)
            else:
                compiled[candidate.text] = candidate
        self._store.set_text({c.row.id: c.text for c in (*candidates, *twins)})
        for candidate, failure in failures:
            self._fail(candidate.row, failure, ended, candidate.text)
        self._store.set_status([c.row.id for c in compiled.values()], "compiled")
        return [c for c in candidates if compiled.get(c.text) is c]

    def _is_default(self, candidate: Candidate) -> bool:
        """Whether it is the config that serves untuned: it is timed, however bad it looks."""
        return candidate.config == self._problem.space.default

    def _take(self, candidate: Candidate, built: Built) -> None:
        """Give a candidate its code; one whose code another text has goes by that text."""
        candidate.code = built.load
        if built.digest:
            candidate.text = self._text_of_code.setdefault(built.digest, candidate.text)
            self._text_of[candidate.config] = candidate.text

    def _load(self, candidate: Candidate, ended: list[Trial]) -> bool:
        """Load and check a candidate; False, and the end of its trial, if it fails.

        One that has a time keeps it: its row stays as it is.
        """
        if self._runner.has(candidate):
            return True
        is_new = candidate.config not in self._kept
        if is_new:
            self._store.set_status([candidate.row.id], "running")
        failure = self._runner.load(candidate)
        if failure is not None:
            self._fail(candidate.row, failure, ended, candidate.text)
            self._forget(candidate.config)
        elif is_new:
            self._store.set_status([candidate.row.id], "checked")
        return failure is None

    def _together(
        self, candidates: Sequence[Candidate], ended: list[Trial] | None = None
    ) -> list[Candidate]:
        """Load candidates into one process: what an earlier one had loaded is lost with it."""
        ended = [] if ended is None else ended
        while True:
            candidates = [c for c in candidates if self._load(c, ended)]
            if all(map(self._runner.has, candidates)):
                return candidates

    def _time(self, candidates: Sequence[Candidate], ended: list[Trial]) -> None:
        """Time candidates beside the best so far, and commit.

        The best one is timed in every batch, so that it becomes the best known of all: were it
        not, a lucky time would stand for ever. (Scaling the others by what it takes in their batch
        was tried against drift: one disturbed batch then makes all later times too small.)
        """
        while candidates:
            best = self._best
            # One that is slow beside the new ones is no measure for them, and would seem to hang.
            is_slow = best is not None and 4e-9 * self._times[best] > self._runner.limit_s
            anchor = None if best is None or is_slow else self._ready(best)
            everyone = [*candidates, *([] if anchor is None else [anchor])]
            everyone = self._together(everyone, ended)
            candidates = [c for c in everyone if c is not anchor]
            try:
                samples = self._runner.samples(everyone, _ROUNDS)
            except WorkerDiedError as death:
                self._blame(death, everyone, ended)
                gone = {t.config for t in ended}
                candidates = [c for c in candidates if c.config not in gone]
                continue
            self._commit_times(everyone, samples, anchor, ended)
            return

    def _commit_times(
        self,
        candidates: Sequence[Candidate],
        samples: Sequence[list[float]],
        anchor: Candidate | None,
        ended: list[Trial],
    ) -> None:
        for candidate, new in zip(candidates, samples, strict=True):
            candidate.samples = [*candidate.samples, *new][-_MOST_SAMPLES:]
            self._kept[candidate.config] = candidate
        times = {c.row.id: (quantile_ns(c.samples), c.samples) for c in candidates}
        self._store.set_timed(times)
        before = self._best
        for candidate in candidates:
            trial = Trial(candidate.config, times[candidate.row.id][0])
            self._times[trial.config] = trial.time_ns
            if candidate is anchor:
                ended.append(trial)  # not news for the report
            else:
                self._end(trial, candidate.text, ended)
        if self._best is not None and self._best != before:
            self._commit_best(self._best)

    def _commit_best(self, config: Config) -> None:
        """Commit a new best at once: whatever happens next, it is kept."""
        default_ns = self._times.get(self._problem.space.default)
        self._store.set_best(self._problem.key, config, self._times[config], default_ns, "search")

    # Ends of trials.

    def _end(self, trial: Trial, text: str, ended: list[Trial]) -> None:
        if text:
            self._by_text[text] = trial
        ended.append(trial)
        self._report.ended(trial)

    def _fail(self, row: TrialRow, failure: Failure, ended: list[Trial], text: str = "") -> None:
        self._failures[row.config] = failure
        self._store.set_failed(row.id, failure.reason, failure.detail)
        self._end(Trial(row.config, math.inf, failure.reason, failure.detail), text, ended)

    def _end_as(self, row: TrialRow, trial: Trial, ended: list[Trial]) -> None:
        """End a trial as the one that emits the same text has ended."""
        if trial.is_timed:
            self._store.set_timed({row.id: (trial.time_ns, [])})
        else:
            self._store.set_failed(row.id, trial.reason, trial.detail)
        self._end(replace(trial, config=row.config), "", ended)

    def _blame(
        self, death: WorkerDiedError, batch: Sequence[Candidate], ended: list[Trial]
    ) -> None:
        """Record the candidate during whose turn the worker died; before the first turn, all."""
        for candidate in batch:
            if death.row in (None, candidate.row.id):
                failure = Failure(death.reason, death.detail)
                self._fail(candidate.row, failure, ended, candidate.text)
                self._forget(candidate.config)

    def _forget(self, config: Config) -> None:
        self._kept.pop(config, None)
        self._times.pop(config, None)

    def _no_default(self) -> TuneError:
        default, name = self._problem.space.default, self._problem.name
        failure = self._failures.get(default)
        if failure is None:  # of an earlier run, or of another one
            row = self._store.find(self._problem.key, default)
            failure = None if row is None or not row.reason else Failure(row.reason, row.detail)
        if failure is None or failure.reason == "slow":
            why = "it was not timed" if failure is None else failure.detail
            return UntunedError(
                f"{name}: no config can be compared with the default: {why}\n"
                "  note: tune again when the machine has less to do, or with more seconds"
            )
        return TuneError(
            f"{name}: the default config does not serve: {failure.reason}: {failure.detail}\n"
            "  note: this is a defect of the compiler, please report it"
        )

    # What is known.

    @property
    def _best(self) -> Config | None:
        """The fastest config so far, of this run or an earlier one."""
        return min(self._times, key=lambda c: self._times[c], default=None)

    def _ready(self, config: Config) -> Candidate | None:
        """Return a candidate that is loaded, made anew if it is of an earlier run, or untried.

        One that another run is trying is made here too, beside its row, which is the other's.
        None if it fails.
        """
        if config not in self._kept:
            row = self._store.find(self._problem.key, config)
            if row is None or row.status not in FINAL:
                self._try([config], "final", lambda: True)
                row = self._store.find(self._problem.key, config)
            if config not in self._kept and row is not None and self._may_serve(row):
                self._make_again(row)
        kept = self._kept.get(config)
        return kept if kept is not None and self._load(kept, []) else None

    def _make_again(self, row: TrialRow) -> None:
        """Build the candidate of a row that this run does not write."""
        try:
            candidate = emitted(self._problem, row)
        except ScheduleError as error:  # a row from a file says anything
            self._failures[row.config] = Failure("schedule", str(error))
            return
        for _, built in self._problem.builder.build([candidate.source], 1):
            if isinstance(built, Failure):
                self._failures[row.config] = built
            else:
                self._take(candidate, built)
                self._kept[row.config] = candidate

    def _may_serve(self, row: TrialRow) -> bool:
        """Whether a row of another run does not say that its config is out."""
        return row.status != "failed" or self._deserves_another_try(row)

    def _deserves_another_try(self, row: TrialRow) -> bool:
        """Whether the default is out only because its tuner ended meanwhile, or was slowed down.

        Without it nothing can be compared; and it runs in a worker, which it may bring down.
        """
        is_default = row.config == self._problem.space.default
        return is_default and (row.detail == TUNER_ENDED or row.reason == "slow")

    def _may_go_on(self) -> bool:
        """Whether another candidate may start; the first ones may, however short the budget."""
        if self._best is None:
            return not self._budget.is_stopped
        return not self._budget.is_over

    def _final_rounds(self, trials: Sequence[Trial], count: int) -> int:
        """Return how many rounds fit into a second; a stopped run makes the least."""
        if self._budget.is_stopped or not trials:
            return _ROUNDS
        turn_ns = max(SLICE_NS, trials[0].time_ns)
        return int(min(_FINAL_ROUNDS, max(_ROUNDS, _FINAL_NS / (turn_ns * count))))
