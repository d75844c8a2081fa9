"""A unit loaded on a GPU with all that calls of one form share."""

from __future__ import annotations

import ctypes
import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tcdsl.calls.bindings.settings import Check
from tcdsl.calls.bounds import OperandNames
from tcdsl.calls.call import KernelCall
from tcdsl.calls.gpu.faults import faults_of
from tcdsl.calls.operands.arguments import as_float, check_integer, element_strides
from tcdsl.calls.operands.device_arrays import DeviceArray, dense_strides
from tcdsl.codegen.device import devices
from tcdsl.codegen.device.device import Device
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.grammar.text.errors import DeviceError
from tcdsl.grammar.types.typed import Tensor

if TYPE_CHECKING:
    from tcdsl.codegen.device.launch import LoadedUnit


class BoundCall:
    """What a call of one form does, given addresses and numbers.

    Parameters
    ----------
    call : KernelCall
        Of that form; its outs are the caller's, or None where fresh ones are made.
    executable : LoadedUnit
    device : Device
        Whose current stream it runs on, and who makes outputs and workspaces.
    names : Names
        For faults.
    check : {"async", "sync", "off"}
        When faults are raised.
    """

    def __init__(
        self,
        call: KernelCall,
        executable: LoadedUnit,
        device: Device,
        names: OperandNames,
        check: Check,
    ) -> None:
        self.device = device
        self._names = names
        gpu = devices.device(device.number)  # what is loaded and recorded is the GPU's own
        self._faults = faults_of(gpu)
        self._is_checked = check != "off"
        self._fresh = [(shape, dtype) for dtype, shape in call.return_types]
        params = call.variant.signature.params
        self._scalars = [(i, converter(t)) for i, t in enumerate(params) if not t.shape]
        self._params = len(params)
        self._inplace = call.variant.signature.inplace
        arrays = [*call.operands, *(call.outs or ())]
        # forms only: the arrays themselves are the caller's to free
        self._forms = [(a.shape, a.strides) if isinstance(a, DeviceArray) else None for a in arrays]
        self._reaches = [a.reach if isinstance(a, DeviceArray) else (0, 0) for a in arrays]
        self._bound = executable.bind(gpu, call.sizes, operand_strides(call))
        self._waits = check == "sync" and self._bound.can_fault

    def __call__(self, places: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
        """Run, and return fresh outputs, arrays of the device's library.

        Parameters
        ----------
        places : sequence of int
            Addresses of the parameters; any number for those of rank 0.
        values : sequence
            Numbers for the parameters of rank 0; anything for the others.
        """
        device = self.device
        with device.active():
            outs = tuple(device.empty(shape, dtype) for shape, dtype in self._fresh)
            self._start([*places, *(device.place(o)[0] for o in outs)], values)
        return outs

    def write(self, places: Sequence[int], values: Sequence[Any]) -> None:
        """Run into buffers, whose addresses stand behind those of the parameters."""
        with self.device.active():
            self._start(places, values)

    def _start(self, places: Sequence[int], values: Sequence[Any]) -> None:
        device, bound = self.device, self._bound
        stream = device.stream()
        if self._waits and device.is_capturing(stream):
            raise DeviceError(
                f"{self._names.kernel} has check='sync', which waits for the GPU, on a stream that "
                "is captured for a CUDA graph\n  with define(check='async') faults of its replays "
                "are told by tcdsl.synchronize()"
            )
        if self._is_checked:
            self._faults.poll(stream)
        scalars = [convert(values[i]) for i, convert in self._scalars]
        fault = 0
        if bound.can_fault:
            fault = self._faults.record(stream if self._is_checked else None, self._names).address
        if bound.workspace_bytes:
            memory = device.allocate(bound.workspace_bytes)  # goes back behind the kernels
            bound.run(places, scalars, memory.address, fault, stream)
        else:
            bound.run(places, scalars, 0, fault, stream)
        if self._waits:
            device.synchronize(stream)
            self._faults.poll(stream)

    def may_write(self, places: Sequence[int]) -> bool:
        """Whether no output meets an input or another output, but where that is allowed."""
        for r in range(self._params, len(places)):
            low, high = self._reaches[r]
            low, high = places[r] + low, places[r] + high
            for p in range(r):
                other_low, other_high = self._reaches[p]
                at = places[p]
                overlaps = low < at + other_high and at + other_low < high
                if overlaps and not self._is_inplace(r, p, places):
                    return False
        return True

    def _is_inplace(self, r: int, p: int, places: Sequence[int]) -> bool:
        form = self._forms[r]
        return (
            (r - self._params, p) in self._inplace
            and places[r] == places[p]
            and form is not None
            and form == self._forms[p]
        )


def operand_strides(call: KernelCall) -> list[tuple[int, ...]]:
    """Return the strides of all operands, in elements."""
    params = call.variant.signature.params
    own = [
        element_strides(o) if t.shape else () for o, t in zip(call.operands, params, strict=True)
    ]
    if call.outs is None:
        return [*own, *(dense_strides(shape, 1) for _, shape in call.return_types)]
    return [*own, *map(element_strides, call.outs)]


def converter(param: Tensor) -> Callable[[Any], Any]:
    """Return how a number becomes a value of a rank-0 parameter, as `Bound.run` takes it."""
    dtype = param.dtype
    match dtype.kind:
        case "bool":
            return bool
        case "float" if dtype.is_half:
            half = numpy_dtype(dtype).type
            return lambda v: float(half(_float(param.name, v)))
        case "float" if dtype.bits == 64:
            return functools.partial(_float, param.name)
        case "float":
            return lambda v: ctypes.c_float(_float(param.name, v)).value
        case "int" | "uint":
            return functools.partial(_integer, param)


def _float(name: str, value: Any) -> float:
    return as_float(value, name) if isinstance(value, int) else float(value)


def _integer(param: Tensor, value: Any) -> int:
    number = operator.index(value)
    check_integer(number, param.name, param.dtype)
    return number
