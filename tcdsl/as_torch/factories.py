"""Types of what PyTorch 0.4 makes from nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcdsl.as_torch.scripts import swap_name
from tcdsl.core import Tensor
from tcdsl.core.dtypes import uint8
from tcdsl.ops.rules import default_float
from tcdsl.tensors import creation

__all__ = ["arange", "bools", "full", "randint"]


def _typed(name: str) -> None:
    make = getattr(creation, name)

    def then(*args: Any, **settings: Any) -> Tensor:
        if settings.get("dtype") is None and settings.get("out") is None:
            settings["dtype"] = default_float()
        made: Tensor = make(*args, **settings)
        return made

    then.__name__, then.__doc__ = name, make.__doc__
    swap_name(name, then)


def full() -> None:
    """Swap the type of `full`."""
    _typed("full")


def arange() -> None:
    """Swap the type of `arange`."""
    _typed("arange")


def randint() -> None:
    """Swap the type of `randint`."""
    _typed("randint")


def bools() -> None:
    """Swap the type of tensors of Python's bools."""

    def tensor(data: Any, dtype: Any = None, **settings: Any) -> Tensor:
        if dtype is None and not isinstance(data, Tensor | np.ndarray):
            made = creation.tensor(data)
            dtype = uint8 if made.dtype.category == 0 else made.dtype
        return creation.tensor(data, dtype, **settings)

    swap_name("tensor", tensor)
