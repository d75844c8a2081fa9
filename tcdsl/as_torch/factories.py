"""Types of what PyTorch 0.4 makes from nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tcdsl.as_torch.scripts import swap_name
from tcdsl.core import Tensor
from tcdsl.core.dtypes import uint8
from tcdsl.ops.rules import default_float
from tcdsl.tensors import creation, data, draws, ranges

__all__ = ["arange", "bools", "full", "randint"]


def _typed(make: Callable[..., Tensor]) -> None:

    def then(*args: Any, **settings: Any) -> Tensor:
        if settings.get("dtype") is None and settings.get("out") is None:
            settings["dtype"] = default_float()
        return make(*args, **settings)

    then.__name__, then.__doc__ = make.__name__, make.__doc__
    swap_name(make.__name__, then)


def full() -> None:
    """Swap the type of `full`."""
    _typed(creation.full)


def arange() -> None:
    """Swap the type of `arange`."""
    _typed(ranges.arange)


def randint() -> None:
    """Swap the type of `randint`."""
    _typed(draws.randint)


def bools() -> None:
    """Swap the type of tensors of Python's bools."""

    def tensor(numbers: Any, dtype: Any = None, **settings: Any) -> Tensor:
        if dtype is None and not isinstance(numbers, Tensor | np.ndarray):
            made = data.tensor(numbers)
            dtype = uint8 if made.dtype.category == 0 else made.dtype
        return data.tensor(numbers, dtype, **settings)

    swap_name("tensor", tensor)
