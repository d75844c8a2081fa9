"""Constructors by type: FloatTensor(2, 3), x.new(2, 3), and x.new_zeros(2, 3) of x's type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tcdsl import core
from tcdsl.core import Tensor
from tcdsl.core.dtypes import DType
from tcdsl.ops.rules import default_float
from tcdsl.ops.table import publish
from tcdsl.tensors import creation
from tcdsl.tensors.creation import Place
from tcdsl.tensors.data import tensor
from tcdsl.tensors.types import TYPE_NAMES

__all__: list[str] = []


class _Constructor(type):
    """The class of FloatTensor and its kin: a tensor is an instance by its type."""

    dtype: DType

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype

    def __call__(cls, *args: Any) -> Tensor:
        """Make a tensor: of sizes, of undefined contents; or of a sequence's or array's numbers."""
        if len(args) == 1 and not isinstance(args[0], int | core.Size):
            return tensor(args[0], cls.dtype)
        return core.empty(creation.size_of(args), cls.dtype)


def _made(name: str, dtype: DType) -> _Constructor:
    return _Constructor(name, (), {"dtype": dtype, "__module__": "tcdsl"})


for _name, _dtype in TYPE_NAMES.items():
    publish(_made(_name, _dtype), (_name,), on=("torch",))


def new(self: Tensor, *args: Any) -> Tensor:
    """Make a tensor of this one's type: of sizes, or of numbers."""
    if len(args) == 1 and isinstance(args[0], list | tuple | np.ndarray):
        return tensor(args[0], self.dtype, self.device)
    return creation.empty(*args, dtype=self.dtype, device=self.device)


def _new(make: Callable[..., Tensor]) -> None:
    """Make `x.new_NAME(size, ...)`, which has x's type unless another is given."""

    def method(
        self: Tensor,
        *args: Any,
        size: Any = None,
        dtype: DType | None = None,
        device: Place = None,
        requires_grad: bool = False,
        **further: Any,
    ) -> Tensor:
        args = args if size is None else (size, *args)
        kind = self.dtype if dtype is None else dtype
        place = self.device if device is None else device
        return make(*args, dtype=kind, device=place, requires_grad=requires_grad, **further)

    method.__name__ = f"new_{make.__name__}"
    method.__doc__ = (
        f"Return what `{make.__name__}` makes, by default of this tensor's type and device."
    )
    publish(method, (method.__name__,), on=("Tensor",))


for _make in (creation.empty, creation.zeros, creation.ones, creation.full, tensor):
    _new(_make)


def _constructed(*args: Any, **kwargs: Any) -> Tensor:
    """Make what ``Tensor(...)`` does: floats, of sizes or of numbers."""
    device = kwargs.pop("device", None)
    if kwargs:
        raise TypeError(f"new() received an unexpected keyword argument '{next(iter(kwargs))}'")
    if len(args) == 1 and isinstance(args[0], float | str):
        raise TypeError(f"new(): data must be a sequence (got {type(args[0]).__name__})")
    if len(args) == 1 and not isinstance(args[0], int | core.Size):
        return tensor(args[0], default_float(), device)
    return creation.empty(*(args or (0,)), device=device)


publish(new, ("new",), on=("Tensor",))
core.setup("construct", _constructed)
