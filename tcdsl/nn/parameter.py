"""A tensor that a module trains, one that it keeps, and both before they have a shape."""

from tcdsl.nn.uninitialized import UninitializedBuffer, UninitializedParameter, is_lazy
from tcdsl.tensors.parameter import Buffer, Parameter

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]
