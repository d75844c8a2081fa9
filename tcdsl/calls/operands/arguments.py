"""What a caller hands over, seen as NumPy arrays and numbers, without copies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tcdsl.calls.operands.abstract import AbstractArray
from tcdsl.calls.operands.device_arrays import DeviceArray, as_device_array, is_on_device
from tcdsl.calls.operands.foreign import has_dlpack, memory_of, refuse_meaning
from tcdsl.codegen.machine.spec import Layout
from tcdsl.grammar.text.errors import NumberError, TCTypeError
from tcdsl.grammar.types.dtypes import ALL, BY_NAME, DType

Array = np.ndarray[Any, np.dtype[Any]]
Operand = Array | DeviceArray
_DTYPES: dict[Any, DType] = {}  # by types of NumPy's, which are slow to say their names


def as_array(value: object, name: str, *, is_output: bool = False) -> Array:
    """Return an argument as an array that shares its memory.

    A subclass of NumPy's array comes as one if its elements are its memory (`numpy.matrix`,
    `numpy.memmap`).

    Parameters
    ----------
    value : ndarray, number, or any object with ``__dlpack__``
    name : str
        The parameter, for messages.
    is_output : bool, default False
        Whether it will be written.

    Raises
    ------
    TCTypeError
        If it is none of these, its elements are more than its memory (a mask, units, a record of
        gradients), or its bytes are in foreign order.
    """
    if type(value) is np.ndarray and value.dtype.isnative:
        return value
    if is_output and not isinstance(value, np.ndarray) and not has_dlpack(value):
        # a number or a list would be copied, and the result be lost with the copy
        raise TCTypeError(
            f"out '{name}': expected an array to write to, got {type(value).__name__}\n"
            "  make it before the call and keep it, as in out=numpy.empty(shape, dtype)"
        )
    if isinstance(value, np.ndarray | np.generic | bool | int | float):
        if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
            refuse_meaning(value, name)
        array = np.asarray(value)
        if array.dtype.kind == "O" and isinstance(value, int):  # beyond 64 bits
            array = np.asarray(as_float(value, name))  # which a float parameter may take
    elif has_dlpack(value):
        array = memory_of(value, name, is_output=is_output)
    else:
        kind = type(value)
        is_like = issubclass(kind, list | tuple | range | memoryview) or hasattr(kind, "__array__")
        raise TCTypeError(
            f"expected an array or a number for '{name}', got {kind.__name__}"
            + ("\n  pass numpy.asarray(...) of it" if is_like else "")
        )
    if not array.dtype.isnative:
        raise TCTypeError(
            f"argument '{name}' has bytes in foreign order ({array.dtype.str})\n"
            f"  pass {name}.astype({name}.dtype.newbyteorder('='))"
        )
    return array


def as_float(value: int, name: str) -> float:
    """Return an integer as a float.

    Raises
    ------
    NumberError
        If it is beyond the largest.
    """
    try:
        return float(value)
    except OverflowError:
        bits = value.bit_length()
        raise NumberError(
            f"argument '{name}' is an integer of {bits} bits, beyond float64"
        ) from None


def check_number(value: object, array: Operand, name: str, dtype: DType) -> None:
    """Refuse a number that is none of the values of its parameter's type.

    Floats are rounded, to inf if need be; bool takes any number.

    Parameters
    ----------
    value : object
        As it came.
    array : array of rank 0
        It as an array.
    name : str
        The parameter.
    dtype : DType
        Its type.

    Raises
    ------
    NumberError
    """
    if not dtype.is_integer:
        return
    if isinstance(value, int):
        check_integer(value, name, dtype)
    elif isinstance(array, np.ndarray) and array.dtype.kind in "iub":
        check_integer(int(array), name, dtype)


def check_integer(number: int, name: str, dtype: DType) -> None:
    """Refuse an integer that is none of an integer type.

    Raises
    ------
    NumberError
    """
    low, high = dtype.limits
    if not low <= number <= high:
        shown = number if number.bit_length() < 200 else f"of {number.bit_length()} bits"
        raise NumberError(
            f"argument '{name}' is {shown}, outside of {dtype}: it holds {low} to {high}"
        )


def as_output(value: object, name: str) -> Operand:
    """Return what is written to as an array that shares its memory, be it the host's or a GPU's.

    Raises
    ------
    TCTypeError
        If it gives none, or it is of no type that the language has.
    """
    if is_on_device(value):
        return as_device_array(value, name, is_output=True)
    return as_array(value, name, is_output=True)


def dtype_of(array: Operand | AbstractArray, name: str) -> DType:
    """Return the language's type of an array or of the form of one.

    Raises
    ------
    TCTypeError
        If it has none: complex numbers, objects, dates, text.
    """
    found = _DTYPES.get(array.dtype)
    if found is not None:
        return found
    try:
        found = BY_NAME[array.dtype.name]
    except KeyError:
        known = ", ".join(d.name for d in ALL)
        raise TCTypeError(
            f"argument '{name}' has type {array.dtype}, which the language does not have\n"
            f"  it has {known}"
        ) from None
    _DTYPES[array.dtype] = found
    return found


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
    if array.flags.c_contiguous:
        return contiguous(len(array.shape))
    return layout_by(array.shape, element_strides(array))


def layout_by(shape: Sequence[int], strides: Sequence[int]) -> Layout:
    """Return the layout class of an operand that is not in C order; strides in elements."""
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


@cache
def contiguous(rank: int) -> Layout:
    """Return the layout class of an array in C order."""
    return Layout(rank, True, rank - 1 if rank else None)
