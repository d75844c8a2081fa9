"""Samples, their order, batches by workers."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import pytest

from tcdsl import library as tc
from tcdsl.utils import data

pytestmark = pytest.mark.cc


class Numbers(data.Dataset[Any]):
    """Sample i is i, with a number of chance."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __getitem__(self, index: int) -> Any:
        return index, tc.rand(1)

    def __len__(self) -> int:
        return self.count


class Broken(Numbers):
    """Fails at sample 3."""

    def __getitem__(self, index: int) -> Any:
        if index == 3:
            raise KeyError("no sample 3")
        return index


class Dying(Numbers):
    """Ends its process."""

    def __getitem__(self, index: int) -> Any:
        os._exit(1)


def test_sets() -> None:
    rows = data.TensorDataset(tc.arange(6).reshape(3, 2), tc.arange(3))
    assert [t.tolist() for t in rows[1]] == [[2, 3], 1]
    both = rows + rows
    assert len(both) == 6
    assert both[4][1].item() == 1
    assert both[-1][1].item() == 2
    with pytest.raises(IndexError):
        both[6]
    tc.manual_seed(0)
    parts = data.random_split(rows, [2, 1])
    assert sorted(int(p[i][1]) for p in parts for i in range(len(p))) == [0, 1, 2]
    with pytest.raises(ValueError, match="does not equal the length of the input dataset!"):
        data.random_split(rows, [2, 2])
    with pytest.raises(AssertionError):
        data.TensorDataset(tc.zeros(2), tc.zeros(3))


def test_orders() -> None:
    tc.manual_seed(0)
    assert [*data.SequentialSampler(range(3))] == [0, 1, 2]
    assert sorted(data.RandomSampler(range(9))) == [*range(9)]
    assert len([*data.RandomSampler(range(3), True, 7)]) == 7
    assert sorted(data.SubsetRandomSampler([5, 7])) == [5, 7]
    assert {*data.WeightedRandomSampler([0, 1, 0, 3], 50)} == {1, 3}
    assert [*data.BatchSampler(range(5), 2, False)] == [[0, 1], [2, 3], [4]]
    assert [*data.BatchSampler(range(5), 2, True)] == [[0, 1], [2, 3]]
    parts = [[*data.distributed.DistributedSampler(range(5), 2, rank)] for rank in (0, 1)]
    assert {*parts[0], *parts[1]} == {*range(5)}
    assert len(parts[0]) == len(parts[1]) == 3


class Point(NamedTuple):
    """A sample with names."""

    x: float
    y: int


def test_batches_of_all_kinds() -> None:
    samples = [{"a": (1.5, [i, "s"]), "p": Point(0.5, i), "n": np.ones(2)} for i in range(2)]
    made = data.default_collate(samples)
    assert made["a"][0].dtype is tc.float64
    assert made["a"][1][0].tolist() == [0, 1]
    assert made["a"][1][1] == ("s", "s")
    assert made["p"].y.tolist() == [0, 1]
    assert made["n"].dtype is tc.float64
    with pytest.raises(TypeError, match=r"found <class .object.>$"):
        data.default_collate([object()])


def test_loader_without_workers() -> None:
    loader = data.DataLoader(Numbers(5), batch_size=2, drop_last=True)
    assert [b[0].tolist() for b in loader] == [[0, 1], [2, 3]]
    assert len(loader) == 2
    with pytest.raises(ValueError, match="mutually exclusive with shuffle"):
        data.DataLoader(Numbers(5), shuffle=True, sampler=range(5))


def test_workers_give_batches_in_order_and_the_same_chance_from_a_seed() -> None:
    def run() -> list[Any]:
        tc.manual_seed(3)
        loader = data.DataLoader(Numbers(7), batch_size=2, num_workers=2)
        return [(numbers.tolist(), chance.tolist()) for numbers, chance in loader]

    first = run()
    assert [n for n, _ in first] == [[0, 1], [2, 3], [4, 5], [6]]
    assert first == run()
    assert first[0][1] != first[1][1]


@pytest.mark.wide
def test_what_goes_wrong_in_a_worker_is_told() -> None:
    with pytest.raises(KeyError, match="no sample 3"):
        [*data.DataLoader(Broken(5), num_workers=1)]
    with pytest.raises(RuntimeError, match="worker 0 exited unexpectedly"):
        [*data.DataLoader(Dying(5), num_workers=1)]
