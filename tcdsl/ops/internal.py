"""What the core and slow paths need of ops: copies, casts, fillings, sums of gradients."""

from __future__ import annotations

from tcdsl.calls.bindings.beginning import say_of_tensors
from tcdsl.core import Op, Tensor, set_base, setup
from tcdsl.core.dtypes import DType, dtype_meant
from tcdsl.ops.formats import order_of
from tcdsl.ops.rules import broadcast, first
from tcdsl.ops.table import Family, publish

ops = Family(__file__)


def _clone_in(input: Tensor, *, memory_format: object = None) -> Tensor:
    """Return a copy whose elements lie in the order that a memory format says."""
    order = order_of(memory_format, input, "clone")
    if order == tuple(range(input.ndim)):
        copied: Tensor = clone(input)
        return copied
    moved = clone(input.permute(order)).permute([order.index(d) for d in range(input.ndim)])
    if moved.grad_fn is None:
        set_base(moved, None)  # nothing else shows that memory
    return moved  # type: ignore[no-any-return]


clone = ops.row("clone", slow=_clone_in, on=("Tensor", "torch"))
plus = ops.op("plus", shape=broadcast)
plus_into = ops.op("plus", shape=broadcast, writes=True)
ones = ops.op("ones", vjp=None)
zeros = ops.op("zeros", vjp=None)
filled = ops.op("filled", types=first)


def _to_type(dtype: DType) -> Op:
    found = _casts.get(dtype)
    if found is None:
        found = _casts[dtype] = ops.op("cast", types=lambda operands: dtype)
    return found


_casts: dict[DType, Op] = {}


def to(tensor: Tensor, dtype: DType) -> Tensor:
    """Return a tensor of another type; itself if it has that."""
    if tensor.dtype is dtype:
        return tensor
    dtype = dtype_meant(dtype)
    found: Tensor = _to_type(dtype)(tensor)
    return found


def fit(leaf: Tensor, gradient: Tensor) -> Tensor:
    """Return a gradient in the type of its leaf.

    Raises
    ------
    RuntimeError
        If it has not the leaf's shape.
    """
    if tuple(leaf.shape) != tuple(gradient.shape):
        raise RuntimeError(
            f"Function returned an invalid gradient - got {list(gradient.shape)} but expected "
            f"shape compatible with {list(leaf.shape)}"
        )
    return to(gradient, leaf.dtype)


_copy_into = ops.op("copy", types=first, shape=broadcast, writes=True)


def copy_(input: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Write the elements of another tensor, of any type and of a shape that broadcasts.

    Nothing is moved while a program goes on: `non_blocking` says nothing.
    """
    written: Tensor = _copy_into(input, src)
    return written


publish(to, ("to",), on=("Tensor",))
publish(copy_, ("copy_",), on=("Tensor",))
setup("add", plus)
setup("add_into", plus_into)
setup("copy", clone)
setup("zeros", zeros)
setup("one", ones)
setup("fit", fit)
say_of_tensors()
