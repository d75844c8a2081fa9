"""A unit for a GPU as calls run it: loaded once per device, its launches bound to sizes."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.device.device import Device, Module
from tcdsl.codegen.device.hostplan import HostPlan, plan
from tcdsl.codegen.loops.loopir import Argument, Unit
from tcdsl.codegen.program.program import Program
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import DeviceError
from tcdsl.grammar.types.dtypes import DType

MAX_BLOCKS = 2**31 - 1  # of a grid along x
_SLOT_BYTES = 8  # every value has as much room: kernels read the first bytes of theirs

Strides = Sequence[Sequence[int]]


class LoadedUnit:
    """The kernels of a unit; a device that they are called on gets them at the first call."""

    def __init__(self, program: Program, unit: Unit) -> None:
        self.program = program
        self.unit = unit
        self.text = compiler.emit_cuda(unit)
        self._modules: dict[int, tuple[Device, Module]] = {}
        self._lock = threading.Lock()

    @property
    def can_fault(self) -> bool:
        """Whether a kernel checks subscripts that it reads."""
        return any(a.kind == "fault" for x in self.unit.launches for a in x.arguments)

    def plan(self, sizes: Mapping[str, int]) -> HostPlan:
        """Return what a call at these sizes starts."""
        return plan(self.unit, sizes)

    def bind(self, device: Device, sizes: Mapping[str, int], strides: Strides) -> BoundUnit:
        """Return the executable on a device at these sizes.

        Parameters
        ----------
        sizes : mapping of str to int
            All size symbols, scalars in bounds too.
        strides : sequence of sequence of int
            In elements, per operand.

        Raises
        ------
        DeviceError
            If a grid would have more blocks than a device takes.
        """
        host = self.plan(sizes)
        for start in host.starts:
            if start.blocks > MAX_BLOCKS:
                raise DeviceError(
                    f"{self.unit.name}: {start.function} needs {start.blocks} blocks, a grid has "
                    f"at most {MAX_BLOCKS}\n  call it on parts of its operands"
                )
        return BoundUnit(self, self._module(device), host, sizes, strides)

    def _module(self, device: Device) -> Module:
        with self._lock:
            found = self._modules.get(device.number)
            if found is None or found[0] is not device:
                with device.active():
                    found = device, device.load(self.text, self.unit.name)
                self._modules[device.number] = found
            return found[1]


@dataclass(frozen=True, slots=True)
class _Start:
    """A kernel with its grid and the addresses of its arguments' values, kept alive here."""

    launch: Callable[[int, int, int, int, int], None]
    blocks: int
    threads: int
    shared_bytes: int
    arguments: int
    keep: object


class BoundUnit:
    """An executable at fixed sizes and strides on one device.

    The values of all arguments lie in one block of memory that launches point into: a call writes
    its addresses and scalars there, and starts the kernels.

    Attributes
    ----------
    workspace_bytes : int
        Memory that a call needs for temporaries and partial sums.
    can_fault : bool
        Whether `run` needs a fault record.
    """

    def __init__(
        self,
        executable: LoadedUnit,
        module: Module,
        host: HostPlan,
        sizes: Mapping[str, int],
        strides: Strides,
    ) -> None:
        program = executable.program
        self.workspace_bytes = host.workspace_bytes
        self.can_fault = executable.can_fault
        self._offsets = host.offsets
        self._lock = threading.Lock()
        self._keep = module
        scalars = [_format(program.buffer(n).dtype.computed) for n in program.scalars]
        moving = [
            *(Argument("data", i) for i in range(len(program.operands))),
            *(Argument("workspace", i) for i in range(len(host.offsets))),
            Argument("fault"),
            *(Argument("scalar", i) for i in range(len(scalars))),
            *(Argument("turn", i) for i in range(len(host.loops))),
        ]
        fixed: dict[Argument, int] = {}
        for i, name in enumerate(program.sizes):
            fixed[Argument("size", i)] = sizes[name]
        for i, own in enumerate(strides):
            for d, stride in enumerate(own):
                fixed[Argument("stride", i, d)] = stride
        place = {a: _SLOT_BYTES * i for i, a in enumerate((*moving, *fixed))}
        self._values = ctypes.create_string_buffer(_SLOT_BYTES * len(place))
        first = _SLOT_BYTES * len(moving)
        struct.pack_into(f"={len(fixed)}q", self._values, first, *fixed.values())
        pointers = f"={len(moving) - len(scalars) - len(host.loops)}Q"
        self._host = host
        self._turns = struct.Struct(f"={len(host.loops)}q").pack_into
        self._turns_at = place[Argument("turn", 0)] if host.loops else 0
        self._pack = struct.Struct(pointers + "".join(scalars)).pack_into
        base = ctypes.addressof(self._values)
        self._starts = []
        for x in host.starts:
            table = (ctypes.c_uint64 * max(1, len(x.arguments)))(
                *(base + place[a] for a in x.arguments)
            )
            function = module.function(x.function, x.shared_bytes, len(x.arguments))
            self._starts.append(
                _Start(
                    function.launch,
                    x.blocks,
                    x.threads,
                    x.shared_bytes,
                    ctypes.addressof(table),
                    (table, function),
                )
            )

    def run(
        self,
        addresses: Sequence[int],
        scalars: Sequence[Any],
        workspace: int,
        fault: int,
        stream: int,
    ) -> None:
        """Start the kernels of one call.

        Parameters
        ----------
        addresses : sequence of int
            Per operand, parameters then returns; any number for rank-0 parameters.
        scalars : sequence of numbers
            Rank-0 parameters in the order of the program, rounded to their types.
        workspace : int
            Address of `workspace_bytes`.
        fault : int
            Address of a `tc_error`; any number where the kernels check nothing.
        stream : int
        """
        blocks = [workspace + offset for offset in self._offsets]
        with self._lock:  # a launch copies the values; until then they are this call's
            self._pack(self._values, 0, *addresses, *blocks, fault, *scalars)
            if not self._host.loops:
                for s in self._starts:
                    s.launch(s.blocks, s.threads, s.shared_bytes, s.arguments, stream)
                return
            for position, turns in self._host.sequence():
                self._turns(self._values, self._turns_at, *turns)
                s = self._starts[position]
                s.launch(s.blocks, s.threads, s.shared_bytes, s.arguments, stream)


def _format(dtype: DType) -> str:
    """Return how `struct` writes a value of a computing type into a slot."""
    match dtype.kind:
        case "float":
            return "d" if dtype.bits == 64 else "f4x"
        case "uint":
            return "Q"
        case "int":
            return "q"
        case "bool":
            return "?7x"
