"""Candidates for a GPU: checked between poisoned margins, timed by the device's own events."""

from __future__ import annotations

import ctypes
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tcdsl.autotune.targets.compare import difference
from tcdsl.autotune.targets.cuda.builder import unpack
from tcdsl.autotune.targets.cuda.margins import DeviceOperand, Margins
from tcdsl.autotune.worker.bench import Way, WrongAnswerError
from tcdsl.autotune.worker.case import Case
from tcdsl.autotune.worker.timing import SLICE_NS
from tcdsl.codegen.device.device import Device
from tcdsl.codegen.device.launch import BoundUnit, LoadedUnit
from tcdsl.codegen.loops.loopir import Unit
from tcdsl.codegen.preludes.abi import TcError
from tcdsl.codegen.program.program import Program

# Where operands lie and what outputs and workspaces hold before a call: NaN, then 1.3e36 and
# addresses that no wide access may use.
_SIDES = ((0, 0xFF), (1, 0x7B))  # elements of shift, poison
_SAMPLES = 20  # at most in one turn: a GPU's clock varies less than a host's
_SHORT_NS = 20_000  # warm calls this short share a sample


def open_bench(case: Case, device: str, number: int, program: str, is_warm: bool) -> CudaBench:
    """Return a bench; see `tcdsl.autotune.worker.bench`.

    Parameters
    ----------
    case : Case
    device : str
        The class that opens a device by its number: `MODULE:CLASS`.
    number : int
    program : str
        The packed program.
    is_warm : bool
        Whether calls may find their operands in L2.
    """
    opened: Device = pkgutil.resolve_name(device)(number)
    unpacked = unpack(program)
    assert isinstance(unpacked, Program)
    return CudaBench(case, opened, unpacked, is_warm=is_warm)


class CudaBench:
    """A case on a device: operands are copied once, every candidate runs on the same memory."""

    def __init__(self, case: Case, device: Device, program: Program, *, is_warm: bool) -> None:
        self._case, self._device, self._program = case, device, program
        self._sizes = dict(zip(program.sizes, case.sizes, strict=True))
        self._scalars = [
            d.item() if d.dtype.kind in "biu" else float(d)
            for o, d in zip(case.operands, case.data, strict=True)
            if o.role == "scalar" and d is not None
        ]
        with device.active():
            self._stream = device.stream()
            self._fault = device.pinned(ctypes.sizeof(TcError))
            self._sides = [self._placed(shift) for shift, _ in _SIDES]
            size_bytes = sum(o.operand.size_bytes for o in self._sides[0] if o is not None)
            # What is twice as large as L2 finds nothing of use there.
            flushed = 0 if is_warm or size_bytes > 2 * device.gpu.l2_bytes else device.gpu.l2_bytes
            self._flushed = 2 * flushed
            self._other = device.allocate(max(self._flushed, 1))
            self._workspace, self._workspace_bytes = device.allocate(1), 1
        self._is_warm = is_warm

    def load(self, code: Mapping[str, Any], is_known: bool = False) -> BoundUnit:
        """Return a candidate that is, or was, found right."""
        unit = unpack(code["unit"])
        assert isinstance(unit, Unit)
        strides = [o.element_strides for o in self._case.operands]
        with self._device.active():
            candidate = LoadedUnit(self._program, unit).bind(self._device, self._sizes, strides)
            for side, (_, poison) in zip(self._sides, _SIDES, strict=True):
                if not is_known:
                    self._check(candidate, side, poison)
        return candidate

    @property
    def ways(self) -> Sequence[Way]:
        """None: whether operands are in L2 is a setting, and is so in all that is timed."""
        return ()

    def sampler(self, candidate: BoundUnit, way: Way = "again") -> DeviceSampler:
        """Return a candidate as what is timed."""
        assert way == "again"
        with self._device.active():
            if candidate.workspace_bytes > self._workspace_bytes:  # all candidates share it
                self._workspace_bytes = candidate.workspace_bytes
                self._workspace = self._device.allocate(self._workspace_bytes)
        addresses = _addresses(self._sides[0])

        def sample(repeats: int) -> tuple[Any, Any]:
            if self._flushed:
                self._device.fill(self._other.address, 0, self._flushed, self._stream)
            begun = self._device.event(self._stream)
            for _ in range(repeats):
                self._start(candidate, addresses, self._workspace.address)
            return begun, self._device.event(self._stream)

        return DeviceSampler(self._device, sample, _SHORT_NS if self._is_warm else 0)

    def _start(self, candidate: BoundUnit, addresses: Sequence[int], workspace: int) -> None:
        """Start a candidate's kernels, and do not wait."""
        candidate.run(addresses, self._scalars, workspace, self._fault.address, self._stream)

    def _placed(self, shift: int) -> list[DeviceOperand | None]:
        """Return the operands in memory of the device; None stands for a scalar."""
        return [
            None if o.role == "scalar" else DeviceOperand(self._device, self._stream, o, d, shift)
            for o, d in zip(self._case.operands, self._case.data, strict=True)
        ]

    def _check(
        self, candidate: BoundUnit, side: Sequence[DeviceOperand | None], poison: int
    ) -> None:
        """Run a candidate once on freshly poisoned memory and look at all of it."""
        operands = [o for o in side if o is not None]
        for operand in operands:
            if operand.operand.is_written:
                operand.reset(poison)
        workspace = Margins(self._device, self._stream, candidate.workspace_bytes)
        workspace.fill(poison)
        ctypes.memset(self._fault.address, 0, ctypes.sizeof(TcError))
        self._start(candidate, _addresses(side), workspace.address)
        self._device.synchronize(self._stream)
        if message := self._fault_text() or self._difference(operands, poison):
            for operand in operands:  # it may have written to inputs, which are the next one's too
                operand.reset(poison)
            raise WrongAnswerError(message)
        if not workspace.read()[1]:
            raise WrongAnswerError("bytes next to its workspace were written")

    def _difference(self, operands: Sequence[DeviceOperand], poison: int) -> str | None:
        """Say what is not as it has to be after a call, or return None."""
        expected = iter(self._case.expected)
        for operand in operands:
            values, damage = operand.values(poison)
            what = "input"
            if operand.operand.is_written:
                what = "output"
                damage = difference(values, next(expected)) or damage
            if damage:
                return f"{what} '{operand.operand.name}': {damage}"
        return None

    def _fault_text(self) -> str | None:
        fault = TcError.from_address(self._fault.address)
        if fault.code == 0:
            return None
        return (
            f"error {fault.code}: operand {fault.tensor}, dimension {fault.dim}, "
            f"subscript {fault.value}, extent {fault.extent}"
        )


class DeviceSampler:
    """`Turns` by the events of a device.

    Parameters
    ----------
    device : Device
    sample : callable
        Starts so many calls and returns the events before and behind them.
    short_ns : int
        Calls share a sample until it is as long; 0: each is a sample.
    """

    def __init__(
        self, device: Device, sample: Callable[[int], tuple[Any, Any]], short_ns: int
    ) -> None:
        self._device, self._sample, self._short_ns = device, sample, short_ns
        self._repeats = 0  # calls to a sample; 0 before the first turn
        self._sample_ns = 0.0
        self.spent_ns = 0.0

    def __call__(self) -> list[float]:
        """Return new samples, in ns per call."""
        with self._device.active():
            if self._repeats == 0:
                (once_ns,) = self._times_ns(1, 1)
                self._repeats = max(1, min(int(self._short_ns / max(once_ns, 1.0)), 1000))
                self._sample_ns = once_ns * self._repeats
                if once_ns >= SLICE_NS:
                    self.spent_ns = once_ns
                    return [once_ns]
            count = max(1, min(int(SLICE_NS / max(self._sample_ns, 1.0)), _SAMPLES))
            times = self._times_ns(self._repeats, count)
        self.spent_ns += sum(times)
        return [t / self._repeats for t in times]

    def _times_ns(self, repeats: int, count: int) -> list[float]:
        """Return the times of samples, all started before the first is waited for."""
        events = [self._sample(repeats) for _ in range(count)]
        return [max(end.milliseconds_since(begin), 0.0) * 1e6 for begin, end in events]


def _addresses(side: Sequence[DeviceOperand | None]) -> list[int]:
    return [0 if o is None else o.address for o in side]
