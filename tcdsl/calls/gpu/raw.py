"""A call on a GPU as the kernels that it starts, each a `cupy.RawKernel`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tcdsl.calls.call import KernelCall
from tcdsl.calls.dispatch import Dispatch
from tcdsl.calls.gpu.bound_call import converter, operand_strides
from tcdsl.calls.gpu.faults import faults_of
from tcdsl.calls.operands.device_arrays import DeviceArray, is_native
from tcdsl.codegen.device.device import Device
from tcdsl.codegen.device.hostplan import HostPlan, KernelStart
from tcdsl.codegen.device.launch import LoadedUnit
from tcdsl.codegen.loops.loopir import Argument
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RawStart:
    """One start of a kernel: ``s.kernel(s.grid, s.block, s.args, shared_mem=s.shared_mem)``.

    Attributes
    ----------
    kernel : cupy.RawKernel
    grid, block : tuple of one int
        Blocks, and threads of each.
    args : tuple
        Arrays of the device's library; NumPy numbers for sizes, strides, scalars and for addresses
        of the workspace and of arrays of other libraries.
    shared_mem : int
        Bytes of dynamic shared memory of a block.
    """

    kernel: Any
    grid: tuple[int]
    block: tuple[int]
    args: tuple[Any, ...]
    shared_mem: int


class RawCall:
    """What one call of a kernel starts, in order; iterate to get each `RawStart`.

    Calling it starts all on the current stream and returns the outputs. The starts belong to the
    arrays, sizes and strides that they were made for: another array in place of one of `args`
    needs the same type, shape and strides. The text of the kernels is `text`.

    A subscript read from data that is outside its tensor is raised as for calls: by the next call
    of a tcdsl kernel on the stream, or `tcdsl.synchronize()`.

    Attributes
    ----------
    outputs : tuple of arrays
        Fresh ones of the device's library, or the caller's.
    text : str
        The CUDA text.
    """

    def __init__(
        self, dispatch: Dispatch, call: KernelCall, device: Device, outputs: tuple[Any, ...]
    ) -> None:
        executable = dispatch.executable_for(call).loaded
        assert isinstance(executable, LoadedUnit), "a GPU's variant has executables of a GPU"
        self.outputs = outputs
        self.text = executable.text
        self._device = device
        self._host: HostPlan = executable.plan(call.sizes)
        self._kernels: dict[str, Any] = {}
        for s in self._host.starts:
            if s.function not in self._kernels:
                self._kernels[s.function] = device.raw(
                    executable.text, executable.unit.name, s.function, s.shared_bytes
                )
        self._workspace = device.allocate(max(1, self._host.workspace_bytes))
        self._call = call  # keeps arrays of other libraries
        self._arguments = {
            **_numbers(call, executable),
            **self._addresses(dispatch, call, executable),
        }

    def __iter__(self) -> Iterator[RawStart]:
        """Yield the starts in the order in which they have to run."""
        if not self._host.loops:
            yield from (self._start(s, ()) for s in self._host.starts)
            return
        for position, turns in self._host.sequence():
            yield self._start(self._host.starts[position], turns)

    def __call__(self) -> Any:
        """Start all on the current stream; return the output, or a tuple of several."""
        with self._device.active():
            for s in self:
                s.kernel(s.grid, s.block, s.args, shared_mem=s.shared_mem)
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs

    def _addresses(
        self, dispatch: Dispatch, call: KernelCall, executable: LoadedUnit
    ) -> dict[Argument, Any]:
        """Return what stands for arrays, blocks of the workspace and the record of faults."""
        found: dict[Argument, Any] = {}
        for i, operand in enumerate((*call.operands, *(call.outs or ()))):
            if isinstance(operand, DeviceArray):
                own = operand.owner
                found[Argument("data", i)] = own if is_native(own) else np.uint64(operand.address)
        for i, offset in enumerate(self._host.offsets):
            found[Argument("workspace", i)] = np.uint64(self._workspace.address + offset)
        record = faults_of(self._device).record(self._device.stream(), dispatch.operand_names)
        found[Argument("fault")] = np.uint64(record.address)
        return found

    def _start(self, s: KernelStart, turns: Sequence[int]) -> RawStart:
        args = tuple(
            np.int64(turns[a.index]) if a.kind == "turn" else self._arguments[a]
            for a in s.arguments
        )
        kernel = self._kernels[s.function]
        return RawStart(kernel, (s.blocks,), (s.threads,), args, s.shared_bytes)


def _numbers(call: KernelCall, executable: LoadedUnit) -> dict[Argument, Any]:
    """Return sizes, strides and scalars in the types in which kernels take them."""
    program, checked = executable.program, call.variant.checked
    found: dict[Argument, Any] = {
        Argument("size", i): np.int64(call.sizes[name]) for i, name in enumerate(program.sizes)
    }
    for i, own in enumerate(operand_strides(call)):
        for d, stride in enumerate(own):
            found[Argument("stride", i, d)] = np.int64(stride)
    values = {t.name: (t, v) for t, v in zip(checked.params, call.operands, strict=True)}
    for i, name in enumerate(program.scalars):
        param, given = values[name]
        value = converter(param)(given)
        found[Argument("scalar", i)] = numpy_dtype(param.dtype.computed).type(value)
    return found
