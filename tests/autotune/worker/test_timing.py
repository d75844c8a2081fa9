"""Timing on a fake clock: interleaved, low quantiles, slow ones dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tcdsl.autotune.worker.allowance import Allowance
from tcdsl.autotune.worker.decision import unless_sure, with_rivals
from tcdsl.autotune.worker.timing import (
    ROUNDS,
    HostSampler,
    TurnSampler,
    interleaved,
    quantile_ns,
)

TIMES = {1: 1_000_000, 2: 4_000_000, 3: 1_500_000, 4: 1_200_000}


class Machine:
    """A clock that runs move, with a disturbance now and then."""

    def __init__(self) -> None:
        self.now = 0
        self.calls: list[int] = []
        self.turns: list[int] = []

    def __call__(self) -> int:
        return self.now

    def run(self, row: int, time_ns: int, noise: tuple[int, ...] = (0,)) -> HostSampler:
        def call(times: int) -> None:
            for _ in range(times):
                self.calls.append(row)
                self.now += time_ns + noise[len(self.calls) % len(noise)]

        return HostSampler(call, self)


def test_a_long_call_is_a_sample_and_short_ones_share_one() -> None:
    machine = Machine()
    runs = {1: machine.run(1, 5_000_000), 2: machine.run(2, 1_000)}
    samples = interleaved(runs, 1, machine.turns.append)
    assert samples[1] == [5_000_000.0]
    assert set(samples[2]) == {1000.0}
    assert machine.calls.count(2) >= 2_000


def test_candidates_take_turns() -> None:
    machine = Machine()
    runs = {row: machine.run(row, 1_000_000) for row in (1, 2, 3)}
    interleaved(runs, 5, machine.turns.append)
    rounds = [machine.turns[i : i + 3] for i in range(0, 15, 3)]
    assert all(sorted(turn) == [1, 2, 3] for turn in rounds)
    assert len({*map(tuple, rounds)}) > 1


def test_one_that_is_much_slower_than_the_best_gets_one_turn_or_two() -> None:
    machine = Machine()
    runs = {row: machine.run(row, time_ns) for row, time_ns in TIMES.items()}
    samples = interleaved(runs, 4, machine.turns.append)
    assert machine.turns.count(2) == 1
    assert machine.turns.count(3) == 3
    assert machine.turns.count(4) == 4
    assert samples[2] == [4_000_000.0]
    again = {row: machine.run(row, time_ns) for row, time_ns in TIMES.items()}
    interleaved(again, 4, machine.turns.append, drop=())
    assert [machine.turns.count(row) for row in runs] == [8, 5, 7, 8]


def seconds_of(machine: Machine) -> Callable[[], float]:
    return lambda: machine.now / 1e9


def test_rounds_end_with_the_time_but_a_few_there_are() -> None:
    for seconds, rounds in ((0.0, ROUNDS), (0.030, 8)):  # a turn takes 2 ms
        machine = Machine()
        runs = {row: machine.run(row, 100_000) for row in range(2)}
        allowance = Allowance(seconds, clock=seconds_of(machine))
        interleaved(runs, 40, machine.turns.append, drop=(), allowance=allowance)
        assert len(machine.turns) == 2 * rounds


def test_where_the_time_is_over_early_the_first_and_the_fastest_go_on_alone() -> None:
    machine = Machine()
    runs = {row: machine.run(row, time_ns) for row, time_ns in TIMES.items()}
    allowance = Allowance(0.035, clock=seconds_of(machine))
    samples = interleaved(runs, 40, machine.turns.append, drop=(), allowance=allowance, least=20)
    assert [machine.turns.count(row) for row in runs] == [20, 2, 2, 20]
    assert [bool(samples[row]) for row in runs] == [True, False, False, True]


def test_no_turn_begins_that_is_not_likely_to_end_in_time() -> None:
    machine, kept = Machine(), list[int]()
    runs = {row: machine.run(row, 1_000_000_000 * row) for row in (1, 3, 2)}
    allowance = Allowance(latest=6.5, clock=seconds_of(machine))
    samples = interleaved(
        runs,
        9,
        machine.turns.append,
        drop=(),
        allowance=allowance,
        keep=lambda row, new: kept.extend([row] * len(new)),
    )
    assert machine.turns == [1, 3, 2]  # the first round in order: then no time is left for any
    assert kept == machine.turns
    assert machine.now == 6_000_000_000
    assert samples == {1: [1e9], 3: [3e9], 2: [2e9]}
    late = Allowance(latest=0.0, clock=seconds_of(machine))
    assert interleaved(runs, 9, machine.turns.append, allowance=late) == {1: [], 3: [], 2: []}


def test_who_is_not_timed_yet_is_hoped_to_take_no_longer_than_the_fastest() -> None:
    now = [0.0]
    allowance = Allowance(latest=2.5, clock=lambda: now[0])
    with allowance.turn(1):
        now[0] += 2.0
    assert not allowance.fits(2)
    with allowance.turn(2):
        now[0] += 0.25
    assert [allowance.fits(row) for row in (1, 2, 3)] == [False, False, False]
    now[0] = 2.0
    assert [allowance.fits(row) for row in (1, 2, 3)] == [False, True, True]
    half = allowance.share(2)
    now[0] = 2.2
    assert half.fits(1)
    now[0] = 2.25
    assert not half.fits(1)
    assert not half.is_over


def test_a_turn_may_be_one_sample_the_shortest_of_its_calls() -> None:
    machine, before = Machine(), list[int]()

    def call(times: int) -> None:
        machine.calls.append(times)
        machine.now += (5_000, 3_000, 4_000)[len(machine.calls) % 3]

    def prepare() -> None:
        before.append(machine.now)
        machine.now += 1_000_000  # is not timed

    sampler = TurnSampler(call, prepare, calls=3, clock_ns=machine)
    assert interleaved({1: sampler}, 4, machine.turns.append, drop=()) == {1: [3_000.0] * 4}
    assert machine.calls == [1] * 12
    assert len(before) == 12


def test_a_very_long_call_is_made_once() -> None:
    machine = Machine()
    samples = interleaved({1: machine.run(1, 3_000_000_000)}, 5, machine.turns.append)
    assert samples == {1: [3_000_000_000]}
    assert machine.calls == [1]


def test_where_nobody_is_dropped_the_longest_call_is_made_three_times() -> None:
    machine = Machine()
    interleaved({1: machine.run(1, 3_000_000_000)}, 20, machine.turns.append, drop=())
    assert len(machine.turns) == 3


def test_a_low_quantile_does_not_see_disturbances() -> None:
    machine = Machine()
    run = machine.run(1, 1_000_000, (0, 0, 0, 900_000, 0, 3_000_000))
    samples = interleaved({1: run}, 10, machine.turns.append)
    assert quantile_ns(samples[1]) == 1_000_000


def test_who_still_goes_on_is_asked_once_there_are_enough_rounds() -> None:
    machine, asked = Machine(), list[list[int]]()

    def narrow(samples_ns: Mapping[int, Sequence[float]], going: Sequence[int]) -> Sequence[int]:
        assert all(len(samples_ns[row]) >= 3 for row in going)
        asked.append(sorted(going))
        return [row for row in going if row != len(asked) + 1] if len(asked) < 3 else []

    runs = {row: machine.run(row, 3_000_000) for row in (1, 2, 3)}
    samples = interleaved(runs, 60, machine.turns.append, (), least=3, narrow=narrow)
    assert asked == [[1, 2, 3], [1, 3], [1]]
    assert {row: len(its) for row, its in samples.items()} == {1: 5, 2: 3, 3: 4}


def test_a_comparison_goes_on_with_those_that_may_win_against_the_first() -> None:
    times = {1: 100.0, 2: 95.0, 3: 96.0, 4: 99.0, 5: 104.0}
    samples = {row: [time_ns] * 20 for row, time_ns in times.items()}
    assert with_rivals(samples, [1, 2, 3, 4, 5]) == [1, 2, 3]
    assert with_rivals(samples, [2, 1, 3]) == [2, 1, 3]
    assert with_rivals({1: samples[1], 4: [99.6] * 20, 5: samples[5]}, [1, 4, 5]) == []
    assert with_rivals({1: samples[1], 2: []}, [1]) == []
    later = {1: [100.0] * 40, 2: [95.0] * 20, 3: [98.0] * 40}
    assert with_rivals(later, [1, 3]) == [1, 3], "who has left is no measure for those who go on"
    assert with_rivals(later, [1]) == []


def test_pairs_are_compared_until_it_is_clear() -> None:
    def goes_on(*held: bool) -> bool:
        return bool(unless_sure({1: [1.0 if h else 1.1 for h in held], 2: [1.0] * 99}, [1, 2]))

    assert not goes_on(*[True] * 8, False)
    assert not goes_on(*[False] * 8, True)
    assert goes_on(*[True] * 7, *[False] * 2)
    assert goes_on(*[True] * 21, *[False] * 10)
    assert not goes_on(*[True] * 22, *[False] * 9)
