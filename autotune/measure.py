"""From configs to trials: emit, compile many at once, check, time; each stage committed.

The order of the stages is the safety of the whole: a row says `running` before its candidate is
loaded, so that no crash, of the candidate, of the tuner or of the machine, is met twice.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from tcdsl.autotune.key import digest_of
from tcdsl.autotune.model import fingerprint
from tcdsl.autotune.problem import Problem
from tcdsl.autotune.process import WorkerDiedError, WorkerProcess
from tcdsl.autotune.report import Report
from tcdsl.autotune.search import BATCH, Budget
from tcdsl.autotune.store import Row, Store
from tcdsl.autotune.timing import SLICE_NS, quantile_ns
from tcdsl.autotune.trial import FINAL, Reason, Trial, TuneError, Verdict
from tcdsl.codegen.config import Config
from tcdsl.codegen.machine import usable_cores
from tcdsl.grammar.errors import CompileError, ScheduleError

_ROUNDS = 5
_FINAL_ROUNDS = 20
_FINALISTS = 4
_MOST_SAMPLES = 400  # of the best so far, which is timed in every round
_MARGIN = 0.01  # by which a config has to be faster than the default
_FIRST_LIMIT_S = 60.0  # nothing is known yet
_LEAST_LIMIT_S = 1.0
_PATIENCE = 20.0  # times the shortest check so far, after which a candidate hangs


@dataclass(slots=True)
class Candidate:
    """A trial under way: its row, its C text and the digest of that, where its object lies."""

    row: Row
    name: str
    source: str
    text: str
    library: Path | None = None
    generation: int = -1  # of the worker process that has it loaded
    samples: list[float] = field(default_factory=list)

    @property
    def config(self) -> Config:
        """The config."""
        return self.row.config


class Measurement:
    """Measures configs of one problem; a context manager that owns the worker process.

    Parameters
    ----------
    problem : Problem
    store : Store
    budget : Budget
        Looked at between candidates.
    report : Report
    """

    def __init__(self, problem: Problem, store: Store, budget: Budget, report: Report) -> None:
        self._problem, self._store = problem, store
        self._budget, self._report = budget, report
        self._kept: dict[Config, Candidate] = {}  # those that have passed: they can be loaded again
        rows = store.trials(problem.key)
        self._by_text = {r.text: r.trial for r in rows if r.text and r.status in FINAL}
        self._times = {r.config: r.time_ns for r in rows if r.status == "timed"}
        self._check_s = math.inf  # the shortest so far
        self._stack = ExitStack()
        self._process: WorkerProcess | None = None

    def __enter__(self) -> Measurement:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def __call__(self, configs: Sequence[Config], origin: str) -> list[Trial]:
        """Try configs; those that the budget or another process leaves untried have no trial."""
        return self._try(configs, origin, self._is_allowed)

    def _try(
        self, configs: Sequence[Config], origin: str, is_allowed: Callable[[], bool]
    ) -> list[Trial]:
        rows = self._store.propose(self._problem.key, configs, origin)
        ended: list[Trial] = []
        candidates, twins = self._emit(rows, ended)
        self._report.stage("compile", len(candidates))
        self._compile(candidates, ended)
        candidates = [c for c in candidates if c.library is not None]
        self._store.set_status([c.row.id for c in candidates], "compiled")
        self._report.stage("check", len(candidates))
        if math.isinf(self._check_s) and self._best is not None:
            self._prepared(self._best)  # a good one tells how long a check takes
        candidates = [c for c in candidates if is_allowed() and self._load(c, ended)]
        self._report.stage("time", len(candidates))
        self._time(candidates, ended)
        for row, text in twins:
            if (trial := self._by_text.get(text)) is not None:
                self._end_as(row, trial, ended)
        return ended

    def verdict(self, trials: Sequence[Trial]) -> Verdict | None:
        """Time the fastest trials and the default head to head and commit the winner.

        The default wins unless another one is faster by more than one per cent. None if the user
        stopped the run before there was anything to compare.
        """
        if self._budget.is_stopped and not trials:
            return None
        default = self._problem.space.default
        finalists = [t.config for t in trials if t.config != default]
        finalists = finalists[: 1 if self._budget.is_stopped else _FINALISTS]
        self._report.stage("final", len(finalists) + 1)
        while True:
            prepared = [self._prepared(config) for config in [default, *finalists]]
            # Of configs with one text the first stands for all.
            texts = {c.text: c for c in reversed(prepared) if c is not None}
            batch = [c for c in prepared if c is not None and texts[c.text] is c]
            if not batch or batch[0].config != default:
                row = self._store.find(self._problem.key, default)
                why = f"{row.reason}: {row.detail}" if row is not None else "it was not tried"
                raise TuneError(
                    f"{self._problem.name}: the default config does not serve: {why}\n"
                    "  note: this is a defect of the compiler, please report it"
                )
            try:
                samples = self._samples(batch, self._final_rounds(trials, len(batch)))
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

    # Stages, in order.

    def _emit(
        self, rows: Sequence[Row], ended: list[Trial]
    ) -> tuple[list[Candidate], list[tuple[Row, str]]]:
        """Return candidates with their texts, and rows whose text another trial has."""
        candidates: dict[str, Candidate] = {}
        twins: list[tuple[Row, str]] = []
        texts: dict[int, str] = {}
        for row in rows:
            name = _name_of(row.config)
            try:
                source = self._problem.source(row.config, name)
            except ScheduleError as error:
                self._fail(row, "schedule", str(error), ended)
                continue
            text = texts[row.id] = digest_of(fingerprint(source, name))
            if text in candidates or text in self._by_text:
                twins.append((row, text))
            else:
                candidates[text] = Candidate(row, name, source, text)
        self._store.set_text(texts)
        return list(candidates.values()), twins

    def _compile(self, candidates: Sequence[Candidate], ended: list[Trial]) -> None:
        """Compile many in one unit; split a unit that fails until the guilty one stands alone."""
        share = min(BATCH, max(1, -(-len(candidates) // usable_cores())))
        units = [list(candidates[i : i + share]) for i in range(0, len(candidates), share)]
        while units:
            results = self._problem.build(["\n".join(c.source for c in unit) for unit in units])
            split: list[list[Candidate]] = []
            for unit, result in zip(units, results, strict=True):
                if not isinstance(result, CompileError):
                    for candidate in unit:
                        candidate.library = result
                elif len(unit) == 1:
                    self._fail(unit[0].row, "compile", str(result), ended, unit[0].text)
                else:
                    middle = len(unit) // 2
                    split += [unit[:middle], unit[middle:]]
            units = split

    def _load(self, candidate: Candidate, ended: list[Trial]) -> bool:
        """Load and check a candidate in the worker; False, and the end of its trial, if it fails.

        One that has a time already keeps it: its row stays as it is.
        """
        worker = self._worker()
        if candidate.generation == worker.generation:
            return True
        row, is_new = candidate.row, candidate.config not in self._kept
        if is_new:
            self._store.set_status([row.id], "running")
        begun = self._budget.clock()
        try:
            answer = worker.ask(
                self._limit_s(),
                {"do": "check", "row": row.id, "library": str(candidate.library)}
                | {"name": candidate.name},
            )
        except WorkerDiedError as death:
            self._fail(row, death.reason, death.detail, ended, candidate.text)
            return False
        if "wrong" in answer:
            self._fail(row, "wrong", answer["wrong"], ended, candidate.text)
            return False
        self._check_s = min(self._check_s, self._budget.clock() - begun)
        candidate.generation = worker.generation
        if is_new:
            self._store.set_status([row.id], "checked")
        return True

    def _time(self, candidates: Sequence[Candidate], ended: list[Trial]) -> None:
        """Time candidates beside the best so far, and commit.

        The machine's speed drifts: times are scaled to that of the best one, which is timed in
        every round and so becomes the best known of all. Were it not timed again, a lucky time
        would stand for ever.
        """
        while candidates:
            best = self._best
            anchor = self._prepared(best) if best is not None else None
            batch = [c for c in candidates if self._load(c, ended)]
            if anchor is not None and not self._load(anchor, ended):
                anchor = None
            everyone = [*batch, *([anchor] if anchor is not None else [])]
            if not batch:
                return
            try:
                samples = self._samples(everyone, _ROUNDS)
                break
            except WorkerDiedError as death:
                self._blame(death, everyone, ended)
                gone = {t.config for t in ended}
                candidates = [c for c in batch if c.config not in gone]
        else:
            return
        scale = 1.0
        if anchor is not None:
            anchor.samples = [*anchor.samples, *samples[-1]][-_MOST_SAMPLES:]
            scale = quantile_ns(anchor.samples) / quantile_ns(samples[-1])
        for candidate, new in zip(batch, samples, strict=False):
            candidate.samples = [t * scale for t in new]
            self._kept[candidate.config] = candidate
        trials = [Trial(c.config, quantile_ns(c.samples)) for c in everyone]
        self._store.set_timed(
            {c.row.id: (t.time_ns, c.samples) for c, t in zip(everyone, trials, strict=True)}
        )
        for candidate, trial in zip(batch, trials, strict=False):
            self._note(trial, ended, candidate.text)
        if anchor is not None:
            ended.append(trials[-1])
        self._note_times(trials)

    # The worker, and what is known.

    def _worker(self) -> WorkerProcess:
        if self._process is None:
            self._report.stage("reference", 1)
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tcdsl-")))
            self._problem.case().save(folder)
            self._process = self._stack.enter_context(WorkerProcess(folder))
        self._process.start()
        return self._process

    def _samples(self, candidates: Sequence[Candidate], rounds: int) -> list[list[float]]:
        """Return the samples of candidates that are loaded, in ns per call."""
        rows = [c.row.id for c in candidates]
        request = {"do": "time", "rows": rows, "rounds": rounds}
        samples = dict(self._worker().ask(self._limit_s(), request)["samples"])
        return [samples[row] for row in rows]

    def _prepared(self, config: Config) -> Candidate | None:
        """Return a loaded candidate, made anew if it is of an earlier run; None: it fails."""
        if config not in self._kept:
            row = self._store.find(self._problem.key, config)
            if row is None or row.status not in FINAL:
                self._try([config], "final", lambda: True)
            elif row.status == "timed":
                name = _name_of(config)
                source = self._problem.source(config, name)
                candidate = Candidate(row, name, source, row.text)
                self._compile([candidate], [])
                if candidate.library is not None:
                    self._kept[config] = candidate
        kept = self._kept.get(config)
        if kept is None or self._load(kept, []):
            return kept
        self._forget(config)
        return None

    def _blame(
        self, death: WorkerDiedError, batch: Sequence[Candidate], ended: list[Trial]
    ) -> None:
        """Record the candidate during whose turn the worker died; before the first turn, all."""
        for candidate in batch:
            if death.row in (None, candidate.row.id):
                self._fail(candidate.row, death.reason, death.detail, ended, candidate.text)
                self._forget(candidate.config)

    def _forget(self, config: Config) -> None:
        self._kept.pop(config, None)
        self._times.pop(config, None)

    def _fail(
        self, row: Row, reason: Reason, detail: str, ended: list[Trial], text: str = ""
    ) -> None:
        self._store.set_failed(row.id, reason, detail)
        self._note(Trial(row.config, math.inf, reason, detail), ended, text)

    def _end_as(self, row: Row, trial: Trial, ended: list[Trial]) -> None:
        """End a trial as the one that emits the same text has ended."""
        if trial.is_timed:
            self._store.set_timed({row.id: (trial.time_ns, [])})
        else:
            self._store.set_failed(row.id, trial.reason, trial.detail)
        self._note(replace(trial, config=row.config), ended, "")

    def _note(self, trial: Trial, ended: list[Trial], text: str) -> None:
        if text:
            self._by_text[text] = trial
        ended.append(trial)
        self._report.ended(trial)

    def _note_times(self, trials: Sequence[Trial]) -> None:
        """Commit a new best at once: whatever happens next, it is kept."""
        before = self._best
        self._times.update((t.config, t.time_ns) for t in trials)
        best = self._best
        if best is not None and best != before:
            default_ns = self._times.get(self._problem.space.default)
            self._store.set_best(self._problem.key, best, self._times[best], default_ns, "search")

    @property
    def _best(self) -> Config | None:
        """The fastest config so far, of this run or an earlier one."""
        return min(self._times, key=lambda c: self._times[c], default=None)

    def _is_allowed(self) -> bool:
        """Whether another candidate may start; the first ones may, however short the budget."""
        if self._best is None:
            return not self._budget.is_stopped
        return not self._budget.is_over

    def _limit_s(self) -> float:
        """Seconds for a check, or for a turn in a timing."""
        if math.isinf(self._check_s):
            return _FIRST_LIMIT_S
        return max(_LEAST_LIMIT_S, _PATIENCE * self._check_s)

    def _final_rounds(self, trials: Sequence[Trial], count: int) -> int:
        """Return how many rounds fit into a second; a stopped run makes the least."""
        if self._budget.is_stopped or not trials:
            return _ROUNDS
        turn_ns = max(SLICE_NS, trials[0].time_ns)
        return int(min(_FINAL_ROUNDS, max(_ROUNDS, 1e9 / (turn_ns * count))))


def _name_of(config: Config) -> str:
    return f"c{digest_of(config.to_json())}"
