"""The last comparison of a run: who takes part, for how long, and who wins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tcdsl.autotune.store.trial import Failure, Trial, TuneError, UntunedError, Verdict
from tcdsl.autotune.worker.decision import SAME
from tcdsl.autotune.worker.timing import SLICE_NS, quantile_ns
from tcdsl.codegen.machine.config import Config

_MOST = 6  # that take part beside the default
ROUNDS = 20  # at least: where others use the machine, fewer are won by luck
_WAYS_S, _WAYS_SHARE = 0.5, 0.4  # for the rounds in other ways, of the two that are left; at most
_WAY_TURNS = 12  # of long calls: three pairs in two ways
_CLEAR = 1.3  # times faster: needs no other ways where there is no time to ask for them
_CHALLENGERS = 2  # of those that beat the default call upon call, who may show the rest
_RESERVE = 3  # candidates for which time is kept, at least
_MOST_ROUNDS = 60
_ALL_NS = 1e9
_NEAR = 1.15  # times the fastest: who is slower was not only unlucky
_MARGIN = 0.01  # by which a config has to be faster than the default;
_DOUBT = 0.3  # so much over the number of samples where they are few
_USUAL = 1.05  # times the default's median: who takes longer is fast in rare calls alone


def finalists(
    trials: Sequence[Trial],
    default: Config,
    text_of: Callable[[Config], str],
    seconds: float | None = None,
    turn_s: float = 0.0,
) -> list[Config]:
    """Return the fastest trials but the default; one of those that emit the same text.

    Parameters
    ----------
    trials : sequence of Trial
        Fastest first.
    default : Config
    text_of : callable
        Gives what a config emits, "" where that is not known.
    seconds : float, optional
        That are left; where they are few, only the fastest have a chance to show it.
    turn_s : float
        Of one candidate's turn, as the machine is just now.
    """
    most = _MOST
    if seconds is not None:
        turn_s = max(turn_s, SLICE_NS / 1e9)
        fitting = int((seconds - _WAYS_S) / (ROUNDS * turn_s)) - 1
        most = max(1, min(_MOST, fitting))
    chosen: dict[object, Config] = {text_of(default) or default: default}
    for trial in trials:
        if trial.time_ns <= _NEAR * trials[0].time_ns:
            chosen.setdefault(text_of(trial.config) or trial.config, trial.config)
    return list(chosen.values())[1 : 1 + most]


def reserve_s(turn_s: float) -> float:
    """Return what a last comparison takes where a turn takes so long, for few candidates."""
    return _WAYS_S + _RESERVE * ROUNDS * turn_s


def first_seconds(seconds: float | None, turn_s: float = 0.0) -> float | None:
    """Return how much of the time left is for calls upon calls; the rest is for other ways.

    turn_s : of one candidate's turn.
    """
    if seconds is None:
        return None
    ways_s = max(_WAYS_S, _WAY_TURNS * turn_s)
    return seconds - min(ways_s, _WAYS_SHARE * seconds)


def rounds_for(trials: Sequence[Trial], count: int, seconds: float | None) -> int:
    """Return how many rounds of so many candidates fit into a second, or into less time.

    trials : fastest first.
    """
    if not trials:
        return ROUNDS
    all_ns = _ALL_NS if seconds is None else min(_ALL_NS, 1e9 * seconds)
    round_ns = max(SLICE_NS, trials[0].time_ns) * count
    return int(min(_MOST_ROUNDS, max(ROUNDS, all_ns / round_ns)))


def verdict_of(
    samples_ns: Mapping[Config, Sequence[float]],
    default: Config,
    holds: Callable[[Config], bool] = lambda _: True,
    is_over: Callable[[], bool] = lambda: False,
) -> Verdict:
    """Return the fastest that is faster than the default by more than one per cent, else that.

    holds : asked of the two fastest whether they are no slower where they are called otherwise; of
    the second one not where the time is over.

    Of a long call there are few samples, and it has to be faster by more.
    It has to be faster in the first half of its samples and in the second: a candidate of a few
    lucky rounds would make calls slower. And what it usually takes is no more than what the default
    does: of one that is fast in a tenth of its calls the low quantile tells nothing else. (That is
    held loosely: where others use the machine, medians of equal kernels differ by some per cent.)
    """
    times_ns = {config: quantile_ns(s) for config, s in samples_ns.items()}
    usual_ns = {config: quantile_ns(s, 0.5) for config, s in samples_ns.items()}
    ours = [quantile_ns(s) for s in _halves(samples_ns[default])]

    def is_faster(config: Config) -> bool:
        theirs = map(quantile_ns, _halves(samples_ns[config]))
        is_steady = all(its < that for its, that in zip(theirs, ours, strict=True))
        is_usual = usual_ns[config] <= _USUAL * usual_ns[default]
        margin = max(_MARGIN, _DOUBT / min(map(len, (samples_ns[config], samples_ns[default]))))
        return is_steady and is_usual and times_ns[config] * (1 + margin) < times_ns[default]

    faster = [config for config in times_ns if config != default and is_faster(config)]
    winner = default
    for place, config in enumerate(sorted(faster, key=times_ns.__getitem__)[:_CHALLENGERS]):
        if place and is_over():
            break
        if holds(config):
            winner = config
            break
    return Verdict(winner, times_ns[winner], times_ns[default])


def is_clear(gain: float) -> bool:
    """Whether who is so many times faster call upon call is so in any way of calling."""
    return gain >= _CLEAR


def is_no_slower(samples_ns: Mapping[str, Sequence[Sequence[float]]], gain: float = 1.0) -> bool:
    """Whether one is no slower than another one in any way of calling.

    Turns are held against each other in pairs, as they were taken beside each other: where others
    use the machine, times of turns differ by far more than what is asked here.

    Parameters
    ----------
    samples_ns : mapping
        By way: the samples of each of the two, one a round; none where there was no time.
    gain : float
        How many times faster it is call upon call, which decides where there was no time.
    """

    def holds(pair: Sequence[Sequence[float]]) -> bool:
        ratios = [its / that for its, that in zip(*pair, strict=False)]
        return quantile_ns(ratios, 0.5) <= SAME if ratios else is_clear(gain)

    return all(map(holds, samples_ns.values()))


def _halves(samples: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    middle = (len(samples) + 1) // 2
    return samples[:middle], samples[middle:] or samples


def no_default(name: str, failure: Failure | None) -> TuneError:
    """Return the error for a problem whose default was not timed: nothing is to compare with it."""
    if failure is None or failure.reason in ("slow", "resources"):
        why = "it was not timed" if failure is None else failure.detail
        return UntunedError(
            f"{name}: no config can be compared with the default: {why}\n"
            "  note: tune again when the machine has less to do, or with more seconds or memory"
        )
    return TuneError(
        f"{name}: the default config does not serve: {failure.reason}: {failure.detail}\n"
        "  note: this is a defect of the compiler, please report it"
    )
