"""What is known of a problem's trials; each end is committed and told as it comes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tcdsl.autotune.report import Reporter
from tcdsl.autotune.store.best import Best
from tcdsl.autotune.store.rows import TUNER_ENDED, TrialRow
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.store.trial import FINAL, Failure, Status, Trial, Verdict
from tcdsl.autotune.worker.candidate import Candidate
from tcdsl.autotune.worker.problem import TuningProblem
from tcdsl.autotune.worker.timing import quantile_ns
from tcdsl.codegen.machine.config import Config

_MOST_SAMPLES = 400  # of the best so far, which is timed in every batch


class TrialLog:
    """The trials of one problem: of this run, of earlier ones, of those beside it.

    Configs that emit one text are one candidate: what the first one comes to all come to.

    Parameters
    ----------
    problem : TuningProblem
    store : TuningStore
    report : Reporter
    """

    def __init__(self, problem: TuningProblem, store: TuningStore, report: Reporter) -> None:
        self._problem, self._store, self._report = problem, store, report
        rows = [r for r in store.trials(problem.key) if problem.space.lists(r.config)]
        self._ends = {r.text: r.trial for r in rows if r.text and r.status in FINAL}  # by text
        self._texts = {r.config: r.text for r in rows}
        self._text_of_code: dict[str, str] = {}
        self._times_ns = {r.config: r.trial.time_ns for r in rows if r.status == "timed"}
        self._samples_ns: dict[Config, list[float]] = {}
        self._failures: dict[Config, Failure] = {}

    # What is known.

    @property
    def has_best(self) -> bool:
        """Whether anything has a time; any thread may ask."""
        return bool(self._times_ns)

    @property
    def best(self) -> Config | None:
        """The fastest config so far, of this run or an earlier one."""
        return min(self._times_ns, key=lambda c: self._times_ns[c], default=None)

    def time_ns(self, config: Config) -> float:
        """Return the time of a config that has one."""
        return self._times_ns[config]

    @property
    def tuned_before(self) -> Best | None:
        """What was tuned on this machine, with its times."""
        return self._store.tuned_here(self._problem.key)

    def is_timed_here(self, config: Config) -> bool:
        """Whether a config has a time of this run."""
        return config in self._samples_ns

    def text_of(self, config: Config) -> str:
        """Return the digest of what a config emits, "" where that is not known."""
        return self._texts.get(config, "")

    def end_of(self, text: str) -> Trial | None:
        """Return what a candidate of that text came to, None where none has ended."""
        return self._ends.get(text)

    def may_serve(self, row: TrialRow) -> bool:
        """Whether a row of another run does not say that its config is out.

        The default gets another try where it is out only because its tuner ended meanwhile, was
        slowed down or was short of memory: without it nothing can be compared, and it runs in a
        worker, which it may bring down.
        """
        is_default = row.config == self._problem.space.default
        is_doubtful = row.detail == TUNER_ENDED or row.reason in ("slow", "resources")
        return row.status != "failed" or (is_default and is_doubtful)

    def find(self, config: Config) -> TrialRow | None:
        """Return the row of a config as it is now, whoever writes it."""
        return self._store.find(self._problem.key, config)

    def failure_of(self, config: Config) -> Failure | None:
        """Return why a config is out, in this run or in the one whose row it is."""
        if config in self._failures:
            return self._failures[config]
        row = self.find(config)
        return None if row is None or not row.reason else Failure(row.reason, row.detail)

    def with_others(self, trials: Sequence[Trial]) -> list[Trial]:
        """Return trials and those that other runs have timed meanwhile, fastest first."""
        rows = [
            row
            for row in self._store.trials(self._problem.key)
            if row.status == "timed" and self._problem.space.lists(row.config)
        ]
        self._texts |= {row.config: row.text for row in rows}
        timed = {row.config: row.trial for row in rows} | {t.config: t for t in trials}
        return sorted(timed.values(), key=lambda t: (t.time_ns, t.config.to_json()))

    # What happens. The rows of another live run stay as they are.

    def propose(self, configs: Sequence[Config], origin: str) -> tuple[list[TrialRow], list[Trial]]:
        """Return the rows that are this run's to try, and what other runs have ended meanwhile."""
        rows = self._store.propose(self._problem.key, configs, origin)
        ours = {row.config for row in rows}
        found = [self.find(c) for c in dict.fromkeys(configs) if c not in ours]
        ended = [row for row in found if row is not None and row.status in FINAL]
        for row in ended:
            if row.status == "timed":
                self._times_ns.setdefault(row.config, row.trial.time_ns)
            if row.text:
                self._ends.setdefault(row.text, row.trial)
            self._texts[row.config] = row.text
        return rows, [row.trial for row in ended]

    def note_text(self, config: Config, text: str, digest: str = "") -> str:
        """Note what a config emits; return the text it goes by: of one machine code the first."""
        if digest:
            text = self._text_of_code.setdefault(digest, text)
        self._texts[config] = text
        return text

    def commit_texts(self, candidates: Sequence[Candidate]) -> None:
        """Commit what candidates emit."""
        self._store.set_text({c.row.id: c.text for c in candidates})

    def commit_stage(self, candidates: Sequence[Candidate], status: Status) -> None:
        """Commit that candidates have reached a stage."""
        self._store.set_status([c.row.id for c in candidates], status)

    def note_failure(self, config: Config, failure: Failure) -> None:
        """Note why a config whose row this run does not write is out."""
        self._failures[config] = failure

    def fail(self, row: TrialRow, failure: Failure, text: str = "") -> Trial:
        """End a trial without a time; a time that it had is forgotten."""
        self._failures[row.config] = failure
        self._times_ns.pop(row.config, None)
        self._samples_ns.pop(row.config, None)
        self._store.set_failed(row.id, failure.reason, failure.detail)
        return self._end(Trial(row.config, math.inf, failure.reason, failure.detail), text)

    def end_as(self, row: TrialRow, trial: Trial) -> Trial:
        """End a trial as the one that emits the same text has ended."""
        if trial.is_timed:
            self._store.set_timed({row.id: (trial.time_ns, [])})
        else:
            self._store.set_failed(row.id, trial.reason, trial.detail)
        return self._end(replace(trial, config=row.config, is_twin=True))

    def commit_times(
        self, samples_ns: Mapping[Candidate, Sequence[float]], anchor: Candidate | None
    ) -> list[Trial]:
        """End the trials of candidates by new samples, which are added to those they have.

        anchor : the best so far, timed beside the others: its time is new, its end no news.
        """
        before = self.best
        for candidate, new in samples_ns.items():
            old = self._samples_ns.get(candidate.config, [])
            self._samples_ns[candidate.config] = [*old, *new][-_MOST_SAMPLES:]
        kept = {c: self._samples_ns[c.config] for c in samples_ns}
        times = {c: quantile_ns(samples) for c, samples in kept.items()}
        self._store.set_timed({c.row.id: (times[c], kept[c]) for c in kept})
        self._times_ns |= {c.config: time for c, time in times.items()}
        trials = [Trial(c.config, time) for c, time in times.items()]
        for candidate, trial in zip(times, trials, strict=True):
            if candidate is not anchor:
                self._end(trial, candidate.text)
        if self.best is not None and self.best != before:
            self._commit_best(self.best)
        return trials

    def commit_verdict(self, verdict: Verdict, compared: Collection[Config]) -> Verdict:
        """Commit the config that calls use from now on, and return it with its times.

        What was tuned here before and is faster stays, where there was no time to compare it too.
        """
        kept = self.tuned_before
        if kept is not None and self._stays(kept, verdict, compared):
            return Verdict(kept.config, kept.time_ns, verdict.default_ns)
        self._store.set_best(
            self._problem.key, verdict.config, verdict.time_ns, verdict.default_ns, "tuned"
        )
        return verdict

    def _stays(self, kept: Best, verdict: Verdict, compared: Collection[Config]) -> bool:
        texts = {self.text_of(config) for config in compared} - {""}
        is_compared = kept.config in compared or self.text_of(kept.config) in texts
        is_out = kept.config in self._failures or not self._problem.space.holds(kept.config)
        time_ns = self._times_ns.get(kept.config, kept.time_ns)  # that it has by now
        return not (is_compared or is_out) and time_ns < verdict.time_ns

    def _commit_best(self, config: Config) -> None:
        """Commit a new best at once: whatever happens next, it is kept."""
        default_ns = self._times_ns.get(self._problem.space.default)
        time_ns = self._times_ns[config]
        self._store.set_best(self._problem.key, config, time_ns, default_ns, "search")

    def _end(self, trial: Trial, text: str = "") -> Trial:
        if text:
            self._ends[text] = trial
        self._report.ended(trial)
        return trial
