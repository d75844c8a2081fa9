"""Candidates for the CPU: checked by their ABI, timed behind the launcher as a user's calls are."""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tcdsl.autotune.targets.cpu.check import Checker, LoadedCandidate
from tcdsl.autotune.worker.case import Array, Case, Operand, dtype_named
from tcdsl.autotune.worker.timing import HostSampler, Run
from tcdsl.codegen.runtime import Entry, Launcher

_LINE = 64  # bytes


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
        arrays = [_aligned(o, d) for o, d in zip(case.operands, case.data, strict=True)]
        paired = list(zip(case.operands, arrays, strict=True))
        read = [(o, a) for o, a in paired if not o.is_written]
        self._args = tuple(a[()] if o.role == "scalar" else a for o, a in read)
        self._outs = tuple(a for o, a in paired if o.is_written)

    def load(self, code: Mapping[str, Any]) -> LoadedCandidate:
        """Return a candidate that was found right."""
        candidate = LoadedCandidate(Path(code["library"]), code["name"])
        self._checker.check(candidate)
        return candidate

    def sampler(self, candidate: LoadedCandidate) -> HostSampler:
        """Return a candidate as what is timed."""
        return HostSampler(self.run_of(candidate), self._clock_ns)

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


def _aligned(operand: Operand, data: Array | None) -> Array:
    """Return an array with the operand's strides whose memory begins at a cache line."""
    memory = np.zeros(operand.size_bytes + _LINE, np.uint8)
    array = operand.view(memory, -memory.ctypes.data % _LINE)
    if data is not None:
        array[...] = data
    return array
