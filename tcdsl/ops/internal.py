"""What the core and slow paths need of ops: copies, casts, fillings, sums of gradients."""

from __future__ import annotations

from tcdsl.calls.bindings.beginning import say_of_tensors
from tcdsl.calls.operands.collapse import Strides
from tcdsl.core import Op, Tensor, set_base, setup
from tcdsl.core.dtypes import DType, dtype_meant
from tcdsl.ops.formats import FORMATS, MemoryFormat, strides_in
from tcdsl.ops.on_device import empty_beside
from tcdsl.ops.rules import broadcast, first
from tcdsl.ops.strides import in_c_order, is_dense, laid, laid_out, strides_of_copy
from tcdsl.ops.table import Family, publish

ops = Family(__file__)
PRESERVE = FORMATS["preserve_format"]


def _clone_in(input: Tensor, *, memory_format: object = None) -> Tensor:
    """Return a copy whose elements lie in the order that a memory format says."""
    is_kept = memory_format is None or memory_format is PRESERVE
    if is_kept or strides_in(memory_format, input, "clone") is None:
        copied: Tensor = (clone if is_kept else dense)(input)
        return copied
    assert isinstance(memory_format, MemoryFormat), "or it was refused"
    order = memory_format.order
    moved = dense(input.permute(order)).permute([order.index(d) for d in range(input.ndim)])
    if moved.grad_fn is None:
        set_base(moved, None)  # nothing else shows that memory
    return moved  # type: ignore[no-any-return]


clone = ops.row("clone", slow=_clone_in, layout=strides_of_copy, on=("Tensor", "torch"))
dense = ops.op("clone", layout=in_c_order)
plus = ops.op("plus", shape=broadcast)
plus_into = ops.op("plus", shape=broadcast, writes=True)
ones = ops.op("ones", vjp=None, layout=strides_of_copy)
zeros = ops.op("zeros", vjp=None, layout=strides_of_copy)
filled = ops.op("filled", types=first, layout=strides_of_copy)


def _to_type(dtype: DType) -> Op:
    found = _casts.get(dtype)
    if found is None:
        found = _casts[dtype] = ops.op("cast", types=lambda operands: dtype, layout=strides_of_copy)
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


def laid_as(leaf: Tensor, gradient: Tensor) -> Tensor:
    """Return a copy of a gradient that lies as its leaf, in C order where that has gaps."""
    strides = strides_of_copy(tuple(leaf.shape), [laid(leaf)]) if is_dense(laid(leaf)) else None
    made: Tensor = dense(gradient) if strides is None else empty_strided(gradient, strides)
    return made if strides is None else copy_(made, gradient)


def empty_strided(like: Tensor, strides: Strides) -> Tensor:
    """Return a dense tensor of undefined contents, with another's shape, type and place."""
    row = empty_beside(like, (like.numel(),), like.dtype)
    return laid_out(row, like.shape, strides)


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
setup("laid_as", laid_as)
setup("zeros", zeros)
setup("one", ones)
setup("fit", fit)
say_of_tensors()
