"""Copies to, on and from a GPU; those in other layouts than C order by kernels of our own."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tcdsl.calls.operands.device_arrays import DeviceArray, dense_strides
from tcdsl.codegen.device.device import Device, HostArray

if TYPE_CHECKING:
    from tcdsl.calls.gpu.device_calls import DeviceCalls
    from tcdsl.kernel import Kernel


def to_device(device: Device, values: HostArray) -> Any:
    """Return an array in C order of the device's own library with values of the host."""
    with device.active():
        made = device.empty(values.shape, values.dtype)
        device.upload(device.place(made)[0], np.ascontiguousarray(values), device.stream())
    return made


def to_host(device: Device, array: Any) -> HostArray:
    """Return the values of an array in C order of the device's own library."""
    address, shape, _, dtype, _ = device.place(array)
    values = np.empty(shape, dtype)
    with device.active():
        device.download(values, address, device.stream())
    return values


def new_array(device: Device, like: DeviceArray) -> DeviceArray:
    """Return new memory for elements of the shape and type of others, in C order."""
    memory = device.allocate(max(1, like.size * like.itemsize))
    strides = dense_strides(like.shape, like.itemsize)
    return replace(like, address=memory.address, strides=strides, owner=memory, is_writeable=True)


def copy(calls: DeviceCalls, source: DeviceArray, target: DeviceArray) -> None:
    """Copy elements on the stream on which calls run; the arrays must not overlap."""
    if not source.shape:
        source, target = (replace(a, shape=(1,), strides=(a.itemsize,)) for a in (source, target))
    kind: Any = type(calls)
    _copier(source.ndim, kind)((source,), {"out": target})


def fill(calls: DeviceCalls, device: Device, target: DeviceArray, value: Any) -> None:
    """Set every element on the stream on which calls run."""
    one = np.array(value, target.dtype)
    memory = device.allocate(one.nbytes)
    device.upload(memory.address, one, device.stream())
    strides = (0,) * target.ndim
    copy(calls, replace(target, address=memory.address, strides=strides, owner=memory), target)


@functools.cache
def _copier(rank: int, kind: Any) -> DeviceCalls:
    from tcdsl.definitions import define  # on use: it needs the kernels that need this

    sizes = ", ".join(f"N{d}" for d in range(rank))
    at = ", ".join(f"i{d}" for d in range(rank))
    text = f"def copy<T>(T({sizes}) A) -> (B) {{ B({at}) = A({at}) }}"
    found: Any = define(text, tune="off", check="off", source="<copy>")
    kernel: Kernel = found
    made: DeviceCalls = kind(kernel)
    return made
