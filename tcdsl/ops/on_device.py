"""Tensors in a GPU's memory, or in none: made, and moved."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from tcdsl.calls.operands.device_arrays import DeviceArray
from tcdsl.codegen.device import devices
from tcdsl.codegen.device.device import Device, Memory, Place, Shape
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.core import (
    GRAD,
    Recipe,
    Tensor,
    from_numpy,
    is_grad_enabled,
    lent,
    record,
    setup,
)
from tcdsl.core import empty as host_empty
from tcdsl.core.dtypes import DType
from tcdsl.ops.strides import laid_out

META = 1 << 14  # the place of tensors without memory, beyond those of GPUs


class TensorDevice:
    """A `tcdsl.codegen.device.device.Device` whose arrays are Tensors.

    Parameters
    ----------
    own : Device
        The same GPU, which does everything else: CuPy's streams and memory.
    """

    array_type: type = Tensor

    def __init__(self, own: Device) -> None:
        self.own = own
        self.number: int = own.number
        self.gpu: Gpu = own.gpu
        self.load, self.raw = own.load, own.raw
        self.stream, self.wait, self.event = own.stream, own.wait, own.event
        self.synchronize, self.is_capturing = own.synchronize, own.is_capturing
        self.allocate, self.pinned = own.allocate, own.pinned
        self.upload, self.download = own.upload, own.download
        self.owns, self.fill = own.owns, own.fill

    def active(self) -> AbstractContextManager[object]:
        """Return a context in which this is the thread's current device."""
        return self.own.active()

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Tensor:
        """Return a new tensor, in C order; the device is the current one."""
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        memory: Memory = self.allocate(max(1, size))
        strides = [1] * len(shape)
        for d in range(len(shape) - 1, 0, -1):
            strides[d - 1] = strides[d] * max(1, shape[d])
        code = self.number + 1
        return lent(memory, memory.address, size, shape, tuple(strides), dtype.num, code, False)

    def place(self, array: Tensor) -> Place:
        """Return where a tensor lies."""
        return place_of(array)


_opened: dict[int, TensorDevice] = {}


def device(number: int) -> TensorDevice:
    """Return a GPU by its number.

    Raises
    ------
    DeviceError
        If CuPy, the driver or the device is missing, with the cure.
    """
    own = devices.device(number)
    found = _opened.get(number)
    if found is None or found.own is not own:
        found = _opened[number] = TensorDevice(own)
    return found


def place_of(tensor: Tensor) -> Place:
    """Return where a tensor of a GPU lies."""
    dtype: np.dtype[Any] = tensor.dtype.numpy
    strides = tuple(dtype.itemsize * s for s in tensor.stride())
    return tensor.data_ptr(), tuple(tensor.shape), strides, dtype, tensor._device - 1


def as_array(tensor: Tensor) -> DeviceArray:
    """Return the memory of a tensor of a GPU as calls see it."""
    return DeviceArray(*place_of(tensor), tensor)


# ---- made and moved


def empty(
    shape: tuple[int, ...], dtype: DType, number: int, strides: Shape | None = None
) -> Tensor:
    """Return a tensor of undefined contents in the memory of a GPU, or of a form alone.

    strides: of a dense tensor; None for C order.
    """
    if number + 1 == META:
        return _form_alone(shape, dtype, strides)
    there = device(number)
    with there.active():
        if strides is None:
            return there.empty(shape, dtype.numpy)
        row = there.empty((math.prod(shape),), dtype.numpy)
    return laid_out(row, shape, strides)


def _form_alone(shape: tuple[int, ...], dtype: DType, strides: Shape | None = None) -> Tensor:
    """Return a tensor without memory; strides None for C order."""
    steps = [max(1, n) for n in shape]
    strides = strides or tuple(math.prod(steps[d + 1 :]) for d in range(len(shape)))
    size = math.prod(shape) * dtype.itemsize
    return lent(None, 0, size, shape, strides, dtype.numpy.num, META, False)


def empty_beside(like: Tensor, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """Return a tensor of undefined contents where another lies."""
    return empty(shape, dtype, like._device - 1) if like._device else host_empty(shape, dtype)


def on_host(tensor: Tensor) -> Tensor:
    """Return a copy of a tensor of a GPU in the host's memory; it waits for the GPU."""
    if tensor._device == META:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    source = tensor.detach().contiguous()
    values = np.empty(tuple(source.shape), source.dtype.numpy)
    there = device(tensor._device - 1)
    with there.active():
        there.download(values, source.data_ptr(), there.stream())
    return from_numpy(values)


def on_gpu(tensor: Tensor, number: int) -> Tensor:
    """Return a copy of a tensor of the host in the memory of a GPU, or its form alone."""
    if number + 1 == META:
        return _form_alone(tuple(tensor.shape), tensor.dtype)
    values = np.ascontiguousarray(tensor.detach()._array())
    made = empty(tuple(tensor.shape), tensor.dtype, number)
    there = device(number)
    with there.active():
        there.upload(made.data_ptr(), values, there.stream())
    return made


def moved(tensor: Tensor, place: int) -> Tensor:
    """Return a tensor in another memory, a function of it; itself if it lies there.

    place: 0 for the host, n + 1 for GPU n, META for none.
    """
    here = tensor._device
    if here == place:
        return tensor
    source = on_host(tensor) if here else tensor
    made = on_gpu(source, place - 1) if place else source
    if is_grad_enabled() and tensor.requires_grad:
        back = Recipe(partial(_moved_back, here), (GRAD,), (0,))
        record("ToCopyBackward0", back, None, (tensor,), (made,), 1)
    return made


def _moved_back(place: int, gradient: Tensor) -> Tensor:
    return moved(gradient, place)


setup("on_host", on_host)
setup("place", as_array)
