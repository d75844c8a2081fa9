"""Arrays between pages that cannot be touched: an access one element outside ends the process."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any, Literal

import numpy as np

from tcdsl.autotune.worker.case import Array, Operand, dtype_named

Place = Literal["after", "before"]  # which guard page the array touches

CANARY = 0xC3  # what lies between an array and the page it does not touch

_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
)  # fmt: skip
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_NONE, _READ, _WRITE = 0, mmap.PROT_READ, mmap.PROT_WRITE


class GuardedBytes:
    """Bytes that end right before, or begin right after, a page that cannot be touched.

    Parameters
    ----------
    size_bytes : int
    place : {"after", "before"}
        The guard page that the bytes touch; the other is less than a page away.
    align : int
        A power of two. With place "after" up to align - 1 bytes stay between the end and the page.
    """

    def __init__(self, size_bytes: int, place: Place, align: int = 1) -> None:
        inner = -(-max(size_bytes, 1) // _PAGE) * _PAGE
        self._length = inner + 2 * _PAGE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._base = _libc.mmap(None, self._length, _READ | _WRITE, flags, -1, 0)
        if self._base in (None, ctypes.c_void_p(-1).value):
            raise MemoryError(f"cannot map {self._length} bytes")
        self._first = self._base + _PAGE
        self._inner = inner
        _protect(self._base, _PAGE, _NONE)
        _protect(self._first + inner, _PAGE, _NONE)
        offset = (inner - size_bytes) // align * align if place == "after" else 0
        self.address = self._first + offset
        room = (ctypes.c_uint8 * inner).from_address(self._first)
        self._room = np.frombuffer(memoryview(room), np.uint8)
        self._room[:] = CANARY
        self.bytes = self._room[offset : offset + size_bytes]
        self._outside = (self._room[:offset], self._room[offset + size_bytes :])

    def seal(self) -> None:
        """Make the bytes read-only."""
        _protect(self._first, self._inner, _READ)

    def is_intact(self) -> bool:
        """Whether nothing was written between the bytes and the guard pages."""
        return all(bool((part == CANARY).all()) for part in self._outside)

    def close(self) -> None:
        """Give the memory back; no view of it may be used any more."""
        _libc.munmap(self._base, self._length)

    def __enter__(self) -> GuardedBytes:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class GuardedArray:
    """An operand in guarded memory, with its strides.

    values is the array; address the place of its element 0, ..., 0.
    """

    def __init__(self, operand: Operand, place: Place, data: Array | None) -> None:
        self._operand, self._data = operand, data
        self._dtype = dtype_named(operand.dtype)
        self._memory = GuardedBytes(operand.size_bytes, place, self._dtype.itemsize)
        self.address = self._memory.address + operand.lead_bytes
        self.values = operand.view(self._memory.bytes)
        if data is not None and operand.size_bytes:
            self.values[...] = data
        if not operand.is_written:
            self._memory.seal()

    def reset(self, poison: int) -> None:
        """Fill an output with a byte, or with its initial value."""
        self.values[...] = self._filled(poison) if self._data is None else self._data

    def fault(self) -> str | None:
        """Say what was written outside the elements, or None."""
        if not self._memory.is_intact():
            return "bytes next to it were written"
        if self._operand.is_written and self.values.nbytes < self._memory.bytes.size:
            rest = self._memory.bytes.copy()
            self._operand.view(rest)[...] = self._filled(CANARY)
            if not (rest == CANARY).all():
                return "bytes between its elements were written"
        return None

    def _filled(self, byte: int) -> Any:
        """Return the value whose bytes are all the same."""
        return np.full(self._dtype.itemsize, byte, np.uint8).view(self._dtype)[0]


def _protect(address: Any, length: int, access: int) -> None:
    if _libc.mprotect(address, length, access) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
