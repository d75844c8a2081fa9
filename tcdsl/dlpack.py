"""bfloat16 through DLPack, which NumPy neither takes nor gives: labelled as uint16 on the way.

References
----------
DLPack C API 1.1: ``DLManagedTensor``, ``DLManagedTensorVersioned``, ``DLDataTypeCode``.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

_UINT, _BFLOAT = 1, 4
# Where the code of the element type stands: in DLTensor behind data, device and rank; before it
# the versioned struct has version, context, deleter and flags.
_CODE_AT = {b"dltensor": 20, b"dltensor_versioned": 32 + 20}

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
