"""Data for training: sets of samples, the order they are drawn in, batches by worker processes."""

from tcdsl.calls.process.places import found_in
from tcdsl.utils.data import distributed
from tcdsl.utils.data.collate import default_collate, default_convert
from tcdsl.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from tcdsl.utils.data.distributed import DistributedSampler
from tcdsl.utils.data.fetching import WorkerInfo, get_worker_info
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
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "default_collate",
    "default_convert",
    "distributed",
    "get_worker_info",
    "random_split",
]
found_in(__name__)
