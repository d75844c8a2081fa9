"""Candidates for the CPU: checked by their ABI, timed behind the launcher as a user's calls are."""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tcdsl.autotune.targets.cpu.check import Checker, LoadedCandidate
from tcdsl.autotune.worker.bench import Way
from tcdsl.autotune.worker.case import Array, Case, Operand, dtype_named
from tcdsl.autotune.worker.timing import HostSampler, Run, Sampler, TurnSampler
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.codegen.runtime import Entry, Launcher
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.text.cached import cached_property

_MOST_EVICTED = 128 << 20  # bytes read to have nothing of use left in the caches
_READS = 4  # calls of which a turn keeps the shortest, outputs read after each


def open_bench(case: Case, clock: str = "time:perf_counter_ns") -> CpuBench:
    """Return a bench; see `tcdsl.autotune.worker.bench`.

    Parameters
    ----------
    case : Case
    clock : str
        The function that tells nanoseconds: `MODULE:NAME`.
    """
    return CpuBench(case, pkgutil.resolve_name(clock))


class CpuBench:
    """A case twice: between guard pages for the check, and as a user's arrays lie for timing."""

    def __init__(self, case: Case, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._case, self._clock_ns = case, clock_ns
        self._checker = Checker(case)
        placed = [_aligned(o, d) for o, d in zip(case.operands, case.data, strict=True)]
        paired = [(o, array) for o, (array, _) in zip(case.operands, placed, strict=True)]
        self._written = [m for o, (_, m) in zip(case.operands, placed, strict=True) if o.is_written]
        read = [(o, a) for o, a in paired if not o.is_written]
        self._args = tuple(a[()] if o.role == "scalar" else a for o, a in read)
        self._outs = tuple(a for o, a in paired if o.is_written)

    def load(self, code: Mapping[str, Any], is_known: bool = False) -> LoadedCandidate:
        """Return a candidate that is, or was, found right."""
        candidate = LoadedCandidate(Path(code["library"]), code["name"])
        if not is_known:
            self._checker.check(candidate)
        return candidate

    @property
    def ways(self) -> Sequence[Way]:
        """What a caller may do beside calling again.

        Operands beyond all caches are cold anyhow; where memory is short nothing can evict them.
        """
        held = sum(o.size_bytes for o in self._case.operands)
        is_cold_anyhow = held > self._evicted_bytes
        return ("read",) if is_cold_anyhow or self._others is None else ("read", "cold")

    def sampler(self, candidate: LoadedCandidate, way: Way = "again") -> Sampler:
        """Return a candidate as what is timed."""
        run = self.run_of(candidate)
        match way:
            case "again":
                return HostSampler(run, self._clock_ns)
            case "read":
                return TurnSampler(self._then_read(run), calls=_READS, clock_ns=self._clock_ns)
            case "cold":
                return TurnSampler(run, self._evict, clock_ns=self._clock_ns)

    @cached_property
    def _evicted_bytes(self) -> int:
        machine = detect()
        return min(2 * (machine.l3_bytes + machine.cores * machine.l2_bytes), _MOST_EVICTED)

    @cached_property
    def _others(self) -> Array | None:
        """Memory of nobody, a number of each line of it, as large as all caches twice, if any."""
        try:
            return np.ones(self._evicted_bytes // 8, np.int64)[:: LINE // 8]
        except MemoryError:
            return None

    def _evict(self) -> None:
        """Read what is as large as all caches, so that the operands are not there any more."""
        assert self._others is not None
        self._others.sum()

    def _then_read(self, run: Run) -> Run:
        """Return a run whose outputs are read after each call, as by the next operation."""
        read = [m[: m.size // 8 * 8].view(np.int64) for m in self._written]

        def run_and_read(times: int) -> None:
            for _ in range(times):
                run(1)
                for words in read:
                    np.bitwise_or.reduce(words)

        return run_and_read

    def run_of(self, candidate: LoadedCandidate) -> Run:
        """Return a candidate as what can be timed: through the launcher, with its threads."""
        inputs = [o for o in self._case.operands if not o.is_written]
        outputs = [o for o in self._case.operands if o.is_written]
        entry = Entry(
            candidate.address,
            self._case.sizes,
            tuple(dtype_named(o.dtype) if o.role == "scalar" else _form(o) for o in inputs),
            tuple(_form(o) for o in outputs),
            keep=candidate,
            max_threads=self._case.threads,
            bounds=tuple(
                i
                for i, o in enumerate(inputs)
                if o.role == "scalar" and dtype_named(o.dtype).kind in "iu"
            ),
        )
        launcher = Launcher(
            "candidate",
            tuple(o.name for o in inputs),
            tuple(o.name for o in outputs),
            slow=_no_slow_path,
            on_error=_on_error,
            result_type=tuple if len(outputs) > 1 else None,
        )
        args, outs = self._args, self._outs

        def run(times: int) -> None:
            for _ in range(times):
                launcher.run(entry, args, outs)

        return run


def _form(operand: Operand) -> tuple[np.dtype[Any], tuple[int, ...], tuple[int, ...] | None]:
    return dtype_named(operand.dtype), operand.shape, operand.strides


def _no_slow_path(*args: object, **kwargs: object) -> None:
    raise AssertionError("the launcher does not take the operands of its own entry")


def _on_error(tensor: int, dim: int, value: int, extent: int) -> None:
    raise IndexError(f"operand {tensor}, dimension {dim}: subscript {value}, extent {extent}")


def _aligned(operand: Operand, data: Array | None) -> tuple[Array, Array]:
    """Return an array with the operand's strides whose memory begins at a line, and its bytes."""
    memory = np.zeros(operand.size_bytes + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    array = operand.view(memory, start)
    if data is not None:
        array[...] = data
    return array, memory[start : start + operand.size_bytes]
