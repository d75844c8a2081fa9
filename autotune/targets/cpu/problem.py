"""Tuning problems for the CPU: C text, shared objects, this machine's peaks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from tcdsl.autotune.search.space import SearchSpace
from tcdsl.autotune.store.key import ProblemKey, digest_of
from tcdsl.autotune.targets.cpu.builder import SharedObjects
from tcdsl.autotune.targets.cpu.parts import Parts, whole
from tcdsl.autotune.targets.definition import DefinitionProblem
from tcdsl.autotune.targets.key import Structure, key_for
from tcdsl.autotune.targets.space import space_of
from tcdsl.autotune.worker.builder import Builder
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.autotune.worker.problem import Roofline
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.loops.ready import Before
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.program.work import bytes_of, flops_of
from tcdsl.codegen.toolchain import cc
from tcdsl.codegen.toolchain.cachedir import read_json, update_json
from tcdsl.codegen.toolchain.host import detect
from tcdsl.codegen.toolchain.objects import compile_many
from tcdsl.codegen.toolchain.peak import measure_bandwidth, measure_peak
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import CompileError
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.types.dtypes import FLOAT64
from tcdsl.grammar.types.typed import CheckedDef

_MOST = 1e7  # GFLOP/s or GB/s: no machine has so much
_NAME = f"c{digest_of('a candidate')}"  # of all candidates, until they are texts
_MEASURED = 3  # processes that measure peaks: by then one of them had the machine to itself


@dataclass(frozen=True)
class CpuProblem(DefinitionProblem):
    """A kernel on this machine's cores (a `tcdsl.autotune.worker.problem.TuningProblem`).

    Parameters
    ----------
    machine : Machine
    """

    machine: Machine = field(default_factory=detect)

    @cached_property
    def key(self) -> ProblemKey:
        """What the result is stored under."""
        return key_of(self.checked, self.spec, self.machine)

    @cached_property
    def space(self) -> SearchSpace:
        """The configs to choose from."""
        return space_of(self.program, self.spec, self.machine)

    @cached_property
    def roofline(self) -> Roofline:
        """Roofline of a call, with the measured peaks of this machine."""
        gflops, gbps = machine_peaks(self.spec.threads)
        if any(b.dtype == FLOAT64 for b in self.program.buffers):
            gflops /= 2
        flops, moved = (f(self.program, self.sizes) for f in (flops_of, bytes_of))
        return Roofline(max(flops, 1), max(moved, 1), gflops, gbps)

    @cached_property
    def builder(self) -> Builder:
        """What compiles candidates."""
        if cc.find_compiler().kind == "gcc":
            return SharedObjects(Parts(self._compile).build)
        return SharedObjects(
            lambda sources, is_unwanted: self._compile(whole(sources), (), is_unwanted)
        )

    def _compile(
        self, text: str, flags: Sequence[str], is_unwanted: Callable[[], bool]
    ) -> Path | CompileError:
        source = cc.Source(self.checked.name, text, flags=tuple(flags))
        return compile_many([source], is_unwanted=is_unwanted)[0]

    @cached_property
    def _before(self) -> Before:
        """What candidates have alike."""
        return Before()

    @property
    def bench(self) -> Mapping[str, Any]:
        """What checks and times candidates."""
        return {"open": "tcdsl.autotune.targets.cpu.bench:open_bench"}

    @on_own_stack  # once for both steps: a sixth to a third less of our time a candidate
    def emit(self, config: Config) -> Emitted:
        """Return C text that exports `tc_exe_NAME`; others can follow it in one unit."""
        name = f"c{digest_of(config.to_json())}"
        of = self.program, self.spec, config, self.machine, self.sizes
        text = compiler.emit_c(compiler.lower(*of, _NAME, self._before), self._before)
        return Emitted(name, text.replace(_NAME, name))


def key_of(of: CheckedDef | Structure, spec: Spec, machine: Machine) -> ProblemKey:
    """Return the key of a definition at exact sizes and layouts on this machine."""
    found = cc.find_compiler()
    target = f"cpu {machine.isa} {found.isa_key}"
    return key_for(of, spec, target, f"{found.kind} {found.version}")


@functools.cache
def machine_peaks(threads: int) -> tuple[float, float]:
    """Return float32 GFLOP/s and GB/s that some threads reach here.

    Measured by the first few processes that ask, shortly: it is in the seconds of a tuning. The
    largest ever counts, since other programs only ever take.
    """
    name = f"{cc.find_compiler().isa_key} {threads}"
    *known, times = _known_peaks(read_json("peaks.json").get(name))
    if times >= _MEASURED:
        return known[0], known[1]
    machine = detect()
    # Twice all caches: to touch more pages takes longer than all else before a first candidate.
    size_bytes = 2 * (machine.l3_bytes + machine.cores * machine.l2_bytes)
    try:
        measured = measure_peak(threads, 0.1), measure_bandwidth(threads, size_bytes, 0.1)
    except RuntimeError as error:
        if threads == 1 or isinstance(error, CompileError):
            raise
        return machine_peaks(1)  # no more threads can be started
    gflops, gbps = map(max, known, measured)
    update_json("peaks.json", {name: [gflops, gbps, times + 1]})
    return gflops, gbps


def _known_peaks(kept: object) -> tuple[float, float, int]:
    """Return the peaks of an entry of the file, and how many have measured them.

    None where it holds anything else.
    """
    match kept:
        case [int() | float() as gflops, int() | float() as gbps, int() as times] if (
            0 <= gflops < _MOST and 0 <= gbps < _MOST
        ):
            return float(gflops), float(gbps), times
    return 0.0, 0.0, 0
