"""What NumPy does not take or give through DLPack: bfloat16, and memory of a GPU.

bfloat16 is labelled as uint16 on the way through NumPy.

References
----------
DLPack C API 1.1: ``DLManagedTensor``, ``DLManagedTensorVersioned``, ``DLDataTypeCode``,
``DLDeviceType``.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

CUDA_DEVICES = (2, 13)  # kDLCUDA, kDLCUDAManaged
_UINT, _BFLOAT, _BOOL = 1, 4, 6
# Where the code of the element type stands: in DLTensor behind data, device and rank; before it
# the versioned struct has version, context, deleter and flags.
_CODE_AT = {b"dltensor": 20, b"dltensor_versioned": 32 + 20}

_TENSOR_AT = {b"dltensor": 0, b"dltensor_versioned": 32}
# data, device type and number, rank, element type (code, bits, lanes), shape, strides, byte offset
_TENSOR = struct.Struct("=QiiiBBHQQQ")
_FLAGS_AT = 24  # of the versioned struct
_IS_READONLY = 1
_KINDS = {0: "i", _UINT: "u", 2: "f", _BOOL: "b"}

_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


class Relabelled:
    """A producer whose elements of 16 bits are handed over as another type: same memory."""

    def __init__(self, producer: Any, old: int, new: int) -> None:
        self._producer, self._old, self._new = producer, old, new

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return where the memory lies."""
        return self._producer.__dlpack_device__()  # type: ignore[no-any-return]

    def __dlpack__(self, **options: Any) -> Any:
        """Return the producer's capsule with the other type."""
        capsule = self._producer.__dlpack__(**options)
        name = _name(capsule)
        code = ctypes.c_uint8.from_address(_pointer(capsule, name) + _CODE_AT[name])
        bits = ctypes.c_uint8.from_address(ctypes.addressof(code) + 1)
        if (code.value, bits.value) != (self._old, 16):
            raise BufferError(f"elements of type code {code.value}, {bits.value} bits")
        code.value = self._new
        return capsule


def take_bfloat16(producer: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """Return a producer's bfloat16 elements as an array that shares their memory.

    Raises
    ------
    BufferError
        If they are of another type.
    """
    import ml_dtypes  # on use: only bfloat16 needs it

    return np.from_dlpack(Relabelled(producer, _BFLOAT, _UINT)).view(ml_dtypes.bfloat16)


def give_bfloat16(array: np.ndarray[Any, np.dtype[Any]]) -> Relabelled:
    """Return what another library's ``from_dlpack`` takes as bfloat16."""
    return Relabelled(array.view(np.uint16), _UINT, _BFLOAT)


class Borrowed:
    """A tensor in a GPU's memory that a producer has handed out; it goes back with this object.

    Parameters
    ----------
    producer : object with ``__dlpack__``
    stream : int
        The stream that will use it, as the protocol writes it (1 for CUDA's 0): the producer lets
        it wait for its own.

    Attributes
    ----------
    place : address, shape, strides in bytes, element type, number of the GPU
    is_readonly : bool

    Raises
    ------
    BufferError
        If the elements are of a type that NumPy has no word for.
    """

    def __init__(self, producer: Any, stream: int) -> None:
        # the capsule gives the tensor back when it goes, unless a consumer has renamed it
        self._capsule = producer.__dlpack__(stream=stream)
        name = _name(self._capsule)
        start = _pointer(self._capsule, name)
        at = start + _TENSOR_AT[name]
        data, _, number, rank, code, bits, lanes, shape_at, strides_at, offset = _TENSOR.unpack(
            ctypes.string_at(at, _TENSOR.size)
        )
        dtype = _dtype(code, bits, lanes)
        item = dtype.itemsize
        shape = tuple((ctypes.c_int64 * rank).from_address(shape_at)) if rank else ()
        if strides_at and rank:
            strides = tuple(item * s for s in (ctypes.c_int64 * rank).from_address(strides_at))
        else:
            dense = [item]
            for extent in reversed(shape[1:]):
                dense.append(dense[-1] * extent)
            strides = tuple(reversed(dense[:rank]))
        self.place = (data + offset, shape, strides, dtype, number)
        flags = ctypes.c_uint64.from_address(start + _FLAGS_AT).value if at != start else 0
        self.is_readonly = bool(flags & _IS_READONLY)


def _dtype(code: int, bits: int, lanes: int) -> np.dtype[Any]:
    found: np.dtype[Any]
    if lanes == 1 and (code, bits) == (_BFLOAT, 16):
        import ml_dtypes  # on use: only bfloat16 needs it

        found = np.dtype(ml_dtypes.bfloat16)
    elif lanes == 1 and code in _KINDS and bits % 8 == 0:
        found = np.dtype(f"{_KINDS[code]}{bits // 8}")
    else:
        raise BufferError(f"elements of type code {code}, {bits} bits, {lanes} lanes")
    return found
