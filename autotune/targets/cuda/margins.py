"""Memory of a GPU between margins that nothing may write: the check's eyes on a device.

A device has no guard pages: what is read outside an operand is a poison that spoils the answer,
what is written outside is found afterwards.
"""

from __future__ import annotations

import numpy as np

from tcdsl.autotune.worker.case import Array, Operand, dtype_named
from tcdsl.codegen.device.device import Device

MARGIN = 4096  # bytes on each side
_SEALED = 0xFF  # in margins of inputs: NaN, or -1


class Margins:
    """Bytes of a device with a margin on each side.

    Parameters
    ----------
    device : Device
    stream : int
        Of all that is done with them.
    size_bytes : int
    shift_bytes : int, default 0
        How far the bytes begin behind a multiple of 256.
    """

    def __init__(self, device: Device, stream: int, size_bytes: int, shift_bytes: int = 0) -> None:
        self._device, self._stream = device, stream
        self._first = MARGIN + shift_bytes
        self._inner = slice(self._first, self._first + size_bytes)
        self._memory = device.allocate(self._first + size_bytes + MARGIN)
        self._size = self._first + size_bytes + MARGIN
        self._byte = _SEALED
        self.address = self._memory.address + self._first

    def fill(self, byte: int) -> None:
        """Set every byte, of the margins too."""
        self._byte = byte
        self._device.fill(self._memory.address, byte, self._size, self._stream)

    def write(self, inner: Array) -> None:
        """Set the bytes between the margins."""
        self._device.upload(self.address, inner, self._stream)

    def read(self) -> tuple[Array, bool]:
        """Return the bytes between the margins, and whether the margins are as they were filled."""
        everything = np.empty(self._size, np.uint8)
        self._device.download(everything, self._memory.address, self._stream)
        margins = (everything[: self._inner.start], everything[self._inner.stop :])
        return everything[self._inner], all(bool((m == self._byte).all()) for m in margins)


class DeviceOperand:
    """An operand in memory of a device, with its strides.

    address is the place of its element 0, ..., 0.

    Parameters
    ----------
    device : Device
    stream : int
    operand : Operand
    data : ndarray or None
        What it holds before a call; None for a mere output.
    shift : int
        Elements by which it begins behind a multiple of 256 bytes.
    """

    def __init__(
        self, device: Device, stream: int, operand: Operand, data: Array | None, shift: int
    ) -> None:
        self.operand, self._data = operand, data
        shift_bytes = shift * dtype_named(operand.dtype).itemsize
        self._memory = Margins(device, stream, operand.size_bytes, shift_bytes)
        self.address = self._memory.address + operand.lead_bytes
        self.reset(_SEALED)

    def reset(self, poison: int) -> None:
        """Set an output to poison, or to what it holds before a call; an input to its data."""
        self._memory.fill(poison if self.operand.is_written else _SEALED)
        if self._data is not None and self.operand.size_bytes:
            self._memory.write(self._image(poison))

    def values(self, poison: int) -> tuple[Array, str | None]:
        """Return what it holds now, and what was written that should not have been, or None.

        poison is that of the last reset.
        """
        found, is_intact = self._memory.read()
        values = self.operand.view(found)
        if not is_intact:
            return values, "bytes next to it were written"
        wanted = self._image(poison)
        where = "it was"
        if self.operand.is_written:
            self.operand.view(wanted)[...] = values
            where = "bytes between its elements were"
        return values, None if bool((found == wanted).all()) else f"{where} written"

    def _image(self, poison: int) -> Array:
        """Return the bytes between the margins after a reset."""
        byte = poison if self.operand.is_written else _SEALED
        image = np.full(self.operand.size_bytes, byte, np.uint8)
        if self._data is not None and self.operand.size_bytes:
            self.operand.view(image)[...] = self._data
        return image
