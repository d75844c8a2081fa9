"""Data for training: sets of samples, the order they are drawn in, batches by worker processes."""

from tcdsl.utils.data import distributed
from tcdsl.utils.data.collate import default_collate
from tcdsl.utils.data.dataset import ConcatDataset, Dataset, Subset, TensorDataset, random_split
from tcdsl.utils.data.loader import DataLoader
from tcdsl.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "distributed",
    "random_split",
]
