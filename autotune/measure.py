"""From configs to trials: emit, compile many at once, check, time; each stage committed.

The order of the stages is the safety of the whole: a row says `running` before its candidate is
loaded, so that no crash, of the candidate, of the tuner or of the machine, is met twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field

from tcdsl.autotune import finals
from tcdsl.autotune.report import Reporter
from tcdsl.autotune.search.budget import Budget
from tcdsl.autotune.search.strategy import BATCH, Ahead
from tcdsl.autotune.store.rows import TrialRow
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.store.trial import FINAL, Failure, Trial
from tcdsl.autotune.trial_log import TrialLog
from tcdsl.autotune.worker.builder import Built
from tcdsl.autotune.worker.candidate import Candidate, emit
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.autotune.worker.problem import TuningProblem
from tcdsl.autotune.worker.process import CutError, WorkerDiedError
from tcdsl.autotune.worker.runner import Runner
from tcdsl.autotune.worker.timing import ROUNDS
from tcdsl.codegen.machine.config import Config
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import ScheduleError

_FEWEST_ROUNDS = 2  # of a batch that is timed when the time is over
_ALONE = 0.4  # of the first compilation: the rest, imports and a compiler's start, all share
_JOBS = 2  # that later trials keep busy, where there are so many


@dataclass(slots=True)
class _Batch:
    """Configs tried together: the trials that have ended, the candidates that wait for a twin.

    emitted : candidates that were made ready while compilers were at work on the batch before.
    """

    ended: list[Trial] = field(default_factory=list)
    twins: list[Candidate] = field(default_factory=list)
    emitted: list[Candidate] = field(default_factory=list)


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
        self.problem, self.budget, self.report = problem, budget, report
        self.runner = Runner(problem, budget, report.note)
        self.log = TrialLog(problem, store, report)
        self._kept: dict[Config, Candidate] = {}  # timed ones: they can be loaded again
        self._next = _Batch()
        # what each of its candidates took, the first with the proposals
        self._ahead_s: list[float] = []

    def __enter__(self) -> Measurement:
        try:
            self.runner.prepare()  # beside all that comes before a first candidate is compiled
        except BaseException:
            self.runner.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.runner.__exit__(*error)

    def __call__(
        self,
        configs: Iterable[Config],
        origin: str,
        count: int = BATCH,
        ahead: Ahead = lambda: (iter(()), ""),
    ) -> list[Trial]:
        """Try configs, of which no more are drawn than it takes for so many candidates.

        Configs that emit the text of another one are its twins: they are no candidates, they come
        to what that one comes to. Those that were drawn ahead in the call before come first.

        ahead : gives configs of the next call, which are drawn and emitted while compilers are at
        work on these.

        Returns
        -------
        list of Trial
            In any order. Configs that the budget leaves untried, or that another run is trying,
            have none; what another run has ended meanwhile has its end; the best config so far,
            timed again beside the others, has a new one.
        """
        batch, self._next = self._next, _Batch()
        return self._try(configs, origin, self._may_go_on, count, batch, ahead)

    # Stages, in order. Each adds the trials that end in it to those of the batch.

    def _try(
        self,
        configs: Iterable[Config],
        origin: str,
        may_go_on: Callable[[], bool],
        count: int,
        batch: _Batch,
        ahead: Ahead | None = None,
    ) -> list[Trial]:
        emitted = self._emit(configs, origin, count, batch, may_go_on)
        begun = self.budget.clock()
        candidates = self._compile(emitted, count, batch, may_go_on, self._emit_ahead(ahead))
        if not self.log.has_best:
            self._note_first(self.budget.clock() - begun)
        self.report.stage("check", len(candidates))
        if not self.runner.is_calibrated and self.log.best is not None:
            self.ready(self.log.best)  # a good one tells how long a check takes
        loaded: list[Candidate] = []
        for candidate in candidates:
            if may_go_on() and self._has_time(len(loaded) + 1) and self._load(candidate, batch):
                loaded.append(candidate)
        self.report.stage("time", len(loaded))
        self._time(loaded, batch)
        for twin in batch.twins:
            if (trial := self.log.end_of(twin.text)) is not None:
                batch.ended.append(self.log.end_as(twin.row, trial))
        return batch.ended

    def _emit(
        self,
        configs: Iterable[Config],
        origin: str,
        count: int,
        batch: _Batch,
        may_go_on: Callable[[], bool],
    ) -> Iterator[Candidate]:
        """Yield candidates; those whose text another one has are twins, they share its end."""
        texts: set[str] = set()
        proposals = iter(configs)
        left = count
        for candidate in batch.emitted[:count]:
            texts.add(candidate.text)
            if self.log.end_of(candidate.text) is not None:  # since it was emitted
                batch.twins.append(candidate)
            else:
                left -= 1
                yield candidate
        while left and may_go_on():
            config = next(proposals, None)
            if config is None:
                return
            left -= 1
            rows, ended = self.log.propose([config], origin)
            batch.ended += ended
            if not rows:
                continue
            row = rows[0]
            try:
                candidate = emit(self.problem, row)
            except ScheduleError as error:
                batch.ended.append(self.log.fail(row, Failure("schedule", str(error))))
                continue
            self.log.note_text(row.config, candidate.text)
            if self.log.end_of(candidate.text) is not None or candidate.text in texts:
                batch.twins.append(candidate)
                left += 1
            else:
                texts.add(candidate.text)
                yield candidate

    def _note_first(self, seconds: float) -> None:
        """Note what the first compilation took that a later trial will not take.

        Later ones are emitted while others are compiled.
        """
        proposing_s, *each_s = self._ahead_s or [0.0]
        emitting_s = sum(each_s) / max(1, len(each_s))
        later_s = emitting_s + _ALONE * (seconds - proposing_s)
        jobs = min(_JOBS, self.problem.builder.jobs)
        self.budget.note_once(max(0.0, seconds - later_s / jobs))

    def _emit_ahead(self, ahead: Ahead | None) -> Callable[[], bool]:
        """Return what emits another candidate of the next batch; False when there are enough."""
        emitted: Iterator[Candidate] | None = None
        self._ahead_s = []

        def emit_one() -> bool:
            nonlocal emitted
            if ahead is None or self.budget.is_over:
                return False
            begun = self.budget.clock()
            if emitted is None:
                configs, origin = ahead()
                emitted = self._emit(configs, origin, BATCH, self._next, self._may_go_on)
            candidate = next(emitted, None)
            if candidate is not None:
                self._next.emitted.append(candidate)
            self._ahead_s.append(self.budget.clock() - begun)
            return candidate is not None

        return emit_one

    def _compile(
        self,
        emitted: Iterable[Candidate],
        count: int,
        batch: _Batch,
        may_go_on: Callable[[], bool],
        meanwhile: Callable[[], bool],
    ) -> list[Candidate]:
        """Emit and compile, both at once; return those that have code of their own.

        What is not compiled when the time is over stays proposed, for a later run.
        """
        self.report.stage("compile", count)
        candidates: list[Candidate] = []

        def sources() -> Iterator[Emitted]:
            for candidate in emitted:
                candidates.append(candidate)
                yield candidate.emitted

        failures: list[tuple[Candidate, Failure]] = []
        compiled: dict[str, Candidate] = {}
        build, is_unwanted = self.problem.builder.build, lambda: not may_go_on()
        for number, built in build(sources(), count, is_unwanted, meanwhile):
            if isinstance(built, Built) and built.objection:
                built = self._refused(candidates[number], built, built.objection)
            if isinstance(built, Failure):
                failures.append((candidates[number], built))
                continue
            candidate = candidates[number] = self._compiled(candidates[number], built)
            if self.log.end_of(candidate.text) is not None or candidate.text in compiled:
                batch.twins.append(candidate)
            else:
                compiled[candidate.text] = candidate
            if not may_go_on():
                break
        self.log.commit_texts((*candidates, *batch.twins))
        for candidate, failure in failures:
            batch.ended.append(self.log.fail(candidate.row, failure, candidate.text))
        self.log.commit_stage([*compiled.values()], "compiled")
        return [c for c in candidates if compiled.get(c.text) is c]

    def _refused(self, candidate: Candidate, built: Built, objection: str) -> Built | Failure:
        """Return the failure of code that cannot be fast.

        The config that serves untuned is timed, however bad it looks: a search that refuses it
        could not tell what it gains.
        """
        is_default = candidate.config == self.problem.space.default
        return built if is_default else Failure("resources", objection)

    def _compiled(self, candidate: Candidate, built: Built) -> Candidate:
        """Return a candidate with its code; one whose code another text has goes by that text."""
        text = self.log.note_text(candidate.config, candidate.text, built.digest)
        return candidate.compiled(text, built.load)

    def _load(self, candidate: Candidate, batch: _Batch) -> bool:
        """Load and check a candidate; False, and the end of its trial, if it fails.

        One that has a time keeps it: its row stays as it is.
        """
        is_new = candidate.config not in self._kept
        try:
            if self.runner.has(candidate):
                return True
            if is_new:
                self.log.commit_stage([candidate], "running")
            failure = self.runner.load(candidate)
        except CutError:
            if is_new:
                self.log.commit_stage([candidate], "compiled")
            return False
        if failure is not None:
            batch.ended.append(self._fail(candidate, failure))
        elif is_new:
            self.log.commit_stage([candidate], "checked")
        return failure is None

    def together(
        self, candidates: Sequence[Candidate], batch: _Batch | None = None
    ) -> list[Candidate]:
        """Load candidates into one process: what an earlier one had loaded is lost with it."""
        batch = batch or _Batch()
        while True:
            candidates = [c for c in candidates if self._load(c, batch)]
            if self.budget.is_cut:
                return []
            if all(map(self.runner.has, candidates)):
                return candidates

    def _time(self, candidates: Sequence[Candidate], batch: _Batch) -> None:
        """Time candidates beside the best so far, and commit.

        The best one is timed in every batch, so that it becomes the best known of all: were it
        not, a lucky time would stand for ever. (Scaling the others by what it takes in their batch
        was tried against drift: one disturbed batch then makes all later times too small.)
        """
        while candidates:
            best = self.log.best
            # One that is slow beside the new ones is no measure for them, and would seem to hang.
            is_slow = best is not None and 4e-9 * self.log.time_ns(best) > self.runner.limit_s
            anchor = None if best is None or is_slow else self.ready(best)
            everyone = [*([] if anchor is None else [anchor]), *candidates]
            everyone = self.together(everyone, batch)
            if not everyone:
                return
            candidates = [c for c in everyone if c is not anchor]
            try:
                left = self.budget.search_seconds_left  # the last comparison times the best again
                samples = self.runner.samples(everyone, ROUNDS, seconds=left, least=_FEWEST_ROUNDS)
            except WorkerDiedError as death:
                if self.runner.forgives(death):
                    continue
                failed = self.blame(death, everyone)
                batch.ended += failed
                gone = {t.config for t in failed}
                candidates = [c for c in candidates if c.config not in gone]
                continue
            self.budget.keep(finals.reserve_s(self.runner.turn_s))
            self._kept |= {c.config: c for c in everyone}
            new = {c: s for c, s in zip(everyone, samples, strict=True) if s}
            batch.ended += self.log.commit_times(new, anchor)
            self.budget.has_result = self.budget.has_result or bool(new)
            return

    def _has_time(self, count: int) -> bool:
        """Whether there is time to check one more candidate and to time so many, as far as known.

        What is not begun stays compiled, for a later run.
        """
        left, best = self.budget.search_seconds_left, self.log.best
        if left is None or best is None or not self.budget.has_result:
            return True
        return self.runner.check_s + 1e-9 * count * self.log.time_ns(best) < left

    def _fail(self, candidate: Candidate, failure: Failure) -> Trial:
        self._kept.pop(candidate.config, None)
        return self.log.fail(candidate.row, failure, candidate.text)

    def blame(self, death: WorkerDiedError, candidates: Sequence[Candidate]) -> list[Trial]:
        """End the candidate during whose turn the worker died; before the first turn, all."""
        failure = Failure(death.reason, death.detail)
        return [self._fail(c, failure) for c in candidates if death.row in (None, c.row.id)]

    # Candidates of earlier runs and of others.

    def has_code_of(self, config: Config) -> bool:
        """Whether there is code of a config that was found right and has not failed since."""
        return config in self._kept

    def ready(self, config: Config) -> Candidate | None:
        """Return a candidate that is loaded, made anew if it is of an earlier run, or untried.

        One that another run is trying is made here too, beside its row, which is the other's.
        None if it fails.
        """
        if config not in self._kept:
            row = self.log.find(config)
            if row is None or row.status not in FINAL:
                self._try([config], "final", lambda: not self.budget.is_cut, 1, _Batch())
                row = self.log.find(config)
            if config not in self._kept and row is not None and self.log.may_serve(row):
                self._make_again(row)
        kept = self._kept.get(config)
        return kept if kept is not None and self._load(kept, _Batch()) else None

    def _make_again(self, row: TrialRow) -> None:
        """Build the candidate of a row that this run does not write."""
        try:
            candidate = emit(self.problem, row)
        except ScheduleError as error:  # a row from a file says anything
            self.log.note_failure(row.config, Failure("schedule", str(error)))
            return
        build = self.problem.builder.build
        for _, built in build([candidate.emitted], 1, lambda: self.budget.is_cut):
            if isinstance(built, Failure):
                self.log.note_failure(row.config, built)
            else:
                self._kept[row.config] = self._compiled(candidate, built)

    def _may_go_on(self) -> bool:
        """Whether another candidate may start; the first ones may, however short the budget."""
        if not self.log.has_best:
            return not (self.budget.is_stopped or self.budget.is_cut)
        return not self.budget.is_over
