"""The samples that one of several processes trains on."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import numpy as np

from tcdsl.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """A part of the samples of a set, as many for each process; a few come twice to make it even.

    Parameters
    ----------
    dataset : Sized
    num_replicas, rank : int
        How many processes there are, and which one this is, from 0.

    Notes
    -----
    `set_epoch` before each epoch gives another order; all processes draw the same.
    """

    def __init__(self, dataset: Sized, num_replicas: int, rank: int) -> None:
        if not 0 <= rank < num_replicas:
            raise ValueError(f"expected a rank from 0 to {num_replicas - 1}, got {rank}")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.num_samples = -(-len(dataset) // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        order = np.random.Generator(np.random.Philox(key=self.epoch)).permutation(len(self.dataset))
        even = np.resize(order, self.total_size)
        return iter(even[self.rank :: self.num_replicas].tolist())

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration draw another order."""
        self.epoch = epoch
