"""Parameters and buffers whose shapes the first input of a module tells."""

from __future__ import annotations

from typing import Any

from tcdsl import library
from tcdsl.core import Tensor
from tcdsl.nn.placed import blank
from tcdsl.tensors.parameter import Buffer, Parameter

__all__ = ["UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class _Uninitialized:
    """What both have: no shape before `materialize`."""

    _becomes: type[Tensor]

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Take a shape, and from then on be what this stands for, of undefined contents."""
        self.data = library.empty(
            tuple(shape),
            device=self.device if device is None else device,
            dtype=self.dtype if dtype is None else dtype,
        )
        self.__class__ = self._becomes

    @property
    def shape(self) -> Any:
        """There is none yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def numel(self) -> int:
        """Refuse: there are no elements yet."""
        raise ValueError(
            "Attempted to use an uninitialized parameter in <method 'numel' of "
            "'torch._C.TensorBase' objects>. This error happens when you are using a `LazyModule` "
            "or explicitly manipulating `torch.nn.parameter."
            f"{type(self).__name__}` objects. When using LazyModules Call `forward` with a dummy "
            "batch to initialize the parameters before calling torch functions"
        )

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            made = Tensor.__new__(type(self), library.empty(0, dtype=self.dtype))
            made.requires_grad_(self.requires_grad)
            memo[id(self)] = made
        return memo[id(self)]

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        state = dict(self.__dict__) or None  # whether a buffer is persistent
        return type(self), (self.requires_grad, self.device, self.dtype), state

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    __str__ = __repr__


class UninitializedParameter(_Uninitialized, Parameter):  # type: ignore[override]  # no shape
    """A parameter without a shape.

    Parameters
    ----------
    requires_grad : bool
    device, dtype
        Of what it will be.
    """

    _becomes = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        """Make one."""
        made: Any = (
            blank(0) if device is dtype is None else library.empty(0, device=device, dtype=dtype)
        )
        parameter: UninitializedParameter = made._as_subclass(cls, requires_grad)
        return parameter


class UninitializedBuffer(_Uninitialized, Buffer):  # type: ignore[override]  # no shape
    """A buffer without a shape.

    Parameters
    ----------
    requires_grad : bool
    device, dtype
        Of what it will be.
    persistent : bool
        Whether `state_dict` has it.
    """

    _becomes = Buffer

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        """Make one."""
        made: Any = (
            blank(0) if device is dtype is None else library.empty(0, device=device, dtype=dtype)
        )
        buffer: UninitializedBuffer = made._as_subclass(cls, requires_grad)
        buffer.persistent = persistent
        return buffer


def is_lazy(param: object) -> bool:
    """Whether something is a parameter or a buffer without a shape."""
    return isinstance(param, _Uninitialized)
