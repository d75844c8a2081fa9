"""Arguments in a GPU's memory, seen as `arguments` sees NumPy's: places, no copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tcdsl.calls.operands.dlpack import CUDA_DEVICES, Borrowed
from tcdsl.calls.operands.foreign import plain
from tcdsl.codegen.device import devices
from tcdsl.codegen.device.device import Device, Place, Shape
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import TCTypeError

_LEGACY_STREAM = 1  # how protocols write CUDA's stream 0, which they do not allow


class Flags(NamedTuple):
    """What of `numpy.ndarray.flags` a call asks for."""

    c_contiguous: bool
    aligned: bool
    writeable: bool


@dataclass(frozen=True, slots=True, eq=False)
class DeviceArray:
    """An array in a GPU's memory, with the attributes of an ndarray that calls look at.

    strides count bytes. device is the number of the GPU. owner keeps the memory.
    """

    address: int
    shape: Shape
    strides: Shape
    dtype: np.dtype[Any]
    device: int
    owner: object
    is_writeable: bool = True

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def flags(self) -> Flags:
        """How it lies."""
        item = self.itemsize
        aligned = self.address % min(item, 16) == 0
        return Flags(is_dense(self.shape, self.strides, item), aligned, self.is_writeable)

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Refuse: to NumPy it would be an object like any other, and results would mean nothing."""
        raise TCTypeError(
            f"an array on GPU {self.device} is not in the host's memory\n"
            "  bring it there: x.cpu() of a tensor, cupy.asnumpy(x)"
        )

    def copy(self) -> DeviceArray:
        """Refuse: memory of a device is not copied for how it lies, as the host's is.

        There it is a mistake, and a copy costs memory that GPUs are short of.
        """
        raise TCTypeError(
            f"an array on GPU {self.device} has elements that do not lie at multiples of their "
            f"size (address {self.address:#x}, strides {self.strides})\n  pass a copy of it"
        )

    @property
    def reach(self) -> tuple[int, int]:
        """Where the first byte and the one behind the last lie, from the address."""
        if not self.size:
            return 0, 0
        ends = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        return sum(e for e in ends if e < 0), sum(e for e in ends if e > 0) + self.itemsize


def is_dense(shape: Shape, strides: Shape, item: int) -> bool:
    """Whether elements lie in C order without gaps; extents of 1 have no stride worth the name."""
    if 0 in shape:
        return True
    dense = item
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != dense:
            return False
        dense *= extent
    return True


def may_overlap(a: DeviceArray, b: DeviceArray) -> bool:
    """Whether the memory between their first and last bytes meets."""
    (a_low, a_high), (b_low, b_high) = a.reach, b.reach
    apart = b.address - a.address
    return a.device == b.device and a_low < b_high + apart and b_low + apart < a_high


# ---- from what a caller has

# Types that lie on the host, and those of whose arrays a device reads the place itself, so far as
# such have been seen.
_host_types: set[type] = {np.ndarray, int, float, bool, complex, list, tuple, str, type(None)}
NATIVE: dict[type, Callable[[Any], Place]] = {
    DeviceArray: lambda a: (a.address, a.shape, a.strides, a.dtype, a.device)
}


def is_on_device(value: object) -> bool:
    """Whether a value is an array in the memory of a GPU."""
    kind = type(value)
    if kind in NATIVE:
        return True
    if kind in _host_types:
        return False
    if hasattr(kind, "__dlpack_device__"):
        try:
            on_device = value.__dlpack_device__()[0] in CUDA_DEVICES  # type: ignore[attr-defined]
        except Exception:  # a foreign object may raise anything; as_array says what is wrong
            return False
        if isinstance(value, np.ndarray | np.generic):
            _host_types.add(kind)
        return bool(on_device)
    if hasattr(kind, "__cuda_array_interface__"):
        return True
    _host_types.add(kind)
    return False


def is_native(value: object) -> bool:
    """Whether a value is an array of a device's own library."""
    return type(value) in NATIVE


def native_place(value: object) -> Place | None:
    """Return where an array of a device's own library lies, quickly; None for other values."""
    place = NATIVE.get(type(value))
    return None if place is None else place(value)


def as_device_array(
    value: Any,
    name: str,
    *,
    is_output: bool = False,
    device_at: Callable[[int], Device] | None = None,
) -> DeviceArray:
    """Return a value that `is_on_device` as an array that shares its memory.

    What the device's current stream is given from now on comes after what the value's own stream
    was given so far.

    Parameters
    ----------
    value : cupy.ndarray, or any object with ``__dlpack__`` or ``__cuda_array_interface__``
    name : str
        The parameter, for messages.
    is_output : bool, default False
        Whether it will be written.
    device_at : callable, optional
        Gives the device of a number, whose current stream will use the array; by default the one
        whose library is CuPy, for whose arrays there is nothing to wait.

    Raises
    ------
    TCTypeError
        If it gives no memory, its elements are more than that, or its type is none that the
        language has.
    DeviceError
        If its GPU cannot be used.
    """
    if isinstance(value, DeviceArray):
        return value
    place = native_place(value)
    if place is not None and device_at is None:
        return DeviceArray(*place, value)
    if not hasattr(value, "__dlpack__"):
        return _by_interface(value, name, device_at or devices.device)
    number = int(value.__dlpack_device__()[1])
    own = devices.device(number)
    if isinstance(value, own.array_type):
        NATIVE[own.array_type] = own.place
        if device_at is None:
            return DeviceArray(*own.place(value), value)
    device = own if device_at is None else device_at(number)
    value = plain(value, name, is_output=is_output)
    try:
        with device.active():
            taken = Borrowed(value, device.stream() or _LEGACY_STREAM)
    except Exception as refusal:  # a foreign `__dlpack__` may raise anything
        why = str(refusal) or type(refusal).__name__
        raise TCTypeError(f"argument '{name}' gives no memory: {why}") from None
    return DeviceArray(*taken.place, (taken, value), not taken.is_readonly)


def _by_interface(value: Any, name: str, device_at: Callable[[int], Device]) -> DeviceArray:
    """Return the array of an object with ``__cuda_array_interface__`` only (numba's).

    References
    ----------
    CUDA Array Interface, version 3.
    """
    facts = value.__cuda_array_interface__
    dtype = np.dtype(facts["typestr"])
    if not dtype.isnative:
        raise TCTypeError(f"argument '{name}' has bytes in foreign order ({dtype.str})")
    if facts.get("mask") is not None:
        raise TCTypeError(f"argument '{name}' has a mask\n  pass the array without it")
    address, is_readonly = facts["data"]
    shape = tuple(facts["shape"])
    strides = facts.get("strides")
    if strides is None:
        strides = dense_strides(shape, dtype.itemsize)
    number = 0 if 0 in shape else devices.device_of(address).number  # nothing is nowhere
    device = device_at(number)
    stream = facts.get("stream")
    if stream is not None:
        with device.active():
            own = device.stream()
            if own != (0 if stream == _LEGACY_STREAM else stream):
                device.wait(own, stream)
    return DeviceArray(address, shape, tuple(strides), dtype, device.number, value, not is_readonly)


def dense_strides(shape: Shape, item: int) -> Shape:
    """Return the strides of C order, in bytes."""
    strides = []
    for extent in reversed(shape):
        strides.append(item)
        item *= extent
    return tuple(reversed(strides))
