"""The C core of the tensor library: Tensor, Op, what is recorded of calls, backward.

Importing this package compiles the core (once, into the cache directory) and loads it.

Tensor
    Memory with a shape, strides in elements and a type. A subclass made in Python is one too
    (``Tensor.__new__(cls, other)`` is another tensor over the memory of other). Views share the
    memory and its version, `_version`, which every write raises; `data` has the memory under a
    count of its own. Methods and operators are set from Python: attributes of the type, `operator`.
Op(name, launcher, slow, plan, n_in, n_out, writes=0)
    An operation. A call by position on n_in Tensors and Python numbers whose form the launcher
    knows runs at once, and is recorded if a gradient may be asked for; any other call is
    ``slow(*args, **kwargs)``, as it came.

    plan : callable (entry, needs, inputs) -> Recipe, or None
        Asked at the first recorded call of an entry by which these gradients (bit i: of input i)
        are needed. None: there is no derivative.
    writes : int
        Whether the first input is the output.
    `named` may be set to a callable that takes calls by name or of another number of operands in
    the place of `slow`; `recorded` to one that takes, in the place of all this, calls of which a
    gradient may be asked; `cast` to one that takes all calls of a thread between
    ``set_casting(True)`` and ``set_casting(False)``, which give what was set before.
Function(function)
    A function of Python's, that binds to no object. `names` may be set to a dict of further names
    of its arguments, each with that of the function's; `cast` as of an Op. `into` may be set to one
    that takes, in its place, calls with an argument whose name `names` have with None.
Method(callable)
    An Op, a View or a Function as a method, where it is an attribute of a type. Its attributes are
    theirs, `__wrapped__` is the callable.
Op.run(entry, inputs, outputs=None)
    Run an entry of the launcher and record the call.
Recipe(vjp, taken, to, passed=(), narrow=None, takes_none=False, standing=0, large=None)
    What a recorded call keeps, what vjp takes, and whose gradients its results are.

    vjp : callable or None
        Gives a Tensor or None for each of `to`, alone or in a tuple.
    taken : tuple of int
        Its arguments: INPUT + i, FORM + i (a tensor like input i, whose elements may not be read),
        OUTPUT + r, GRAD + r, or NEEDS (the bits of the gradients that are needed).
    to : tuple of int
        Per result, the input that it is the gradient of, or -1.
    passed : tuple of int
        Inputs whose gradient is that of output 0, as it is.
    narrow : callable (needs) -> Recipe, optional
        Where fewer gradients are asked for; it may take what this one keeps.
    takes_none : bool
        Whether vjp takes None, not zeros, for gradients that are not there.
    standing : int
        Bit i: where input i is a number it stands for a tensor, and is let go of as that would be.
    large : callable, optional
        In place of vjp where the first input of `to` has LARGE elements or more.
Recipe.named(name)
    The same, of nodes that have this name in place of the op's.
View(name, rule, recipe, slow, several=0)
    A callable that gives a tensor over the memory of its first argument, in another
    layout. Nothing is computed.

    rule : str
        How the layout follows from the source's and from plain arguments (ints, a tuple of them; of
        a subscript slices, None and `...` too): "swapped" (dim, dim), "reordered" (dims),
        "reshaped" (extents), "merged" (first, last), "widened" (extents), "opened" (dim),
        "closed" (dim), "selected" (dim, index), "narrowed" (dim, start, length), "slanted"
        (offset, dim, dim), "windowed" (dim, size, step), "subscripted" (key).
        `layouts.c` says more.
    recipe : Recipe
        Of a recorded call, whose inputs are the source and the tuple of the other arguments.
    slow : callable
        Takes calls that are not plain, as they came: it raises, or calls the view with plain ones.
    several : int
        Whether calls are parts of one that gives several views: those may not be written to where
        that is recorded.
made_by(tensor, name)
    The tensor; its node, if there is one, has this name from now on.
fresh(tensor)
    It is new: what has been written into it was its making, and its version is 0.
check_write(tensor, recorded)
    Raise where a tensor may not be written: a leaf that requires grad, a view of one, one of
    several views, one made where nothing was recorded. recorded: whether the write itself is.
View.plain(tensor, ...)
    The view, or None where the arguments are not plain.
set_inference_mode(on)
    Inference mode, of a thread: nothing is recorded, whatever `set_grad_enabled` says, and tensors
    made in it are inference tensors: outside of it they are not written, and no recorded call keeps
    them. Gives what was set before; recording is off or on then.
set_saving(hooks), saving()
    What calls of a thread keep goes through these (``setup("pack")``), None for nothing; gives what
    was set before.
"""

from __future__ import annotations

import math
import types
from typing import TYPE_CHECKING, Any

import numpy as np

from tcdsl.codegen import runtime
from tcdsl.core import dtypes

if TYPE_CHECKING:
    from tcdsl.core import _core
else:
    from tcdsl.core.build import load

    _core = load()

__all__ = [
    "FORM",
    "Function",
    "GRAD",
    "INPUT",
    "LARGE",
    "Method",
    "NEEDS",
    "OUTPUT",
    "Node",
    "Op",
    "Recipe",
    "Size",
    "Tensor",
    "View",
    "arrives",
    "backward",
    "apart",
    "check_write",
    "empty",
    "fresh",
    "from_numpy",
    "is_casting",
    "is_grad_enabled",
    "is_inference_mode",
    "lent",
    "made_by",
    "operator",
    "record",
    "retyped",
    "saving",
    "set_base",
    "set_casting",
    "set_fn",
    "set_grad_enabled",
    "set_inference_mode",
    "set_saving",
    "setup",
    "view",
    "written",
]

INPUT, FORM, OUTPUT, GRAD, NEEDS = 0, 64, 128, 192, 255  # core.h: TAKE_*
LARGE = 1 << 16  # core.h
SLOTS = {  # CPython's numbers of Py_nb_*
    "__abs__": 6, "__add__": 7, "__and__": 8, "__divmod__": 10, "__float__": 11,
    "__floordiv__": 12, "__index__": 13, "__iadd__": 14, "__iand__": 15, "__ifloordiv__": 16,
    "__ilshift__": 17, "__imul__": 18, "__ior__": 19, "__ipow__": 20, "__imod__": 21,
    "__irshift__": 22, "__isub__": 23, "__itruediv__": 24, "__ixor__": 25, "__int__": 26,
    "__invert__": 27, "__lshift__": 28, "__mul__": 29, "__neg__": 30, "__or__": 31, "__pos__": 32,
    "__pow__": 33, "__mod__": 34, "__rshift__": 35, "__sub__": 36, "__truediv__": 37, "__xor__": 38,
    "__matmul__": 75, "__imatmul__": 76,
}  # fmt: skip

Tensor = _core.Tensor
Function = _core.Function
Method = _core.Method
Op = _core.Op
Node = _core.Node
Recipe = _core.Recipe
View = _core.View
arrives = _core.arrives
backward = _core.backward
check_write = _core.check_write
is_casting = _core.is_casting
is_grad_enabled = _core.is_grad_enabled
set_casting = _core.set_casting
is_inference_mode = _core.is_inference_mode
set_inference_mode = _core.set_inference_mode
saving = _core.saving
set_saving = _core.set_saving
set_grad_enabled = _core.set_grad_enabled
lent = _core.lent
view = _core.view
retyped = _core.retyped
record = _core.record
made_by = _core.made_by
set_fn = _core.set_fn
set_base = _core.set_base
apart = _core.apart
fresh = _core.fresh
written = _core.written
setup = _core.setup


class Size(_core.Sizes):
    """The shape of a tensor: a tuple with `numel`, of which slices are ones too."""

    __slots__ = ()

    def numel(self) -> int:
        """Return how many elements a tensor of this shape has."""
        count = 1
        for n in self:
            count *= n
        return count

    def __add__(self, other: Any) -> Any:
        return Size(super().__add__(other))

    def __radd__(self, other: Any) -> Any:
        return Size(other + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> Size:
        return Size(super().__mul__(times))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"


class _NoMemoryError(MemoryError, RuntimeError):
    """What scripts written for PyTorch catch too."""


class _SizeError(OverflowError, TypeError, RuntimeError):
    """A size that no tensor has."""


def no_room(shape: tuple[int, ...], dtype: dtypes.DType) -> Exception:
    """Return the error of a tensor that cannot be, in PyTorch's words."""
    if any(n >> 63 for n in shape):
        return _SizeError(f"expected sizes from 0 to 2**63 - 1, got {list(shape)}")
    size_bytes = math.prod(shape) * dtype.itemsize
    if size_bytes >> 63:
        return _NoMemoryError(f"Storage size calculation overflowed with sizes={list(shape)}")
    return _NoMemoryError(
        f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {size_bytes} bytes"
    )


def empty(shape: tuple[int, ...], dtype: dtypes.DType) -> Tensor:
    """Return a tensor of undefined contents.

    Raises
    ------
    RuntimeError
        If there is no memory for it, which is a MemoryError too, or a size is no int64, which is an
        OverflowError and a TypeError too.
    """
    try:
        number = dtype.number
    except AttributeError:
        number = dtypes.dtype_meant(dtype).number
    try:
        return _core.empty(shape, number)
    except (MemoryError, OverflowError):
        raise no_room(shape, dtype) from None


def from_numpy(array: np.ndarray[Any, np.dtype[Any]]) -> Tensor:
    """Return a tensor over the memory of an array.

    Raises
    ------
    TypeError
        If no tensor has elements of that type, or in foreign byte order.
    ValueError
        If strides are negative, or no multiples of an element's size.
    """
    plain = _core.over(array)
    if plain is not None:
        return plain
    if type(array) is not np.ndarray:
        array = np.asarray(array)  # what a subclass says of itself may be anything
    dtype = dtypes.dtype_of(array.dtype)
    if dtype is None:
        known = ", ".join(t.name for t in dtypes.ALL)
        raise TypeError(
            f"can't convert np.ndarray of type {array.dtype}. "
            f"The only supported types are: {known}."
        )
    flags = array.flags
    if flags.c_contiguous and flags.aligned:
        dense: tuple[int, ...] = ()
        step = 1
        for n in reversed(array.shape):
            dense, step = (step, *dense), step * (n or 1)
        return _over(array, dense, array.nbytes)
    size = array.itemsize
    if any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            "strides are not currently supported. (You can probably work around this by making a "
            "copy of your array  with array.copy().)"
        )
    if any(s % size for s in array.strides) or not array.flags.aligned:
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy "
            "array to reallocate the memory."
        )
    strides = tuple(s // size for s in array.strides)
    reach = size + sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
    return _over(array, strides, reach if array.size else 0)


def _over(
    array: np.ndarray[Any, np.dtype[Any]], strides: tuple[int, ...], size_bytes: int
) -> Tensor:
    """Return a tensor over the memory of an array; strides count elements."""
    address = array.__array_interface__["data"][0]
    is_fixed = not array.flags.writeable
    return lent(array, address, size_bytes, array.shape, strides, array.dtype.num, 0, is_fixed)


def operator(name: str, op: object) -> None:
    """Let an operator of the language on tensors be a call of op.

    Parameters
    ----------
    name : str
        Its method, as ``__add__``; op serves the reflected operator too.
    op : callable
    """
    _core.operator(SLOTS[name], op)


def _setup() -> None:
    numpys = tuple(t.numpy for t in dtypes.ALL)
    floats = tuple(t.numpy.num for t in dtypes.FLOATS)
    _core.take_runtime(runtime.tensors(_core.functions, numpys), floats)
    listed: list[dtypes.DType | None] = [None] * (max(t.num for t in numpys) + 1)
    for t in dtypes.ALL:
        listed[t.numpy.num] = t
    _core.setup("dtypes", listed)
    _core.setup("size_type", Size)
    _core.setup("bind", types.MethodType)
    Tensor.__name__ = "Tensor"  # in messages too, where a type made in C has its module before it


_setup()
