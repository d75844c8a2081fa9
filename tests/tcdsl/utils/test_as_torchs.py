"""Sets, samplers and loaders give what PyTorch's give: batches, their types, and refusals."""

from __future__ import annotations

import collections
import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tcdsl import library
from tcdsl.core import Tensor
from tcdsl.utils import data

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.cc,
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

OURS = SimpleNamespace(t=library, d=data)
THEIRS = SimpleNamespace(t=torch, d=torch.utils.data)


def _plain(found: Any) -> Any:
    """Return batches as the types and numbers that are in them."""
    if isinstance(found, Tensor | torch.Tensor):
        return str(found.dtype).replace("torch.", ""), found.tolist()
    if isinstance(found, dict):
        return type(found).__name__, {key: _plain(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return type(found).__name__, [_plain(member) for member in found]
    return found


Point = collections.namedtuple("Point", "x y")  # as scripts have them
SAMPLES = [
    collections.OrderedDict(a=i, b=(1.5, "s"), c=[True, b"x"], d=Point(i, np.float32(2)),
                            e=np.full((2, 3), i, np.int16), f={"g": np.array(i)})
    for i in range(5)
]  # fmt: skip


class _Bad:
    def __len__(self) -> int:
        return 5

    def __getitem__(self, i: int) -> int:
        if i in (1, 2):
            raise RuntimeError("bad")
        return i


@pytest.mark.parametrize("workers", [0, 2])
def test_a_walk_goes_on_behind_a_batch_that_raised(workers: int) -> None:
    found = []
    for u in (OURS, THEIRS):
        loader = u.d.DataLoader(_Bad(), num_workers=workers, persistent_workers=workers > 0)
        walk: Any = iter(loader)
        said: list[Any] = [len(walk)]
        while True:
            try:
                said.append(next(walk).tolist())
            except StopIteration:
                break
            except RuntimeError:
                said.append("bad")
        found.append(said)
    assert found[0] == found[1] == [5, [0], "bad", "bad", [3], [4]]


def _stream(u: Any, count: int, is_split: bool = False) -> Any:
    class Stream(u.d.IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[int]:
            info = u.d.get_worker_info()
            if info is None or not is_split:
                return iter(range(count))
            assert info.dataset is not None
            return iter(range(info.id, count, info.num_workers))

    return Stream()


class AtOnce:
    def __len__(self) -> int:
        return 5

    def __getitems__(self, numbers: list[int]) -> list[int]:
        return [10 * i for i in numbers]


# Expressions of a library U, which are batches.
BATCHES = """
U.d.DataLoader(SAMPLES, batch_size=2)
U.d.DataLoader(SAMPLES, batch_size=None)
U.d.DataLoader(SAMPLES, batch_size=2, drop_last=True, collate_fn=len)
U.d.DataLoader(range(7), batch_sampler=[[1, 2], [6]])
U.d.DataLoader(range(7), sampler=[3, 1], batch_size=2)
U.d.DataLoader(range(7), batch_size=3, pin_memory=False, timeout=0, in_order=True)
U.d.DataLoader(AtOnce(), batch_size=2)
U.d.DataLoader(_stream(U, 7), batch_size=3)
U.d.DataLoader(_stream(U, 7), batch_size=3, drop_last=True)
U.d.DataLoader(_stream(U, 3), batch_size=None)
U.d.ChainDataset([_stream(U, 2), _stream(U, 3)])
_stream(U, 2) + _stream(U, 1)
U.d.StackDataset(range(3), [5, 6, 7])
U.d.DataLoader(U.d.StackDataset(a=range(3), b=[5, 6, 7]), batch_size=2)
U.d.ConcatDataset([range(3), [5, 6]])
U.d.DataLoader(U.d.Subset(U.d.TensorDataset(U.t.arange(6)), [4, 2, 1]), batch_size=2)
[len(p) for p in U.d.random_split(range(11), [0.3, 0.3, 0.4])]
[len(p) for p in U.d.random_split(range(3), [0.5, 0.5])]
U.d.BatchSampler(U.d.SequentialSampler(range(5)), 2, False)
U.d.DistributedSampler(range(5), 2, 1, shuffle=False)
U.d.DistributedSampler(range(5), 2, 1, shuffle=False, drop_last=True)
[len([*U.d.RandomSampler(range(3), num_samples=7)]), len(U.d.RandomSampler(range(3), True, 2))]
U.d.default_convert({"a": np.ones(2), "b": ("s", 1, np.float32(2))})
"""

REFUSALS = """
U.d.DataLoader([1], shuffle=True, sampler=[0]) | U.d.DataLoader([1], num_workers=-1)
U.d.DataLoader([1], prefetch_factor=2) | U.d.DataLoader([1], persistent_workers=True)
U.d.DataLoader([1], batch_size=None, drop_last=True) | U.d.DataLoader([1], batch_size=0)
U.d.DataLoader([1], batch_sampler=[[0]], batch_size=2) | U.d.DataLoader([1], timeout=-1)
U.d.DataLoader([1], multiprocessing_context="fork")
U.d.DataLoader([1], num_workers=1, multiprocessing_context="no")
U.d.DataLoader(_stream(U, 2), shuffle=True) | setattr(U.d.DataLoader([1]), "batch_size", 3)
U.d.ConcatDataset([]) | U.d.ConcatDataset([_stream(U, 1)]) | U.d.ConcatDataset([[1]])[-5]
U.d.StackDataset([1], [1, 2]) | U.d.StackDataset() | U.d.Dataset()[0]
U.d.RandomSampler([1], replacement=1) | U.d.RandomSampler([1], num_samples=0)
U.d.WeightedRandomSampler([1.0], 0) | U.d.WeightedRandomSampler([1.0], 1, replacement=2)
U.d.random_split([1, 2], [0.5, 1.5, -1]) | U.d.default_collate([[1], [1, 2]])
U.d.DistributedSampler([1], 2, 3)
"""


@pytest.mark.parametrize("text", BATCHES.strip().splitlines())
@pytest.mark.filterwarnings("ignore:Length of split")
def test_batches_are_pytorchs(text: str) -> None:
    theirs, ours = (eval(text, {**globals(), "U": u}) for u in (THEIRS, OURS))
    if not isinstance(ours, dict):
        theirs, ours = list(theirs), list(ours)
    assert _plain(ours) == _plain(theirs)


@pytest.mark.parametrize(
    "text", [t for line in REFUSALS.strip().splitlines() for t in line.split(" | ")]
)
def test_refusals_are_pytorchs(text: str) -> None:
    with pytest.raises(Exception) as wanted:  # noqa: PT011  # whatever PyTorch raises
        eval(text, {**globals(), "U": THEIRS})
    with pytest.raises(wanted.type) as found:
        eval(text, {**globals(), "U": OURS})
    assert str(found.value).startswith(str(wanted.value)[:40])


def test_a_generator_gives_the_same_order_again() -> None:
    def orders() -> list[Any]:
        source = library.Generator()
        source.manual_seed(7)
        return [
            [b.tolist() for b in data.DataLoader(range(9), 4, shuffle=True, generator=source)],
            [*data.WeightedRandomSampler([1.0, 2, 3], 5, generator=source)],
            [*data.SubsetRandomSampler([4, 5, 6], generator=source)],
            [p.indices for p in data.random_split(range(9), [0.5, 0.5], generator=source)],
        ]

    before = library.get_rng_state().tolist()
    assert orders() == orders()
    assert library.get_rng_state().tolist() == before


def _fails(number: int) -> None:
    raise OSError(f"worker {number} has no file")


class Killed:
    def __len__(self) -> int:
        return 4

    def __getitem__(self, at: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return at


@pytest.mark.wide
@pytest.mark.parametrize("is_split", [False, True])
def test_sets_in_turn_by_workers_are_pytorchs(is_split: bool) -> None:
    found = []
    for u in (THEIRS, OURS):
        loader = u.d.DataLoader(_stream(u, 7, is_split), 2, num_workers=2, persistent_workers=True,
                                prefetch_factor=1)  # fmt: skip
        found.append([[b.tolist() for b in loader] for _ in range(2)])
    assert found[1] == found[0]


@pytest.mark.wide
def test_kept_workers_serve_iterators_that_are_left_and_several_at_once() -> None:
    loader = data.DataLoader(_stream(OURS, 4), num_workers=1, persistent_workers=True)
    for _ in loader:
        break
    pairs = zip(loader, loader, strict=True)
    assert [(a.item(), b.item()) for a, b in pairs] == [(i, i) for i in range(4)]


@pytest.mark.wide
def test_workers_that_fail_or_are_killed_are_told() -> None:
    with pytest.raises(OSError, match="worker 1 has no file"):
        [
            *data.DataLoader(
                range(4), num_workers=2, worker_init_fn=lambda n: _fails(n) if n else None
            )
        ]
    with pytest.raises(RuntimeError, match="worker 0 exited unexpectedly: it was killed"):
        [*data.DataLoader(Killed(), num_workers=1)]
