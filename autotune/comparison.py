"""The last comparison of a run: the fastest trials and the default, head to head."""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.autotune import finals
from tcdsl.autotune.measure import Measurement
from tcdsl.autotune.store.trial import Trial, Verdict
from tcdsl.autotune.worker.candidate import Candidate
from tcdsl.autotune.worker.process import CutError, WorkerDiedError
from tcdsl.autotune.worker.timing import quantile_ns
from tcdsl.codegen.machine.config import Config


def verdict_on(measure: Measurement, trials: Sequence[Trial]) -> Verdict | None:
    """Time the fastest trials and the default head to head and commit the winner.

    Among them are those that other runs have timed meanwhile (`finals.verdict_of`). None if the
    user stopped the run before there was anything to compare.

    Raises
    ------
    TuneError
        If the default does not run or gives a wrong answer; `UntunedError` where it only did not
        answer in time.
    """
    if measure.budget.is_stopped and not trials:
        return None
    measure.budget.is_final = True
    return _Comparison(measure, trials).verdict()


class _Comparison:
    """Trials, fastest first, beside the default of their problem."""

    def __init__(self, measure: Measurement, trials: Sequence[Trial]) -> None:
        self._measure, self._budget, self._runner = measure, measure.budget, measure.runner
        self._log = measure.log
        self._default = measure.problem.space.default
        self._trials = self._log.with_others(trials)
        self._loaded: dict[Config, Candidate] = {}
        self._samples_ns: dict[Config, list[float]] = {}  # of those that got a turn

    def verdict(self) -> Verdict:
        """Compare, and commit what calls use from now on."""
        self._compare()
        if self._default not in self._samples_ns:
            return self._uncompared()
        verdict = finals.verdict_of(
            self._samples_ns,
            self._default,
            self._is_no_slower,
            lambda: self._budget.seconds_left == 0,
        )
        return self._log.commit_verdict(verdict, self._samples_ns.keys())

    def _compare(self) -> None:
        """Take the samples: none where the default cannot be run, or there is no time."""
        budget, turn_s = self._budget, self._runner.turn_s
        finalists = finals.finalists(
            self._trials, self._default, self._log.text_of, budget.seconds_left, turn_s
        )
        self._measure.report.stage("final", len(finalists) + 1)
        while True:
            ready = [self._measure.ready(config) for config in (self._default, *finalists)]
            by_text = {c.text: c for c in reversed(ready) if c is not None}  # twins are one
            batch = self._measure.together([c for c in ready if c and c in by_text.values()])
            if not batch or batch[0].config != self._default:
                return
            try:
                samples = self._runner.samples(
                    batch,
                    finals.rounds_for(self._trials, len(batch), budget.seconds_left),
                    drops=False,
                    seconds=finals.first_seconds(budget.seconds_left, turn_s),
                    latest=finals.first_seconds(budget.cut_s, turn_s),
                    least=finals.ROUNDS,
                )
            except WorkerDiedError as death:
                if self._runner.forgives(death):
                    continue
                self._measure.blame(death, batch)
                finalists = [c for c in finalists if self._measure.has_code_of(c)]
                continue
            self._loaded = {c.config: c for c in batch}
            self._samples_ns = {c.config: s for c, s in zip(batch, samples, strict=True) if s}
            return

    def _uncompared(self) -> Verdict:
        """Return what serves where there was no time to compare anything with the default.

        Raises
        ------
        TuneError
            If nothing was tuned before, and the default has no time of this run either.
        """
        failure = self._log.failure_of(self._default)
        if failure is None and self._log.is_timed_here(self._default):
            time_ns = self._log.time_ns(self._default)
            return self._log.commit_verdict(Verdict(self._default, time_ns, time_ns), ())
        kept = self._log.tuned_before
        if failure is None and kept is not None and kept.default_ns is not None:
            return Verdict(kept.config, kept.time_ns, kept.default_ns)
        raise finals.no_default(self._measure.problem.name, failure)

    def _is_no_slower(self, config: Config) -> bool:
        """Whether a config holds its own against the default however it is called."""
        gain = quantile_ns(self._samples_ns[self._default]) / quantile_ns(self._samples_ns[config])
        pair = self._measure.together([self._loaded[config], self._loaded[self._default]])
        if len(pair) < 2:
            return self._budget.is_cut and finals.is_clear(gain)
        try:
            samples = self._runner.in_other_ways(pair, self._budget.seconds_left)
        except WorkerDiedError as death:
            if self._runner.forgives(death):
                return self._is_no_slower(config)
            self._measure.blame(death, pair)
            return False
        except CutError:
            return finals.is_clear(gain)
        return finals.is_no_slower(samples, gain)
