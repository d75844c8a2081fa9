"""Tensors and what holds them in files, which PyTorch reads and writes as well."""

from tcdsl.calls.process.places import found_in
from tcdsl.core.dtypes import dtype_named
from tcdsl.ops.results import _remade
from tcdsl.serialization.reading import load
from tcdsl.serialization.writing import save
from tcdsl.tensors.protocols import _restored

__all__ = ["load", "save"]

# What pickles call to make tensors, types and results again: they outlive where it is defined.
_CALLED = {f.__name__: f for f in (_remade, _restored, dtype_named)}
found_in(__name__, {"load": load, "save": save, **_CALLED})
