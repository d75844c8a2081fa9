"""Methods that compute nothing: where a tensor lies, how large it is, what memory it has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tcdsl import core
from tcdsl.core import Tensor
from tcdsl.ops import on_device
from tcdsl.ops.products import dot
from tcdsl.ops.table import publish
from tcdsl.tensors.creation import size_of
from tcdsl.tensors.devices import place_of
from tcdsl.tensors.printing import set_printoptions

__all__: list[str] = []


def cpu(self: Tensor) -> Tensor:
    """Return this tensor in the host's memory; itself if it lies there."""
    return on_device.moved(self, 0)


def cuda(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """Return this tensor in a GPU's memory, by default the thread's; itself if it lies there.

    Raises
    ------
    DeviceError
        If there is no such GPU, with the cure.
    """
    return on_device.moved(self, place_of("cuda" if device is None else device))


def share_memory_(self: Tensor) -> Tensor:
    """Move the elements to where forked processes share them; return self."""
    import mmap  # late: hardly a program does this

    if self.numel():
        size = self.numel() * self.element_size()
        shared = np.frombuffer(mmap.mmap(-1, size), self.dtype.numpy).reshape(self.shape)
        shared[...] = self.detach().numpy()
        self.data = core.from_numpy(shared)
    return self


def is_pinned(self: Tensor) -> bool:
    """Return whether the memory is pinned: it is not."""
    return False


def pin_memory(self: Tensor) -> Tensor:
    """Return self: memory of the host is not pinned."""
    return self


def is_shared(self: Tensor) -> bool:
    """Return whether forked processes share the elements."""
    return bool(self.is_cuda)


def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Return whether shapes are equal."""
    return tuple(self.shape) == tuple(other.shape)


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Return whether this is the same view of the same memory."""
    return (
        self.data_ptr() == tensor.data_ptr()
        and tuple(self.shape) == tuple(tensor.shape)
        and self.stride() == tensor.stride()
    )


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """Return this tensor, which is dense, in a type."""
    return self if dtype is None else self.to(dtype)


def record_stream(self: Tensor, stream: object) -> None:
    """Do nothing: memory is given back in the order of its use."""


def fill(input: Tensor, value: Any) -> Tensor:
    """Return a tensor of the same shape and type, of one number everywhere."""
    return input.clone().fill_(value)


def resize_(self: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """Give this tensor a shape in C order, in its memory or, where that is too small, new one."""
    shape = size_of(sizes, size)
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    count = math.prod(shape)
    room = self._storage.nbytes // self.element_size() - self.storage_offset()
    if count > room:
        made = on_device.empty_beside(self, (count,), self.dtype)
        kept = min(self.numel(), count)
        if kept and self.is_contiguous():
            made.as_strided((kept,), (1,)).copy_(self.detach().as_strided((kept,), (1,)))
        flat = made
    else:
        flat = self.detach()
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    if self.is_inference():  # nobody counts what is written
        self.data = flat.as_strided(shape, strides, flat.storage_offset())
        return self
    before, is_other = self._version, shape != tuple(self.shape)
    self.data = flat.as_strided(shape, strides, flat.storage_offset())
    if is_other and self._version <= before:
        core.written(self)
    return self


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Put what a function of Python makes of it in the place of each element: slow."""
    array = self.detach()._array()
    for place in np.ndindex(array.shape):
        array[place] = callable(array[place].item())
    core.written(self)
    return self


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Put what a function of Python makes of two elements in the place of each: slow."""
    array = self.detach()._array()
    other = np.broadcast_to(tensor.detach()._array(), array.shape)
    for place in np.ndindex(array.shape):
        array[place] = callable(array[place].item(), other[place].item())
    core.written(self)
    return self


def is_tensor(obj: object) -> bool:
    """Return whether an object is a Tensor."""
    return isinstance(obj, Tensor)


def set_flush_denormal(mode: bool) -> bool:
    """Say whether numbers too small to be normal count as 0.

    Returns
    -------
    bool
        Whether that could be set: it cannot, kernels keep these numbers.
    """
    return False


def _turned(self: Tensor, name: str) -> Tensor:
    """Return matrices with rows as columns; no number is complex here."""
    if self.ndim < 2:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got "
            f"{self.ndim}-D tensor."
        )
    return self.transpose(-2, -1)


def _turned_matrix(self: Tensor) -> Tensor:
    if self.ndim not in (0, 2):
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor."
        )
    return self.transpose(0, 1) if self.ndim else self


def get_device(self: Tensor) -> int:
    """Return the number of the GPU in whose memory the elements lie, -1 for the host's."""
    return -1 if self.is_meta else int(self._device) - 1


def is_nonzero(input: Tensor) -> bool:
    """Return whether the only element is not 0.

    Raises
    ------
    RuntimeError
        If there are more, or none.
    """
    if input.numel() != 1:
        known = "no values" if not input.numel() else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {known} is ambiguous")
    return bool(input.item())


def typename(obj: Any) -> str:
    """Return the name of a tensor's type, or of an object's class with its module."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    named = getattr(obj, "__qualname__", kind.__qualname__)
    module = getattr(obj, "__module__", None) or kind.__module__
    return str(named) if module == "builtins" else f"{module}.{named}"


def vdot(input: Tensor, other: Tensor) -> Tensor:
    """Return the sum of products of two vectors: no number is complex here."""
    return dot(input, other)


_METHODS: dict[str, Callable[..., Any]] = {
    "cpu": cpu,
    "cuda": cuda,
    "share_memory_": share_memory_,
    "is_pinned": is_pinned,
    "pin_memory": pin_memory,
    "is_shared": is_shared,
    "is_same_size": is_same_size,
    "is_set_to": is_set_to,
    "resize_": resize_,
    "apply_": apply_,
    "map_": map_,
    "get_device": get_device,
    "to_dense": to_dense,
    "record_stream": record_stream,
}
for _name, _method in _METHODS.items():
    publish(_method, (_name,), on=("Tensor",))
_OTHER_KINDS = (
    "is_sparse", "is_sparse_csr", "is_quantized", "is_nested", "is_mkldnn", "is_mps",
    "is_xla", "is_xpu",
)  # fmt: skip
_ATTRIBUTES: dict[str, Callable[[Tensor], Any]] = {
    **dict.fromkeys(_OTHER_KINDS, lambda self: False),
    "is_cuda": lambda self: 0 < self._device < on_device.META,
    "is_meta": lambda self: self._device == on_device.META,
    "name": lambda self: None,
    "layout": lambda self: "torch.strided",
    "T": lambda self: self.permute(*reversed(range(self.ndim))),
    "mT": lambda self: _turned(self, "mT"),
    "mH": lambda self: _turned(self, "mH"),
    "H": _turned_matrix,
    "__array_priority__": lambda self: 1000,
}
for _name, _get in _ATTRIBUTES.items():
    setattr(Tensor, _name, property(_get))
publish(is_nonzero, ("is_nonzero",))
publish(vdot, ("vdot",))
publish(fill, ("fill",), on=("torch",))
publish(Tensor.detach, ("detach",), on=("torch",))
for _function in (get_device, typename, is_tensor, set_flush_denormal, set_printoptions):
    publish(_function, (_function.__name__,), on=("torch",))
