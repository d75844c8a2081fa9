"""Subscripts outside their tensors that kernels on a GPU met, and when the caller hears of them.

A kernel that checks subscripts has a record (`tc_error` of the prelude) in page-locked memory of
the host, which the GPU reaches by the same address; there is one for each definition on each
stream. To look whether something happened is to read memory: nothing is copied and nobody waits.
The record is filled by the first fault and read after waiting for the stream.
"""

from __future__ import annotations

import ctypes

from tcdsl.calls.bounds import OperandNames, bounds_error
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.device.device import Device, Memory
from tcdsl.grammar.text.errors import BoundsError

_FIELDS = 5  # code, operand, dim, value, extent
_RECORD_BYTES = 64
# Page-locked memory cannot be had while a stream is captured, a record in it can.
_BLOCK_BYTES = 1024 * _RECORD_BYTES


class FaultRecord:
    """One `tc_error` in the host's memory."""

    __slots__ = ("_fields", "_keep", "_names", "address")

    def __init__(self, names: OperandNames, memory: Memory, offset: int) -> None:
        self.address = memory.address + offset
        self._fields = (ctypes.c_int64 * _FIELDS).from_address(self.address)
        self._names = names
        self._keep = memory

    @property
    def is_filled(self) -> bool:
        """Whether a kernel has met a fault, or is about to say which."""
        return self._fields[0] != 0

    def take(self) -> BoundsError:
        """Return the fault as an error, and empty the record."""
        _, operand, dim, value, extent = self._fields
        self._fields[:] = [0] * _FIELDS
        return bounds_error(self._names, operand, dim, value, extent)


class FaultRecords:
    """The records of one device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._lock = Lock()
        self._records: dict[int | None, dict[OperandNames, FaultRecord]] = {}
        self._block: Memory | None = None
        self._used = 0

    def record(self, stream: int | None, names: OperandNames) -> FaultRecord:
        """Return where kernels of a definition on a stream write what they meet.

        Without a stream it is a record that nobody looks at.
        """
        found = self._records.get(stream, {}).get(names)
        if found is not None:
            return found
        with self._lock:
            known = self._records.get(stream, {})
            if names not in known:
                if self._block is None or self._used == _BLOCK_BYTES:
                    self._block, self._used = self._device.pinned(_BLOCK_BYTES), 0
                made = FaultRecord(names, self._block, self._used)
                self._used += _RECORD_BYTES
                # replaced, not changed: others may be reading it
                self._records[stream] = known = {**known, names: made}
            return known[names]

    def poll(self, stream: int) -> None:
        """Raise the fault of a kernel that was started on a stream before, if it is known yet.

        While the stream is captured nobody may wait for it; what is known then is raised later.
        """
        records = self._records.get(stream)
        if records is not None:
            for record in records.values():
                if record.is_filled and not self._device.is_capturing(stream):
                    self._device.synchronize(stream)
                    raise record.take()

    def synchronize(self) -> None:
        """Wait for the device, and raise a fault of any stream."""
        self._device.synchronize()
        for stream, records in list(self._records.items()):
            for record in records.values():
                if stream is not None and record.is_filled:
                    raise record.take()


_of_devices: dict[int, tuple[Device, FaultRecords]] = {}
_lock = Lock()


def faults_of(device: Device) -> FaultRecords:
    """Return the records of a device."""
    with _lock:
        found = _of_devices.get(device.number)
        if found is None or found[0] is not device:
            found = _of_devices[device.number] = device, FaultRecords(device)
        return found[1]


def synchronize() -> None:
    """Wait until all GPUs that kernels were called on have done their work.

    Raises
    ------
    BoundsError
        If a kernel met a subscript outside its tensor since the last call that raised.
    """
    with _lock:
        known = list(_of_devices.values())
    for device, faults in known:
        with device.active():
            faults.synchronize()
