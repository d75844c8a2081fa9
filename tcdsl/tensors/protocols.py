"""What a tensor is for Python, NumPy and others: a number, a row, an array, a pickle."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tcdsl import core
from tcdsl.core import Tensor
from tcdsl.core.dtypes import DType
from tcdsl.ops import on_device
from tcdsl.ops.table import publish
from tcdsl.ops.view_parts import unbound
from tcdsl.tensors.creation import requiring
from tcdsl.tensors.parameter import Parameter
from tcdsl.tensors.printing import text_of

__all__: list[str] = []

# ---- an array


def numpy(self: Tensor, *, force: bool = False) -> np.ndarray[Any, Any]:
    """Return the elements as an array over the same memory.

    With `force` gradients are left behind, and what lies in a GPU's memory is copied.

    Raises
    ------
    RuntimeError
        If its gradients are recorded here: under `no_grad` they are not.
    """
    if force:
        self = self.detach().cpu()
    if self.requires_grad and core.is_grad_enabled():
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
    if not self.ndim:
        return self.item()
    return on_device.moved(self.detach(), 0)._array().tolist()


def array_wrapped(
    self: Tensor, array: np.ndarray[Any, Any], context: object = None, return_scalar: bool = False
) -> Tensor:
    """Return what a function of NumPy's made of this tensor as a tensor; bools as uint8."""
    array = np.asarray(array)
    return core.from_numpy(array.astype(np.uint8) if array.dtype == bool else array)


# ---- a row


def length(self: Tensor) -> int:
    """Return the extent of dimension 0."""
    if not self.ndim:
        raise TypeError("len() of a 0-d tensor")
    return int(self.shape[0])


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
    if not isinstance(element, Tensor | int | float | np.generic):
        raise RuntimeError(
            "Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
            f"{type(element)}."
        )
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


# ---- a number


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


# ---- a copy


def copied(self: Tensor) -> Tensor:
    """Return a leaf over the same memory."""
    made = self.detach()._as_subclass(type(self), self.requires_grad)
    if self.__dict__:
        made.__dict__.update(self.__dict__)
    return made


def is_view(self: Tensor) -> bool:
    """Return whether it is a view of another tensor."""
    return self._base is not None


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
    return requiring(made) if requires_grad else made


def reduced(self: Tensor, protocol: Any) -> Any:
    """Return what a pickle holds: elements as they lie, and whether gradients are wanted."""
    kept, strides = self.detach(), None
    if not kept.is_contiguous():
        kept = kept.clone()  # in the layout of the tensor, without gaps
        if not kept.is_contiguous():
            strides = kept.stride()
            kept = kept.as_strided((kept.numel(),), (1,))
    elements = np.ascontiguousarray(kept._array()).view(np.uint8)
    state = dict(self.__dict__) if self.__dict__ else None
    kind: Any = type(self)
    if kind in _SHOWN:  # for scripts written for PyTorch they show another module
        kind = kind.__name__
    return _restored, (
        kind,
        elements.tobytes(),
        self.dtype,
        tuple(self.shape),
        self.requires_grad,
        state,
        strides,
    )


_SHOWN = (Tensor, Parameter)


def _restored(
    kind: type[Tensor] | str,
    elements: bytes,
    dtype: DType,
    shape: tuple[int, ...],
    requires_grad: bool,
    state: dict[str, Any] | None,
    strides: tuple[int, ...] | None = None,  # None: C order
) -> Tensor:
    if isinstance(kind, str):
        kind = next(k for k in _SHOWN if k.__name__ == kind)
    flat = np.frombuffer(bytearray(elements), np.uint8).view(dtype.numpy)
    if strides is None:
        array = flat.reshape(shape)
    else:
        steps = [n * flat.itemsize for n in strides]
        array = np.lib.stride_tricks.as_strided(flat, shape, steps)
    made = as_subclass(core.from_numpy(array), kind, requires_grad)
    if state:
        made.__dict__.update(state)
    return made


_METHODS: dict[str, Callable[..., Any]] = {
    "numpy": numpy,
    "tolist": tolist,
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
    "__copy__": copied,
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
    "_is_view": is_view,
}
for _name, _method in _METHODS.items():
    publish(_method, (_name,), on=("Tensor",))
publish(from_dlpack, ("from_dlpack",), on=("torch",))
