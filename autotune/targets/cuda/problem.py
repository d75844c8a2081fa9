"""Tuning problems for a GPU: CUDA text, cubins, a device in a worker process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tcdsl.autotune.search.space import SearchSpace
from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.targets.cuda.builder import Cubins, pack
from tcdsl.autotune.targets.definition import DefinitionProblem
from tcdsl.autotune.targets.key import key_for
from tcdsl.autotune.targets.space import space_of
from tcdsl.autotune.worker.builder import Builder
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.autotune.worker.problem import Roofline
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.device.device import Device
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.program.last import with_last_points
from tcdsl.codegen.program.program import Program
from tcdsl.codegen.program.ssa import program_of
from tcdsl.codegen.program.work import bytes_of, flops_of
from tcdsl.codegen.toolchain.cubins import cached_cubin
from tcdsl.codegen.toolchain.nvrtc import Cubin, CudaSource, find_nvrtc
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import FLOAT64
from tcdsl.grammar.types.typed import CheckedDef

_NAME = "candidate"  # of all: equal kernels are equal machine code then


@dataclass(frozen=True)
class CudaProblem(DefinitionProblem):
    """A kernel on a GPU (a `tcdsl.autotune.worker.problem.TuningProblem`).

    Parameters
    ----------
    device : Device
        Opened again in the worker process, by its class and number: what a candidate does to the
        device there, this process does not feel.
    is_warm : bool, default False
        Time calls that find in L2 what the last one left there. Otherwise L2 is overwritten before
        each call, since between two calls of a kernel a program does other things: a kernel that is
        called again and again on operands that fit L2 is twice as fast as in a program, and by
        another config. The key says which it was.
    """

    device: Device = field(kw_only=True)
    is_warm: bool = False

    @property
    def gpu(self) -> Gpu:
        """What schedules know of the device."""
        return self.device.gpu

    @cached_property
    def program(self) -> Program:
        """The SSA form, as calls on a GPU have it."""
        return program_of(with_last_points(self.checked))

    @cached_property
    def key(self) -> ProblemKey:
        """What the result is stored under."""
        return key_of(self.checked, self.spec, self.gpu, is_warm=self.is_warm)

    @cached_property
    def space(self) -> SearchSpace:
        """The configs to choose from."""
        return space_of(self.program, self.spec, self.gpu)

    @cached_property
    def roofline(self) -> Roofline:
        """Roofline of a call, with the peaks of the device by its clock and width."""
        return roofline_of(self.program, self.sizes, self.gpu)

    @property
    def builder(self) -> Builder:
        """What compiles candidates."""
        return Cubins(self._cubin, self.gpu, self.sizes)

    @property
    def bench(self) -> Mapping[str, Any]:
        """What checks and times candidates."""
        kind = type(self.device)
        return {
            "open": "tcdsl.autotune.targets.cuda.bench:open_bench",
            "device": f"{kind.__module__}:{kind.__qualname__}",
            "number": self.device.number,
            "program": pack(self.program),
            "is_warm": self.is_warm,
        }

    def emit(self, config: Config) -> Emitted:
        """Return CUDA text, and how its kernels are started."""
        unit = compiler.lower(self.program, self.spec, config, self.gpu, self.sizes, _NAME)
        return Emitted(_NAME, compiler.emit_cuda(unit), unit)

    def _cubin(self, source: Emitted) -> Cubin:
        return cached_cubin(CudaSource(source.name, source.text), self.gpu.arch)


def key_of(checked: CheckedDef, spec: Spec, gpu: Gpu, *, is_warm: bool = False) -> ProblemKey:
    """Return the key of a definition at exact sizes and layouts on a GPU."""
    words = ["cuda", gpu.arch, gpu.name, f"driver {gpu.driver}", *(["warm"] if is_warm else [])]
    version = ".".join(map(str, find_nvrtc().version))
    return key_for(checked, spec, " ".join(words), f"nvrtc {version}")


def roofline_of(program: Program, sizes: Mapping[str, int], gpu: Gpu) -> Roofline:
    """Return the work of a call and what a GPU could do of it, by its clock and width.

    Arithmetic on half types alone has the tensor cores' peak, whether or not they are used.
    """
    flops, moved = (f(program, sizes) for f in (flops_of, bytes_of))
    read = [program.buffer(name) for name in program.inputs]
    arrays = [b.dtype for b in read if b.shape and b.dtype.is_float]
    if any(b.dtype == FLOAT64 for b in program.buffers):
        gflops = gpu.peak_gflops() / _double_ratio(gpu)
    elif arrays and all(d.is_half for d in arrays):
        gflops = gpu.tensor_gflops()
    else:
        gflops = gpu.peak_gflops()
    return Roofline(max(flops, 1), max(moved, 1), gflops, gpu.bandwidth_gbs)


def _double_ratio(gpu: Gpu) -> int:
    """Return how many times slower float64 is: 2 where a data centre's GPU is, 64 on others.

    References
    ----------
    CUDA C++ Programming Guide, "Arithmetic Instructions".
    """
    return 2 if gpu.capability in (80, 90, 100) else 64
