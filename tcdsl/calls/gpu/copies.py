"""Copies to, on and from a GPU; those in other layouts than C order by kernels of our own.

CuPy's kernels for these need the headers of a CUDA toolkit, which we do not ask for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn, Protocol

import numpy as np

from tcdsl.calls.arguments import Arguments
from tcdsl.calls.bindings.parsed import parsed
from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.settings import Settings
from tcdsl.calls.bindings.variant import Variant
from tcdsl.calls.dispatch import Dispatch
from tcdsl.calls.operands.device_arrays import DeviceArray, dense_strides
from tcdsl.codegen.device.device import Device, HostArray


class Calls(Protocol):
    """What makes the calls of a definition: `DeviceCalls`."""

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], /) -> Any:
        """Call."""


KindOfCalls = Callable[[Dispatch, Callable[[Arguments], Any]], Calls]


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


def copy(kind: KindOfCalls, source: DeviceArray, target: DeviceArray) -> None:
    """Copy elements on the stream on which calls of a kind run; the arrays must not overlap."""
    if not source.shape:
        source, target = (replace(a, shape=(1,), strides=(a.itemsize,)) for a in (source, target))
    _copier(source.ndim, kind)((source,), {"out": target})


def fill(kind: KindOfCalls, device: Device, target: DeviceArray, value: Any) -> None:
    """Set every element on the stream on which calls of a kind run."""
    one = np.array(value, target.dtype)
    memory = device.allocate(one.nbytes)
    device.upload(memory.address, one, device.stream())
    strides = (0,) * target.ndim
    copy(kind, replace(target, address=memory.address, strides=strides, owner=memory), target)


@functools.cache
def _copier(rank: int, kind: KindOfCalls) -> Calls:
    sizes = ", ".join(f"N{d}" for d in range(rank))
    at = ", ".join(f"i{d}" for d in range(rank))
    text = f"def copy<T>(T({sizes}) A) -> (B) {{ B({at}) = A({at}) }}"
    session = Session(parsed(text, "<copy>"), Settings(tune="off", check="off"))
    return kind(Dispatch(session, session.definition("copy"), _untuned), _on_host)


def _untuned(_: Variant) -> NoReturn:
    raise AssertionError("copies are not tuned at calls")


def _on_host(_: Arguments) -> NoReturn:
    raise AssertionError("copies are of arrays on a GPU")
