"""Lower, emit and run definitions in the simulator, and hold them against the reference."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.device.hostplan import HostPlan, plan
from tcdsl.codegen.loops.loopir import Argument, Scalar, Type, Unit
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.gpu import Gpu, gpu_of
from tcdsl.codegen.machine.spec import Spec
from tcdsl.grammar.text.errors import BoundsError
from tests.codegen.harness import Problem, arrays_of, assert_same, expected, spec_of
from tests.cusim.build import compile_all
from tests.cusim.report import Report
from tests.cusim.simulator import Access, Array, Module, Order, Simulator

_MARGIN = 256  # canary bytes around every piece of memory
_POISON = 0xFF  # NaN in every float type, -1 in integers
_CANARY = 0xA5
_FAR = 1 << 28  # bytes
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Linux's number, for Python 3.11 and 3.12


@dataclass(frozen=True, slots=True)
class Block:
    """Device memory of its own, 256-byte aligned as a GPU's allocator gives, with canaries."""

    everything: Array
    bytes: Array

    @classmethod
    def of(cls, size: int, fill: int = _POISON) -> Block:
        raw = np.full(size + 3 * _MARGIN, _CANARY, np.uint8)
        start = -raw.ctypes.data % _MARGIN + _MARGIN
        inside = raw[start : start + size]
        inside[...] = fill
        return cls(raw, inside)

    @classmethod
    def sparse(cls, size: int) -> Block:
        """Return zeroed memory that may be larger than the machine's: pages come when touched."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
        raw: Array = np.frombuffer(mmap.mmap(-1, size + 2 * _MARGIN, flags=flags), np.uint8)
        raw[:_MARGIN] = raw[-_MARGIN:] = _CANARY
        return cls(raw, raw[_MARGIN:-_MARGIN])

    @property
    def is_intact(self) -> bool:
        """Whether nobody wrote around it."""
        start = self.bytes.ctypes.data - self.everything.ctypes.data
        rest = self.everything[:start], self.everything[start + self.bytes.size :]
        return all(bool((r == _CANARY).all()) for r in rest)


def far_array(shape: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Return a zeroed array whose elements, in bytes, may be further apart than memory is large."""
    size = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + dtype.itemsize
    return _far_view(Block.sparse(size), shape, strides, dtype)


def _far_view(
    block: Block, shape: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any]
) -> Array:
    flat = block.bytes[: dtype.itemsize].view(dtype)
    return np.lib.stride_tricks.as_strided(flat, shape, strides)


def on_device(a: Array) -> tuple[Block, Array]:
    """Return a copy of an array in device memory; a view keeps its place in what it views.

    Of a contiguous view that is where it begins, as far as alignment goes. Elements that lie far
    apart stay so, and what is between them takes no memory.
    """
    reach = sum((n - 1) * abs(s) for n, s in zip(a.shape, a.strides, strict=True)) if a.size else 0
    if reach > _FAR:
        far = Block.sparse(reach + a.itemsize)
        view = _far_view(far, a.shape, a.strides, a.dtype)
        view[...] = a
        return far, view
    base = a
    while isinstance(base.base, np.ndarray):
        base = base.base
    if a.flags.c_contiguous or not base.flags.forc:
        lead = (a.ctypes.data - base.ctypes.data) % _MARGIN if a.size else 0
        block = Block.of(lead + a.nbytes)
        view = block.bytes[lead:].view(a.dtype).reshape(a.shape)
        view[...] = a
        return block, view
    block = Block.of(base.nbytes)
    block.bytes[...] = base.ravel(order="K").view(np.uint8)
    flat = block.bytes.view(a.dtype)
    at = (a.ctypes.data - base.ctypes.data) // a.itemsize
    return block, np.lib.stride_tricks.as_strided(flat[at:], a.shape, a.strides)


def differential(
    problem: Problem,
    *configs: Config,
    exact: Sequence[bool] = (True, False),
    gpu: Gpu | None = None,
    orders: Sequence[Order] = ("forward", "reverse"),
    checked: bool = True,
    is_small: bool = False,
    terms: int = 1,
) -> None:
    """Run a problem's kernels in every order: nothing is found, and results are the reference's.

    Where the reference meets a subscript outside its tensor, the kernels have to report one too.

    Parameters
    ----------
    configs
        Each is tried; none means the default one.
    exact
        Sizes baked in, and size-generic.
    is_small
        Of the size-generic ones, `Spec.is_small`.
    terms
        Of the longest sum, for the tolerance.
    """
    gpu = gpu or gpu_of("sm_90")
    want = _wanted(problem)
    units = []
    for config, is_exact in product(configs or (Config(),), exact):
        unit = lowered(problem, config, exact=is_exact, gpu=gpu, is_small=is_small)
        units.append((unit, f"{config} {'exact' if is_exact else 'generic'}"))
    texts = [compiler.emit_cuda(u) for u, _ in units]
    compile_all(texts)
    for (unit, label), text in zip(units, texts, strict=True):
        for order in orders:
            where = f"{label} {order} {problem.sizes}"
            try:
                got, report = simulate(unit, text, problem, order=order, checked=checked)
                report.assert_clean()
                assert want is not None, "a subscript is outside its tensor, and no kernel says so"
                assert_same(got, want, terms)
            except BoundsError:
                assert want is None, f"{where}\na fault, where the reference has none\n{text}"
            except AssertionError as e:
                raise AssertionError(f"{where}\n{e}\n{text}") from e


def _wanted(problem: Problem) -> tuple[Array, ...] | None:
    """Return what the reference gives, None where a subscript is outside its tensor."""
    try:
        return expected(problem)
    except BoundsError:
        return None


def lowered(
    problem: Problem,
    config: Config | None = None,
    *,
    exact: bool = True,
    gpu: Gpu | None = None,
    is_small: bool = False,
    name: str = "k",
) -> Unit:
    """Return the unit of a problem for a GPU."""
    spec = spec_of(problem, exact=exact, threads=0)
    spec = Spec(spec.sizes, spec.layouts, 0, is_small and not exact)
    gpu = gpu or gpu_of("sm_90")
    return compiler.lower(problem.program, spec, config or Config(), gpu, problem.sizes, name)


def simulate(
    unit: Unit,
    text: str,
    problem: Problem,
    *,
    order: Order = "forward",
    seed: int = 0,
    checked: bool = True,
    counters: bool = False,
    changing: int = 0,
) -> tuple[tuple[Array, ...], Report]:
    """Run one call of a unit; return its outputs, and what the simulator saw.

    changing: as the simulator's; then nothing is raised, since whoever reads again may tell.

    Raises
    ------
    BoundsError
        If a kernel reported a subscript outside its tensor.
    """
    module = Module(text)
    steps = plan(unit, problem.sizes)
    simulator = Simulator(order, seed, checked=checked, counters=counters, changing=changing)
    call = _Call(simulator, unit, problem, steps)
    for position, call.turns in steps.sequence():
        start = steps.starts[position]
        arguments = [
            call.value(argument, parameter)
            for argument, parameter in zip(
                start.arguments, call.parameters[start.function], strict=True
            )
        ]
        ended = simulator.launch(
            module, start.function, start.blocks, start.threads, arguments, start.shared_bytes
        )
        if not ended:
            break
    call.finish(is_changing=changing > 0)
    return call.outputs, simulator.report


class _Call:
    """The memory of one call, and what it passes for each parameter."""

    def __init__(self, simulator: Simulator, unit: Unit, problem: Problem, steps: HostPlan) -> None:
        self.parameters: Mapping[str, list[Type]] = {
            f.name: [v.type for v in f.params] for f in unit.functions
        }
        self.problem = problem
        self.turns: tuple[int, ...] = ()
        program = problem.program
        self._blocks: dict[str, Block] = {}
        self._operands: list[Array] = []
        checked = problem.checked
        names = (*program.inputs, *program.outputs)
        given = (*arrays_of(problem), *problem.fresh_outputs())
        updated = {t.name for t in checked.returns if t.is_updated}
        for name, a in zip(names, given, strict=True):
            block, view = on_device(a)
            is_output = len(self._operands) >= len(program.inputs)
            access: Access = "read"
            if is_output:
                access = "update" if program.buffer(name).tensor in updated else "write"
            simulator.add_array(name, view, access)
            self._blocks[name] = block
            self._operands.append(view)
        self.outputs = tuple(self._operands[len(program.inputs) :])
        self._before = [a.copy() for a in self._operands[: len(program.inputs)]]
        self._workspace = self._add_workspace(simulator, steps)
        self._fault = Block.of(40, fill=0)
        simulator.add("the fault record", self._fault.bytes.ctypes.data, 40)
        self._blocks["the fault record"] = self._fault

    def _add_workspace(self, simulator: Simulator, steps: HostPlan) -> list[int]:
        ends = (*steps.offsets, steps.workspace_bytes)[1:]
        found = []
        for i, (start, end) in enumerate(zip(steps.offsets, ends, strict=True)):
            block = Block.of(end - start)
            address = block.bytes.ctypes.data
            name = f"block {i} of the workspace"
            simulator.add(name, address, end - start, "write")
            self._blocks[name] = block
            found.append(address)
        return found

    def value(self, argument: Argument, parameter: Type) -> Any:
        """Return what is passed for a parameter, as its type in C."""
        match argument.kind:
            case "data":
                return ctypes.c_void_p(self._operands[argument.index].ctypes.data)
            case "workspace":
                return ctypes.c_void_p(self._workspace[argument.index])
            case "fault":
                return ctypes.c_void_p(self._fault.bytes.ctypes.data)
            case "stride":
                a = self._operands[argument.index]
                return _scalar(parameter, a.strides[argument.dim] // a.itemsize)
            case "size":
                return _scalar(parameter, self.problem.sizes[self._program_sizes[argument.index]])
            case "turn":
                return _scalar(parameter, self.turns[argument.index])
            case "scalar":
                name = self.problem.program.scalars[argument.index]
                at = self.problem.program.inputs.index(name)
                return _scalar(parameter, self._operands[at].item())

    @property
    def _program_sizes(self) -> Sequence[str]:
        return self.problem.program.sizes

    def finish(self, *, is_changing: bool) -> None:
        """Check canaries, inputs and the fault record."""
        for name, block in self._blocks.items():
            assert block.is_intact, f"wrote around {name}"
        for a, before in zip(self._operands, self._before, strict=False):
            assert is_changing or a.tobytes() == before.tobytes(), "wrote to an input"
        code, tensor, dim, at, extent = self._fault.bytes.view(np.int64).tolist()
        if code and not is_changing:
            raise BoundsError(f"operand {tensor} dim {dim}: {at} of {extent}")


def _scalar(parameter: Type, value: Any) -> Any:
    """Return a value as the C type of a parameter."""
    assert isinstance(parameter, Scalar), parameter
    dtype = parameter.dtype
    if dtype.is_float:
        return ctypes.c_double(value) if dtype.bits == 64 else ctypes.c_float(value)
    signed = {8: ctypes.c_int8, 16: ctypes.c_int16, 32: ctypes.c_int32, 64: ctypes.c_int64}
    unsigned = {8: ctypes.c_uint8, 16: ctypes.c_uint16, 32: ctypes.c_uint32, 64: ctypes.c_uint64}
    return (signed if dtype.kind == "int" else unsigned)[dtype.bits](int(value))
