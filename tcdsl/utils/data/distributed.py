"""The samples that one of several processes trains on."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import numpy as np

from tcdsl.chance.generator import Generator
from tcdsl.library import randperm
from tcdsl.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """A part of the samples of a set, as many for each process.

    Parameters
    ----------
    dataset : Sized
    num_replicas, rank : int
        How many processes there are, and which one this is, from 0. Both have to be said: this
        library starts no processes that it could ask.
    shuffle : bool
        Draw the samples by chance, all processes the same.
    seed : int
        Of that order, together with the epoch.
    drop_last : bool
        Leave out what does not go round; else a few samples come twice to make it even.

    Notes
    -----
    `set_epoch` before each epoch gives another order.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise RuntimeError(
                "Requires distributed package to be available: say num_replicas= and rank="
            )
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else -(-count // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        order = np.arange(len(self.dataset))
        if self.shuffle:
            source = Generator().manual_seed(self.seed + self.epoch)
            order = randperm(len(self.dataset), generator=source).numpy()
        even = np.resize(order, self.total_size)
        return iter(even[self.rank :: self.num_replicas].tolist())

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration draw another order."""
        self.epoch = epoch
