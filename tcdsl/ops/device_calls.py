"""What an op's text runs as on tensors in a GPU's memory, or in none.

A call on them has no form that a launcher knows, so `Forms` hands it over: the same text becomes a
kernel of the GPU (`tcdsl/calls/gpu`), on the current stream of the library that serves the device.
Of the texts of gradients the same holds; so nothing else is said of a GPU in this room. Of tensors
without memory a call gives the forms that its text says, and runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from tcdsl.calls.arguments import Arguments
from tcdsl.calls.call import KernelCall
from tcdsl.calls.dispatch import Dispatch
from tcdsl.calls.gpu.device_calls import DeviceCalls
from tcdsl.calls.operands.device_arrays import DeviceArray, native_place
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.device.device import Device
from tcdsl.core import Tensor, record, written
from tcdsl.core.dtypes import DType, dtype_of
from tcdsl.ops import on_device
from tcdsl.ops.on_device import META
from tcdsl.ops.recipes import Texted
from tcdsl.ops.strides import Strides
from tcdsl.ops.writing import any_recorded, unrecorded


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


class Placed(Texted, Protocol):
    """An op of a text, and what makes its calls on GPUs."""

    dispatch: Dispatch
    lock: Lock
    calls_on_gpus: TensorCalls | None  # once there were some

    def laid(self, call: KernelCall, values: Sequence[Any]) -> tuple[Strides | None, ...] | None:
        """Return the strides of fresh results, None where all are in C order."""

    def write_recorded(self, values: tuple[Any, ...]) -> Any:
        """Write into a tensor by a call that is recorded."""


def run(
    forms: Placed, values: tuple[Any, ...], dtype: DType, outs: tuple[Tensor, ...] | None
) -> Any:
    """Run an op's call on tensors of which at least one lies on a GPU, and numbers; record it.

    A tensor of the host of rank 0 counts as a number.

    Raises
    ------
    RuntimeError
        If tensors lie in several places.
    """
    needs = sum(1 << i for i, v in enumerate(values) if any_recorded((v,)))
    if needs and outs is not None:
        return forms.write_recorded(values)
    typed = tuple(
        v
        if isinstance(v, Tensor) or p not in forms.text.variables
        else forms.text.number(p, v, dtype)
        for p, v in zip(forms.params, values, strict=True)
    )
    operands = _operands(forms.name, typed, outs)
    if any(isinstance(v, Tensor) and v._device == META for v in (*operands, *(outs or ()))):
        result = _forms_alone(forms, values, dtype, outs)
    elif outs is None and not any(isinstance(v, Tensor) and v.ndim for v in operands):
        result = _of_numbers(forms, values)
    else:
        fresh = None if outs is not None else _laid_outputs(forms, values, dtype)
        given = Arguments(operands, outs or fresh, forms.text.generics(dtype))
        result = _calls_of(forms)._call(given)
    for out in outs or ():
        written(out)
    made = result if len(forms.returns) > 1 else (result,)
    if needs and any(t.dtype.is_floating_point for t in made):
        if forms.meaning.vjp is None and not forms.meaning.backward:
            raise RuntimeError(
                f"{forms.op.name}: the derivative of this operation is not implemented"
            )
        recipe = forms.recipes.of(forms.text.variant(values, dtype), needs)
        record(forms.op.name, recipe, None, values, tuple(made), needs)
    return result


def _laid_outputs(forms: Placed, values: Sequence[Any], dtype: DType) -> tuple[Tensor, ...] | None:
    """Return outputs that lie as operands do, None where all are in C order."""
    if all(v.is_contiguous() for v in values if isinstance(v, Tensor)):
        return None
    call = KernelCall(*forms.text.bind(forms.text.arrays(values, dtype), dtype), ())
    laid = forms.laid(call, values)
    if laid is None:
        return None
    number = next(v._device for v in values if isinstance(v, Tensor) and v._device) - 1
    return tuple(
        on_device.empty(shape, _type_of(kind), number, strides)
        for (kind, shape), strides in zip(call.return_types, laid, strict=True)
    )


def _calls_of(forms: Placed) -> TensorCalls:
    with forms.lock:
        forms.calls_on_gpus = forms.calls_on_gpus or TensorCalls(forms.dispatch, _never)
        return forms.calls_on_gpus


def _operands(name: str, values: Sequence[Any], outs: tuple[Tensor, ...] | None) -> tuple[Any, ...]:
    """Return what a kernel is called with, where all tensors lie on one GPU."""
    places = {v._device: None for v in (*values, *(outs or ())) if _has_place(v)}
    if len(places) > 1:
        shown = " and ".join(_named(p) for p in places)
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{shown}! (when computing {name}; x.to(device) moves a tensor)"
        )
    return tuple(_operand(v) for v in values)


def _of_numbers(forms: Placed, values: tuple[Any, ...]) -> Any:
    """Return what the host computes of tensors of rank 0 in a GPU's memory, there."""
    place = next(v._device for v in values if isinstance(v, Tensor) and v._device)
    hosts = (on_device.moved(v, 0) if isinstance(v, Tensor) else v for v in values)
    with unrecorded():
        result = forms.op(*hosts)
        outs = result if len(forms.returns) > 1 else (result,)
        there = tuple(on_device.moved(o, place) for o in outs)
    return there[0] if len(there) == 1 else forms.result(there)


def _forms_alone(
    forms: Placed, values: tuple[Any, ...], dtype: DType, outs: tuple[Tensor, ...] | None
) -> Any:
    """Return what a call gives of tensors without memory: tensors of the right forms."""
    variant, sizes = forms.text.bind(forms.text.arrays(values, dtype), dtype)
    call = KernelCall(variant, sizes, ())
    laid = forms.laid(call, values) or (None,) * len(call.return_types)
    made = tuple(
        on_device.empty(shape, _type_of(kind), META - 1, strides)
        for (kind, shape), strides in zip(call.return_types, laid, strict=True)
    )
    if outs is not None:
        call.check_outputs([o._array() for o in outs])
        made = outs
    return made[0] if len(made) == 1 else forms.result(made)


def _type_of(numpy: np.dtype[Any]) -> DType:
    found = dtype_of(numpy)
    assert found is not None, "a return is of a type that tensors have"
    return found


def _has_place(value: Any) -> bool:
    return isinstance(value, Tensor) and (value._device > 0 or value.ndim > 0)


def _operand(value: Any) -> Any:
    if isinstance(value, Tensor) and not value._device:
        return value._array()[()]
    return value


def _named(place: int) -> str:
    return "meta" if place == META else f"cuda:{place - 1}" if place else "cpu"


def _never(given: Arguments) -> NoReturn:
    raise AssertionError("calls with numbers only are the host's")
