"""What an op's text runs as on tensors in a GPU's memory.

A call on them has no form that a launcher knows, so `Forms` hands it over: the same text becomes a
kernel of the GPU (`tcdsl/calls/gpu`), on the current stream of the library that serves the device.
Of the texts of gradients the same holds; so nothing else is said of a GPU in this room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from tcdsl.calls.arguments import Arguments
from tcdsl.calls.dispatch import Dispatch
from tcdsl.calls.gpu.device_calls import DeviceCalls
from tcdsl.calls.operands.device_arrays import DeviceArray, native_place
from tcdsl.codegen.device.device import Device
from tcdsl.core import Tensor
from tcdsl.ops import on_device


class TensorCalls(DeviceCalls):
    """Calls of a text on tensors in a GPU's memory, with tensors as outputs."""

    def __init__(self, dispatch: Dispatch, on_host: Callable[[Arguments], Any]) -> None:
        super().__init__(dispatch, on_host)
        self._readers = {}  # every tensor is looked at: those of the host are of the same type

    def device(self, number: int) -> Device:
        """Return a GPU whose arrays are tensors."""
        return on_device.device(number)

    def _look(self, value: Any, name: str, *, is_output: bool = False) -> Any:
        if isinstance(value, Tensor):
            return (*on_device.place_of(value), on_device.as_array(value))
        if isinstance(value, DeviceArray):
            return native_place(value)
        return value

    def _results(self, outs: tuple[Any, ...], given: Arguments, seen: Sequence[Any]) -> Any:
        return outs[0] if len(outs) == 1 else self._dispatch.result(outs)

    def _written(self, device: Device, outputs: tuple[Any, ...]) -> Any:
        return outputs[0] if len(outputs) == 1 else self._dispatch.result(outputs)


def calls_of(dispatch: Dispatch) -> TensorCalls:
    """Return what makes the calls of a definition on tensors of GPUs."""
    return TensorCalls(dispatch, _never)


def run(
    calls: TensorCalls,
    name: str,
    values: Sequence[Any],
    outs: tuple[Tensor, ...] | None,
    generics: Mapping[str, Any],
) -> Any:
    """Return what an op gives for tensors of which at least one lies on a GPU, and numbers.

    A tensor of the host of rank 0 counts as a number.

    Raises
    ------
    RuntimeError
        If tensors lie in several places.
    """
    places = {v._device: None for v in (*values, *(outs or ())) if _has_place(v)}
    if len(places) > 1:
        shown = " and ".join(_named(p) for p in places)
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{shown}! (when computing {name}; x.to(device) moves a tensor)"
        )
    operands = tuple(_operand(v) for v in values)
    if outs is None and not any(isinstance(v, Tensor) and v.ndim for v in operands):
        return None  # numbers only: they are computed on the host
    return calls._call(Arguments(operands, outs, generics))


def _has_place(value: Any) -> bool:
    return isinstance(value, Tensor) and (value._device > 0 or value.ndim > 0)


def _operand(value: Any) -> Any:
    if isinstance(value, Tensor) and not value._device:
        return value._array()[()]
    return value


def _named(place: int) -> str:
    return f"cuda:{place - 1}" if place else "cpu"


def _never(given: Arguments) -> NoReturn:
    raise AssertionError("calls with numbers only are the host's")
