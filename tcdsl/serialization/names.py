"""The names that files of tensors say: PyTorch's, and what they mean here."""

from __future__ import annotations

import codecs
import collections
import math
from typing import Any

import numpy as np

from tcdsl.core import Size, Tensor, dtypes, from_numpy
from tcdsl.core.dtypes import DType

__all__ = ["ALLOWED", "STORAGES", "Held", "TORCH_TYPES", "rebuilt"]

# Storages have the names that PyTorch's had when each type had a class of its own.
STORAGES: dict[str, DType] = {
    "BoolStorage": dtypes.bool_,
    "ByteStorage": dtypes.uint8,
    "CharStorage": dtypes.int8,
    "ShortStorage": dtypes.int16,
    "IntStorage": dtypes.int32,
    "LongStorage": dtypes.int64,
    "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16,
    "FloatStorage": dtypes.float32,
    "DoubleStorage": dtypes.float64,
}
TORCH_TYPES = {kind: name for name, kind in STORAGES.items()}


class Held:
    """The elements of a storage that a file has, one behind the other.

    device: where its tensors shall lie.
    """

    def __init__(self, elements: np.ndarray[Any, Any], device: str = "cpu") -> None:
        self.elements = elements
        self.device = device
        self._flat: Tensor | None = None

    @property
    def flat(self) -> Tensor:
        """The elements as a tensor, the same at each call."""
        if self._flat is None:
            self._flat = from_numpy(self.elements).to(self.device)
        return self._flat


def rebuilt(
    storage: Held,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool = False,
    hooks: object = None,
    metadata: object = None,
) -> Tensor:
    """Make the tensor that a file describes, of elements that lie in its storage.

    Raises
    ------
    RuntimeError
        If some would lie elsewhere.
    """
    there = storage.elements.size
    numbers = (offset, *size, *stride)
    if len(size) != len(stride) or any(type(n) is not int or n < 0 for n in numbers):
        raise RuntimeError(f"the file describes no tensor: size {size}, stride {stride}")
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if math.prod(size) and last >= there:
        raise RuntimeError(
            f"the file describes a tensor of size {size}, stride {stride} from element {offset} "
            f"on, but its storage has {there} elements: it is damaged"
        )
    tensor: Tensor = storage.flat.as_strided(size, stride, offset if math.prod(size) else 0)
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuilt_plain(storage: Held, offset: int, size: Any, stride: Any) -> Tensor:
    return rebuilt(storage, offset, size, stride)


def _device(kind: str, number: int | None = None) -> Any:
    from tcdsl.tensors.devices import Device  # late: most files hold plain tensors

    return Device(kind, number)


def _parameter(data: Tensor, requires_grad: bool, hooks: object) -> Any:
    from tcdsl.tensors.parameter import Parameter  # late: most files hold plain tensors

    return Parameter(data, requires_grad)


# What a file may name without being trusted. `torch` is only a word here.
ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("collections", "defaultdict"): collections.defaultdict,
    ("collections", "Counter"): collections.Counter,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "bytearray"): bytearray,
    ("builtins", "complex"): complex,
    ("builtins", "slice"): slice,
    ("builtins", "range"): range,
    ("builtins", "dict"): dict,
    ("builtins", "list"): list,
    ("builtins", "int"): int,
    ("builtins", "float"): float,
    ("_codecs", "encode"): codecs.encode,  # bytes, in pickles that Python 2 may read
    ("torch", "Size"): Size,
    ("torch", "device"): _device,
    ("torch._utils", "_rebuild_tensor"): _rebuilt_plain,
    ("torch._utils", "_rebuild_tensor_v2"): rebuilt,
    ("torch._utils", "_rebuild_parameter"): _parameter,
}
ALLOWED |= {("torch", name): kind for name, kind in STORAGES.items()}
ALLOWED |= {("torch", kind.name): kind for kind in dtypes.ALL}
ALLOWED |= {("torch.storage", "UntypedStorage"): dtypes.uint8}
