"""Tuning problems for the CPU: C text, shared objects, this machine's peaks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcdsl.autotune.store.key import ProblemKey, digest_of
from tcdsl.autotune.targets.cpu.key import key_of
from tcdsl.autotune.targets.definition import DefinitionProblem
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain import cc
from tcdsl.codegen.toolchain.cachedir import read_json, update_json
from tcdsl.codegen.toolchain.host import detect
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import CompileError
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.types.dtypes import FLOAT64

if TYPE_CHECKING:
    from tcdsl.autotune.search.space import SearchSpace
    from tcdsl.autotune.worker.builder import Builder
    from tcdsl.autotune.worker.emitted import Emitted
    from tcdsl.autotune.worker.problem import Roofline
    from tcdsl.codegen.loops.ready import Before
    from tcdsl.codegen.machine.config import Config

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
        from tcdsl.autotune.targets.space import space_of  # on use: who looks up tunes nothing

        return space_of(self.program, self.spec, self.machine)

    @cached_property
    def roofline(self) -> Roofline:
        """Roofline of a call, with the measured peaks of this machine."""
        from tcdsl.autotune.worker.problem import Roofline  # on use, as above
        from tcdsl.codegen.program.work import bytes_of, flops_of

        gflops, gbps = machine_peaks(self.spec.threads)
        if any(b.dtype == FLOAT64 for b in self.program.buffers):
            gflops /= 2
        flops, moved = (f(self.program, self.sizes) for f in (flops_of, bytes_of))
        return Roofline(max(flops, 1), max(moved, 1), gflops, gbps)

    @cached_property
    def builder(self) -> Builder:
        """What compiles candidates."""
        from tcdsl.autotune.targets.cpu.builder import SharedObjects  # on use, as above
        from tcdsl.autotune.targets.cpu.parts import Parts, whole

        if cc.find_compiler().kind == "gcc":
            return SharedObjects(Parts(self._compile).build)
        return SharedObjects(
            lambda sources, is_unwanted: self._compile(whole(sources), (), is_unwanted)
        )

    def _compile(
        self, text: str, flags: Sequence[str], is_unwanted: Callable[[], bool]
    ) -> Path | CompileError:
        from tcdsl.codegen.toolchain.objects import compile_many  # on use, as above

        source = Source(self.checked.name, text, flags=tuple(flags))
        return compile_many([source], is_unwanted=is_unwanted)[0]

    @cached_property
    def _before(self) -> Before:
        """What candidates have alike."""
        from tcdsl.codegen.loops.ready import Before  # on use, as above

        return Before()

    @property
    def bench(self) -> Mapping[str, Any]:
        """What checks and times candidates."""
        return {"open": "tcdsl.autotune.targets.cpu.bench:open_bench"}

    @on_own_stack  # once for both steps: a sixth to a third less of our time a candidate
    def emit(self, config: Config) -> Emitted:
        """Return C text that exports `tc_exe_NAME`; others can follow it in one unit."""
        from tcdsl.autotune.worker.emitted import Emitted  # on use, as above
        from tcdsl.codegen.choose import compiler

        name = f"c{digest_of(config.to_json())}"
        of = self.program, self.spec, config, self.machine, self.sizes
        text = compiler.emit_c(compiler.lower(*of, _NAME, self._before), self._before)
        return Emitted(name, text.replace(_NAME, name))


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
    from tcdsl.codegen.toolchain.peak import measure_bandwidth, measure_peak  # on use, as above

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
