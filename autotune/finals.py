"""The last comparison of a run: who takes part, for how long, and who wins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tcdsl.autotune.store.trial import Failure, Trial, TuneError, UntunedError, Verdict
from tcdsl.autotune.worker.timing import ROUNDS, SLICE_NS
from tcdsl.codegen.machine.config import Config

MOST = 6  # that take part beside the default
_ROUNDS = 60
_ALL_NS = 1e9
_NEAR = 1.15  # times the fastest: who is slower was not only unlucky
_MARGIN = 0.01  # by which a config has to be faster than the default


def finalists(
    trials: Sequence[Trial], default: Config, text_of: Callable[[Config], str], most: int = MOST
) -> list[Config]:
    """Return the fastest trials but the default; one of those that emit the same text.

    Parameters
    ----------
    trials : sequence of Trial
        Fastest first.
    default : Config
    text_of : callable
        Gives what a config emits, "" where that is not known.
    most : int
    """
    chosen: dict[object, Config] = {text_of(default) or default: default}
    for trial in trials:
        if trial.time_ns <= _NEAR * trials[0].time_ns:
            chosen.setdefault(text_of(trial.config) or trial.config, trial.config)
    return list(chosen.values())[1 : 1 + most]


def rounds_for(trials: Sequence[Trial], count: int, *, is_hurried: bool) -> int:
    """Return how many rounds of so many candidates fit into a second; a hurried run makes few.

    trials : fastest first.
    """
    if is_hurried or not trials:
        return ROUNDS
    round_ns = max(SLICE_NS, trials[0].time_ns) * count
    return int(min(_ROUNDS, max(ROUNDS, _ALL_NS / round_ns)))


def verdict_of(times_ns: Mapping[Config, float], default: Config) -> Verdict:
    """Return the fastest; the default, unless another one is faster by more than one per cent."""
    winner = min(times_ns, key=lambda c: times_ns[c] * (1 if c == default else 1 + _MARGIN))
    return Verdict(winner, times_ns[winner], times_ns[default])


def no_default(name: str, failure: Failure | None) -> TuneError:
    """Return the error for a problem whose default was not timed: nothing is to compare with it."""
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
