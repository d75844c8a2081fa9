"""Timing on a fake clock: interleaved, low quantiles, slow ones dropped."""

from __future__ import annotations

from tcdsl.autotune.worker.timing import (
    ROUNDS,
    HostSampler,
    TurnSampler,
    interleaved,
    quantile_ns,
    timer,
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


def test_rounds_end_with_the_time_but_a_few_there_are() -> None:
    machine = Machine()
    runs = {row: machine.run(row, 50_000) for row in range(2)}
    asked = []

    def is_over() -> bool:
        asked.append(len(machine.turns))
        return len(asked) > 2

    interleaved(runs, 40, machine.turns.append, drop=(), is_over=is_over)
    assert asked == [2 * ROUNDS, 2 * ROUNDS + 2, 2 * ROUNDS + 4]
    assert len(machine.turns) == 2 * (ROUNDS + 2)
    now = [1.0]
    late = timer(2.0, lambda: now[0])
    assert not late()
    now[0] = 3.0
    assert late()
    assert not timer(None)()


def test_where_the_time_is_over_early_the_first_and_the_fastest_go_on_alone() -> None:
    machine = Machine()
    runs = {row: machine.run(row, time_ns) for row, time_ns in TIMES.items()}
    samples = interleaved(
        runs, 40, machine.turns.append, drop=(), is_over=lambda: len(machine.turns) >= 8, least=20
    )
    assert [machine.turns.count(row) for row in runs] == [20, 2, 2, 20]
    assert [bool(samples[row]) for row in runs] == [True, False, False, True]


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
