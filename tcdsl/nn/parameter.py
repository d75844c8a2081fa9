"""A tensor that a module trains, one that it keeps, and both before they have a shape."""

from tcdsl.calls.process.places import found_in
from tcdsl.nn.uninitialized import UninitializedBuffer, UninitializedParameter, is_lazy
from tcdsl.tensors.parameter import Buffer, Parameter

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]

found_in(__name__)
