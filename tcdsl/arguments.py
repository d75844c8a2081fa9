"""What a caller hands over, seen as NumPy arrays and numbers, without copies."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tcdsl.codegen.spec import Layout
from tcdsl.device_arrays import DeviceArray, as_device_array, is_on_device
from tcdsl.dlpack import give_bfloat16, take_bfloat16
from tcdsl.grammar.dtypes import ALL, BY_NAME, DType
from tcdsl.grammar.errors import TCTypeError

Array = np.ndarray[Any, np.dtype[Any]]
Operand = Array | DeviceArray


def as_array(value: object, name: str) -> Array:
    """Return an argument as an array that shares its memory.

    Parameters
    ----------
    value : ndarray, number, or any object with ``__dlpack__``
    name : str
        The parameter, for messages.

    Raises
    ------
    TCTypeError
        If it is none of these, or its bytes are in foreign order.
    """
    if isinstance(value, np.ndarray | np.generic | bool | int | float):
        array = np.asarray(value)
    elif hasattr(value, "__dlpack__"):
        try:
            array = np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as refusal:
            try:
                array = take_bfloat16(value)
            except (BufferError, RuntimeError, TypeError):
                why = f"argument '{name}' gives no memory: {refusal}"
                raise TCTypeError(why) from None
    else:
        raise TCTypeError(
            f"expected an array or a number for '{name}', got {type(value).__name__}\n"
            "  pass numpy.asarray(...) of it"
        )
    if not array.dtype.isnative:
        raise TCTypeError(
            f"argument '{name}' has bytes in foreign order ({array.dtype.str})\n"
            f"  pass {name}.astype({name}.dtype.newbyteorder('='))"
        )
    return array


def as_operand(value: object, name: str) -> Operand:
    """Return an argument as an array that shares its memory, be it the host's or a GPU's.

    Raises
    ------
    TCTypeError
        If it gives none, or it is of no type that the language has.
    """
    return as_device_array(value, name) if is_on_device(value) else as_array(value, name)


def dtype_of(array: Operand, name: str) -> DType:
    """Return the language's type of an array.

    Raises
    ------
    TCTypeError
        If it has none: complex numbers, objects, dates, text.
    """
    try:
        return BY_NAME[array.dtype.name]
    except KeyError:
        known = ", ".join(d.name for d in ALL)
        raise TCTypeError(
            f"argument '{name}' has type {array.dtype}, which the language does not have\n"
            f"  it has {known}"
        ) from None


def is_addressable(array: Operand) -> bool:
    """Whether every element lies at a multiple of its size: all that a kernel asks for."""
    item = array.itemsize
    return array.flags.aligned and all(stride % item == 0 for stride in array.strides)


def element_strides(array: Operand) -> tuple[int, ...]:
    """Return strides as kernels count them: in elements."""
    return tuple(s // array.itemsize for s in array.strides)


def layout_of(array: Operand) -> Layout:
    """Return the layout class of an operand.

    Dimensions of extent 1 have no stride worth the name: they neither break contiguity nor count
    as unit or zero. But the stride of the last dimension is the one with which joined dimensions
    are walked, so an outer dimension joins a last one of extent 1 only where their strides agree.
    """
    shape = array.shape
    strides = element_strides(array)
    if array.flags.c_contiguous:
        return contiguous(len(shape))
    wide = [d for d, extent in enumerate(shape) if extent > 1]
    unit = next((d for d in reversed(wide) if strides[d] == 1), None)
    zeros = tuple(d for d in wide if strides[d] == 0)
    joined: list[bool] = []
    inner = strides[-1]  # of dimension d + 1, where one of extent 1 has what joins it
    for d in reversed(range(len(shape) - 1)):
        dense = inner * shape[d + 1]
        joined.append(shape[d] == 1 or strides[d] == dense)
        inner = dense if shape[d] == 1 else strides[d]
    return Layout(len(shape), False, unit, zeros, tuple(reversed(joined)))


def contiguous(rank: int) -> Layout:
    """Return the layout class of an array in C order."""
    return Layout(rank, True, rank - 1 if rank else None)


def like(example: object) -> Callable[[Array], Any]:
    """Return how to hand results back in the kind of the first argument.

    An array of another library (`torch.Tensor`, say) gets its results through that library's own
    ``from_dlpack``, sharing memory; NumPy arrays and numbers get NumPy arrays. An array without
    ``__dlpack__`` gets what the device's own library has.
    """
    if not hasattr(example, "__dlpack__"):
        return lambda array: array
    if isinstance(example, np.ndarray | np.generic | bool | int | float):
        return lambda array: array
    library = sys.modules[type(example).__module__.partition(".")[0]]
    from_dlpack = getattr(library, "from_dlpack", None) or library.dlpack.from_dlpack
    return lambda a: from_dlpack(give_bfloat16(a) if a.dtype.name == "bfloat16" else a)
