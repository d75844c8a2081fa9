"""Calls on tensors of a GPU: on torch's current stream, with outputs from torch's allocator.

A device whose streams and memory are torch's stands in for CuPy's; all else is that of
`tcdsl.Kernel`. Tensors are read by their pointers: nobody waits. CuPy's arrays among them are
waited for, and CuPy's stream waits then, since its pool gives memory out again in the order of that
stream. Records of faults go by the handle of the stream, whoever asked for it. Where a tensor comes
in, tensors come out; a `tcdsl.Kernel`, and `kernel.raw`, stay on CuPy's stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from tcdsl import kernel
from tcdsl.calls import record
from tcdsl.calls.arguments import Arguments
from tcdsl.calls.bindings.variant import Variant
from tcdsl.calls.call import KernelCall
from tcdsl.calls.dispatch import Dispatch
from tcdsl.calls.gpu.bound_call import BoundCall
from tcdsl.calls.gpu.device_calls import DeviceCalls
from tcdsl.calls.operands.device_arrays import (
    NATIVE,
    DeviceArray,
    as_device_array,
    is_on_device,
    native_place,
)
from tcdsl.calls.operands.foreign import like, plain, written
from tcdsl.codegen.device import devices
from tcdsl.codegen.device.device import Device, Memory, Place, Shape
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.errors import DeviceError, TCTypeError
from tcdsl.grammar.types.dtypes import ALL, BFLOAT16

_NUMPYS = {
    getattr(torch, name): np.dtype(name)
    for name in (d.name for d in ALL if d != BFLOAT16)  # which NumPy has by itself
}
_NOWHERE: Any = 0, (), (), None, None  # the place of a tensor that only the checks understand


class TorchDevice:
    """A `tcdsl.codegen.device.device.Device` with the streams and the memory of torch.

    Parameters
    ----------
    own : Device
        The same GPU, which does everything else.

    Raises
    ------
    torch.OutOfMemoryError
        By what allocates: torch's own, as from its functions.
    """

    array_type: type = torch.Tensor

    def __init__(self, own: Device) -> None:
        self.own = own
        self.number: int = own.number
        self.gpu: Gpu = own.gpu
        self._place = torch.device("cuda", own.number)
        self.active, self.load, self.raw = own.active, own.load, own.raw
        self.wait, self.event, self.synchronize = own.wait, own.event, own.synchronize
        self.is_capturing = own.is_capturing
        self.pinned, self.upload, self.download = own.pinned, own.upload, own.download
        self.owns, self.fill = own.owns, own.fill

    def stream(self) -> int:
        """Return the handle of torch's current stream, which is the thread's."""
        handle: int = torch._C._cuda_getCurrentRawStream(self.number)
        return handle

    def allocate(self, size_bytes: int) -> Memory:
        """Return memory that goes back to torch behind what its current stream was given."""
        return _Held(torch.empty(size_bytes, dtype=torch.uint8, device=self._place))

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> torch.Tensor:
        """Return a new tensor."""
        return torch.empty(shape, dtype=getattr(torch, dtype.name), device=self._place)

    def place(self, array: torch.Tensor) -> Place:
        """Return where a tensor lies."""
        return place_of(array)


class _Held:
    """Memory, as torch holds it: at a multiple of 512 bytes."""

    __slots__ = ("_held", "address")

    def __init__(self, held: torch.Tensor) -> None:
        self._held = held
        self.address: int = held.data_ptr()


_opened: dict[int, TorchDevice] = {}


def torch_device(number: int) -> TorchDevice:
    """Return a GPU by its number, with torch's streams and memory."""
    own = devices.device(number)
    found = _opened.get(number)
    if found is None or found.own is not own:
        found = _opened[number] = TorchDevice(own)
    return found


def place_of(tensor: torch.Tensor) -> Place:
    """Return where a tensor lies, on a GPU or not; its memory is what it is.

    Raises
    ------
    TCTypeError
        If its elements are of a type that NumPy has no word for.
    """
    dtype = _NUMPYS.get(tensor.dtype)
    if dtype is None:
        dtype = _NUMPYS[tensor.dtype] = _numpys(tensor.dtype)
    item = dtype.itemsize
    strides = tuple([item * s for s in tensor.stride()])
    return tensor.data_ptr(), tuple(tensor.shape), strides, dtype, tensor.get_device()


def _numpys(dtype: torch.dtype) -> np.dtype[Any]:
    import ml_dtypes  # noqa: F401 - it gives NumPy the names of bfloat16 and its like

    name = str(dtype).removeprefix("torch.")
    try:
        return np.dtype(name)
    except TypeError:
        raise TCTypeError(f"kernels have no type for tensors of {dtype}") from None


def _read(tensor: torch.Tensor) -> Place:
    """Return where a tensor lies, quickly; nowhere if it is more than its memory."""
    if (
        tensor.layout is not torch.strided
        or tensor.dtype not in _NUMPYS
        or tensor.is_neg()
        or tensor._is_zerotensor()
    ):
        place: Place = _NOWHERE
        return place
    return place_of(tensor)


# By exact type: what a subclass is, the checks say.
READERS: dict[type, Callable[[Any], Place]] = {
    torch.Tensor: _read,
    torch.nn.Parameter: _read,
    DeviceArray: NATIVE[DeviceArray],
}


class TensorCalls(DeviceCalls):
    """Calls of which some argument is a tensor: they run where torch's own functions would.

    A tensor is read as it is, and nobody waits: torch orders what uses a tensor by its streams, and
    a tensor that was made on another one is the caller's to wait for, as with torch's functions.
    Arrays of other libraries are handed over as DLPack says, CuPy's both ways.

    While the stream is captured for a CUDA graph nothing waits and nothing is loaded.
    """

    def __init__(self, dispatch: Dispatch, on_host: Callable[[Arguments], Any]) -> None:
        super().__init__(dispatch, on_host)
        self._readers = READERS

    def device(self, number: int) -> Device:
        """Return a GPU with torch's streams and memory."""
        return torch_device(number)

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call; tensors that were written count a version more."""
        result = super().__call__(args, kwargs)
        if kwargs and kwargs.get("out") is not None:
            for out in result if isinstance(result, tuple) else (result,):
                written(out)
        return result

    def _call(self, given: Arguments) -> Any:
        result = super()._call(given)
        for value in (*given.values, *(given.outputs or ())):
            place = None if isinstance(value, DeviceArray) else native_place(value)
            if place is not None:  # CuPy may give its memory to others behind its own stream
                own = devices.device(place[4])
                with own.active():
                    own.wait(own.stream(), self.device(own.number).stream())
                break
        return result

    def _look(self, value: Any, name: str, *, is_output: bool = False) -> Any:
        if isinstance(value, torch.Tensor):
            if not value.is_cuda:
                return value
            tensor = plain(value, name, is_output=is_output)
            place = place_of(tensor)
            return (*place, DeviceArray(*place, tensor))
        if isinstance(value, DeviceArray):
            return native_place(value)
        if not is_on_device(value):
            return value
        a = as_device_array(value, name, is_output=is_output, device_at=self.device)
        return a.address, a.shape, a.strides, a.dtype, a.device, a

    def _of_numbers(self, numbers: Arguments, given: Arguments) -> Any:
        result = super()._of_numbers(numbers, given)
        tensor = next((v for v in given.values if isinstance(v, torch.Tensor) and v.is_cuda), None)
        if given.outputs is not None or tensor is None:
            return result
        device = self.device(tensor.get_device())
        outs = result if len(self._dispatch.returns) > 1 else (result,)
        made = []
        for out in map(np.asarray, outs):
            made.append(device.empty(out.shape, out.dtype))
            made[-1].copy_(like(tensor)(out))
        return self._results(tuple(made), given, ())

    def _number(self, place: tuple[Any, ...]) -> Any:
        self._refuse_capture(
            self.device(place[4]),
            "a number from a GPU's memory is read, which waits for it",
            "give Python's number",
        )
        return super()._number(place)

    def _filled(self, call: KernelCall, device: Device) -> tuple[Any, ...]:
        self._refuse_capture(
            device, "the output that is added to is copied from the host", "give it as out="
        )
        return super()._filled(call, device)

    def _bind(self, call: KernelCall, device: Device, look: Any) -> BoundCall:
        is_loaded = (device.number, call.key) in self._bound
        if not (is_loaded and self._dispatch.is_settled(call)):  # it compiles, loads, maybe tunes
            self._refuse_capture(
                device,
                "machine code for such arguments is not loaded yet",
                "make such a call before the capture",
            )
        return super()._bind(call, device, look)

    def _refuse_capture(self, device: Device, why: str, cure: str) -> None:
        with device.active():
            if device.is_capturing(device.stream()):
                raise DeviceError(
                    f"{self._dispatch.name}: the stream is being captured for a CUDA graph, and "
                    f"{why}\n  {cure}"
                )

    def _results(self, outs: tuple[Any, ...], given: Arguments, seen: Any) -> Any:
        return outs[0] if len(outs) == 1 else self._dispatch.result(outs)

    def _written(self, device: Device, outputs: tuple[Any, ...]) -> Any:
        others = tuple(o for o in outputs if not isinstance(o, torch.Tensor))
        if others:
            super()._written(device, others)  # their library's stream sees what they hold
        return outputs[0] if len(outputs) == 1 else self._dispatch.result(outputs)


class TensorKernel(kernel.Kernel):
    """A kernel whose calls on tensors of a GPU run where torch's own functions would."""

    @cached_property
    def _tensor_calls(self) -> TensorCalls:
        return TensorCalls(self._dispatch, self._host)

    def _call_slowly(self, /, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(v, torch.Tensor) and v.is_cuda for v in args):  # no need to ask DLPack
            record.called(self, args, kwargs)
            return self._tensor_calls(args, kwargs)
        return super()._call_slowly(*args, **kwargs)

    def _calls_on_device(self, values: Iterable[Any]) -> DeviceCalls:
        if any(isinstance(v, torch.Tensor) for v in values):
            return self._tensor_calls
        return super()._calls_on_device(values)

    def _forget_choices(self, variant: Variant) -> None:
        super()._forget_choices(variant)
        self._tensor_calls.clear()
