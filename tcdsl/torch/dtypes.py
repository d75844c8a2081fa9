"""Types of elements: torch's and the language's."""

from __future__ import annotations

import torch

from tcdsl.grammar.types.dtypes import DType
from tcdsl.layers.text import language_type

__all__ = ["language_type", "torch_type"]


def torch_type(dtype: DType) -> torch.dtype:
    """Return torch's type of one of the language."""
    found: torch.dtype = getattr(torch, dtype.name)
    return found
