"""Tensors and what holds them in files, which PyTorch reads and writes as well."""

from tcdsl.serialization.reading import load
from tcdsl.serialization.writing import save

__all__ = ["load", "save"]
