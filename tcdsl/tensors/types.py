"""Types of tensors: names, changes from one to another, what floats are by default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcdsl.core import Tensor, dtypes
from tcdsl.core.dtypes import DType
from tcdsl.ops import internal, on_device
from tcdsl.ops.formats import strides_say
from tcdsl.ops.forms import forget_forms
from tcdsl.ops.rules import default_float, joined, set_default_float
from tcdsl.ops.table import publish
from tcdsl.tensors.devices import Device, default_device, place_of, set_default

__all__ = ["TYPE_NAMES"]


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


def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return this tensor in a type, on a device, or as another is; itself if it is so already.

    ``to(dtype)``, ``to(device)``, ``to(device, dtype)``, ``to(other)``, each with `non_blocking`
    and `copy`, and `memory_format` for the order in memory.
    """
    if not kwargs and len(args) == 1:  # the most usual
        if type(args[0]) is DType:
            return internal.to(self, args[0])
        if type(args[0]) in (str, Device):
            return on_device.moved(self, place_of(args[0]))
        if isinstance(args[0], Tensor):
            return on_device.moved(internal.to(self, args[0].dtype), args[0]._device)
    is_copy, memory_format = kwargs.pop("copy", False), kwargs.pop("memory_format", None)
    place, dtype = destination(args, kwargs)
    made = self if dtype is None else internal.to(self, dtype)
    if place is not None:
        made = on_device.moved(made, place_of(place))
    if memory_format is not None and not strides_say(made, memory_format):
        return made.clone(memory_format=memory_format)
    return made.clone() if is_copy and made is self else made


def destination(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Return device and type that the arguments of a `to` say, None for what they do not say.

    Nothing is moved while a program goes on: `non_blocking` says nothing.
    """
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    kwargs.pop("non_blocking", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    for value in args:
        if isinstance(value, Tensor):
            device, dtype = value.device, value.dtype
        elif isinstance(value, DType | type):
            dtype = value
        elif value is not None and not isinstance(value, bool):
            device = value
    return device, dtype


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
    if isinstance(wanted, DType) or wanted in (float, int, bool):
        return dtypes.dtype_meant(wanted)
    name = wanted if isinstance(wanted, str) else getattr(wanted, "__name__", str(wanted))
    found = TYPE_NAMES.get(name.rpartition(".")[2])
    if found is None:
        raise ValueError(f"invalid type: '{name}'")
    return found


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """Return this tensor in another's type."""
    return internal.to(self, other.dtype)


def is_floating_point(self: Tensor) -> bool:
    """Return whether elements are floats."""
    return self.dtype.is_floating_point


def is_signed(self: Tensor) -> bool:
    """Return whether elements may be negative."""
    return self.dtype.is_signed


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


def get_default_device() -> Device:
    """Return where new tensors of this thread lie that are not told otherwise."""
    return default_device()


def set_default_device(device: Any) -> None:
    """Let new tensors of this thread that are not told otherwise lie there; None is the host."""
    set_default(None if device is None else Device(device))


def promote_types(type1: DType, type2: DType) -> DType:
    """Return the smallest type that holds two."""
    return joined(type1, type2)


def can_cast(from_: DType, to: DType) -> bool:
    """Return whether a result of one type may be written into a tensor of another."""
    return from_.category <= to.category


def _cast(name: str, dtype: DType) -> Callable[[Tensor], Tensor]:
    def cast(self: Tensor, memory_format: object = None) -> Tensor:
        if memory_format is not None:
            return to(self, dtype, memory_format=memory_format)
        return internal.to(self, dtype)

    cast.__name__ = name
    cast.__doc__ = f"Return this tensor as {dtype.name}."
    return cast


_METHODS: dict[str, Callable[..., Any]] = {
    "to": to,
    "type": type_,
    "type_as": type_as,
    "is_floating_point": is_floating_point,
    "is_signed": is_signed,
}
for _name, _method in _METHODS.items():
    publish(_method, (_name,), on=("Tensor",))
for _name, _dtype in _CASTS.items():
    publish(_cast(_name, _dtype), (_name,), on=("Tensor",))
for _function in (
    get_default_device,
    get_default_dtype,
    set_default_device,
    set_default_dtype,
    set_default_tensor_type,
    promote_types,
    can_cast,
):
    publish(_function, (_function.__name__,), on=("torch",))
publish(is_floating_point, ("is_floating_point",))
