"""Methods of Tensor that compute nothing: what it is, where it lies, what it is for others."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tcdsl import core
from tcdsl.core import Tensor, dtypes
from tcdsl.core.dtypes import DType
from tcdsl.ops import internal, on_device
from tcdsl.ops.dispatch import forget_forms
from tcdsl.ops.rules import default_float, joined, set_default_float
from tcdsl.ops.table import publish
from tcdsl.ops.views import unbound
from tcdsl.tensors.devices import device_at, place_of
from tcdsl.tensors.printing import set_printoptions, text_of

__all__ = ["TYPE_NAMES", "attach"]

# PyTorch's names of tensors by their type.
TYPE_NAMES: dict[str, DType] = {
    "FloatTensor": dtypes.float32,
    "DoubleTensor": dtypes.float64,
    "HalfTensor": dtypes.float16,
    "BFloat16Tensor": dtypes.bfloat16,
    "ByteTensor": dtypes.uint8,
    "CharTensor": dtypes.int8,
    "ShortTensor": dtypes.int16,
    "IntTensor": dtypes.int32,
    "LongTensor": dtypes.int64,
    "BoolTensor": dtypes.bool_,
}
_NAME_OF = {dtype: name for name, dtype in TYPE_NAMES.items()}
_CASTS = {
    "bool": dtypes.bool_,
    "byte": dtypes.uint8,
    "char": dtypes.int8,
    "short": dtypes.int16,
    "int": dtypes.int32,
    "long": dtypes.int64,
    "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "float": dtypes.float32,
    "double": dtypes.float64,
}


# ---- type and place


def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return this tensor in a type, on a device, or as another is; itself if it is so already.

    ``to(dtype)``, ``to(device)``, ``to(device, dtype)``, ``to(other)``, each with `non_blocking`
    and `copy`.
    """
    dtype = kwargs.pop("dtype", None)
    place = kwargs.pop("device", None)
    kwargs.pop("non_blocking", None)
    is_copy = kwargs.pop("copy", False)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    for value in args:
        if isinstance(value, Tensor):
            dtype, place = value.dtype, value.device
        elif isinstance(value, DType | type):
            dtype = value
        elif value is not None and not isinstance(value, bool):
            place = value
    made = self if dtype is None else internal.to(self, dtype)
    if place is not None:
        made = on_device.moved(made, place_of(place))
    return made.clone() if is_copy and made is self else made


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Return the name of the type, as 'torch.FloatTensor'; or this tensor in a type."""
    if dtype is None:
        return f"torch.{_NAME_OF[self.dtype]}"
    return internal.to(self, type_named(dtype))


def type_named(wanted: Any) -> DType:
    """Return the type of a name as 'torch.FloatTensor', of a class, or of itself.

    Raises
    ------
    ValueError
        If there is none.
    """
    if isinstance(wanted, DType):
        return wanted
    if wanted in (float, int, bool):
        return dtypes.dtype_meant(wanted)
    name = wanted if isinstance(wanted, str) else getattr(wanted, "__name__", str(wanted))
    found = TYPE_NAMES.get(name.rpartition(".")[2])
    if found is None:
        raise ValueError(f"invalid type: '{name}'")
    return found


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """Return this tensor in another's type."""
    return internal.to(self, other.dtype)


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


# ---- for Python, NumPy and others


def numpy(self: Tensor) -> np.ndarray[Any, Any]:
    """Return the elements as an array over the same memory.

    Raises
    ------
    RuntimeError
        If gradients are recorded.
    """
    if self.requires_grad:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    if self._device:
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy "
            "the tensor to host memory first."
        )
    array: np.ndarray[Any, Any] = self._array()
    return array


def array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """Return the elements for `np.asarray`."""
    found = numpy(self)
    if dtype is not None and found.dtype != dtype:
        return found.astype(dtype)
    return found.copy() if copy else found


def dlpack(self: Tensor, **settings: Any) -> Any:
    """Return a DLPack capsule over the same memory."""
    _check_lendable(self)
    return self._array().__dlpack__(**settings)


def _check_lendable(tensor: Tensor) -> None:
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if tensor._device:
        where = tensor.device
        raise BufferError(f"a tensor on {where} is not lent to others yet: use tensor.cpu()")


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """Return where the elements lie, as DLPack says it."""
    return (2, self._device - 1) if self._device else (1, 0)


def from_dlpack(ext_tensor: Any) -> Tensor:
    """Return a tensor over the memory of another library's array, or of a tensor."""
    if isinstance(ext_tensor, Tensor):
        _check_lendable(ext_tensor)
        return core.from_numpy(ext_tensor._array())  # a capsule in between would hold a chain
    return core.from_numpy(np.from_dlpack(ext_tensor))


def tolist(self: Tensor) -> Any:
    """Return the elements as nested lists of Python's numbers, or one number."""
    return on_device.moved(self.detach(), 0)._array().tolist()


def length(self: Tensor) -> int:
    """Return the extent of dimension 0."""
    if not self.ndim:
        raise TypeError("len() of a 0-d tensor")
    return int(self.shape[0])


def array_wrapped(
    self: Tensor, array: np.ndarray[Any, Any], context: object = None, return_scalar: bool = False
) -> Tensor:
    """Return what a function of NumPy's made of this tensor as a tensor; bools as uint8."""
    array = np.asarray(array)
    return core.from_numpy(array.astype(np.uint8) if array.dtype == bool else array)


def deleted(self: Tensor, index: object) -> None:
    """Refuse ``del x[i]``."""
    raise TypeError("Tensor does not support deleting items")


def iterate(self: Tensor) -> Iterator[Tensor]:
    """Yield the parts along dimension 0."""
    if not self.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter([unbound(self, 0, i) for i in range(self.shape[0])])


def contains(self: Tensor, element: Any) -> bool:
    """Whether an element equals a number."""
    return bool((self == element).any().item())


def formatted(self: Tensor, spec: str) -> str:
    """Return a number in a format, or the text of a tensor."""
    if not self.ndim and type(self) is Tensor:
        return format(self.item(), spec)
    return object.__format__(self, spec)


def reversed_(self: Tensor) -> Tensor:
    """Return the elements from the end of dimension 0."""
    turned: Tensor = self.flip(0) if self.ndim else self
    return turned


def deepcopied(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """Return a copy of a leaf, which tensors that share memory share again."""
    if id(self) in memo:
        known: Tensor = memo[id(self)]
        return known
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment.  If you were attempting to deepcopy a module, this may be "
            "because of a torch.nn.utils.weight_norm usage, see "
            "https://github.com/pytorch/pytorch/pull/103001"
        )
    key = id(self._storage)
    storage = memo.get(key)
    if storage is None:
        size = self._storage.nbytes // self.element_size()
        flat = self.detach().as_strided((size,), (1,), 0)
        storage = memo[key] = flat.clone()
        memo.setdefault(id(memo), []).append(self._storage)  # the number stays its own
    made = storage.as_strided(self.shape, self.stride(), self.storage_offset()).detach()
    made = made._as_subclass(type(self), self.requires_grad)
    memo[id(self)] = made
    if self.grad is not None:
        made.grad = copy.deepcopy(self.grad, memo)
    if self.__dict__:
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return made


def as_subclass(self: Tensor, kind: type[Tensor], requires_grad: bool) -> Tensor:
    """Return this tensor's memory as a tensor of a class of Python's."""
    made: Any = self.detach() if kind is Tensor else Tensor.__new__(kind, self)
    if requires_grad:
        made.requires_grad = True
    return made


def reduced(self: Tensor, protocol: Any) -> Any:
    """Return what a pickle holds: the elements, and whether gradients are wanted."""
    elements = np.ascontiguousarray(self.detach()._array()).view(np.uint8)
    state = dict(self.__dict__) if self.__dict__ else None
    return _restored, (
        type(self),
        elements.tobytes(),
        self.dtype,
        tuple(self.shape),
        self.requires_grad,
        state,
    )


def _restored(
    kind: type[Tensor],
    elements: bytes,
    dtype: DType,
    shape: tuple[int, ...],
    requires_grad: bool,
    state: dict[str, Any] | None,
) -> Tensor:
    flat = np.frombuffer(bytearray(elements), np.uint8).view(dtype.numpy)
    made = as_subclass(core.from_numpy(flat.reshape(shape)), kind, requires_grad)
    if state:
        made.__dict__.update(state)
    return made


# ---- what a tensor is


def _zero_dim(self: Tensor) -> Any:
    if self.numel() != 1:
        raise RuntimeError(
            "Boolean value of Tensor with no values is ambiguous"
            if not self.numel()
            else "Boolean value of Tensor with more than one value is ambiguous"
        )
    return self.item()


def _only(self: Tensor) -> Any:
    """Return the one element for a conversion of Python's."""
    if self.numel() != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return self.item()


def truth(self: Tensor) -> bool:
    """Return whether the one element is not 0."""
    return bool(_zero_dim(self))


def as_integer(self: Tensor) -> int:
    """Return the one element as an integer."""
    return int(_only(self))


def as_index(self: Tensor) -> int:
    """Return the one element, an integer, as an index."""
    if self.dtype.category == 2 or self.numel() != 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(self.item())


def as_float(self: Tensor) -> float:
    """Return the one element as a float."""
    return float(_only(self))


def identity(self: Tensor) -> int:
    """Return a number of the object, not of its elements."""
    return id(self)


def dim(self: Tensor) -> int:
    """Return the number of dimensions."""
    return int(self.ndim)


def element_size(self: Tensor) -> int:
    """Return the bytes of an element."""
    return self.dtype.itemsize


def nelement(self: Tensor) -> int:
    """Return the number of elements."""
    return int(self.numel())


def is_floating_point(self: Tensor) -> bool:
    """Return whether elements are floats."""
    return self.dtype.is_floating_point


def is_signed(self: Tensor) -> bool:
    """Return whether elements may be negative."""
    return self.dtype.is_signed


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


def resize_(self: Tensor, *sizes: Any) -> Tensor:
    """Give this tensor a shape in C order, in its memory or, where that is too small, new one."""
    from tcdsl.tensors.creation import size_of  # late: creation stands on what is attached here

    shape = size_of(sizes)
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
    self.data = flat.as_strided(shape, strides, flat.storage_offset())
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


# ---- the package's own


def is_tensor(obj: object) -> bool:
    """Return whether an object is a Tensor."""
    return isinstance(obj, Tensor)


def get_default_dtype() -> DType:
    """Return the type of floats that nothing else tells."""
    return default_float()


def set_default_dtype(d: DType) -> None:
    """Let floats that nothing else tells be of this type."""
    if not isinstance(d, DType) or not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    if d is not default_float():
        set_default_float(d)
        forget_forms()


def set_default_tensor_type(t: Any) -> None:
    """Let floats that nothing else tells be of a type like 'torch.DoubleTensor'."""
    set_default_dtype(type_named(t))


def promote_types(type1: DType, type2: DType) -> DType:
    """Return the smallest type that holds two."""
    return joined(type1, type2)


def set_flush_denormal(mode: bool) -> bool:
    """Say whether numbers too small to be normal count as 0.

    Returns
    -------
    bool
        Whether that could be set: it cannot, kernels keep these numbers.
    """
    return False


def can_cast(from_: DType, to: DType) -> bool:
    """Return whether a result of one type may be written into a tensor of another."""
    return from_.category <= to.category


def attach() -> None:
    """Set the methods and attributes of Tensor."""
    named: dict[str, Any] = {
        "to": to,
        "type": type_,
        "type_as": type_as,
        "cpu": cpu,
        "cuda": cuda,
        "share_memory_": share_memory_,
        "numpy": numpy,
        "tolist": tolist,
        "dim": dim,
        "ndimension": dim,
        "element_size": element_size,
        "nelement": nelement,
        "is_floating_point": is_floating_point,
        "is_signed": is_signed,
        "is_pinned": is_pinned,
        "pin_memory": pin_memory,
        "is_shared": is_shared,
        "is_same_size": is_same_size,
        "is_set_to": is_set_to,
        "resize_": resize_,
        "apply_": apply_,
        "map_": map_,
        "__array__": array,
        "__array_wrap__": array_wrapped,
        "__delitem__": deleted,
        "__dlpack__": dlpack,
        "__dlpack_device__": dlpack_device,
        "__len__": length,
        "__iter__": iterate,
        "__contains__": contains,
        "__format__": formatted,
        "__reversed__": reversed_,
        "__deepcopy__": deepcopied,
        "__reduce_ex__": reduced,
        "__bool__": truth,
        "__int__": as_integer,
        "__index__": as_index,
        "__float__": as_float,
        "__hash__": identity,
        "__repr__": text_of,
        "__str__": text_of,
        "_as_subclass": as_subclass,
    }
    for name, method in named.items():
        publish(method, (name,), on=("Tensor",))
    for name, dtype in _CASTS.items():
        publish(_cast(name, dtype), (name,), on=("Tensor",))
    attributes: dict[str, Callable[[Tensor], Any]] = {
        "device": lambda self: device_at(self._device),
        "is_cuda": lambda self: self._device > 0,
        "is_sparse": lambda self: False,
        "layout": lambda self: "torch.strided",
        "itemsize": element_size,
        "nbytes": lambda self: self.numel() * self.dtype.itemsize,
        "T": lambda self: self.permute(*reversed(range(self.ndim))),
        "__array_priority__": lambda self: 1000,
    }
    for name, get in attributes.items():
        setattr(Tensor, name, property(get))
    for function in (
        is_tensor,
        get_default_dtype,
        set_default_dtype,
        set_default_tensor_type,
        promote_types,
        can_cast,
        from_dlpack,
        set_flush_denormal,
        set_printoptions,
    ):
        publish(function, (function.__name__,), on=("torch",))


def _cast(name: str, dtype: DType) -> Callable[[Tensor], Tensor]:
    def cast(self: Tensor) -> Tensor:
        return internal.to(self, dtype)

    cast.__name__ = name
    cast.__doc__ = f"Return this tensor as {dtype.name}."
    return cast


attach()
