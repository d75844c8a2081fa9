"""The GPUs at hand, by their numbers."""

from __future__ import annotations

import threading

from tcdsl.codegen.device.device import Device
from tcdsl.grammar.text.errors import DeviceError

_devices: dict[int, Device] = {}
_lock = threading.Lock()


def device(number: int) -> Device:
    """Return a GPU by its number; each is opened once.

    Raises
    ------
    DeviceError
        If CuPy, the driver or the device is missing, with the cure.
    """
    found = _devices.get(number)
    if found is None:
        from tcdsl.codegen.device.cuda import CupyDevice  # on use: it loads CuPy

        with _lock:
            found = _devices.get(number)
            if found is None:
                found = _devices[number] = CupyDevice(number)
    return found


def count() -> int:
    """Return how many GPUs there are, 0 where none can be used."""
    from tcdsl.codegen.device import cuda  # on use: it loads CuPy

    try:
        found = cuda.device_count()
    except DeviceError:
        found = 0
    return max([found, *(number + 1 for number in _devices)])


def device_of(address: int) -> Device:
    """Return the GPU in whose memory an address is.

    Raises
    ------
    DeviceError
        If there is none.
    """
    for known in _devices.values():
        if known.owns(address):
            return known
    from tcdsl.codegen.device.cuda import device_of

    return device(device_of(address))


def register(new: Device) -> None:
    """Let another device serve a number, a simulated one for example."""
    _devices[new.number] = new


def unregister(number: int) -> None:
    """Forget a device; the next use of its number opens it anew."""
    _devices.pop(number, None)
